"""What a model says about itself in its checkpoints, as a JSON text among its parameters."""

import json
from typing import Any, Dict, Mapping, Optional

import torch
from torch import Tensor, nn


class JsonRecord(nn.Module):
    """A JSON text that is saved with the model, and never loaded.

    The buffer holds one float for each byte, because averaging, EMA and half precision do not change these numbers.
    A model keeps the record of itself when it loads a checkpoint, so an old checkpoint without the record loads too.

    Args:
        record: what is recorded.
        block: the length of the text is a multiple of this number; spaces fill the text up.
    """

    text: Tensor

    def __init__(self, record: Dict[str, Any], block: int = 1) -> None:
        super().__init__()
        self.record = record
        self._block = block
        self.register_buffer("text", self._encoded())

    def update(self, **values: Any) -> None:
        """Replace the entries of the record that are named."""
        self.record.update(values)
        self.text = self._encoded().to(self.text)

    def _encoded(self) -> Tensor:
        text = json.dumps(self.record, default=str).encode()
        text = text.ljust(-(-len(text) // self._block) * self._block)
        return torch.tensor(list(text), dtype=torch.float32)

    def _load_from_state_dict(self, *args: Any, **kwargs: Any) -> None:
        """Keep the record of the present model."""


def read_json(state_dict: Mapping[str, Tensor], key: str, kinds: Mapping[str, Any]) -> Optional[Dict[str, Any]]:
    """Return the record under *key* in a model's *state_dict*; None if there is no record.

    Args:
        state_dict: parameters of a checkpoint.
        key: name of the record's text.
        kinds: type of each entry that the record must have.

    Raises:
        ValueError: The record is damaged.
    """
    text = state_dict.get(key)
    if text is None:
        return None
    record = json.loads(bytes(text.float().round().long().clamp(0, 255).tolist()))
    if not isinstance(record, dict) or any(not isinstance(record.get(name), kind) for name, kind in kinds.items()):
        raise ValueError("not a record")
    return record
