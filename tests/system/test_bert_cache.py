"""Training and translating with BERT's states from the disk."""

import re

import pytest
from conftest import hypotheses

pytestmark = pytest.mark.system


def losses(done):
    """Return the losses of all updates and of validation."""
    return [
        float(value)
        for value in re.findall(r"\| (?:loss|nll_loss)[ =]([\d.]+)|\bloss=([\d.]+)", done.stdout)
        for value in value
        if value
    ]


@pytest.fixture(scope="module")
def options():
    return ["--bert-drop-net", "0.5", "--dropout", "0.1", "--log-interval", "1"]


def test_training_with_and_without_the_cache_is_the_same(workspace, tmp_path, options):
    without = workspace.train(*options, save_dir=tmp_path / "without")
    cache = ["--bert-cache", tmp_path / "cache", "--bert-cache-dtype", "fp32"]
    first = workspace.train(*options, *cache, save_dir=tmp_path / "first")
    assert re.search(r"BERT cache \S+: [\d,]+ new sentences of [\d,]+ word pieces, [\d.]+ GiB to write", first.stdout)
    second = workspace.train(*options, *cache, "--num-workers", "2", save_dir=tmp_path / "second")
    assert "new sentences" not in second.stdout
    assert len(losses(without)) > 20
    # the log shows three decimals
    assert losses(first) == pytest.approx(losses(without), abs=0.0015)
    assert losses(second) == losses(first)


def test_translations_from_the_cache_are_the_same(workspace, tmp_path):
    without = hypotheses(workspace.generate().stdout)
    cached = hypotheses(workspace.generate("--bert-cache", tmp_path, "--bert-cache-dtype", "fp32").stdout)
    assert {n: tokens for n, (_, tokens) in cached.items()} == {n: tokens for n, (_, tokens) in without.items()}
    assert [cached[n][0] for n in without] == pytest.approx([score for score, _ in without.values()], abs=1e-4)


def test_a_cache_that_cannot_be_used_is_an_error_at_set_up(workspace, tmp_path):
    (tmp_path / "file").write_text("")
    done = workspace.train("--bert-cache", tmp_path / "file", save_dir=tmp_path / "save", ok=False)
    assert "Traceback" not in done.stdout + done.stderr
    assert re.search(r"bert_fused_plugin: error: --bert-cache \S+file cannot be used .*leave the flag out", done.stderr)
