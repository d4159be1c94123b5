"""What a model says about itself in its checkpoints, as a JSON text among its parameters.

fairseq's EMA in single precision (``--ema-fp32``) requires that a text has the same length when a training resumes.  So
a text is filled up to whole blocks.
"""

import json
from typing import Any, Dict, Mapping, Optional

import torch
from torch import Tensor, nn

from bert_fused_plugin.errors import BertFusedError

_BLOCK = 2048


class JsonRecord(nn.Module):
    """A JSON text that is saved with the model, and never loaded.

    The buffer holds one float for each byte, because averaging, EMA and half precision do not change these numbers.
    A model keeps the record of itself when it loads a checkpoint, so an old checkpoint without the record loads too.
    """

    text: Tensor

    def __init__(self, record: Dict[str, Any]) -> None:
        super().__init__()
        self.record = record
        self.register_buffer("text", self._encoded())

    def update(self, **values: Any) -> None:
        """Replace the entries of the record that are named."""
        self.record.update(values)
        self.text = self._encoded().to(self.text)

    def _encoded(self) -> Tensor:
        text = json.dumps(self.record, default=str).encode()
        return torch.tensor(list(text.ljust(-(-len(text) // _BLOCK) * _BLOCK)), dtype=torch.float32)

    def _load_from_state_dict(self, state_dict: Dict[str, Tensor], prefix: str, *args: Any, **kwargs: Any) -> None:
        """Keep the record of the present model."""


def read_json(state_dict: Mapping[str, Tensor], key: str) -> Optional[Dict[str, Any]]:
    """Return the record whose text a *state_dict* has under *key*; None if there is none.

    Raises:
        BertFusedError: the record is damaged.
    """
    if key not in state_dict:
        return None
    try:
        return json.loads(bytes(state_dict[key].float().round().long().clamp(0, 255).tolist()))
    except ValueError as error:
        remedy = "give an undamaged checkpoint; average checkpoints with bert-fused-average"
        raise BertFusedError(f"the checkpoint's record {key} is damaged; {remedy}") from error
