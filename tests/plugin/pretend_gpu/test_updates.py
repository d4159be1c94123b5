"""What fairseq_compat.updates does for all parameters of a GPU at once gives the very numbers and states of fairseq."""

from contextlib import contextmanager, nullcontext
from functools import partial
from unittest.mock import patch

import pytest
import torch
from fairseq.optim.adam import Adam
from helpers import needs_half
from launches import counting
from model_cases import make_optimizer, update
from pretend import Pretend, needs_pretend_gpu, pretend_gpu

from fairseq_compat import updates

pytestmark = needs_pretend_gpu
SHAPES = [(3, 4), (5,), (1,), (2, 1, 3), (4, 3)]
FLAGS = {
    "single precision": {},
    "--fp16": {"fp16": True},
    "--fp16 --fp16-no-flatten-grads": {"fp16": True, "fp16_no_flatten_grads": True},
    "--memory-efficient-fp16": {"fp16": True, "memory_efficient_fp16": True},
    "--bf16": {"bf16": True},
}


@contextmanager
def gpu(stock=False):
    """Let there be the pretend GPU, on which *stock* fairseq's functions may do all of it."""
    fit = (lambda *lists: False) if stock else updates._fit
    patches = patch.object(torch.cuda, "current_device", lambda: 0), patch.object(updates, "_fit", fit)
    with pretend_gpu() as device, patches[0], patches[1]:
        yield device


def dtype_of(flags):
    return torch.half if "fp16" in flags else torch.bfloat16 if "bf16" in flags else torch.float32


def make_parameters(device, dtype=torch.float32):
    torch.manual_seed(1)
    return [torch.nn.Parameter(device.put(torch.randn(shape).to(dtype))) for shape in SHAPES]


def give_gradients(params, step):
    """Leave out the second parameter always, the third one at first; the third step is large, the fifth infinite."""
    torch.manual_seed(step)
    for number, p in enumerate(params):
        gradient = torch.randn(p.shape).to(p.dtype) * (30 if step == 2 else 1)
        if step == 4 and p.dtype == torch.half:
            gradient[0] = torch.inf
        p.grad = p.detach().clone().copy_(gradient) if number != 1 and (number != 2 or step > 0) else None


def loss_of(params, step):
    give_gradients(params, step)
    return step


def seen_of(optimizer, params):
    """Return parameters, gradients and states, as tensors of the CPU."""
    states = [state for _, state in sorted(optimizer.state_dict()["state"].items())]
    values = [*params, *(p.grad for p in params if p.grad is not None)]
    values += [value for state in states for _, value in sorted(state.items())]
    return list(map(plain, values))


def plain(value):
    return value.elem.detach().clone() if isinstance(value, Pretend) else torch.as_tensor(value)


def train(flags, stock, clip_norm=1.0, aggregate=None):
    """Return what there is after each of six updates, the fourth of which goes on from a state dict.

    With fp16, the gradients of the fifth overflow, and the update is skipped, as fairseq's trainer does it.
    """
    seen = []
    with gpu(stock) as device:
        params = make_parameters(device, dtype_of(flags))
        optimizer = make_optimizer(params, **flags)
        for step in range(6):
            if step == 3:
                state = optimizer.state_dict()
                optimizer = make_optimizer(params, **flags)
                optimizer.load_state_dict(state)
            optimizer.zero_grad()
            give_gradients(params, step)
            optimizer._needs_sync = True  # as optimizer.backward() says
            optimizer.multiply_grads(torch.tensor(0.5) if step == 1 else 0.5)
            overflows = step == 4 and "fp16" in flags
            with pytest.raises(OverflowError) if overflows else nullcontext():
                seen.append(plain(optimizer.clip_grad_norm(clip_norm, aggregate)))
                optimizer.step()
            seen += seen_of(optimizer, params)
    return seen


def assert_the_same(seen, expected):
    assert len(seen) == len(expected) > 20
    assert all(torch.equal(a, b) and a.dtype == b.dtype for a, b in zip(seen, expected))


@pytest.mark.parametrize("flags", FLAGS)
@needs_half
def test_updates_are_those_of_fairseq(flags):
    assert_the_same(train(FLAGS[flags], stock=False), train(FLAGS[flags], stock=True))


@pytest.mark.parametrize("how", [{"clip_norm": 0.0}, {"aggregate": lambda norm: 2 * norm}], ids=["0", "aggregate"])
def test_clipping_is_that_of_fairseq(how):
    assert_the_same(train({}, stock=False, **how), train({}, stock=True, **how))


@pytest.mark.parametrize("how", [{"amsgrad": True}, {"weight_decay": 0.0}, {"lr": 0.0}], ids=str)
def test_two_groups_and_a_closure(how):
    seen = []
    for stock in (False, True):
        with gpu(stock) as device:
            params = make_parameters(device)
            groups = [{"params": params[:2]}, {"params": params[2:], "lr": 0.3, "betas": (0.5, 0.6)}]
            optimizer = Adam(groups, **how)
            for step in range(4):
                assert optimizer.step(partial(loss_of, params, step)) == step
            seen.append(seen_of(optimizer, params))
    assert_the_same(*seen)


@pytest.mark.parametrize("flags", [flags for flags in FLAGS if "memory" not in flags])
@needs_half
def test_an_update_takes_no_more_calls_for_more_parameters(flags):
    """With --memory-efficient-fp16, copies of all parameters in fp32 at once would take what the flag saves."""
    counts = []
    for copies in (1, 3):
        with gpu() as device:
            params = [p for _ in range(copies) for p in make_parameters(device, dtype_of(FLAGS[flags]))]
            optimizer = make_optimizer(params, **FLAGS[flags])
            for _ in range(3):
                give_gradients(params, 1)
                with counting() as launches:
                    update(optimizer)
                    optimizer.zero_grad()
            counts.append(launches.total)
    assert 10 < counts[0] == counts[1] <= 30


def test_sparse_gradients_are_refused_as_by_fairseq():
    weight = torch.nn.Parameter(torch.ones(3, 2))
    weight.grad = torch.ones(3, 2).to_sparse()
    with pytest.raises(RuntimeError, match="does not support sparse gradients"):
        Adam([weight]).step()
