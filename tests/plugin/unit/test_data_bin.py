import sysconfig

import pytest

from bert_fused_plugin.bert.from_flags import locate_bert
from bert_fused_plugin.data.data_bin import data_errors, directory_of_epoch
from bert_fused_plugin.errors import BertFusedError


@pytest.fixture
def data(tmp_path):
    """A data-bin as far as its names go: English and German."""
    for name in ("dict.en.txt", "dict.de.txt", "dict.txt.old", "preprocess.log.txt", "train.en-de.en.idx"):
        (tmp_path / name).touch()
    return str(tmp_path)


@pytest.mark.parametrize("pair", [("en", "de"), ("de", "en"), (None, None), ("en", None), (None, "de")])
def test_a_data_bin_with_both_dictionaries_has_no_errors(data, pair):
    assert data_errors(data, *pair) == []


def test_only_the_first_of_several_directories_is_looked_into_and_all_must_exist(data, tmp_path):
    (tmp_path / "more").mkdir()
    assert data_errors(f"{data}:{data}/more", "en", "de") == []
    assert [error.split(";")[0] for error in data_errors(f"{data}/a:{data}:{data}/b", "en", "de")] == [
        f"data directory '{data}/a' does not exist",
        f"data directory '{data}/b' does not exist",
    ]
    for nothing in (None, ""):
        assert data_errors(nothing, "en", "de") == [
            "data directory '' does not exist; give the --destdir of fairseq-preprocess"
        ]


def test_each_language_without_a_dictionary_is_named(data):
    [error] = data_errors(data, "fr", "de")
    assert error.startswith(f"--source-lang fr: {data} has no dict.fr.txt, only dict.de.txt, dict.en.txt; give")
    [error] = data_errors(data, "en", "it")
    assert error.startswith(f"--target-lang it: {data} has no dict.it.txt, only dict.de.txt, dict.en.txt; give")
    assert len(data_errors(data, "fr", "it")) == 2


def test_an_empty_directory_has_no_languages_and_no_dictionaries(tmp_path):
    [error] = data_errors(str(tmp_path), None, "de")
    assert error.startswith(f"data directory {tmp_path} has no files of a language pair, such as train.en-de.en.bin")
    errors = data_errors(str(tmp_path), "en", "de")
    assert [f"no dict.{lang}.txt, only no dictionary; give" in e for lang, e in zip(("en", "de"), errors)] == [True] * 2


def test_each_epoch_reads_the_directory_that_belongs_to_its_data():
    found = [directory_of_epoch("--bert-text", "a:b", "x:y", epoch) for epoch in (1, 2, 3, None)]
    assert found == ["a", "b", "a", "a"]
    assert directory_of_epoch("--bert-text", None, "x:y", 2) is None
    assert directory_of_epoch("--bert-text", "a", "x:y", None) == "a"  # other splits are in the first directory
    with pytest.raises(BertFusedError, match=r"--bert-text a has 1 directories, but x:y has 2, .*give as many"):
        directory_of_epoch("--bert-text", "a", "x:y", 1)


def test_a_tilde_that_the_shell_has_left_is_the_home_directory(monkeypatch):
    monkeypatch.setenv("HOME", "/home/me")
    assert directory_of_epoch("--bert-text", "~/raw", "data", None) == "/home/me/raw"
    assert directory_of_epoch("--bert-text", "a:~/raw", "data:more", 2) == "/home/me/raw"
    assert locate_bert("~/bert", None) == "/home/me/bert"


def test_a_bert_of_the_package_index_may_lie_in_another_environment(monkeypatch, tmp_path):
    monkeypatch.setattr(sysconfig, "get_path", lambda name: str(tmp_path))
    (tmp_path / "small" / "model").mkdir(parents=True)
    assert locate_bert("/old/site-packages/small/model", None) == f"{tmp_path}/small/model"
    for name in ("/old/site-packages/other/model", "small/model", "/old/small/model"):
        assert locate_bert(name, None) == name
