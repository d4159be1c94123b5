"""The benchmark of large corpora, on a small one; what the study of settings asks of fairseq-train, and reads of it."""

import argparse
import queue
import threading
from pathlib import Path

import pytest
import scale
import study
from fairseq.data import data_utils
from test_kept_pieces import write_data

from bert_fused_plugin.data import kept_pieces


@pytest.fixture
def text(dictionary, tmp_path):
    dictionary.save(str(tmp_path / "dict.en.txt"))
    return write_data(dictionary, tmp_path / "train.en-de.en")


@pytest.mark.parametrize("pairs", [3, 7, 25])
def test_a_corpus_has_its_size_and_repeats_the_text_with_changes(text, dictionary, tmp_path, pairs):
    prefix = scale.make_corpus(text, "en", pairs, tmp_path / "large")
    made, given = (data_utils.load_indexed_dataset(name, dictionary) for name in (prefix, text))
    assert len(made) == pairs
    equal = [made[i].tolist() == given[i % len(given)].tolist() for i in range(pairs)]
    assert all(equal[: len(given)])
    assert sum(equal) < pairs or pairs < 2 * len(given)
    for i in range(pairs):
        assert len(made[i]) == made.sizes[i] == given.sizes[i % len(given)]
        assert (made[i] == dictionary.eos()).tolist() == (given[i % len(given)] == dictionary.eos()).tolist()


def test_each_step_is_measured(text, bert_dir, tmp_path, monkeypatch):
    monkeypatch.setattr(kept_pieces, "KEPT_FROM", 2)
    scale.make_corpus(text, "en", 20, tmp_path / "large")
    options = argparse.Namespace(lang="en", bert_model=bert_dir)
    for step in scale.STEPS:
        results = queue.Queue()
        scale.rank(options, step, tmp_path / "large", threading.Barrier(1), results)
        row = results.get()
        assert set(row) == {"begin", "end", "cpu", "private", "peak", "pss"}
        assert row["end"] > row["begin"]
    files, size = scale.files_of(tmp_path / "large" / "bert-pieces")
    assert (files, size > 300) == (3, True)
    assert scale.files_of(tmp_path / "large" / "cache")[0] >= 1
    row = {"pairs": 20, "ranks": 1, "what": "map", "seconds": 1.5, "files": files, "bytes": 2e6, **row, "cpu": 0.25}
    row.update(private=1e6, peak=2e6, pss=3e6)
    assert list(scale.table([row]))[-1] == "| 20 | 1 | map | 1.50 | 0.25 | 1.0 | 2.0 | 3.0 | 3 | 2.0 |"


def test_the_curve_has_updates_nll_and_bleu_of_each_validation():
    line = "2026-01-01 10:00:00 | INFO | valid | epoch 008 | valid on 'valid' subset | loss 7.01 | nll_loss 6.123 | "
    line += "accuracy 29.693 | ppl 69.67 | bleu {} | wps 1201.2 | num_updates {} | best_bleu 1.87\n"
    assert study.curve_of(line.format(1.87, 300) + "other\n" + line.format(1.5, 400)) == [
        [300, 6.123, 1.87],
        [400, 6.123, 1.5],
    ]


def test_a_system_begins_with_the_parameters_of_its_base(monkeypatch):
    monkeypatch.setattr(study, "bert", lambda: "minilm")
    plain = {**study.DEFAULTS, "name": "control", "base": "transformer", "lr": "0.0025"}
    words = " ".join(study.training_command(plain, Path("data"), Path("out/runs/control")))
    assert "--finetune-from-model out/runs/transformer/checkpoint_best.pt" in words
    assert "--lr 0.0025 --warmup-updates 500 --dropout 0.3" in words
    fused = {**plain, "kind": "fused", "flags": "--bert-layer 4"}
    words = " ".join(study.training_command(fused, Path("data"), Path("out/runs/fused")))
    assert "--bert-warm-start out/runs/transformer/checkpoint_best.pt --bert-layer 4" in words
    assert "--bert-model minilm --bert-cache data/bert-cache" in words
    trained = {**fused, "flags": "--bert-finetune"}
    assert "--bert-cache" not in study.training_command(trained, Path("data"), Path("out/runs/fused"))
