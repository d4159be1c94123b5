"""Where the task keeps the word pieces of its data sets, and what it logs of them."""

import pytest
from kept_pieces_case import LINES, files, write_data
from transformers import AutoTokenizer

from bert_fused_plugin.data import kept_pieces
from bert_fused_plugin.data.dictionary_bridge import DictionaryBridge
from bert_fused_plugin.tasks.bert_fused_translation import BertFusedTranslationTask
from bert_fused_plugin.tasks.bert_fused_translation_config import BertFusedTranslationConfig


@pytest.fixture
def task(tmp_path, dictionary, bert_dir, monkeypatch):
    """Make a task on two data directories, of which BERT reads at most 4 word pieces: task(bert_cache=...)."""
    monkeypatch.setattr(kept_pieces, "KEPT_FROM", 5)
    data = [("a", "train", LINES), ("b", "train", LINES[::-1]), ("a", "valid", LINES[:6]), ("a", "test", LINES[:4])]
    for folder, split, lines in data:
        (tmp_path / folder).mkdir(exist_ok=True)
        for lang in ("en", "de"):
            write_data(dictionary, tmp_path / folder / f"{split}.en-de.{lang}", lines)

    def make(**settings):
        cfg = BertFusedTranslationConfig(
            data=f"{tmp_path}/a:{tmp_path}/b",
            source_lang="en",
            target_lang="de",
            train_subset="train",
            dataset_impl="mmap",
            required_seq_len_multiple=1,
            **settings,
        )
        made = BertFusedTranslationTask(cfg, dictionary, dictionary)
        made.bridge = DictionaryBridge(dictionary, AutoTokenizer.from_pretrained(bert_dir), max_tokens=4)
        return made

    return make


def test_each_data_directory_keeps_its_own_and_the_log_stays_the_same(task, tmp_path, caplog):
    caplog.set_level("INFO")
    said = []
    for epoch in (1, 2, 3):
        caplog.clear()
        made = task()
        made.load_dataset("train", epoch=epoch)
        said += [message for message in caplog.messages if message.startswith("train: ")]
        assert made.datasets["train"].word_pieces.folder is not None
        assert len(files(tmp_path / "a" / "bert-pieces")) == 1
        assert (tmp_path / "b" / "bert-pieces").exists() == (epoch > 1)
    assert said == ["train: 25 word pieces for BERT, 3.6 a sentence, 2 sentences cut to 4"] * 3
    made.load_dataset("valid")
    made.load_dataset("test")  # which is small
    assert [name.split("-")[0] for name in files(tmp_path / "a" / "bert-pieces")] == ["train.en", "valid.en"]
    assert [made.datasets["valid"].bert_tokens(i).tolist() for i in range(4)] == [
        made.datasets["test"].bert_tokens(i).tolist() for i in range(4)
    ]


def test_the_directory_of_the_cache_keeps_them_if_there_is_one(task, tmp_path):
    task(bert_cache=f"{tmp_path}/cache").load_dataset("train")
    assert len(files(tmp_path / "cache" / "word-pieces")) == 1
    assert not (tmp_path / "a" / "bert-pieces").exists()
    task().load_dataset("train")
    made = task(bert_cache=f"{tmp_path}/other")
    made.load_dataset("train")  # finds those beside the data
    assert made.datasets["train"].word_pieces.folder.parent == tmp_path / "a" / "bert-pieces"
    assert not (tmp_path / "other").exists()
