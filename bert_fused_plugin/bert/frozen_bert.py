"""A pre-trained Hugging Face encoder that is never trained and never saved in a checkpoint."""

import copy
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Optional

import torch
from torch import Tensor, nn

from bert_fused_plugin.bert.pretrained_bert import PretrainedBert
from bert_fused_plugin.bert.state_cache import LruStateCache
from bert_fused_plugin.modules.weight_layout import lay_out_weights

if TYPE_CHECKING:
    from transformers import PreTrainedModel

_STATE_CACHE_BYTES = 256 * 2**20  # 87,000 word pieces at a width of 768

Move = Callable[[Tensor], Tensor]


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

    def __init__(self, model: "PreTrainedModel", layers: str = "-1") -> None:
        super().__init__(model, layers)
        lay_out_weights(model)
        object.__setattr__(self, "_frozen", model)  # nn.Module.__setattr__ would register it
        self._moves: List[Move] = []
        self.state_cache = LruStateCache(_STATE_CACHE_BYTES)

    @property
    def model(self) -> "PreTrainedModel":
        """The encoder, after all moves."""
        if self._moves:
            for move in self._moves:
                self._frozen._apply(move)
            self._moves.clear()
            lay_out_weights(self._frozen)
        return self._frozen

    def _read(self, bert_tokens: Tensor, bert_padding_mask: Tensor, segments: Optional[Tensor]) -> Tensor:
        # Most training sentences come back only after a whole epoch, when the cache has dropped them.
        if self.training:
            return super()._read(bert_tokens, bert_padding_mask, segments)
        return self.state_cache.read(bert_tokens, bert_padding_mask, segments, super()._read)

    def _run(self, inputs: Dict[str, Any]) -> Any:
        with torch.no_grad():
            return self.model(**inputs)

    def _apply(self, fn: Move, *args: Any, **kwargs: Any) -> "FrozenBert":
        """Move the unregistered model too, later; the cached states belong to the previous device or dtype."""
        self.state_cache.clear()
        super()._apply(fn, *args, **kwargs)
        self._moves.append(fn)
        return self

    def __deepcopy__(self, memo: Dict[int, Any]) -> "FrozenBert":
        """Return a copy that shares the weights with this BERT until one of the two is moved."""
        for tensor in (*self._frozen.parameters(), *self._frozen.buffers()):
            is_parameter = isinstance(tensor, nn.Parameter)
            memo[id(tensor)] = nn.Parameter(tensor.data, requires_grad=False) if is_parameter else tensor.detach()
        memo[id(self.state_cache)] = LruStateCache(_STATE_CACHE_BYTES)
        other = type(self).__new__(type(self))
        memo[id(self)] = other
        for name, value in vars(self).items():
            object.__setattr__(other, name, copy.deepcopy(value, memo))
        return other
