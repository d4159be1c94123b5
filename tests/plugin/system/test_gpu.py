"""What needs a GPU: scripts/test.sh -m gpu.  Skipped, and says so, where there is none."""

import json
import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
from fairseq.utils import move_to_cuda
from helpers import assert_close
from ranks import free_port
from workspace import ROOT, hypotheses

GPUS = torch.cuda.device_count()
pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not GPUS, reason="no GPU, or pytest was started without -m gpu")]

KINDS = ["parallel", "gated", "stacked", "embedding", "mix", "gru: BERT", "gru: BERT, dot"]
ARCHITECTURES = ["bert_fused_tiny", "gru_bahdanau_tiny"]
FURTHER = [
    "--consistency r-drop", "--consistency r-drop --fp16", "--consistency simcut --cutoff 0 --bert-drop-net 0 --fp16",
    "--bert-finetune --fp16", "--bert-layer mix --fp16", "--bert-fusion gated --fp16", "--bert-fusion stacked --fp16",
    "--bert-fusion embedding --fp16", "--bert-identity-start --fp16", "--checkpoint-activations --amp",
    "--offload-activations --fp16", "--attention-map entmax15",
]  # fmt: skip


def run(arguments):
    """Run a command, and return what it printed."""
    env, both = {**os.environ, "OMP_NUM_THREADS": "1"}, {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    done = subprocess.run(list(map(str, arguments)), **both, text=True, timeout=250, env=env)
    assert done.returncode == 0, done.stdout[-3000:]
    return done.stdout


def train(workspace, save_dir, *flags, arch="bert_fused_tiny", world_size=1):
    """Train ten updates on GPUs, drop-net on, dropout off (its masks come from each GPU); return what was logged."""
    arguments = [
        Path(sys.executable).with_name("fairseq-train"), workspace.data, "--user-dir", ROOT / "bert_fused_plugin",
        "--task", "bert_fused_translation", "--arch", arch, "--bert-model", workspace.bert_dir, "--dropout", "0",
        "--optimizer", "adam", "--adam-eps", "1e-4", "--lr", "0.001", "--max-tokens", "60", "--max-update", "10",
        "--criterion", "bert_fused_label_smoothed_cross_entropy", "--distributed-world-size", world_size,
        "--no-epoch-checkpoints", "--log-format", "simple", "--save-dir", save_dir, *flags,
    ]  # fmt: skip
    return run(arguments)


def saved(save_dir):
    return torch.load(save_dir / "checkpoint_last.pt", weights_only=False)


@pytest.fixture(scope="module")
def on_cpu(workspace, tmp_path_factory):
    """Return the validation loss after the same training on the CPU, in single precision."""
    losses = {}

    def loss(arch, *flags):
        if (arch, flags) not in losses:
            save_dir = tmp_path_factory.mktemp(arch)
            train(workspace, save_dir, "--cpu", *flags, arch=arch)
            losses[arch, flags] = saved(save_dir)["extra_state"]["val_loss"]
        return losses[arch, flags]

    return loss


@pytest.fixture(scope="module")
def still_bert(workspace, tmp_path_factory):
    """A copy of BERT without its dropout."""
    copy = shutil.copytree(workspace.bert_dir, tmp_path_factory.mktemp("still") / "bert")
    config = json.loads((copy / "config.json").read_text())
    config.update(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    (copy / "config.json").write_text(json.dumps(config))
    return copy


@pytest.mark.parametrize("kind", KINDS)
def test_logits_are_those_of_the_cpu(cases, monkeypatch, kind):
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)
    model = cases.model(kind).eval()
    net_input = cases.batch(model)["net_input"]
    with torch.no_grad():
        expected, _ = model(**net_input)
        seen, _ = model.cuda()(**move_to_cuda(net_input))
    assert_close(seen.cpu(), expected, atol=1e-4)


@pytest.mark.parametrize("arch", ARCHITECTURES)
@pytest.mark.parametrize(
    "flag", ["", "--fp16", "--memory-efficient-fp16", "--amp", "--bf16", "--memory-efficient-bf16"]
)
def test_training_in_each_precision_is_near_that_on_the_cpu(workspace, on_cpu, tmp_path, arch, flag):
    log = train(workspace, tmp_path, *flag.split(), arch=arch)
    assert "training on 1 devices" in log
    assert saved(tmp_path)["extra_state"]["val_loss"] == pytest.approx(on_cpu(arch), abs=0.02)
    assert ("| loss_scale " in log) == (flag in ("--fp16", "--memory-efficient-fp16", "--amp"))


@pytest.mark.parametrize("flags", FURTHER)
def test_training_with_further_flags_is_near_that_on_the_cpu(workspace, on_cpu, still_bert, tmp_path, flags):
    """What else draws random numbers is off: drawn on a GPU, they leave drop-net others than on a CPU."""
    flags = [*flags.split(), "--bert-model", still_bert]
    train(workspace, tmp_path, *flags)
    expected = on_cpu("bert_fused_tiny", *(flag for flag in flags if flag != "--fp16"))
    assert saved(tmp_path)["extra_state"]["val_loss"] == pytest.approx(expected, abs=0.02)


def test_a_cache_is_built_on_the_gpu_and_read_in_half_precision(workspace, on_cpu, tmp_path):
    flags = ["--fp16", "--bert-cache", tmp_path / "cache", "--num-workers", "2"]
    train(workspace, tmp_path / "save", *flags)
    assert saved(tmp_path / "save")["extra_state"]["val_loss"] == pytest.approx(on_cpu("bert_fused_tiny"), abs=0.02)


@pytest.mark.parametrize("flags", [[], ["--fp16"]], ids=["single", "fp16"])
def test_translations_are_those_of_the_cpu(workspace, flags):
    expected = hypotheses(workspace.generate().stdout)
    seen = hypotheses(run([
        Path(sys.executable).with_name("fairseq-generate"), workspace.data, "--user-dir", ROOT / "bert_fused_plugin",
        "--task", "bert_fused_translation", "--path", workspace.checkpoint, "--beam", "3", "--max-len-b", "10", *flags,
    ]))  # fmt: skip
    assert seen.keys() == expected.keys()
    same = sum(seen[n][1] == expected[n][1] for n in expected)
    assert same == len(expected) if not flags else same >= 0.8 * len(expected)  # fp16 may tip a beam


def in_two_processes(workspace, save_dir, *flags, arch):
    """Train with two GPUs and NCCL; or in two processes with one GPU, which NCCL refuses, and gloo."""
    if GPUS > 1:
        return train(workspace, save_dir, *flags, arch=arch, world_size=2)
    flags += ("--distributed-backend", "gloo", "--distributed-no-spawn")
    flags += ("--distributed-init-method", f"tcp://127.0.0.1:{free_port()}")
    with ThreadPoolExecutor(2) as pool:
        jobs = [
            pool.submit(train, workspace, save_dir, *flags, "--distributed-rank", rank, arch=arch, world_size=2)
            for rank in range(2)
        ]
        log, _ = (job.result() for job in jobs)  # both must end well
        return log


@pytest.mark.parametrize("backend", ["pytorch_ddp", "legacy_ddp"])
@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_two_processes_train_as_one_with_two_batches_an_update(workspace, tmp_path, arch, backend):
    log = in_two_processes(workspace, tmp_path / "two", "--ddp-backend", backend, arch=arch)
    assert "training on 2 devices" in log
    train(workspace, tmp_path / "one", "--update-freq", "2", arch=arch)
    one, two = (saved(tmp_path / name)["model"] for name in ("one", "two"))
    for key in one:
        if not key.endswith("._float_tensor"):  # fairseq's position embeddings save uninitialised memory
            torch.testing.assert_close(two[key], one[key], atol=1e-4, rtol=0)
