"""The small programs of the recipes."""

import os
import subprocess
import sys
import unicodedata
from pathlib import Path
from random import Random

import normalise
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import AutoModel, AutoTokenizer

from bert_fused_lab.recipe import distill, typing_errors
from bert_fused_lab.recipe.clean_pairs import clean_pairs
from bert_fused_lab.recipe.encoder import write_random_bert
from bert_fused_plugin.errors import BertFusedError


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
        ("خانه\u0654 ما", "خان\u06c0 ما"),
        ("", ""),
    ],
)
def test_persian_is_written_in_one_way(text, expected):
    assert normalise.normalise(text) == expected


@given(st.text(alphabet="می نهاکتعي\u200cًـ،.\u064e\u0654 \ufeff", max_size=30))
def test_what_is_normal_stays_as_it_is(text):
    once = normalise.normalise(text)
    assert normalise.normalise(once) == once
    assert once == unicodedata.normalize("NFC", once)
    assert once == once.strip("\u200c ")


def test_pairs_that_are_no_translations_go(tmp_path):
    pairs = [("a b", "c d"), ("", "x"), ("x", ""), ("a", "b c"), ("b c", "a"), ("a a a", "b b"), ("l " * 6, "m " * 6)]
    pairs += [("a\tb", "c d")]
    for lang, side in (("en", 0), ("de", 1)):
        (tmp_path / f"in.{lang}").write_text("".join(pair[side] + "\n" for pair in pairs), encoding="utf-8")
    places = (str(tmp_path / "in"), str(tmp_path / "out"), "en", "de", 5)
    clean_pairs(*places)
    kept = [(tmp_path / f"out.{lang}").read_text(encoding="utf-8").splitlines() for lang in ("en", "de")]
    assert list(zip(*kept)) == [("a b", "c d"), ("a a a", "b b"), ("a\tb", "c d")]
    (tmp_path / "in.de").write_text("one line less\n" * (len(pairs) - 1), encoding="utf-8")
    with pytest.raises(BertFusedError, match="must have equally many lines"):
        clean_pairs(*places)


def test_a_random_bert_differs_in_its_weights_alone(bert_dir, tmp_path):
    for name in ("one", "other"):
        write_random_bert(bert_dir, tmp_path / name)
    one, other, real = (AutoModel.from_pretrained(path) for path in (tmp_path / "one", tmp_path / "other", bert_dir))
    assert AutoTokenizer.from_pretrained(tmp_path / "one").get_vocab() == (
        AutoTokenizer.from_pretrained(bert_dir).get_vocab()
    )
    weights = [model.embeddings.word_embeddings.weight for model in (one, other, real)]
    assert torch.equal(weights[0], weights[1])
    assert weights[0].shape == weights[2].shape
    assert not torch.equal(weights[0], weights[2])


def test_a_random_bert_needs_a_model(tmp_path):
    with pytest.raises(BertFusedError, match="no-such-model"):
        write_random_bert(str(tmp_path / "no-such-model"), tmp_path / "output")
    assert not list(tmp_path.iterdir())


def test_typing_errors_are_of_four_kinds():
    seen = {typing_errors.misspelt("Haus", 0.25, Random(seed)) for seed in range(2000)}
    assert {"aus", "Hus", "Has", "Hau"} < seen  # a letter dropped
    assert {"HHaus", "Haaus", "Hauus", "Hauss"} < seen  # doubled
    assert {"aHus", "Huas", "Hasu"} < seen  # swapped with the next one
    assert {"gaus", "Hsus", "Hqus", "Hais", "Haua"} < seen  # a neighbour's
    assert {typing_errors.misspelt("i", 1, Random(seed)) for seed in range(99)} == {"u", "o", "k", "ii"}
    assert all(typing_errors.misspelt("ab", 1, Random(seed)) for seed in range(99))
    assert "llll" in {typing_errors.misspelt("ll", 1, Random(seed)) for seed in range(99)}  # which is no swap


def test_typing_errors_keep_lines_tags_and_numbers():
    text = "<2de> the  &apos; 12 !\n\n\tgroße 北京\r\n" + "the old man sees a big red house\n" * 200
    command = [sys.executable, typing_errors.__file__, "0.1"]
    done = subprocess.run(command, input=text.encode(), capture_output=True, check=True).stdout.decode()
    assert done == typing_errors.with_errors(text, 0.1, Random(1))
    assert done.count("\n") == text.count("\n")
    lines = done.split("\n")
    assert lines[0].startswith("<2de> ")
    assert lines[0].endswith(" &apos; 12 !")
    assert lines[1] == ""
    assert 100 < sum(line != "the old man sees a big red house" for line in lines[3:-1]) < 200
    stays = "<2de> __de__\n[de_DE]\ta&amp;b 12\u2028\x85\r\n"
    assert typing_errors.with_errors(stays, 1, Random(1)) == stays
    refused = subprocess.run([*command[:-1], "nan"], input="a", capture_output=True, text=True)
    assert "the rate must be above 0 and at most 1, such as 0.05, got nan" in refused.stderr


@pytest.mark.parametrize(("gigabytes", "size", "processes"), [(0, 1, 1), (1, 1, 1), (9, 1, 4), (64, 2.4e9, 9)])
def test_the_teacher_translates_in_as_many_processes_as_memory_and_cores_allow(
    monkeypatch, tmp_path, gigabytes, size, processes
):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: range(99))
    facts = f"MemTotal: 99999999 kB\nMemFree: 1 kB\nMemAvailable:   {gigabytes * 10**6} kB\n"
    monkeypatch.setattr(Path, "read_text", lambda path: facts)
    with (tmp_path / "model.pt").open("wb") as model:
        model.truncate(int(size))
    assert distill.processes([tmp_path / "model.pt"]) == processes
