"""Keeps BERT's states of the sentences that were read last."""

from collections import OrderedDict
from typing import Callable, Dict, List, Optional

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

Read = Callable[[Tensor, Tensor, Optional[Tensor]], Tensor]


class LruStateCache:
    """A cache of states that drops the least recently used (LRU) ones first.

    A frozen BERT in evaluation mode is a function of the sentence alone, so the members of an ensemble, the lines of
    an interactive session and the validation of each epoch need its states only once.

    ``functools.lru_cache`` cannot do this: it limits the number of entries, not their bytes, and it computes each
    entry by itself, while the missing sentences of a batch are one forward pass of BERT.  ``cachetools`` limits
    bytes, but it would be one more dependency instead of the few lines of `_recall` and `_keep`.

    Args:
        max_bytes: largest number of bytes that the states may take, on the device where they are.
    """

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self._states: OrderedDict[bytes, Tensor] = OrderedDict()
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._states)

    def clear(self) -> None:
        """Forget all states; BERT has changed since they were computed."""
        self._states.clear()
        self._bytes = 0

    def read(self, bert_tokens: Tensor, bert_padding_mask: Tensor, segments: Optional[Tensor], read: Read) -> Tensor:
        """Return the states of *bert_tokens*, (B, L, D), with zeros at padded positions.

        Args:
            bert_tokens: word-piece ids, (B, L), padded on the right.
            bert_padding_mask: positions of the padding, (B, L).
            segments: token types, (B, L), which must be a function of *bert_tokens*, or None.
            read: function that computes the states of the rows that are not in the cache, from their tokens,
                padding mask and segments.
        """
        sizes = (~bert_padding_mask).sum(dim=1).tolist()
        keys = [row[:size].tobytes() for row, size in zip(bert_tokens.cpu().numpy(), sizes)]
        rows = list({key: i for i, key in enumerate(keys) if key not in self._states}.values())
        if len(rows) == len(keys):
            states = read(bert_tokens, bert_padding_mask, segments)
            states = states.masked_fill(bert_padding_mask.unsqueeze(-1), 0)
            found = {key: states[i, : sizes[i]] for i, key in enumerate(keys)}
        else:
            found = self._recall(keys)
            if rows:
                width = max(sizes[i] for i in rows)
                missing_segments = None if segments is None else segments[rows, :width]
                states = read(bert_tokens[rows, :width], bert_padding_mask[rows, :width], missing_segments)
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
            self._states[key] = state.clone()  # a view would keep the whole batch in memory
            self._bytes += _size(state)
        while self._bytes > self.max_bytes:
            _, state = self._states.popitem(last=False)
            self._bytes -= _size(state)


def _size(state: Tensor) -> int:
    return state.element_size() * state.nelement()  # Tensor.nbytes came with torch 2.1
