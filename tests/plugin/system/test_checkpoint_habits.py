"""What people do with checkpoints, by real commands: fine-tune, start anew, keep an EMA or the best by BLEU."""

import json
from pathlib import Path

import pytest
import sacrebleu
import torch
from fairseq.checkpoint_utils import load_model_ensemble_and_task, save_ema_as_checkpoint
from in_process import Model, train
from workspace import TINY, hypotheses, load

from bert_fused_lab.exporting.export_model import export_model

STILL = ["--lr", "0", "--max-epoch", "1", "--disable-validation"]  # what is loaded is what is saved


def differing(first, second):
    """Return the parameters that differ, but the record of the settings and uninitialised memory."""
    assert first.keys() == second.keys()
    no_parameters = ("._float_tensor", "settings_record.text")
    return [k for k in first if not k.endswith(no_parameters) and not torch.equal(first[k], second[k])]


def test_an_exported_model_is_trained_further(workspace, tmp_path):
    exported = tmp_path / "model"
    export_model(Path(workspace.checkpoint), workspace.data, exported, with_bert=True)
    workspace.train("--finetune-from-model", exported / "model.pt", *STILL, save_dir=tmp_path / "save")
    before, after = load(workspace.checkpoint), load(tmp_path / "save" / "checkpoint_last.pt")
    assert not differing(before["model"], after["model"])


def test_ema(workspace, tmp_path):
    """With layer norms before the layers too, whose last ones fairseq's EMA would drop."""
    options = ["--store-ema", "--ema-decay", "0.5", "--encoder-normalize-before", "--decoder-normalize-before"]
    options += ["--save-interval-updates", "1", "--disable-validation", "--dropout", "0"]
    workspace.train(*options, "--max-update", "2", save_dir=tmp_path)
    workspace.train(*options, "--max-update", "3", save_dir=tmp_path)
    states = [load(tmp_path / f"checkpoint_1_{number}.pt") for number in (1, 2, 3)]
    models, emas = [s["model"] for s in states], [s["extra_state"]["ema"] for s in states]
    assert "decoder.layer_norm.weight" in emas[2]
    for number in (1, 2):  # unbroken, and resumed
        assert emas[number].keys() == models[number].keys()
        for key, ema in emas[number].items():
            if key.endswith("._float_tensor"):
                continue
            # fairseq takes a step for each of the names of a shared parameter
            old = 0.5 ** sum(ema.data_ptr() == other.data_ptr() for other in emas[number].values())
            torch.testing.assert_close(ema, old * emas[number - 1][key] + (1 - old) * models[number][key])

    save_ema_as_checkpoint(str(tmp_path / "checkpoint_1_3.pt"), str(tmp_path / "ema.pt"))
    [model], _, _ = load_model_ensemble_and_task([str(tmp_path / "ema.pt")], arg_overrides={"data": workspace.data})
    assert not [key for key in differing(model.state_dict(), emas[2]) if "bert_record" not in key]
    assert model.decoder.layer_norm is not None
    assert len(hypotheses(workspace.generate("--path", tmp_path / "ema.pt").stdout)) == 30


def test_the_checkpoint_with_the_best_bleu_is_kept(workspace, tmp_path):
    """BLEU in training is that of fairseq-generate on the same checkpoint."""
    train(
        workspace.data, tmp_path, "--arch", "bert_fused", *TINY, "--bert-model", workspace.bert_dir,
        "--eval-bleu", "--eval-bleu-detok", "moses",
        "--eval-bleu-args", json.dumps({"beam": 2, "max_len_b": 10, "lenpen": 2}), "--eval-bleu-remove-bpe",
        "--best-checkpoint-metric", "bleu", "--maximize-best-checkpoint-metric", "--max-epoch", "3",
        "--eval-bleu-print-samples",
    )  # fmt: skip
    best_path = tmp_path / "checkpoint_best.pt"
    extra = load(best_path)["extra_state"]
    out = Model(workspace.data, best_path).generate(
        "--gen-subset", "valid", "--beam", "2", "--lenpen", "2", "--remove-bpe", "--tokenizer", "moses",
        "--source-lang", "en", "--target-lang", "de", "--scoring", "sacrebleu",
    )  # fmt: skip
    hypotheses, references = (list(out.best(kind).values()) for kind in "DT")
    bleu = sacrebleu.corpus_bleu(hypotheses, [references]).score
    assert extra["val_loss"] == extra["best"] == pytest.approx(bleu, abs=0.006)
