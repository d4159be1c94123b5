"""A fusion of one's own, fine-tuning and a causal language model, from training to translation by the real commands."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from documentation import blocks
from language_models import save_language_model
from ranks import parameters
from workspace import ROOT, TINY, hypotheses


def train_and_translate(workspace, save_dir, *flags, generate=()):
    done = workspace.train(*flags, "--max-epoch", "1", save_dir=save_dir)
    out = workspace.generate("--path", save_dir / "checkpoint_last.pt", *generate)
    assert sorted(hypotheses(out.stdout)) == list(range(30))
    return done.stdout + done.stderr, out.stdout


def test_a_fusion_of_ones_own_trains_resumes_and_translates(workspace, tmp_path):
    """The plug-in is the example of docs/python_api.md."""
    [code] = [block.code for block in blocks("docs/python_api.md") if "register_fusion" in block.code]
    (tmp_path / "larger").mkdir()
    (tmp_path / "larger" / "__init__.py").write_text(code, encoding="utf-8")
    plugin = ["--user-dir", tmp_path / "larger"]
    flags = [*plugin, "--bert-fusion", "larger"]
    log, _ = train_and_translate(workspace, tmp_path / "save", *flags, generate=plugin)
    assert "larger fusion, drop-net 0.0" in log
    assert "begin training epoch 2\n" in workspace.train(*flags, save_dir=tmp_path / "save").stdout
    last, new = tmp_path / "save" / "checkpoint_last.pt", tmp_path / "exported"
    workspace.run("bert-fused-export", last, workspace.data, *plugin, "--output", new)
    load = f"load_hub({str(new)!r}, user_dir={str(tmp_path / 'larger')!r})"
    workspace.run("python", "-c", f"from bert_fused_plugin.models.hub import load_hub; {load}")
    done = workspace.generate("--path", last, ok=False)
    errors = [line for line in done.stderr.splitlines() if ": error: " in line]
    assert errors == [
        "bert_fused_plugin: error: --bert-fusion larger is unknown; give the --user-dir that registers it"
    ]


@pytest.mark.further
def test_a_mix_of_layers_is_cached_layer_by_layer(workspace, tmp_path):
    cache = ["--bert-cache", tmp_path / "cache", "--bert-cache-dtype", "fp32"]
    flags = ["--bert-layer", "mix", "--bert-fusion", "embedding", *cache]
    _, cached = train_and_translate(workspace, tmp_path / "save", *flags, generate=cache)
    without = hypotheses(workspace.generate("--path", tmp_path / "save" / "checkpoint_last.pt").stdout)
    cached = hypotheses(cached)
    assert [cached[n][0] for n in without] == pytest.approx([score for score, _ in without.values()], abs=1e-4)


def test_a_finetuned_bert_is_saved_trained_and_resumed_without_a_trace(workspace, tmp_path):
    flags = ["--bert-finetune", "--bert-finetune-layers", "1", "--lr", "0.001"]
    workspace.train(*flags, save_dir=tmp_path / "whole")
    last = tmp_path / "parts" / "checkpoint_last.pt"
    last.parent.mkdir()
    shutil.copy(tmp_path / "whole" / "checkpoint1.pt", last)  # as if it had ended there
    begun = parameters(last)
    done = workspace.train(*flags, save_dir=tmp_path / "parts")
    assert f"Loaded checkpoint {last} (epoch 2 @" in done.stdout + done.stderr
    whole, parts = parameters(tmp_path / "whole" / "checkpoint_last.pt"), parameters(last)
    assert whole.keys() == parts.keys()
    assert all(torch.equal(whole[name], parts[name]) for name in whole)
    bert = {name for name in whole if name.startswith("encoder.bert.model.")}
    moved = {name for name in bert if not torch.equal(whole[name], begun[name])}
    assert moved == {name for name in bert if ".layer.1." in name}
    out = workspace.generate("--path", tmp_path / "whole" / "checkpoint_last.pt")
    assert sorted(hypotheses(out.stdout)) == list(range(30))


@pytest.mark.around
def test_the_example_of_a_causal_language_model_runs(workspace, tmp_path):
    save_language_model("Qwen", tmp_path / "qwen")
    flags = [*TINY, "--max-epoch", "1", "--warmup-updates", "4", "--max-tokens", "300", "--cpu"]
    done = subprocess.run(
        [ROOT / "examples/lamate/run.sh", workspace.data, tmp_path / "qwen", tmp_path / "out", *flags],
        capture_output=True, text=True, timeout=250, cwd=ROOT,
        env={**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    state = parameters(tmp_path / "out" / "finetuned" / "checkpoint_best.pt")
    assert state["encoder.layer_mix.w"].shape == (4,)
    assert any(name.startswith("encoder.bert.model.layers.2.") for name in state)
