"""A pretend GPU: CPU tensors that claim to lie on another device, and a count of what would make the host wait.

The tensors refuse to mix with tensors of the CPU, as those of CUDA do.  Forward, backward, optimizers and fairseq's
generator run on them, and the numbers are the CPU's.
"""

import sys
from collections import Counter
from contextlib import ExitStack, contextmanager
from unittest.mock import patch

import pytest
import torch
from fairseq.utils import apply_to_sample
from torch.utils import backend_registration
from torch.utils._device import _device_constructors
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_unflatten

from bert_fused_plugin.modules import device_choices

NAME = "gpu"
_SET_UP = "_setup_privateuseone_for_python_backend"  # private to torch; seen in 2.10 to 2.13
needs_pretend_gpu = pytest.mark.skipif(
    not hasattr(backend_registration, _SET_UP),
    reason="the pretend GPU needs an interface of torch 2.10 and later for devices that are written in Python",
)
aten = torch.ops.aten
_make_tensor = torch.tensor
_FOLDERS = ("/bert_fused_plugin/", "/fairseq_compat/", "/fairseq/", "/transformers/", "/torch/nn/")
_gpus = []  # that are there now: the innermost last
# a real GPU gives their result to the host, or needs it for the shape of the output
WAITS = {
    aten._local_scalar_dense.default, aten.nonzero.default, aten.equal.default, aten.masked_select.default,
    aten.is_nonzero.default, aten._unique2.default, aten.unique_consecutive.default, aten.unique_dim.default,
    aten.repeat_interleave.Tensor, aten.bincount.default, aten.item.default,
}  # fmt: skip
# take tensors of the CPU beside those of CUDA
_INDEXING = {
    aten.index.Tensor, aten.index_put_.default, aten.index_put.default, aten._index_put_impl_.default,
    aten._unsafe_index.Tensor,
}  # fmt: skip
MIXED = {*_INDEXING, aten.copy_.default, aten._to_copy.default, aten._pack_padded_sequence.default}
MIXED.add(aten._pad_packed_sequence.default)
COPIES_ACROSS = _INDEXING  # they bring the index to the device first
GIVE_NUMBERS = {aten._local_scalar_dense.default, aten.equal.default, aten.is_nonzero.default, aten.item.default}


class Pretend(torch.Tensor):
    """A tensor that says it is on the pretend GPU; its numbers are in ``elem``, on the CPU."""

    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, elem):
        made = torch.Tensor._make_wrapper_subclass(
            cls, elem.size(), strides=elem.stride(), storage_offset=elem.storage_offset(), dtype=elem.dtype,
            layout=elem.layout, device=torch.device(NAME, 0), requires_grad=False,
        )  # fmt: skip
        made.elem = elem
        return made

    def tolist(self):
        _note("waits", "tolist")
        return self.elem.tolist()

    def numpy(self, *args, **options):
        raise TypeError(f"A GPU's tensor cannot become a numpy array, at {_line()}")

    def pin_memory(self, *args):
        raise RuntimeError(f"Only the CPU's memory can be pinned, at {_line()}")

    def __array__(self, *args, **options):
        return self.numpy()

    def __getitem__(self, index):  # an index that is a list would be made a tensor where no mode sees it
        return super().__getitem__(_make_tensor(index) if isinstance(index, list) else index)

    def __setitem__(self, index, value):
        super().__setitem__(_make_tensor(index) if isinstance(index, list) else index, value)

    def __repr__(self):
        return f"Pretend({self.elem})"

    def __format__(self, form):  # torch's own formats numbers of plain tensors only
        return format(self.item() if self.dim() == 0 else str(self), form)

    def __deepcopy__(self, memo):
        copied = Pretend(self.elem.clone()).requires_grad_(self.requires_grad)
        copied.__dict__.update({key: value for key, value in self.__dict__.items() if key != "elem"})
        return memo.setdefault(id(self), copied)

    def __reduce_ex__(self, protocol):
        return self.elem.__reduce_ex__(protocol)

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        return _run(func, args, kwargs or {})


class PretendGpu(TorchDispatchMode):
    """The device, which counts while it records."""

    def __init__(self):
        super().__init__()
        self.device = torch.device(NAME, 0)
        self._recording = False
        self.waits, self.copies = Counter(), Counter()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return _run(func, args, kwargs or {})

    @contextmanager
    def recording(self):
        """Count afresh: ``waits``, and ``copies`` from pageable memory, each with its line of code."""
        for counter in (self.waits, self.copies):
            counter.clear()
        self._recording = True
        yield self
        self._recording = False

    def note(self, kind, what):
        if self._recording:
            getattr(self, kind)[f"{what}, at {_line()}"] += 1

    def put(self, thing):
        """Return a module, a tensor or a batch on the device."""
        if isinstance(thing, torch.nn.Module):
            return thing.to(self.device)
        return apply_to_sample(lambda tensor: tensor.to(self.device), thing)


@contextmanager
def pretend_gpu():
    """Let there be the pretend GPU, as a `PretendGpu`, within the context."""
    if not _gpus:
        _register()
    gpu = PretendGpu()
    real_apply = torch.nn.Module._apply

    def apply(module, *args, **options):  # parameters stay the same objects, and stay shared, as with CUDA
        with patch.object(torch.__future__, "get_swap_module_params_on_conversion", lambda: True):
            return real_apply(module, *args, **options)

    with ExitStack() as stack:
        for owner, name, value in (
            (torch, "tensor", _tensor),  # no mode sees torch.tensor(..., device=)
            (torch.Tensor, "pin_memory", _pin_memory),
            (torch.nn.Module, "_apply", apply),
            (torch._VF, "gru", detoured(torch._VF.gru)),
            (
                device_choices,
                "is_plain_linear",
                lambda module: type(module) is torch.nn.Linear,
            ),  # whose weights pretend, too
        ):
            stack.enter_context(patch.object(owner, name, value))
        # the engine's threads for devices are those of the devices that there were at the first backward pass
        stack.enter_context(torch.autograd.set_multithreading_enabled(False))
        _gpus.append(stack.enter_context(gpu))
        try:
            yield gpu
        finally:
            _gpus.pop()


class _Backend(backend_registration._DummyBackendModule if needs_pretend_gpu.args[0] is False else object):
    def is_available(self):
        return bool(_gpus)  # other tests of this process see no accelerator

    def device_count(self):
        return 0  # whose random numbers torch.random.fork_rng would keep; ours come from the CPU

    def get_amp_supported_dtype(self):  # torch's checkpointing asks for it
        return [torch.float16, torch.bfloat16]


def _register():
    _device_constructors()  # torch remembers them; a patched torch.tensor must not be among them
    if torch._C._get_privateuse1_backend_name() != NAME:
        getattr(backend_registration, _SET_UP)(NAME, _Backend())


def _tensor(data, *, device=None, **options):
    made = _make_tensor(_numbers(data), **options)
    return made.to(device) if _is_gpu(device) else made


def _numbers(data):
    """Return nested lists with numbers in place of the device's tensors of one number."""
    if isinstance(data, (list, tuple)):
        return [_numbers(part) for part in data]
    return data.item() if isinstance(data, Pretend) else data


def _pin_memory(tensor, *args):
    pinned = tensor.detach().clone()
    pinned.is_pinned_here = True
    return pinned


def _is_gpu(device):
    return device is not None and torch.device(device).type == NAME


def _line():
    """Return which line of the package, of fairseq or of transformers, or else of torch's modules, is at work."""
    outer = "?"
    frame = sys._getframe(1)
    while frame is not None:
        folder = next((f for f in _FOLDERS if f in frame.f_code.co_filename), None)
        if folder is not None:
            line = f"{folder[1:]}{frame.f_code.co_filename.rsplit(folder, 1)[1]}:{frame.f_lineno}"
            if folder != "/torch/nn/":
                return line
            outer = outer if outer != "?" else line
        frame = frame.f_back
    return outer


def _note(kind, what):
    if _gpus:
        _gpus[-1].note(kind, what)


def _run(func, args, kwargs):
    """Run *func* on the CPU's numbers, and count what a GPU would have waited for."""
    if func is aten._fused_sdp_choice.default:
        return 0  # the plain computation
    tensors = []
    plain_args = _unwrap(args, tensors)
    plain = {key: _unwrap(value, tensors) for key, value in kwargs.items()}
    on_gpu = any(isinstance(t, Pretend) for t in tensors)
    _check_and_count(func, args, kwargs, on_gpu, any(not isinstance(t, Pretend) and t.dim() > 0 for t in tensors))
    if kwargs.get("device") is not None:
        on_gpu = _is_gpu(kwargs["device"])
        plain["device"] = torch.device("cpu") if on_gpu else kwargs["device"]
    elif func is aten.copy_.default:
        on_gpu = isinstance(args[0], Pretend)
    pinned = plain.pop("pin_memory", False)
    out = func(*plain_args, **plain)
    if pinned:
        out.is_pinned_here = True
    if func is aten._pack_padded_sequence.default:
        return _wrap(out[0]) if on_gpu else out[0], out[1]  # the sizes of batches stay on the CPU
    return out if func in GIVE_NUMBERS else _in_place(func, args, kwargs, _wrap(out) if on_gpu else out)


def _check_and_count(func, args, kwargs, on_gpu, on_cpu):
    """Refuse tensors of two devices, and count what *func* costs a GPU; *on_cpu* does not mean single numbers."""
    if on_gpu and on_cpu and func not in MIXED:
        raise RuntimeError(f"Tensors of two devices meet in {func}, at {_line()}")
    if on_gpu:
        _count(func, args, kwargs, on_cpu)
    elif func is aten._to_copy.default and _is_gpu(kwargs.get("device")):
        _count_copy(args[0], kwargs)


def _unwrap(value, found):
    """Return *value* with the numbers of its pretended tensors, and put all of its tensors into *found*."""
    if isinstance(value, torch.Tensor):
        found.append(value)
        return value.elem if isinstance(value, Pretend) else value
    if isinstance(value, (list, tuple)):
        return type(value)([_unwrap(part, found) for part in value])
    return value


def _wrap(value):
    if isinstance(value, (list, tuple)):
        return type(value)([_wrap(part) for part in value])
    return Pretend(value) if isinstance(value, torch.Tensor) and not isinstance(value, Pretend) else value


def _in_place(func, args, kwargs, out):
    """Return *out*, or the very argument that an operation in place has changed."""
    schema = func._schema.arguments
    written = [i for i, a in enumerate(schema) if a.alias_info is not None and a.alias_info.is_write]
    if not written:
        return out
    given = [args[i] if i < len(args) else kwargs.get(schema[i].name) for i in written]
    returned = len(func._schema.returns)
    return (None, given[0], tuple(given))[min(returned, 2)]


def _count(func, args, kwargs, on_cpu):
    device = kwargs.get("device")
    by_mask = func is aten.index.Tensor and any(t is not None and t.dtype == torch.bool for t in args[1])
    if func in WAITS or by_mask:
        _note("waits", str(func))
    elif func is aten._to_copy.default and device is not None and not _is_gpu(device):
        _note("waits", "copy to the CPU")
    elif func is aten.copy_.default and on_cpu:
        in_turn = kwargs.get("non_blocking", len(args) > 2 and args[2])
        if isinstance(args[0], Pretend):
            _count_copy(args[1], {"non_blocking": in_turn})
        elif not (hasattr(args[0], "is_pinned_here") and in_turn):
            _note("waits", "copy to the CPU")
    elif func in COPIES_ACROSS and on_cpu:
        _note("copies", str(func))


def _count_copy(source, kwargs):
    """Count a copy to the device unless it goes on by itself: from pinned memory, and nobody waits for it."""
    if not (hasattr(source, "is_pinned_here") and kwargs.get("non_blocking")):
        _note("copies", "copy from pageable memory")


def detoured(real):
    """Return a recurrent function of torch for pretended tensors too, which takes the CPU's kernel."""

    class Detour(torch.autograd.Function):
        @staticmethod
        def forward(ctx, compute, *tensors):
            ctx.set_materialize_grads(False)
            inputs = [t.elem.detach().requires_grad_(g) for t, g in zip(tensors, ctx.needs_input_grad[1:])]
            with torch.enable_grad():
                outputs = compute(inputs)
            ctx.inputs, ctx.outputs = inputs, outputs
            return tuple(Pretend(out.detach()) for out in outputs)

        @staticmethod
        def backward(ctx, *gradients):
            wanted = [t for t in ctx.inputs if t.requires_grad]
            given = [(out, gradient.elem) for out, gradient in zip(ctx.outputs, gradients) if gradient is not None]
            outputs, gradients = zip(*given)
            found = iter(torch.autograd.grad(outputs, wanted, gradients))
            return (None, *(Pretend(next(found)) if t.requires_grad else None for t in ctx.inputs))

    def call(*args):
        leaves, spec = tree_flatten(args)
        places = [i for i, leaf in enumerate(leaves) if isinstance(leaf, Pretend)]
        if not places:
            return real(*args)
        if any(
            isinstance(leaf, torch.Tensor) and leaf.is_floating_point() and i not in places
            for i, leaf in enumerate(leaves)
        ):
            raise RuntimeError(f"Tensors of two devices meet in {real.__name__}")

        def compute(tensors):
            plain = dict(zip(places, tensors))
            return real(*tree_unflatten([plain.get(i, leaf) for i, leaf in enumerate(leaves)], spec))

        return Detour.apply(compute, *(leaves[i] for i in places))

    return call


def assert_alike(seen, expected):
    """Compare tensors, in dictionaries; GPUs have other kernels for attention and for the recurrent models' tanh.

    All that is *seen* must be on the device.
    """
    assert seen.keys() == expected.keys()
    for key, value in expected.items():
        if isinstance(value, dict):
            assert_alike(seen[key], value)
            continue
        assert isinstance(seen[key], Pretend)
        assert not isinstance(value, Pretend)
        atol = 1e-4 * float(value.abs().max()) + 1e-7
        torch.testing.assert_close(seen[key].elem, value, atol=atol, rtol=0, msg=lambda text, key=key: f"{key}: {text}")


def assert_same_lines(seen, expected):
    """Compare hypotheses; those that are *seen* must be on the device."""
    assert len(seen) == len(expected)
    for line, expected_line in zip(seen, expected):
        assert line["tokens"].tolist() == expected_line["tokens"].tolist()
        assert_alike(*({"scores": found["positional_scores"]} for found in (line, expected_line)))
