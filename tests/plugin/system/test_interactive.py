"""fairseq-interactive on plain text gives the translations of fairseq-generate on the same text, binarised."""

import io
import re

import pytest
from in_process import Printed, command, train
from language_models import save_language_model
from sacremoses import MosesDetokenizer, MosesTokenizer
from sentencepiece import SentencePieceProcessor
from slow_tokenizers import sentencepiece_model
from subword_nmt.apply_bpe import BPE
from subword_nmt.learn_bpe import learn_bpe
from workspace import ROOT, TINY, Workspace

from bert_fused_plugin.models.bert_fused import BertFusedModel

SIZES = {"train": 300, "valid": 10, "test": 200}
BEAM = ["--beam", "2", "--max-len-b", "12", "--cpu"]


class System:
    """A data-bin, a model trained on it, the plain text of its test set, and the flags that process plain text."""

    def __init__(self, path, plain, flags):
        self.plain, self.flags = plain, flags
        self.data, self.checkpoint = path / "data", path / "save" / "checkpoint_last.pt"

    def arguments(self, *args):
        languages = ["--source-lang", "en", "--target-lang", "de"]
        return [self.data, "--task", "bert_fused_translation", *languages, "--path", self.checkpoint, *BEAM, *args]


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
    result = System(path, plain_text["test"], flags)
    result.generated = Printed(command("generate", *result.arguments(*flags, "--max-tokens", "900")))
    assert len(result.generated.all("H")) == 200
    return result


def assert_same(typed, generated, numbers):
    for kind in "HD":
        expected = generated.best(kind)
        assert typed.best(kind) == {number: expected[number] for number in numbers}
    expected = generated.scores()
    assert typed.scores() == pytest.approx({number: expected[number] for number in numbers}, abs=1e-4)


def test_plain_text_on_the_command_line(system, tmp_path):
    """In a process of its own, all 200 sentences, in unequal batches."""
    arguments = system.arguments(*system.flags, "--user-dir", ROOT / "bert_fused_plugin")
    done = Workspace(tmp_path, bert_dir="").run(
        "fairseq-interactive", *arguments, "--buffer-size", "64", "--batch-size", "13",
        text="\n".join(system.plain["en"]) + "\n",
    )  # fmt: skip
    assert_same(Printed(done.stdout), system.generated, range(200))


@pytest.mark.parametrize("buffer", [[], ["--buffer-size", "3"], ["--buffer-size", "999", "--max-tokens", "200"]])
def test_any_size_of_the_buffer(system, buffer, tmp_path):
    (tmp_path / "text").write_text("\n".join(system.plain["en"][:20]), encoding="utf-8")
    out = command("interactive", *system.arguments(*system.flags, *buffer, "--input", tmp_path / "text"))
    assert_same(Printed(out), system.generated, range(20))


def test_bert_reads_the_text_as_it_was_typed(system):
    hub = BertFusedModel.from_pretrained(str(system.checkpoint.parent), "checkpoint_last.pt", str(system.data))
    bridge, dictionary = hub.models[0].encoder.source.bridge, hub.task.source_dictionary
    hub.task.load_dataset("test")
    rows = [hub.task.dataset("test")[number]["source"] for number in range(200)]
    known = [number for number, row in enumerate(rows) if dictionary.unk() not in row]
    assert len(known) > 180
    assert [bridge.text(rows[number]) for number in known] == [system.plain["en"][number] for number in known]
