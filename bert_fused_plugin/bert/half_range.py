"""Half precision can hold BERT's states, or else the user is told so."""

from typing import Any, List

import torch
from torch import Tensor

from bert_fused_plugin.errors import BertFusedError
from bert_fused_plugin.modules.device_copy import Arrival

_LARGEST_HALF = torch.finfo(torch.float16).max


class HalfRangeWatch:
    """Checks the states of each batch; in training it does not wait for a GPU.

    In training on a GPU the largest state of a batch is read as soon as it has arrived on the CPU, which is usually
    with the next batch.  Nothing is lost until then, because fairseq skips an update whose gradients are not finite.
    """

    def __init__(self) -> None:
        self._arrivals: List[Arrival] = []

    def check(self, states: Tensor, name: str, wait: bool) -> None:
        """Check that half precision can hold the *states* of the BERT *name*, and those of the batches before.

        Otherwise training would end with fairseq's error about the loss scale, and translations would be random.

        Args:
            states: states, of any shape.
            name: the value of ``--bert-model``.
            wait: whether to wait until the states are computed.

        Raises:
            BertFusedError: half precision cannot hold them.
        """
        self._arrivals.append(Arrival(states.detach().abs().max()))
        while self._arrivals and (wait or self._arrivals[0].has_arrived):
            largest = self._arrivals.pop(0).value()
            if not largest <= _LARGEST_HALF:  # also if the largest is NaN
                self._arrivals.clear()
                raise BertFusedError(
                    "--fp16 and --amp compute in half precision, whose largest number is 65,504, and some states of "
                    f"--bert-model {name} in a batch are larger, or are made from larger ones; train with --bf16 or "
                    "in single precision, and translate without --fp16"
                )

    def __reduce__(self) -> Any:
        return HalfRangeWatch, ()  # a copy of the model begins anew
