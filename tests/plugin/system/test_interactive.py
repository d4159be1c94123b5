"""fairseq-interactive on plain text gives the translations of fairseq-generate on the same text, binarised."""

import io
import os
import re
from types import SimpleNamespace

import pytest
from in_process import Model, Printed, command, train
from language_models import save_language_model
from sacremoses import MosesDetokenizer, MosesTokenizer
from sentencepiece import SentencePieceProcessor
from slow_tokenizers import sentencepiece_model
from subword_nmt.apply_bpe import BPE
from subword_nmt.learn_bpe import learn_bpe
from workspace import ROOT, TINY, Workspace

from bert_fused_plugin.models.bert_fused import BertFusedModel

SIZES = {"train": 300, "valid": 10, "test": 200}


@pytest.fixture(scope="module")
def plain_text():
    """{split: {language: lines}} of the demo, as people write, with all that Moses escapes and splits."""
    demo = [(ROOT / "examples" / "demo" / f"train.{lang}").read_text(encoding="utf-8") for lang in ("en", "de")]
    pairs = zip(*map(str.splitlines, demo))
    detokenizers = {lang: MosesDetokenizer(lang) for lang in ("en", "de")}
    marks = {"young": "twenty-year-old", "big": '"big"', "if": "&", "red": "[red]", "falls": "&"}
    result = {}
    for split, size in SIZES.items():
        result[split] = {"en": [], "de": []}
        for _ in range(size):
            for lang, line in zip(("en", "de"), next(pairs)):
                text = detokenizers[lang].detokenize(line.split())
                for word, written in marks.items():
                    text = re.sub(rf"\b{word}\b", written, text)
                result[split][lang].append(text)
    return result


def moses(path, train, lang):
    """What fairseq's --tokenizer moses --bpe subword_nmt must agree with: the tools themselves."""
    tokenizer, codes = MosesTokenizer(lang), path / "codes"
    tokenize = lambda line: tokenizer.tokenize(line, aggressive_dash_splits=True, return_str=True)  # noqa: E731
    if not codes.exists():
        with codes.open("w", encoding="utf-8") as file:
            learn_bpe(io.StringIO("\n".join(map(tokenize, train["en"] + train["de"]))), file, 300)
    bpe = BPE(codes.open(encoding="utf-8"))
    return lambda line: bpe.process_line(tokenize(line))


def sentence_piece(path, train, lang):
    if not (path / "spm.model").exists():
        sentencepiece_model(path / "spm", train["en"] + train["de"], vocab_size=300)
    processor = SentencePieceProcessor(model_file=str(path / "spm.model"))
    return lambda line: " ".join(processor.encode(line, out_type=str))


@pytest.fixture(scope="module", params=["moses", "sentencepiece"])
def system(request, plain_text, tmp_path_factory):
    """A trained model, the plain text of its test set, the flags that process it, and its translations."""
    path = tmp_path_factory.mktemp(request.param)
    make = {"moses": moses, "sentencepiece": sentence_piece}[request.param]
    for lang in ("en", "de"):
        process = make(path, plain_text["train"], lang)
        for split, lines in plain_text.items():
            (path / f"{split}.{lang}").write_text("\n".join(map(process, lines[lang])) + "\n", encoding="utf-8")
    # byte-level: it sees every character of its text
    save_language_model("RoBERTa", path / "bert", max_position_embeddings=160)
    splits = [f"--{split}pref={path / split}" for split in SIZES]
    command("preprocess", "-s", "en", "-t", "de", "--joined-dictionary", *splits, "--destdir", path / "data")
    detok = "moses" if request.param == "moses" else "none"
    model = ["--arch", "bert_fused", *TINY, "--bert-model", path / "bert", "--bert-detok", detok]
    how = "--max-tokens 1000 --max-epoch 0 --max-update 25 --disable-validation".split()
    train(path / "data", path / "save", *model, *how)
    flags = {
        "moses": ["--tokenizer", "moses", "--bpe", "subword_nmt", "--bpe-codes", path / "codes"],
        "sentencepiece": ["--bpe", "sentencepiece", "--sentencepiece-model", path / "spm.model"],
    }[request.param]
    flags += ["--source-lang", "en", "--target-lang", "de"]
    model = Model(path / "data", path / "save" / "checkpoint_last.pt")
    generated = model.generate(*flags, "--max-tokens", "900")
    assert len(generated.all("H")) == 200
    return SimpleNamespace(model=model, flags=flags, plain=plain_text["test"], generated=generated)


def test_plain_text_on_the_command_line(system, tmp_path):
    """In a process of its own, all 200 sentences, in unequal batches."""
    workspace = Workspace(tmp_path, bert_dir="")
    workspace.data, workspace.checkpoint = system.model.data, system.model.checkpoint
    sizes = ["--buffer-size", "64", "--batch-size", "13", "--min-len", "2"]
    typed = Printed(workspace.interactive("\n".join(system.plain["en"]) + "\n", *system.flags, *sizes).stdout)
    for kind in "HD":
        assert typed.best(kind) == system.generated.best(kind)
    assert typed.scores() == pytest.approx(system.generated.scores(), abs=1e-4)


def test_bert_reads_the_text_as_it_was_typed(system):
    folder, name = os.path.split(system.model.checkpoint)
    hub = BertFusedModel.from_pretrained(folder, name, system.model.data)
    bridge, dictionary = hub.models[0].encoder.source.bridge, hub.task.source_dictionary
    hub.task.load_dataset("test")
    rows = [hub.task.dataset("test")[number]["source"] for number in range(200)]
    known = [number for number, row in enumerate(rows) if dictionary.unk() not in row]
    assert len(known) > 180
    assert [bridge.text(rows[number]) for number in known] == [system.plain["en"][number] for number in known]
