"""Which kind of subwords a dictionary has, and which text BERT reads of them."""

import json
from argparse import Namespace

import pytest
from fairseq.data import encoders
from fairseq.data.encoders.gpt2_bpe_utils import bytes_to_unicode
from helpers import dictionary_of, encode, framed, framed_ids
from omegaconf import OmegaConf
from sentencepiece import SentencePieceProcessor
from slow_tokenizers import sentencepiece_model
from tokenizers import ByteLevelBPETokenizer

from bert_fused_plugin.bert.flags import BertFlags
from bert_fused_plugin.bert.from_flags import load_bridge
from bert_fused_plugin.data.subwords import SUBWORDS, detect_subword, language_name
from bert_fused_plugin.errors import BertFusedError
from bert_fused_plugin.fairseq_settings import flags_beside

TEXT = "Mädchen sehen 3 Hunde – «naïve» café 北京 𝔘 ?"


def words(count):
    return [f"word{i}" for i in range(count)]


def join(kind, line):
    return SUBWORDS[kind].join(line.split())


@pytest.mark.parametrize(
    ("kind", "symbols"),
    [
        ("word_piece", ["hou", "##se"]),
        ("byte_level", ["the", "Ġdog", "hÃ¤", "us"]),
        ("end_of_word", ["the</w>", "do", "g</w>"]),
        ("opennmt", ["hou", "￭se", ",￭"]),
        ("numbers", [str(i) for i in range(101)]),
        ("sentencepiece", ["我", "们", *(f"<0x{i:02X}>" for i in range(256))]),
        ("sentencepiece", ["▁", *(chr(i) for i in range(0x4E00, 0x4E00 + 500)), "__en__"]),  # --bpe characters
        ("sentencepiece", ["。", "▁", *(f"{chr(i)}ない" for i in range(0x4E00, 0x4E00 + 500)), "▁「"]),  # no spaces
        ("none", [*words(1000), "##", "##x", "￭", "x</w>", "Ġ", "▁", "@@", "<0xE5>", "123", "Ã¤"]),
        ("subword_nmt", ["hou@@", "##se", *words(20)]),
        ("sentencepiece", ["▁hou", "▁se", "##se", "▁ä", "für", "Ã¤"]),
        ("none", [str(i) for i in range(100)]),  # a toy task
        ("none", []),
        ("none", [*map(str, range(300)), *words(10)]),
        ("sentencepiece", ["▁ya", "ƙar", "▁Ƙasa", "ɗan", "▁ɓ"]),  # Hausa
        ("none", [*(chr(i) for i in range(0x4E00, 0x4E00 + 500)), "▁"]),  # characters without spaces, an odd one
        ("sentencepiece", ["▁la", "▁été", "é", "▁ça", "ô", "▁naïf", "œ"]),
    ],
)
def test_each_kind_is_seen_from_the_dictionary_without_a_false_alarm(kind, symbols):
    for more in ([], [f"madeupword{i:04}" for i in range(7)]):
        assert detect_subword(dictionary_of(*symbols, *more)) == kind


@pytest.mark.parametrize(
    ("kind", "line", "text"),
    [
        ("sentencepiece", "▁a ▁ <0xE5> <0x8C> <0x97> 京 ▁b", "a 北京 b"),
        ("sentencepiece", "▁a <0xE5> <0x8C> ▁b <0xFF>", "a� b�"),
        ("sentencepiece", "▁a <0xE5> <unk> <0xF0> <0x9D> <0x94> <0x98>", "a�<unk>𝔘"),
        ("sentencepiece", "▁a <0xZZ> ▁<0xE5>", "a<0xZZ> <0xE5>"),
        ("word_piece", "the play ##house , don ' t", "the playhouse, don ' t"),
        ("word_piece", "##house of", "house of"),
        ("byte_level", "the ĠhÃ¤ us", "the häus"),
        ("end_of_word", "the</w> do g</w> .</w>", "the dog ."),
        ("byte_bpe", "▁the ▁hÃ ¤ us", "the häus"),
        ("byte_bpe", "▁the Ã 京 ▁dog", "the京 dog"),
    ],
)
def test_symbols_become_text(kind, line, text):
    assert join(kind, line) == text


@pytest.mark.parametrize(("bpe", "kind"), [("bytes", "byte_bpe"), ("characters", "sentencepiece")])
def test_the_text_is_that_of_the_encoder_of_fairseq(bpe, kind):
    line = encoders.build_bpe(bpe).encode(TEXT)
    assert join(kind, line) == TEXT == encoders.build_bpe(bpe).decode(line)


def test_the_text_is_that_of_sentencepiece_with_bytes(tmp_path):
    lines = ["the old man sees a dog", "a small house", "the big red apple , and no other"] * 9
    options = {"vocab_size": 300, "byte_fallback": True, "normalization_rule_name": "identity"}
    file, _ = sentencepiece_model(tmp_path / "sp", lines, **options)
    model = SentencePieceProcessor(model_file=file)
    pieces = model.encode(TEXT, out_type=str)
    assert "<0xE5>" in pieces
    assert join("sentencepiece", " ".join(pieces)) == model.decode(pieces) == TEXT
    assert detect_subword(dictionary_of(*pieces)) == "sentencepiece"


def test_the_text_is_that_of_the_bert_encoder_of_fairseq(tmp_path):
    vocabulary = ["[UNK]", "the", "play", "##house", ",", "!", "[PAD]", "[CLS]", "[SEP]", "[MASK]"]
    (tmp_path / "vocab.txt").write_text("\n".join(vocabulary), encoding="utf-8")
    encoder = encoders.build_bpe(Namespace(bpe="bert", bpe_cased=False, bpe_vocab_file=str(tmp_path / "vocab.txt")))
    line = encoder.encode("The playhouse, the play!")
    assert line.split()[1:3] == ["play", "##house"]
    assert join("word_piece", line) == "the playhouse, the play!"


# --- kinds that need files or cannot be joined


@pytest.fixture
def load(tokenizer, tmp_path):
    def make(dictionary, bert_text=None, bert_subword="auto", flags=None, **given):
        cfg = Namespace(source_lang="en", data=str(tmp_path), bert_text=bert_text)
        task = Namespace(source_dictionary=dictionary, cfg=cfg)
        bpe = flags_beside(flags or Namespace(**given), "bpe")
        return load_bridge(BertFlags(bert_subword=bert_subword), task, tokenizer, 32, bpe)

    return make


@pytest.fixture
def numbers(tmp_path):
    """Files of a byte-level BPE as GPT-2 has them, and a dictionary of its numbers."""
    alphabet = {character: i for i, character in enumerate(bytes_to_unicode().values())}
    merges = ["t h", "th e", "Ġ the"]
    alphabet.update({merge.replace(" ", ""): 256 + i for i, merge in enumerate(merges)})
    (tmp_path / "encoder.json").write_text(json.dumps(alphabet), encoding="utf-8")
    (tmp_path / "vocab.bpe").write_text("\n".join(["#version: 0.2", *merges, ""]), encoding="utf-8")
    return dictionary_of(*map(str, range(259)), "__en__")


@pytest.mark.parametrize("bpe", ["gpt2", "hf_byte_bpe"])
def test_numbers_are_joined_by_the_files_of_bpe(bpe, load, numbers, tmp_path):
    encoder, merges = str(tmp_path / "encoder.json"), str(tmp_path / "vocab.bpe")
    files = {"gpt2_encoder_json": encoder, "gpt2_vocab_bpe": merges, "bpe_vocab": encoder, "bpe_merges": merges}
    bridge = load(numbers, bpe=bpe, **files)
    line = " ".join(map(str, ByteLevelBPETokenizer(encoder, merges).encode("häus the 北").ids))
    assert line.split().count("258") == 1
    assert bridge.text(encode(numbers, line)) == "häus the 北"
    assert bridge.text(encode(numbers, f"__en__ {line}")) == "__en__ häus the 北"
    assert bridge.bpe.startswith(f"{bpe} with the files ")
    assert bridge.bpe == load(numbers, bpe=bpe, **files).bpe
    names = {name: path for name, path in files.items() if name.startswith(bpe[:4].replace("hf_b", "bpe"))}
    hydra = OmegaConf.create({"model": {"arch": "bert_fused"}, "bpe": {"_name": bpe, **names}})
    assert load(numbers, flags=hydra.model).bpe == bridge.bpe
    known = json.loads((tmp_path / "encoder.json").read_text(encoding="utf-8"))
    other = {**known, "A": known["B"], "B": known["A"]}
    (tmp_path / "encoder.json").write_text(json.dumps(other), encoding="utf-8")
    assert load(numbers, bpe=bpe, **files).bpe != bridge.bpe
    fewer = {symbol: number for symbol, number in known.items() if number != 200}
    (tmp_path / "encoder.json").write_text(json.dumps(fewer), encoding="utf-8")
    with pytest.raises(BertFusedError, match=f"--bpe {bpe}: its files do not turn the numbers .* have the number 200 "):
        load(numbers, bpe=bpe, **files)


def test_numbers_without_files_and_joiners_are_refused(load, numbers, tmp_path):
    with pytest.raises(BertFusedError) as refusal:
        load(numbers, bpe="sentencepiece")
    assert refusal.value.errors == (
        "the source dictionary: 100% of the symbols are numbers, such as 0, but BERT must read text, and these "
        "symbols alone do not tell the text; give --bpe gpt2 or hf_byte_bpe with the files that made the subwords, or "
        "the raw source text with --bert-text DIR (--task bert_fused_translation), or give --bert-subword none if "
        "these symbols are words",
    )
    joiners = dictionary_of("hou", "￭se", "x", "y")
    with pytest.raises(BertFusedError, match=r"dictionary: 25% of the symbols are .* joiner ￭, such as ￭se, .*text;"):
        load(joiners)
    assert load(joiners, bert_subword="none").text(encode(joiners, "hou ￭se")) == "hou ￭se"


def test_raw_text_takes_the_place_of_text_that_cannot_be_made(load):
    dictionary = dictionary_of("dog", "￭se")
    bridge = load(dictionary, bert_text="raw")
    assert len(framed(bridge, ["the dog"])[0]) == 4
    with pytest.raises(BertFusedError, match="50% of the symbols are"):
        framed_ids(bridge, [encode(dictionary, "dog ￭se").tolist()])


@pytest.mark.parametrize(
    ("language", "name"),
    [("fr_CA", "French"), ("eng_Latn", "English"), ("pes_Arab", "Persian"), ("cn", "Chinese"), ("xx", "xx")]
    + [(name, name) for name in ("src", "tgt", "source", "hsb")],
)
def test_a_language_is_named_only_by_a_usual_code(language, name):
    assert language_name(language) == name
