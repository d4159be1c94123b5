"""A pre-trained Hugging Face encoder that is never trained and never saved in a checkpoint."""

from typing import TYPE_CHECKING, Any, Callable, Dict, Optional

import torch
from torch import Tensor

from bert_fused_plugin.bert.pretrained_bert import PretrainedBert
from bert_fused_plugin.bert.state_cache import LruStateCache

if TYPE_CHECKING:
    from transformers import PreTrainedModel

_STATE_CACHE_BYTES = 256 * 2**20  # 87,000 word pieces at a width of 768


class FrozenBert(PretrainedBert):
    """BERT outside the module tree, with a cache of the states that it computed last.

    The Hugging Face model is not a registered submodule.  ``parameters()``, ``state_dict()``, ``train()``,
    optimizers and DDP never see it, so it stays frozen, in evaluation mode and out of checkpoints
    whatever happens around it.  Only copies, such as those of EMA, and moves to a device or a dtype reach it.

    Args:
        model: the encoder.
        layers: name of the layers whose states are returned, see `PretrainedBert`.

    Raises:
        BertFusedError: There is no such layer.
    """

    saves_weights = False

    def __init__(self, model: "PreTrainedModel", layers: str = "-1") -> None:
        super().__init__(model, layers)
        object.__setattr__(self, "model", model)  # nn.Module.__setattr__ would register it
        self.state_cache = LruStateCache(_STATE_CACHE_BYTES)

    def _read(self, bert_tokens: Tensor, bert_padding_mask: Tensor, segments: Optional[Tensor]) -> Tensor:
        # Most training sentences come back only after a whole epoch, when the cache has dropped them.
        if self.training:
            return super()._read(bert_tokens, bert_padding_mask, segments)
        return self.state_cache.read(bert_tokens, bert_padding_mask, segments, super()._read)

    def _run(self, inputs: Dict[str, Any]) -> Any:
        with torch.no_grad():
            return self.model(**inputs)

    def weights(self) -> Dict[str, Tensor]:
        """Return the pre-trained weights, by the model's own names."""
        return self.model.state_dict()

    def describe_parameters(self) -> str:
        """Return the number of frozen parameters in words, for the log."""
        return f"{self.num_parameters:,} frozen parameters (not in checkpoints)"

    def _apply(self, fn: Callable[[Tensor], Tensor], *args: Any, **kwargs: Any) -> "FrozenBert":
        """Move the unregistered model too; the cached states belong to the previous device or dtype."""
        self.state_cache.clear()
        super()._apply(fn, *args, **kwargs)
        self.model._apply(fn)
        return self
