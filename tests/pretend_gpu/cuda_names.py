"""The pretend GPU under the name of CUDA: as much of ``torch.cuda`` as fairseq's trainer and generator ask for."""

from contextlib import ExitStack, contextmanager
from types import SimpleNamespace
from unittest.mock import patch

import torch
from pretend import pretend_gpu
from torch.overrides import TorchFunctionMode

_PROPERTIES = SimpleNamespace(name="a pretend GPU", major=8, minor=0, total_memory=2**30)


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
