"""What BERT reads and computes is what the files of the encoder say; what transformers drops of them is an error."""

import json
import random
import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch
import transformers
from helpers import dictionary_of
from language_models import TEXT, TOKENIZERS, save_language_model
from safetensors.torch import load_file, save_file
from slow_tokenizers import SLOW
from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, processors, trainers
from transformers import (
    AutoModelForMaskedLM,
    AutoModelForSequenceClassification,
    BertForPreTraining,
    T5ForConditionalGeneration,
)

from bert_fused_lab.recipe.text_checks import Findings, check_tokenizer
from bert_fused_plugin.bert.frozen_bert import FrozenBert
from bert_fused_plugin.bert.pretrained_bert import load_tokenizer
from bert_fused_plugin.data.dictionary_bridge import DictionaryBridge
from bert_fused_plugin.data.hf_tokenizer import FastTokenizer
from bert_fused_plugin.errors import BertFusedError

LINES = ["A big House", "ÜNÏ  ß ﬁ", "the Ｄog <s> [SEP] sees."]
BERTS = {f"{name}_token": f"[{name.upper()}]" for name in ("pad", "unk", "cls", "sep", "mask")}
ROBERTAS = {"bos_token": "<s>", "eos_token": "</s>", "cls_token": "<s>", "sep_token": "</s>", "pad_token": "<pad>"}
ROBERTAS.update(unk_token="<unk>", mask_token="<mask>")


def unigram():
    program = Tokenizer(models.Unigram())
    spaces = normalizers.Replace(Regex(" {2,}"), " ")
    program.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Lowercase(), spaces])
    program.pre_tokenizer = pre_tokenizers.Metaspace()
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    trainer = trainers.UnigramTrainer(vocab_size=70, special_tokens=special, unk_token="<unk>")
    program.train_from_iterator([line.lower() for line in TEXT], trainer)
    ends = [("<s>", 0), ("</s>", 2)]
    program.post_processor = processors.TemplateProcessing("<s> $A </s>", "<s> $A </s> </s> $B </s>", ends)
    return program


def word_piece(lowercase=False, strip_accents=False, extra=()):
    program = TOKENIZERS["cased"]()._tokenizer
    program.normalizer = normalizers.BertNormalizer(lowercase=lowercase, strip_accents=strip_accents)
    program.add_tokens(list(extra))
    return program


def byte_level(prefix=True):
    program = TOKENIZERS["RoBERTa"]()._tokenizer
    program.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=prefix)
    return program


def saved(program, folder, names=BERTS, model_type="bert", **config):
    """Write the *program* as tokenizer.json, beside configurations that a class reads."""
    program.save(str(folder / "tokenizer.json"))
    (folder / "config.json").write_text(json.dumps({"model_type": model_type}))
    (folder / "tokenizer_config.json").write_text(json.dumps({**names, **config}))
    return str(folder)


FILES = {
    "Unigram, without a class": (unigram, ROBERTAS, "bert", {}),
    "Unigram under RoBERTa's class": (unigram, ROBERTAS, "xlm-roberta", {"tokenizer_class": "RobertaTokenizer"}),
    "Unigram that lower-cases, under XLM-R's": (unigram, ROBERTAS, "bert", {"tokenizer_class": "XLMRobertaTokenizer"}),
    "Unigram under a class of other names": (unigram, BERTS, "bert", {"tokenizer_class": "BertTokenizer"}),
    "cased WordPiece": (word_piece, BERTS, "bert", {"tokenizer_class": "BertTokenizer"}),
    "WordPiece under RoBERTa's class": (word_piece, BERTS, "bert", {"tokenizer_class": "RobertaTokenizer"}),
    "with accents": (lambda: word_piece(True), BERTS, "bert", {"tokenizer_class": "BertTokenizer"}),
    "with another token": (lambda: word_piece(extra=["House"]), BERTS, "bert", {"tokenizer_class": "BertTokenizer"}),
    "with a space before the text": (byte_level, ROBERTAS, "roberta", {"tokenizer_class": "RobertaTokenizer"}),
    "bytes, without a class": (byte_level, ROBERTAS, "bert", {}),
}


@pytest.mark.parametrize("name", FILES)
def test_the_program_in_the_tokenizers_file_is_what_counts(name, tmp_path):
    if name == "bytes, without a class" and transformers.__version__ < "5":
        pytest.skip("transformers 4 cannot make BERT's tokenizer of such a file, and says so")
    make, names, model_type, config = FILES[name]
    program = make()
    tokenizer = load_tokenizer(saved(program, tmp_path, names, model_type, **config))
    bridge = DictionaryBridge(dictionary_of("a"), tokenizer, max_tokens=40)
    for line in LINES[:2]:
        assert bridge.word_pieces([line]) == [program.encode(line, add_special_tokens=False).ids]
        [pieces] = bridge.word_pieces([line])
        assert bridge.frame(pieces) == program.encode(line).ids
    unknown = program.token_to_id("[UNK]") if program.token_to_id("<unk>") is None else program.token_to_id("<unk>")
    assert tokenizer.unk_token_id == unknown


def test_options_change_a_program_that_agrees_with_its_class(tmp_path):
    program = word_piece(True, None)
    agreeing = saved(program, tmp_path, tokenizer_class="BertTokenizer")
    lower, cased = (FastTokenizer(load_tokenizer(agreeing, options)) for options in ({}, {"do_lower_case": False}))
    assert lower.encode(["The dog"]) == [program.encode("The dog", add_special_tokens=False).ids]
    assert lower.encode(["The dog"]) != cased.encode(["The dog"])
    program.normalizer = normalizers.BertNormalizer(lowercase=False)
    assert cased.encode(["The dog"]) == [program.encode("The dog", add_special_tokens=False).ids]
    assert lower.template(2) == cased.template(2)
    other = saved(word_piece(True, False), tmp_path, tokenizer_class="BertTokenizer")
    said = r"^--bert-tokenizer-options: .*tokenizer\.json says another normalizer than BertTokenizer"
    with pytest.raises(BertFusedError, match=said):
        load_tokenizer(other, {"do_lower_case": False})


@pytest.mark.parametrize("kind", ["fast", "BERT, MeCab"])
def test_long_words_are_split_too(kind, tmp_path):
    letters = [chr(code) for code in range(0x0E01, 0x0E2F)]
    clause = "".join(random.Random(1).choices(letters, k=900))
    if kind == "fast":
        vocabulary = {piece: i for i, piece in enumerate(["[UNK]", *letters, *(f"##{letter}" for letter in letters)])}
        program = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
        program.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        saved(program, tmp_path, {"unk_token": "[UNK]"}, tokenizer_class="PreTrainedTokenizerFast")
    else:
        SLOW[kind](tmp_path, ["".join(letters)] * 3).save_pretrained(tmp_path)
    tokenizer = load_tokenizer(str(tmp_path))
    row = tokenizer(clause, add_special_tokens=False)["input_ids"]
    assert tokenizer.unk_token_id not in row
    assert len(row) > 100


def test_unknown_text_is_counted_in_letters(tmp_path):
    folder = saved(word_piece(), tmp_path, tokenizer_class="BertTokenizer")
    (tmp_path / "text").write_text("the dog sees a dog " + "ж" * 30 + "\n", encoding="utf-8")  # one piece of six
    found = Findings()
    check_tokenizer(folder, tmp_path / "text", found)
    [error] = found.errors
    assert "68% of its letters are unknown (line 1:" in error


def test_a_tokenizer_that_splits_at_random_does_so_no_more(tmp_path, caplog):
    program = byte_level()
    merges = json.loads(program.to_str())["model"]
    pairs = [tuple(merge.split() if isinstance(merge, str) else merge) for merge in merges["merges"]]
    program.model = models.BPE(merges["vocab"], pairs, dropout=0.5)
    tokenizer = load_tokenizer(saved(program, tmp_path, ROBERTAS, "roberta", tokenizer_class="RobertaTokenizer"))
    assert "its tokenizer splits words at random (dropout 0.5" in caplog.text
    bridge = DictionaryBridge(dictionary_of("a"), tokenizer, max_tokens=40)
    assert {str(bridge.word_pieces(TEXT)) for _ in range(9)} == {str(bridge.word_pieces(TEXT))}
    assert len({bridge.tokenizer_fingerprint() for _ in range(9)}) == 1


def test_a_class_that_is_told_the_language_places_its_tag(tmp_path):
    save_language_model("NLLB", tmp_path)
    program = Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    special = [(token, program.token_to_id(token)) for token in ("</s>", "eng_Latn")]
    program.post_processor = processors.TemplateProcessing(  # as transformers saved it before 2023
        single="$A </s> eng_Latn", pair="$A $B </s> eng_Latn", special_tokens=special
    )
    program.save(str(tmp_path / "tokenizer.json"))
    for options, tag in (({}, "eng_Latn"), ({"src_lang": "vie_Latn"}, "vie_Latn")):
        tokenizer = load_tokenizer(str(tmp_path), options)
        before, _, after = FastTokenizer(tokenizer).template(1)
        assert [tokenizer.convert_ids_to_tokens(tokens) for tokens in (before, after)] == [[tag], ["</s>"]]


# --- the encoder


def refused(folder):
    with pytest.raises(BertFusedError) as caught:
        FrozenBert.from_pretrained(folder)
    return str(caught.value)


@pytest.mark.parametrize(
    "name",
    [
        "encoder.layer.0.output.adapters.task.adapter_down.0.weight",
        "encoder.layer.2.output.dense.weight",
        "encoder.layer.0.attention.self.distance.weight",
        "prefix_encoder.embedding.weight",
        "extra.weight",
    ],
)
def test_weights_that_the_class_does_not_read_are_named(copied, name):
    said = refused(copied(lambda weights: {**weights, name: torch.ones(3)}))
    assert "cannot be used: BertModel of this version of transformers does not read 1 of its weights" in said
    assert name in said


@pytest.mark.parametrize("name", ["embeddings.word_embeddings._weight", "embed_out.weight", "output_projection.weight"])
def test_a_second_name_of_the_embeddings_and_other_names_of_heads_may_be_left_over(copied, name):
    """As in the files of mDeBERTa-v3, of Pythia, and of BioGPT."""
    FrozenBert.from_pretrained(copied(lambda weights: {**weights, name: torch.ones(3)}))


@pytest.mark.parametrize(
    ("kind", "head"),
    [
        ("BERT, cased", BertForPreTraining),
        ("BERT, cased", AutoModelForSequenceClassification),
        *((kind, AutoModelForMaskedLM) for kind in ("RoBERTa", "DistilBERT", "ALBERT", "ELECTRA", "MPNet", "XLM")),
        *((kind, AutoModelForMaskedLM) for kind in ("DeBERTa-v2", "BigBird", "FlauBERT", "RemBERT")),
        ("T5", T5ForConditionalGeneration),
    ],
)
def test_heads_may_be_left_over(tmp_path, kind, head):
    save_language_model(kind, tmp_path)
    head.from_pretrained(tmp_path).save_pretrained(tmp_path)
    if kind != "T5":
        weights = {**load_file(tmp_path / "model.safetensors"), "embeddings.position_ids": torch.arange(9)}
        save_file(weights, tmp_path / "model.safetensors", {"format": "pt"})  # with a buffer that old versions saved
    FrozenBert.from_pretrained(str(tmp_path))


@pytest.mark.parametrize("installed", [True, False])
def test_an_adapter_is_refused_whether_peft_is_installed_or_not(copied, installed, monkeypatch):
    if installed:
        monkeypatch.setitem(sys.modules, "peft", ModuleType("peft"))
    folder = copied()
    (Path(folder) / "adapter_config.json").write_text("{}")
    assert "has an adapter (adapter_config.json)" in refused(folder)
    (Path(folder) / "config.json").unlink()
    assert "merged into the weights (of peft: merge_and_unload, then save_pretrained)" in refused(folder)


@pytest.mark.parametrize("parts", [["AutoModel"], ["AutoConfig", "AutoModel"]])
def test_code_of_the_encoders_own_is_refused_also_if_transformers_knows_its_name(copied, parts):
    said = refused(copied(auto_map={part: "modeling_x.X" for part in parts}))
    assert f"its config.json names code for {' and '.join(parts)} (auto_map), which is never run" in said
    FrozenBert.from_pretrained(copied(auto_map={"AutoModelForMaskedLM": "modeling_x.X"}))  # a head


@pytest.mark.parametrize("name", ["embeddings.word_embeddings.weight", "encoder.layer.1.output.dense.bias"])
@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_weights_that_are_no_numbers_are_refused(copied, name, value):
    def spoil(weights):
        weights[name].view(-1)[-1] = value
        return weights

    assert f"its weight {name} has numbers that are infinite or not a number" in refused(copied(spoil))


def test_an_encoder_that_is_told_the_language_of_each_token_is_refused(tmp_path):
    save_language_model("XLM", tmp_path, n_langs=2, use_lang_emb=True)
    assert "it must be told the language of each token (use_lang_emb of XLM)" in refused(str(tmp_path))


def test_integers_without_their_scale_are_refused(copied):
    def quantise(weights):
        return {name: (w * 50).to(torch.int8) if w.dim() > 1 else w for name, w in weights.items()}

    assert "has integers and no quantization_config; give the encoder before quantisation" in refused(copied(quantise))
