"""BERT's states of the sentences that were read last."""

from collections import OrderedDict
from typing import Callable, Dict, List, Optional

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from bert_fused_plugin.data.collate import BERT_PAD

Read = Callable[[Tensor, Optional[Tensor]], Tensor]


class LruStateCache:
    """Least recently used states leave first (LRU).

    A frozen BERT in evaluation mode is a function of the sentence alone, so the members of an ensemble, the lines of
    an interactive session and the validation of each epoch need its states once.

    Args:
        max_bytes: of the states that are kept, on their own device.
    """

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self._states: OrderedDict[bytes, Tensor] = OrderedDict()
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._states)

    def clear(self) -> None:
        """Forget everything: the states are those of a BERT that has changed."""
        self._states.clear()
        self._bytes = 0

    def read(self, bert_tokens: Tensor, segments: Optional[Tensor], read: Read) -> Tensor:
        """Return the states of *bert_tokens*, (B, L, D); zeros where there is padding.

        Args:
            bert_tokens: word-piece ids, (B, L), padded on the right.
            segments: token types, (B, L), a function of *bert_tokens*, or None.
            read: computes the states of the rows that are not here, given their tokens and segments.
        """
        sizes = bert_tokens.ne(BERT_PAD).sum(dim=1).tolist()
        keys = [row[:size].tobytes() for row, size in zip(bert_tokens.cpu().numpy(), sizes)]
        rows = list({key: i for i, key in enumerate(keys) if key not in self._states}.values())
        if len(rows) == len(keys):
            states = read(bert_tokens, segments).masked_fill(bert_tokens.eq(BERT_PAD).unsqueeze(-1), 0)
            found = {key: states[i, : sizes[i]] for i, key in enumerate(keys)}
        else:
            found = self._recall(keys)
            if rows:
                width = max(sizes[i] for i in rows)
                states = read(bert_tokens[rows, :width], None if segments is None else segments[rows, :width])
                found.update((keys[i], states[n, : sizes[i]]) for n, i in enumerate(rows))
            states = pad_sequence([found[key] for key in keys], batch_first=True)
            states = torch.nn.functional.pad(states, (0, 0, 0, bert_tokens.size(1) - states.size(1)))
        self._keep({keys[i]: found[keys[i]] for i in rows})
        return states

    def _recall(self, keys: List[bytes]) -> Dict[bytes, Tensor]:
        for key in keys:
            if key in self._states:
                self._states.move_to_end(key)
        return {key: self._states[key] for key in keys if key in self._states}

    def _keep(self, states: Dict[bytes, Tensor]) -> None:
        for key, state in states.items():
            self._states[key] = state.clone()  # a view would keep the batch
            self._bytes += _size(state)
        while self._bytes > self.max_bytes:
            _, state = self._states.popitem(last=False)
            self._bytes -= _size(state)


def _size(state: Tensor) -> int:
    return state.element_size() * state.nelement()  # Tensor.nbytes came with torch 2.1
