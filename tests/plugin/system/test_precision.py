"""Translation in half precision, as far as CPUs have it."""

import math

import pytest
import translating
from in_process import command
from workspace import ROOT, hypotheses


def train(workspace, save_dir, arch):
    """Train a few updates; return the path of the checkpoint."""
    how = "--encoder-layers 1 --decoder-layers 1 --lr 0.001 --clip-norm 1.0 --max-tokens 60 --max-update 10".split()
    made = ["--bert-model", workspace.bert_dir, "--bert-cache", workspace.path / "cache"]
    translating.train(workspace.data, save_dir, "--arch", arch, *how, *made)
    return str(save_dir / "checkpoint_last.pt")


def generate(workspace, path, *flags):
    output = command(
        "generate", workspace.data, "--user-dir", ROOT / "bert_fused_plugin", "--task", "bert_fused_translation",
        "--path", path, "--max-len-b", "5", "--num-workers", "0", "--cpu", *flags,
    )  # fmt: skip
    return hypotheses(output)


@pytest.mark.parametrize(("arch", "others"), [("bert_fused_tiny", False), ("gru_bahdanau_tiny", True)])
def test_translation_in_bf16_is_near_that_in_single(workspace, plain, tmp_path, caplog, arch, others):
    path = train(workspace, tmp_path, arch)
    if others:  # an ensemble with fairseq's own
        path += f":{plain / 'checkpoint_best.pt'}"
    single = generate(workspace, path)
    assert "computes in bfloat16" not in caplog.text
    cached = generate(workspace, path, "--bf16", "--bert-cache", workspace.path / "cache")
    assert "Model computes in bfloat16 (--bf16)" in caplog.text
    assert len(cached) == 30
    for half in (generate(workspace, path, "--bf16"), cached):
        assert {n: score for n, (score, _) in half.items()} != {n: score for n, (score, _) in single.items()}
        near = [math.isclose(half[n][0], single[n][0], abs_tol=0.05, rel_tol=0.02) for n in single]
        assert sum(near) >= 28  # rounding may tip a beam
