"""Which logs belong to a checkpoint, and what chose it."""

import re
from argparse import Namespace
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace

import pytest

from bert_fused_lab.evidence import collection, runs
from bert_fused_lab.evidence.collection import Collection
from bert_fused_lab.evidence.runs import RunFiles, find_logs, read_curves, selection
from bert_fused_lab.evidence.translating import Decoding
from bert_fused_plugin.errors import BertFusedError

OPTIONS = {**asdict(Decoding()), "bert_text": None, "bert_documents": None, "bf16": False}


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


# --- curves from what fairseq-train printed


SIMPLE = """\
2026-01-01 10:00:00 | INFO | train_inner | epoch 001:     10 / 31 loss=12.7, nll_loss=12.5, ppl=6104.9, wps=4180.9, num_updates=10, lr=0.0004
2026-01-01 10:00:01 | INFO | train_inner | epoch 001:     20 / 31 loss=11, nll_loss=10.25, ppl=1e+03, num_updates=20, lr=8e-05
2026-01-01 10:00:02 | INFO | valid | epoch 001 | valid on 'valid' subset | loss 9.14 | nll_loss 9.1 | ppl 9 | bleu 1.5 | wps 0 | num_updates 31
2026-01-01 10:00:03 | INFO | train | epoch 001 | loss 11.2 | nll_loss 10.9 | num_updates 31 | lr 0.00124
2026-01-01 10:00:04 | INFO | valid | epoch 002 | valid on 'valid' subset | loss 8 | nll_loss 7.9 | bleu 2 | num_updates 62 | best_loss 8
2026-01-01 10:00:04 | INFO | fairseq_cli.train | done training in 3.0 seconds
"""  # noqa: E501
JSON = """\
2026-01-01 10:00:00 | INFO | train_inner | {"epoch": 1, "update": 0.3, "loss": "12.7", "nll_loss": "12.5", "num_updates": "10"}
2026-01-01 10:00:01 | INFO | train_inner | {"epoch": 1, "update": 0.6, "loss": "11", "nll_loss": "10.25", "num_updates": "20"}
2026-01-01 10:00:02 | INFO | valid | {"epoch": 1, "valid_loss": "9.14", "valid_nll_loss": "9.1", "valid_bleu": "1.5", "valid_num_updates": "31"}
2026-01-01 10:00:02 | INFO | valid | {"epoch": 2, "valid_loss": "8", "valid_nll_loss": "7.9", "valid_bleu": "2", "valid_num_updates": "62"}
2026-01-01 10:00:02 | INFO | valid | {"epoch": 3, "valid_loss": "8
"""  # noqa: E501
HYDRA = re.sub(r"^(.{19}) \| INFO \| (\w+) \|", r"[\1,123][\2][INFO] -", SIMPLE, flags=re.MULTILINE)
CURVES = {
    "train loss": [(10, 12.7), (20, 11.0)],
    "train nll_loss": [(10, 12.5), (20, 10.25)],
    "valid loss": [(31, 9.14), (62, 8.0)],
    "valid nll_loss": [(31, 9.1), (62, 7.9)],
    "valid bleu": [(31, 1.5), (62, 2.0)],
}


@pytest.mark.parametrize("text", [SIMPLE, JSON, HYDRA], ids=["simple", "json", "hydra"])
def test_curves_of_each_format(tmp_path, text):
    (tmp_path / "train.log").write_text(text, encoding="utf-8")
    assert read_curves([tmp_path / "train.log"]) == CURVES


def test_a_resumed_run_and_a_damaged_log(tmp_path):
    (tmp_path / "1.log").write_bytes(SIMPLE.encode() + b"\xff\xfe nothing")
    (tmp_path / "2.log").write_text(SIMPLE.replace("loss 8 ", "loss 7 "), encoding="utf-8")
    assert read_curves([tmp_path / "1.log", tmp_path / "2.log"])["valid loss"] == [(31, 9.14), (62, 7.0)]
    assert read_curves([]) == {}


def test_epochs_stand_in_where_no_interval_was_logged(tmp_path):
    lines = [line for line in SIMPLE.splitlines() if "train_inner" not in line]
    (tmp_path / "train.log").write_text("\n".join(lines), encoding="utf-8")
    assert read_curves([tmp_path / "train.log"])["train loss"] == [(31, 11.2)]


@pytest.mark.parametrize("text", [SIMPLE, JSON])
@pytest.mark.parametrize("value", ["nan", "inf", "-inf"])
def test_values_that_are_no_numbers_are_left_out(tmp_path, text, value):
    for good in ("12.5", "9.1"):
        text = re.sub(rf"(nll_loss\W+){good}", rf"\g<1>{value}", text)
    text = re.sub(r"(num_updates\W+)62", rf"\g<1>{value}", text)
    (tmp_path / "train.log").write_text(text, encoding="utf-8")
    curves = read_curves([tmp_path / "train.log"])
    assert curves["train nll_loss"] == CURVES["train nll_loss"][1:]
    assert curves["train loss"] == CURVES["train loss"]
    assert curves["valid loss"] == CURVES["valid loss"][:1]
    assert "valid nll_loss" not in curves


def test_one_model_at_a_time_is_on_the_gpu(monkeypatch):
    moves = []

    def load(files, place):
        return SimpleNamespace(model=SimpleNamespace(to=lambda device: moves.append((files.name, device))))

    monkeypatch.setattr(collection, "load_run", load)
    evidence = Collection(Namespace(evidence=".", data="", subset=[], **OPTIONS), [], "cuda")
    one, other = (RunFiles("--run", name, Path(name)) for name in ("one", "other"))
    for files in (one, other, one):
        evidence._run(files)
    assert moves == [("one", "cpu"), ("one", "cuda"), ("other", "cpu")]


def test_translations_are_made_again_if_the_text_that_bert_read_changes(monkeypatch, tmp_path):
    """Also in a directory with a ~, and the first one of several, as the task reads them."""
    monkeypatch.setenv("HOME", str(tmp_path))
    options = {**OPTIONS, "bert_text": f"~/raw:{tmp_path}/more", "remove_bpe": None, "detok": "none"}
    options = Namespace(evidence=".", data=str(tmp_path), subset=[], **options)
    file = tmp_path / "raw" / "test.en"
    file.parent.mkdir()
    keys = []
    for text in ("a\n", "b\n"):
        file.write_text(text, encoding="utf-8")
        keys.append(Collection(options, [], "cpu")._key("test"))
    assert keys[0] != keys[1]


def test_translations_of_another_program_are_not_removed(tmp_path):
    file = tmp_path / "test" / "other.1" / "on.txt"
    file.parent.mkdir(parents=True)
    file.touch()
    options = Namespace(evidence=tmp_path, data="", subset=["test"], **OPTIONS)
    evidence = Collection(options, [[RunFiles("--run", "other", Path("x.pt"))]], "cpu")
    with pytest.raises(BertFusedError, match=r"other\.1 has .* no facts\.json, .* or give --run other=x\.pt another"):
        evidence.prepare()
