"""Which logs belong to a checkpoint, and what chose it."""

from pathlib import Path

import pytest

from bert_fused_lab.evidence import runs
from bert_fused_lab.evidence.runs import RunFiles, find_logs, selection
from bert_fused_plugin.errors import BertFusedError


@pytest.fixture
def folder(tmp_path):
    """Make files in a folder; return it."""

    def make(*names):
        for name in names:
            path = tmp_path / "runs" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
        return tmp_path / "runs"

    return make


@pytest.mark.parametrize(
    ("name", "averaged", "metric"),
    [
        ("checkpoint_best.pt", None, "bleu"),
        ("checkpoint_last.pt", None, None),
        ("average.pt", ["checkpoint.best_bleu_9.pt", "checkpoint.best_bleu_8.pt"], "bleu"),
        ("average.pt", ["checkpoint.best_bleu_9.pt", "checkpoint3.pt"], None),
        ("average.pt", None, None),
    ],
)
def test_the_metric_is_named_that_chose_all_checkpoints(name, averaged, metric):
    flags = {"best_checkpoint_metric": "bleu", "maximize_best_checkpoint_metric": True}
    state = {"cfg": {"checkpoint": flags}, "extra_state": {} if averaged is None else {"averaged": averaged}}
    found = selection(RunFiles("--run", "a", Path("runs", name)), state)
    assert found == {"checkpoints": averaged or [name], "metric": metric, "highest": metric == "bleu"}


def test_the_logs_of_a_save_dir_are_in_it_or_beside_it(folder):
    runs = folder("fused/checkpoint_best.pt", "fused/average.pt", "fused.log", "other.log")
    for name in ("checkpoint_best.pt", "average.pt"):
        assert find_logs(runs / "fused" / name) == [runs / "fused.log"]
    folder("fused/train1.log", "fused/train2.log")
    for name in ("checkpoint_best.pt", "average.pt"):
        assert find_logs(runs / "fused" / name) == [runs / "fused" / "train1.log", runs / "fused" / "train2.log"]


def test_checkpoints_in_one_folder_do_not_share_their_logs(folder):
    runs = folder("plain.pt", "plain.log", "fused.pt", "fused.log", "gru.pt")
    folder("../runs.log")
    assert find_logs(runs / "plain.pt") == [runs / "plain.log"]
    assert find_logs(runs / "fused.pt") == [runs / "fused.log"]
    assert find_logs(runs / "gru.pt") == []


def test_an_empty_test_set_is_noticed_before_fairseq_maps_it(tmp_path):
    (tmp_path / "test.en-de.en.bin").touch()
    (tmp_path / "valid.en-de.en.bin").write_bytes(b"x")
    with pytest.raises(BertFusedError, match="'test' has no sentences; give another --subset"):
        runs._load_test_set(None, str(tmp_path), "test")
