"""Translation in half precision, as far as CPUs have it."""

import functools
import math

import pytest
import translating
from conftest import ROOT, hypotheses
from in_process import command


@pytest.fixture(scope="module")
def train(workspace, tmp_path_factory):
    """Train a few updates; return the folder of the checkpoints."""

    def train(arch):
        save_dir = tmp_path_factory.mktemp(arch)
        sizes = "--encoder-layers 1 --decoder-layers 1".split()
        made = ["--bert-model", workspace.bert_dir, "--bert-cache", workspace.path / "cache", *sizes]
        how = "--lr 0.001 --clip-norm 1.0 --max-tokens 60 --max-update 10 --num-workers 0".split()
        translating.train(workspace.data, save_dir, "--arch", arch, *how, *made)
        return save_dir

    return functools.lru_cache(train)


def generate(workspace, path, *flags):
    output = command(
        "generate", workspace.data, "--user-dir", ROOT / "bert_fused_plugin", "--task", "bert_fused_translation",
        "--path", path, "--max-len-b", "5", "--num-workers", "0", "--cpu", *flags,
    )  # fmt: skip
    return hypotheses(output)


@pytest.mark.parametrize("others", ["", "transformer"])
@pytest.mark.parametrize("arch", ["bert_fused_tiny", "gru_bahdanau_tiny"])
def test_translation_in_bf16_is_near_that_in_single(workspace, train, plain, caplog, arch, others):
    path = str(train(arch) / "checkpoint_last.pt")
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
