"""fairseq's own trainer and generator run on the pretend GPU, in each precision, and end near the CPU's result.

`pretend_cuda` says how much of ``torch.cuda`` is imitated.  Four things are left out.  ``--amp`` needs a GPU with
kernels of its own, as in test_gpu.py.  Dropout is off, because a GPU draws other masks.  Apex, whose
kernels fairseq would use, is not there.  There is one device, so nothing is said about several.
"""

import math
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple
from unittest.mock import patch

import pytest
import torch
from documentation import ROOT
from helpers import needs_half
from in_process import Printed, binarised, command
from pretend import needs_pretend_gpu, pretend_gpu
from torch.overrides import TorchFunctionMode
from workspace import updates

pytestmark = [needs_pretend_gpu, pytest.mark.filterwarnings("ignore:amp_C fused kernels unavailable:UserWarning")]
_PROPERTIES = SimpleNamespace(name="a pretend GPU", major=8, minor=0, total_memory=2**30)
OURS = ["--user-dir", ROOT / "bert_fused_plugin", "--task", "bert_fused_translation"]
CRITERION = ["--criterion", "bert_fused_label_smoothed_cross_entropy"]
ARCHITECTURES = {
    "bert_fused": "--encoder-embed-dim 16 --encoder-ffn-embed-dim 24 --encoder-layers 1 --decoder-layers 1 "
    "--encoder-attention-heads 2 --decoder-attention-heads 2 --share-all-embeddings",
    "gru_bahdanau": "--encoder-embed-dim 16 --encoder-hidden-size 12 --decoder-embed-dim 16 --decoder-hidden-size 20 "
    "--decoder-out-embed-dim 16",
}
# how far from the parameters of the CPU, in single precision, a training may end, as a part of the way that it went
PRECISIONS = {"": 1e-4, "--fp16": 0.1, "--fp16 --fp16-no-flatten-grads": 0.1, "--memory-efficient-fp16": 0.1}
PRECISIONS.update({"--bf16": 0.6, "--memory-efficient-bf16": 0.6})
further, slow = pytest.mark.further, pytest.mark.slow  # what finds little beside the others
TRAININGS = [
    ("bert_fused", ""),
    ("bert_fused", "--fp16"),
    pytest.param("bert_fused", "--fp16 --fp16-no-flatten-grads", marks=further),
    pytest.param("bert_fused", "--memory-efficient-fp16", marks=further),
    ("bert_fused", "--bf16"),
    pytest.param("bert_fused", "--memory-efficient-bf16", marks=slow),
    pytest.param("gru_bahdanau", "", marks=further),
    ("gru_bahdanau", "--fp16"),
    pytest.param("gru_bahdanau", "--bf16", marks=further),
]


class _CudaIsPretended(TorchFunctionMode):
    """Puts tensors that should go to CUDA, by whatever name, on the pretend GPU."""

    def __init__(self, device):
        super().__init__()
        self.device = device

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        if func is torch.Tensor.cuda:
            return args[0].to(self.device, non_blocking=kwargs.get("non_blocking", False))
        if func is torch.Tensor.new_tensor:
            kwargs = {"dtype": args[0].dtype, "device": args[0].device, **kwargs}
            func, args = torch.tensor, args[1:]
        if func is torch.Tensor.to:
            args = (*args[:1], *map(self._device, args[1:2]), *args[2:])
        if "device" in kwargs:
            kwargs["device"] = self._device(kwargs["device"])
        return func(*args, **kwargs)

    def _device(self, value):
        is_number = isinstance(value, int) and not isinstance(value, bool)
        is_name = isinstance(value, (str, torch.device)) and str(value).startswith("cuda")
        return self.device if is_number or is_name else value


@contextmanager
def pretend_cuda():
    """Let there be one CUDA device, which is the pretend GPU, within the context."""
    with ExitStack() as stack:
        gpu = stack.enter_context(pretend_gpu())
        answers = {
            "is_available": True, "device_count": 1, "current_device": gpu.device.index,
            "get_device_capability": (8, 0), "get_device_properties": _PROPERTIES,
            "get_device_name": _PROPERTIES.name, "max_memory_allocated": 0, "memory_summary": "",
            "get_rng_state": torch.zeros(0, dtype=torch.uint8), "set_rng_state": None, "set_device": None,
            "empty_cache": None, "reset_peak_memory_stats": None, "manual_seed": None, "manual_seed_all": None,
            "synchronize": None,
        }  # fmt: skip
        for name, answer in answers.items():
            stack.enter_context(patch.object(torch.cuda, name, lambda *args, answer=answer, **options: answer))
        stack.enter_context(_CudaIsPretended(gpu.device))
        yield gpu


class Runs:
    """Trainings and translations of one small corpus, on the CPU or on the pretend GPU."""

    def __init__(self, path, bert_dir):
        self.path, self.bert_dir, self.data = path, bert_dir, binarised(path, train=80, valid=10, test=8)

    def train(self, save_dir, *flags, arch="bert_fused", on_gpu=True, updates=10):
        """Return the checkpoint after some updates; drop-net is on."""
        model = ["--arch", arch, *ARCHITECTURES[arch].split(), "--bert-model", self.bert_dir, "--dropout", "0"]
        how = "--optimizer adam --lr 0.003 --max-tokens 60 --clip-norm 1 --no-epoch-checkpoints --log-format simple"
        saving = ["--max-update", updates, "--save-dir", save_dir]
        self._run("train", on_gpu, *model, *CRITERION, *how.split(), *saving, *flags)
        return torch.load(save_dir / "checkpoint_last.pt", weights_only=False)

    def translate(self, save_dir, *flags, on_gpu=True):
        how = ["--path", save_dir / "checkpoint_last.pt", "--beam", "3", "--max-len-b", "8"]
        return Printed(self._run("generate", on_gpu, *how, *flags))

    def _run(self, name, on_gpu, *args):
        with pretend_cuda() if on_gpu else nullcontext():
            return command(name, self.data, *OURS, *([] if on_gpu else ["--cpu"]), *args)


@pytest.fixture(scope="module")
def runs(tmp_path_factory, bert_dir):
    return Runs(tmp_path_factory.mktemp("runs"), bert_dir)


class OnCpu(NamedTuple):
    """A training on the CPU in single precision: its folder, its checkpoint, and the parameters before it."""

    save_dir: Path
    checkpoint: dict
    start: dict


@pytest.fixture(scope="module")
def on_cpu(runs):
    known = {}

    def train(arch="bert_fused"):
        if arch not in known:
            first = runs.train(runs.path / f"{arch}_start", "--lr", "0", arch=arch, on_gpu=False, updates=1)
            checkpoint = runs.train(runs.path / arch, arch=arch, on_gpu=False)
            known[arch] = OnCpu(runs.path / arch, checkpoint, parameters(first))
        return known[arch]

    return train


def loss(checkpoint):
    return checkpoint["extra_state"]["val_loss"]


def parameters(checkpoint):
    """Return the parameters that say something.

    fairseq saves uninitialised memory of its position embeddings.  Attention does not depend on the biases of its keys,
    so their gradients are rounding errors, which Adam makes large.
    """
    without = ("_float_tensor", "k_proj.bias")
    return {name: value for name, value in checkpoint["model"].items() if not name.endswith(without)}


def distance(left, right):
    return math.sqrt(sum(float((left[name] - value).square().sum()) for name, value in right.items()))


@pytest.mark.parametrize(("arch", "flags"), TRAININGS)
@needs_half
def test_ten_updates_in_each_precision_end_near_those_on_the_cpu(runs, on_cpu, tmp_path, arch, flags):
    expected = on_cpu(arch)
    seen = runs.train(tmp_path, *flags.split(), arch=arch)
    goal = parameters(expected.checkpoint)
    assert updates(seen) == 10
    assert loss(seen) == pytest.approx(loss(expected.checkpoint), abs=0.02 if flags else 1e-4)
    assert distance(parameters(seen), goal) < PRECISIONS[flags] * distance(expected.start, goal)


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_fairseq_generate_translates_as_on_the_cpu(runs, on_cpu, arch):
    save_dir = on_cpu(arch).save_dir
    expected, seen = runs.translate(save_dir, on_gpu=False), runs.translate(save_dir)
    assert seen.scores() == pytest.approx(expected.scores(), abs=1e-4)
    assert seen.best("H") == expected.best("H")
