"""Warm start by the real commands: from a transformer of fairseq-train to a translation without its checkpoint."""

import re
import shutil

from workspace import hypotheses, load, updates

from bert_fused_lab.exporting.average_checkpoints import average_checkpoints
from bert_fused_plugin.checkpoints.record import Origin, origins


def log_of(done):
    return done.stdout + done.stderr


def start(plain, tmp_path):
    """Return the flags of a warm start from a copy of the checkpoint, and the copy."""
    copy = tmp_path / "stock.pt"
    shutil.copy(plain / "checkpoint_best.pt", copy)
    return ["--bert-warm-start", copy, "--bert-identity-start"], copy


def test_training_starts_anew_and_what_it_saves_needs_no_checkpoint(workspace, plain, tmp_path):
    flags, copy = start(plain, tmp_path)
    save_dir = tmp_path / "save"
    command = [*flags, "--no-epoch-checkpoints"]
    done = workspace.train(*command, "--max-epoch", "1", save_dir=save_dir)
    log = log_of(done)
    [said] = re.findall(rf"\| initialised \d+ of \d+ parameters from {copy}(; .*)\n", log)
    assert "; 32 keep their initial values: encoder.layers.0.bert_attn.k_proj.weight, " in said
    assert "not used" not in said
    for side, lang in (("source", "en"), ("target", "de")):
        assert re.search(
            rf"; (\d+) of \1 symbols of the {side} dictionary are in {workspace.data}/dict.{lang}.txt", said
        )

    # epoch and best score are those of the new run
    assert load(copy)["extra_state"]["train_iterator"]["epoch"] > 1
    assert "begin training epoch 1\n" in log
    saved = load(save_dir / "checkpoint_best.pt")
    steps = int(re.findall(r"epoch 001 \| valid on 'valid' subset .* num_updates (\d+)", log)[0])
    assert updates(saved) == steps
    assert saved["extra_state"]["best"] == saved["extra_state"]["val_loss"]
    assert saved["cfg"]["model"].bert_warm_start is None
    assert saved["cfg"]["model"].bert_identity_start
    began = [Origin(str(copy), updates(load(copy)))]
    assert origins(saved) == began

    copy.unlink()
    out = workspace.generate("--path", save_dir / "checkpoint_best.pt")
    assert sorted(hypotheses(out.stdout)) == list(range(30))
    resumed = log_of(workspace.train(*command, "--max-epoch", "2", save_dir=save_dir))
    assert f"--bert-warm-start {copy} is not read: training resumes from {save_dir}/checkpoint_last.pt" in resumed
    assert "begin training epoch 2\n" in resumed
    assert "initialised" not in resumed
    last = load(save_dir / "checkpoint_last.pt")
    assert updates(last) == 2 * steps

    # where it began is known after a resume, of an average, and of a training that begins from this one
    assert origins(last) == began
    assert origins(average_checkpoints([save_dir / "checkpoint_best.pt", save_dir / "checkpoint_last.pt"])) == began
    more = ["--finetune-from-model", save_dir / "checkpoint_last.pt", "--bert-identity-start", "--max-update", "1"]
    workspace.train(*more, save_dir=tmp_path / "more")
    found = origins(load(tmp_path / "more" / "checkpoint_last.pt"))
    assert found == [Origin(str(save_dir / "checkpoint_last.pt"), 2 * steps), *began]
