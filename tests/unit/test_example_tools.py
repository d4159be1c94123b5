"""The small programs that the recipes prepare their data with."""

import importlib.util
import unicodedata
from pathlib import Path

import pytest
import sentencepiece
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import AutoModel, AutoTokenizer

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def load(name):
    spec = importlib.util.spec_from_file_location(Path(name).stem, EXAMPLES / name)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


clean_pairs, normalise, random_bert, sentencepieces = map(
    load, ("clean_pairs.py", "tatoeba_en_fa/normalise.py", "random_bert.py", "sentencepieces.py")
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("كتاب علي", "کتاب علی"),
        ("می روم", "می\u200cروم"),
        ("نمی دانم.", "نمی\u200cدانم."),
        ("قدیمی ترین", "قدیمی ترین"),  # not a prefix: the end of another word
        ("کتاب ها، سیب های", "کتاب\u200cها، سیب\u200cهای"),
        ("کتاب هاله", "کتاب هاله"),  # a name
        ("می", "می"),
        ("خانه\u200c\u200cام \u200c", "خانه\u200cام"),
        ("سلـــام\ufeff", "سلام"),
        ("لطفاً", "لطفاً"),
        ("مُحَمَّد", "محمد"),
        ("٠١٢٩", "۰۱۲۹"),
        ("  دو\u00a0\t کلمه ", "دو کلمه"),
        ("", ""),
    ],
)
def test_persian_is_written_in_one_way(text, expected):
    assert normalise.normalise(text) == expected


@given(st.text(alphabet="می نهاکتعي\u200cًـ،.\u064e \ufeff", max_size=30))
def test_what_is_normal_stays_as_it_is(text):
    once = normalise.normalise(text)
    assert normalise.normalise(once) == once
    assert once == unicodedata.normalize("NFC", once)
    assert once == once.strip("\u200c ")


def test_pairs_that_are_no_translations_go(tmp_path):
    pairs = [("a b", "c d"), ("", "x"), ("a", "b c"), ("a a a", "b b"), ("l " * 6, "m " * 6), ("a  b ", "c\u00a0d")]
    for lang, side in (("en", 0), ("de", 1)):
        (tmp_path / f"in.{lang}").write_text("".join(pair[side] + "\n" for pair in pairs), encoding="utf-8")
    clean_pairs.main(clean_pairs.parse_args([f"{tmp_path}/in", f"{tmp_path}/out", "en", "de", "--max-words", "5"]))
    kept = [(tmp_path / f"out.{lang}").read_text(encoding="utf-8").splitlines() for lang in ("en", "de")]
    assert list(zip(*kept)) == [("a b", "c d"), ("a a a", "b b"), ("a b", "c d")]


@pytest.mark.parametrize("longer", ["en", "de"])
def test_files_of_different_length_are_no_pairs(tmp_path, longer):
    for lang in ("en", "de"):
        (tmp_path / f"in.{lang}").write_text("a b\n" * (2 + (lang == longer)), encoding="utf-8")
    with pytest.raises(SystemExit, match="differ in their number of lines"):
        clean_pairs.main(clean_pairs.parse_args([f"{tmp_path}/in", f"{tmp_path}/out", "en", "de"]))


def test_sentencepieces_keep_every_character_and_line(tmp_path):
    odd = ["یک می\u200cروم", "", "tab\u2028no newline", "ﬁne"]
    for lang in ("en", "fa"):
        (tmp_path / f"train.{lang}").write_text("a few words\nmore of them\n" * 20, encoding="utf-8")
        (tmp_path / f"valid.{lang}").write_text("".join(f"{line}\n" for line in odd), encoding="utf-8")
    args = [str(tmp_path), str(tmp_path / "out"), "en", "fa", "--symbols", "50", "--valid", "3"]
    sentencepieces.main(sentencepieces.parse_args(args))
    counts = {path.name: path.read_text(encoding="utf-8").count("\n") for path in (tmp_path / "out").glob("*.en")}
    assert counts == {"train.en": 37, "valid.en": 3, "test.en": 4}
    model = sentencepiece.SentencePieceProcessor(model_file=str(tmp_path / "out" / "sentencepiece.model"))
    split = (tmp_path / "out" / "test.fa").read_text(encoding="utf-8").split("\n")
    assert [model.decode(line.split(" ")) for line in split[:4]] == odd
    with pytest.raises(SystemExit, match="has 40 lines, --valid takes 40"):
        sentencepieces.main(sentencepieces.parse_args([*args[:-1], "40"]))


def test_a_random_bert_differs_in_its_weights_alone(bert_dir, tmp_path):
    for name in ("one", "other"):
        random_bert.main(bert_dir, str(tmp_path / name))
    one, other, real = (AutoModel.from_pretrained(path) for path in (tmp_path / "one", tmp_path / "other", bert_dir))
    assert AutoTokenizer.from_pretrained(tmp_path / "one").get_vocab() == (
        AutoTokenizer.from_pretrained(bert_dir).get_vocab()
    )
    weights = [model.embeddings.word_embeddings.weight for model in (one, other, real)]
    assert torch.equal(weights[0], weights[1])
    assert weights[0].shape == weights[2].shape
    assert not torch.equal(weights[0], weights[2])
