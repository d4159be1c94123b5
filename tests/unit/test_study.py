"""The study of settings: what it asks of fairseq-train, and what it reads from its log."""

from pathlib import Path

import study


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
