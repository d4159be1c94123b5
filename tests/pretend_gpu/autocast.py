"""Autocast and its scaler for the pretend GPU: what CUDA's autocast does to the operations of our models."""

import functools
from contextlib import ExitStack, contextmanager
from unittest.mock import patch

import torch
from pretend import NAME, Pretend
from torch.library import Library, fallthrough_kernel
from torch.utils._pytree import tree_map

_KEY = "AutocastPrivateUse1"
# from the table of torch's page on automatic mixed precision, as far as the models and BERT need it
_IN_HALF = "addmm baddbmm bmm einsum linear matmul mm scaled_dot_product_attention".split()
_IN_SINGLE = (
    "exp layer_norm log log10 log2 native_layer_norm nll_loss norm.Scalar norm.ScalarOpt_dim pow.Tensor_Scalar "
    "reciprocal rsqrt softplus"
).split()
_GIVE_SINGLE = "cumsum log_softmax.int prod softmax.int sum sum.dim_IntList".split()
_OF_ONE_FORMAT = "addcmul cat index_put scatter_add stack".split()
_library = []  # what is registered lives as long as this


def _is_half(value):
    return isinstance(value, Pretend) and value.dtype == torch.float16


def _cast(values, dtype):
    def cast(value):
        return value.to(dtype) if isinstance(value, Pretend) and value.is_floating_point() else value

    return tree_map(cast, values)


def _any(values, condition):
    found = []
    tree_map(lambda value: found.append(condition(value)), values)
    return any(found)


def _in_half(args, options):
    return _cast(args, torch.float16), _cast(options, torch.float16)


def _in_single(args, options):
    return _cast(args, torch.float32), _cast(options, torch.float32)


def _give_single(args, options):
    asked = options.get("dtype") or any(isinstance(value, torch.dtype) for value in args)
    return args, {**options, "dtype": torch.float32} if _is_half(args[0]) and not asked else options


def _of_one_format(args, options):
    is_mixed = _any(args, _is_half) and _any(args, lambda v: isinstance(v, Pretend) and v.dtype == torch.float32)
    return (_cast(args, torch.float32) if is_mixed else args), options


def _operation(name):
    packet, _, overload = name.partition(".")
    return getattr(getattr(torch.ops.aten, packet), overload or "default")


def _kernel(operation, rule):
    key = torch._C.DispatchKeySet(getattr(torch._C.DispatchKey, _KEY))

    def compute(*args, **options):
        with torch._C._ExcludeDispatchKeyGuard(key):
            args, options = rule(args, options)
            return operation(*args, **options)

    return compute


def _register():
    everything, aten = Library("_", "IMPL"), Library("aten", "IMPL")
    everything.fallback(fallthrough_kernel, _KEY)
    rules = {_in_half: _IN_HALF, _in_single: _IN_SINGLE, _give_single: _GIVE_SINGLE, _of_one_format: _OF_ONE_FORMAT}
    for rule, names in rules.items():
        for name in names:
            aten.impl(name, _kernel(_operation(name), rule), _KEY)
    _library.extend([everything, aten])


@contextmanager
def pretend_autocast():
    """Let ``torch.cuda.amp`` be that of the pretend GPU within the context."""
    if not _library:
        _register()
    is_enabled = torch.is_autocast_enabled
    with ExitStack() as stack:
        for owner, name, value in (
            (getattr(torch, NAME), "get_amp_supported_dtype", lambda: [torch.float16]),
            (torch, "is_autocast_enabled", lambda *device: is_enabled(*(device or [NAME]))),
            (torch.cuda.amp, "autocast", functools.partial(torch.amp.autocast, NAME, dtype=torch.float16)),
            (torch.cuda.amp, "GradScaler", functools.partial(torch.amp.GradScaler, NAME)),
        ):
            stack.enter_context(patch.object(owner, name, value, create=True))
        yield
