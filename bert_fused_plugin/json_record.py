"""What a model says about itself in its checkpoints, as a JSON text among its parameters.

fairseq's EMA in single precision (``--ema-fp32``) requires that a text has the same length when a training resumes.  So
a text is as long as that of the checkpoint if it fits into it, and is else filled up to whole blocks.
"""

import json
from typing import Any, Dict, Mapping, Optional

import torch
from torch import Tensor, nn

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
        self._saved_length = 0  # of the text in the checkpoint
        self.register_buffer("text", self._encoded())

    def update(self, **values: Any) -> None:
        """Replace the entries of the record that are named."""
        self.record.update(values)
        self.text = self._encoded().to(self.text)

    def _encoded(self) -> Tensor:
        text = json.dumps(self.record, default=str).encode()
        fits = len(text) <= self._saved_length
        text = text.ljust(self._saved_length if fits else -(-len(text) // _BLOCK) * _BLOCK)
        return torch.tensor(list(text), dtype=torch.float32)

    def _load_from_state_dict(self, state_dict: Dict[str, Tensor], prefix: str, *args: Any, **kwargs: Any) -> None:
        """Keep the record of the present model, in a text that is as long as that of *state_dict*, if it fits."""
        saved = state_dict.get(f"{prefix}text")
        if saved is not None and saved.shape != self.text.shape:
            self._saved_length = saved.numel()
            self.update()


def read_json(state_dict: Mapping[str, Tensor], key: str, kinds: Mapping[str, Any]) -> Optional[Dict[str, Any]]:
    """Return the record whose text a *state_dict* has under *key*; None if there is none.

    Raises:
        ValueError: the record is damaged, or has no entry of the type that *kinds* tells by name.
    """
    if key not in state_dict:
        return None
    record = json.loads(bytes(state_dict[key].float().round().long().clamp(0, 255).tolist()))
    if not isinstance(record, dict) or any(not isinstance(record.get(name), kind) for name, kind in kinds.items()):
        raise ValueError("not a record")
    return record
