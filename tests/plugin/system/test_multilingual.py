"""Several language pairs in one model: fairseq's multilingual task, and tags in the source of one task."""

import pytest
from fairseq.checkpoint_utils import load_model_ensemble_and_task
from helpers import WORDS
from in_process import Printed, command, train
from workspace import ROOT, TINY, write_corpus

TAGS = ("<2de>", "<2fr>")
MULTI = ("--task", "translation_multi_simple_epoch", "--lang-pairs", "en-de,en-fr", "--encoder-langtok", "tgt")
SEARCH = ("--beam", 2, "--max-len-b", 6, "--cpu", "--user-dir", ROOT / "bert_fused_plugin")


class Corpus:
    def __init__(self, path, bert_dir):
        self.path, self.data, self.bert_dir = path, path / "data-bin", bert_dir

    def train(self, *options):
        model = ["--arch", "bert_fused", *TINY, "--bert-model", self.bert_dir]
        train(self.data, self.path / "save", *model, "--max-tokens", 200, "--max-update", 3, *options)

    def preprocess(self, prefix, target, *options):
        command(
            "preprocess", "--source-lang", "en", "--target-lang", target, "--trainpref", self.path / f"{prefix}train",
            "--validpref", self.path / f"{prefix}valid", "--destdir", self.data, *options,
        )  # fmt: skip


@pytest.fixture
def corpus(tmp_path, bert_dir):
    write_corpus(tmp_path, train=30, valid=6)
    (tmp_path / "dict.txt").write_text("".join(f"{word} 1\n" for word in (*WORDS, *TAGS)), encoding="utf-8")
    for split in ("train", "valid"):
        lines, text = ((tmp_path / f"{split}.{lang}").read_text(encoding="utf-8") for lang in ("en", "de"))
        (tmp_path / f"{split}.fr").write_text(text, encoding="utf-8")
        tagged = [f"{tag} {line}" for tag in TAGS for line in lines.splitlines(keepends=True)]
        (tmp_path / f"tagged.{split}.en").write_text("".join(tagged), encoding="utf-8")
        (tmp_path / f"tagged.{split}.xx").write_text(text * 2, encoding="utf-8")
    return Corpus(tmp_path, bert_dir)


def texts_of(path, data, **overrides):
    """Return what BERT reads of the sentences of the validation set, and their symbols."""
    [model], _, task = load_model_ensemble_and_task([str(path)], arg_overrides={"data": str(data), **overrides})
    task.load_dataset("valid")
    dataset = task.dataset("valid")
    samples = [dataset.collater([dataset[i]])["net_input"]["src_tokens"][0] for i in range(6)]
    texts = [model.encoder.source.bridge.text(sample) for sample in samples]
    return texts, [task.source_dictionary.string(sample) for sample in samples]


@pytest.mark.parametrize("replacing", [[], ["--decoder-langtok", "--lang-tok-replacing-bos-eos"]])
def test_fairseqs_multilingual_task_and_no_tag_reaches_bert(corpus, tmp_path, caplog, replacing):
    for target in ("de", "fr"):
        corpus.preprocess("", target, "--srcdict", tmp_path / "dict.txt", "--tgtdict", tmp_path / "dict.txt")
    corpus.train(*MULTI, *replacing)
    assert "3 tags left out" in caplog.text
    checkpoint = tmp_path / "save" / "checkpoint_last.pt"
    texts, symbols = texts_of(checkpoint, corpus.data, source_lang="en", target_lang="de")
    assert all("__de__" in line for line in symbols)
    lines = (tmp_path / "valid.en").read_text(encoding="utf-8").splitlines()
    assert texts == [line.replace("@@ ", "") for line in lines]

    pair = (corpus.data, *MULTI, *replacing, "--path", checkpoint, "-s", "en", "-t", "fr", *SEARCH)
    found = Printed(command("generate", *pair, "--gen-subset", "valid")).scores()
    again = Printed(command("interactive", *pair, "--buffer-size", 6, text="\n".join(lines) + "\n")).scores()
    assert len(found) == 6
    assert again == pytest.approx(found, abs=1e-4)


def test_tags_in_the_source_of_one_task(corpus, tmp_path, caplog):
    dictionaries = ("--srcdict", tmp_path / "dict.txt", "--tgtdict", tmp_path / "dict.txt")
    corpus.preprocess("tagged.", "xx", *dictionaries)
    corpus.train("--bert-strip-tags", "<2*>")
    assert "2 tags left out" in caplog.text
    assert "consider --bert-strip-tags" not in caplog.text
    checkpoint = tmp_path / "save" / "checkpoint_last.pt"
    texts, symbols = texts_of(checkpoint, corpus.data)
    assert all(line.startswith("<2de> ") for line in symbols)
    assert texts == [line.replace("@@ ", "") for line in (tmp_path / "valid.en").read_text().splitlines()]
