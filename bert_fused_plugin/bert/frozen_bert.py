"""A pre-trained Hugging Face encoder that is never trained and never saved in a checkpoint."""

import copy
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Callable, Dict, Optional

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from bert_fused_plugin.bert.pretrained_bert import PretrainedBert
from bert_fused_plugin.data.collate import BERT_PAD
from bert_fused_plugin.modules.weight_layout import lay_out_weights

if TYPE_CHECKING:
    from transformers import PreTrainedModel

_STATE_CACHE_BYTES = 256 * 2**20  # 87,000 word pieces at a width of 768

Read = Callable[[Tensor, Optional[Tensor]], Tensor]


class FrozenBert(PretrainedBert):
    """BERT outside the module tree, with a cache of the states that it computed last.

    The Hugging Face model is not a registered submodule.  ``parameters()``, ``state_dict()``, ``train()``,
    optimizers and DDP never see it, so it stays frozen, in evaluation mode and out of checkpoints
    whatever happens around it.  Only copies, such as those of EMA, and moves to a device or a dtype reach it.

    A move reaches it when somebody asks for the model next, for instance to run it.  A training whose states all come
    from ``--bert-cache`` never does, and so its device has no BERT.  A copy shares the weights, since nothing
    changes them.  Arguments and errors are those of `PretrainedBert`.
    """

    saves_weights = False
    _frozen: "PreTrainedModel"
    _place: Tensor

    def __init__(self, model: "PreTrainedModel", layers: str = "-1") -> None:
        super().__init__(model, layers)
        lay_out_weights(model)
        object.__setattr__(self, "_frozen", model)  # nn.Module.__setattr__ would register it
        self.register_buffer("_place", torch.zeros((), device=model.device, dtype=model.dtype), persistent=False)
        self.state_cache = LruStateCache(_STATE_CACHE_BYTES)

    @property
    def model(self) -> "PreTrainedModel":
        """The encoder, on the device and in the number format to which this module has been moved."""
        place = self._place.device, self._place.dtype
        if place != (self._frozen.device, self._frozen.dtype):
            self._frozen.to(*place)
            lay_out_weights(self._frozen)
        return self._frozen

    def forward(self, bert_tokens: Tensor, segments: Optional[Tensor] = None) -> Tensor:
        """Return the states as every BERT does, in evaluation from `state_cache` where it has them."""
        # Most training sentences come back only after a whole epoch, when the cache has dropped them.
        if self.training:
            return super().forward(bert_tokens, segments)
        return self.state_cache.read(bert_tokens, segments, super().forward)

    def _apply(self, fn: Any, *args: Any, **kwargs: Any) -> "FrozenBert":
        self.state_cache.clear()  # its states belong to the previous device or dtype
        return super()._apply(fn, *args, **kwargs)

    def __deepcopy__(self, memo: Dict[int, Any]) -> "FrozenBert":
        """Return a copy that shares the weights with this BERT until one of the two is moved."""
        memo.update((id(p), nn.Parameter(p.data, requires_grad=False)) for p in self._frozen.parameters())
        memo.update((id(buffer), buffer) for buffer in self._frozen.buffers())
        memo[id(self.state_cache)] = LruStateCache(_STATE_CACHE_BYTES)
        memo[id(self)] = twin = type(self).__new__(type(self))
        vars(twin).update(copy.deepcopy(vars(self), memo))
        return twin


class LruStateCache:
    """The states of the sentences that were read last; the least recently used (LRU) leave above *max_bytes*.

    A frozen BERT in evaluation mode is a function of the sentence alone, so the members of an ensemble, the lines of
    an interactive session and the validation of each epoch need its states only once.  ``functools.lru_cache`` counts
    entries and not their bytes, and cannot compute the missing sentences of a batch together.
    """

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.clear()

    def clear(self) -> None:
        """Forget all states; BERT has changed since they were computed."""
        self.states: OrderedDict[bytes, Tensor] = OrderedDict()
        self._bytes = 0

    def read(self, bert_tokens: Tensor, segments: Optional[Tensor], read: Read) -> Tensor:
        """Return the states of *bert_tokens*, (B, L, D), with zeros at padded positions.

        *read* computes the states of the rows that are not in the cache from their tokens and their segments.
        """
        sizes = bert_tokens.ne(BERT_PAD).sum(dim=1).tolist()
        keys = [row[:size].tobytes() for row, size in zip(bert_tokens.cpu().numpy(), sizes)]
        found = {key: self.states[key] for key in keys if key in self.states}
        rows = list({key: i for i, key in enumerate(keys) if key not in found}.values())
        if rows:
            part = (rows if len(rows) < len(keys) else slice(None), slice(max(sizes[i] for i in rows)))
            states = read(bert_tokens[part], None if segments is None else segments[part])
            # a view would keep the whole batch in memory
            found.update((keys[i], states[n, : sizes[i]].clone()) for n, i in enumerate(rows))
            self._bytes += sum(found[keys[i]].untyped_storage().nbytes() for i in rows)
        self.states.update(found)
        for key in found:
            self.states.move_to_end(key)
        while self._bytes > self.max_bytes:
            self._bytes -= self.states.popitem(last=False)[1].untyped_storage().nbytes()
        states = pad_sequence([found[key] for key in keys], batch_first=True)
        return nn.functional.pad(states, (0, 0, 0, bert_tokens.size(1) - states.size(1)))
