"""Copies small tensors to the device of the model, and numbers from it, without waiting."""

from typing import Any

import torch
from torch import Tensor

_WITHOUT_PINNED_MEMORY = ("cpu", "mps", "xla")


def to_device(tensor: Tensor, device: torch.device) -> Tensor:
    """Return *tensor*, which is on the CPU, on *device*, without waiting for the work that a GPU still has to do.

    A copy from pageable memory waits for that work.  A copy from pinned memory takes its turn, and nobody waits.
    """
    if device.type in _WITHOUT_PINNED_MEMORY:
        return tensor.to(device)
    return tensor.pin_memory().to(device, non_blocking=True)


class Arrival:
    """A number on its way from the device to the CPU, for which nobody has to wait.

    Args:
        number: a tensor of one number, on any device.
    """

    def __init__(self, number: Tensor) -> None:
        self._event: Any = None
        self._number = number
        if number.device.type not in _WITHOUT_PINNED_MEMORY:
            self._number = torch.empty(number.shape, dtype=number.dtype, pin_memory=True)
            self._number.copy_(number, non_blocking=True)
            self._event = torch.cuda.Event()
            self._event.record()

    @property
    def has_arrived(self) -> bool:
        """Whether `value` returns at once."""
        return self._event is None or bool(self._event.query())

    def value(self) -> float:
        """Return the number, after it has arrived."""
        if self._event is not None:
            self._event.synchronize()
        return float(self._number)
