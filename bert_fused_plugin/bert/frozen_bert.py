"""A pre-trained Hugging Face encoder that is never trained and never saved in a checkpoint."""

import copy
from typing import TYPE_CHECKING, Any, Dict

import torch
from torch import Tensor, nn

from bert_fused_plugin.bert.pretrained_bert import PretrainedBert
from bert_fused_plugin.modules.device_choices import lay_out_weights

if TYPE_CHECKING:
    from transformers import PreTrainedModel


class FrozenBert(PretrainedBert):
    """BERT outside the module tree.

    The Hugging Face model is not a registered submodule.  ``parameters()``, ``state_dict()``, ``train()``,
    optimizers and DDP never see it, so it stays frozen, in evaluation mode and out of checkpoints.

    A move to a device or a dtype reaches it when somebody asks for the model next.  A training whose states all come
    from ``--bert-cache`` never does, and so its device has no BERT.  A copy shares the weights, since nothing changes
    them; the members of an ensemble hold one model.
    """

    saves_weights = False
    _frozen: "PreTrainedModel"
    _place: Tensor

    def __init__(self, model: "PreTrainedModel", layers: str = "-1") -> None:
        super().__init__(model, layers)
        lay_out_weights(model)
        object.__setattr__(self, "_frozen", model)  # nn.Module.__setattr__ would register it
        self.register_buffer("_place", torch.zeros((), device=model.device, dtype=model.dtype), persistent=False)

    @property
    def model(self) -> "PreTrainedModel":
        """The encoder, on the device and in the number format to which this module has been moved."""
        place = self._place.device, self._place.dtype
        if place != (self._frozen.device, self._frozen.dtype):
            _move(self._frozen, *place)
            lay_out_weights(self._frozen)
        return self._frozen

    def share(self, other: "FrozenBert") -> None:
        """Hold the Hugging Face model of *other*, which has the same weights, instead of one's own."""
        object.__setattr__(self, "_frozen", other._frozen)

    def is_same(self, other: PretrainedBert) -> bool:
        """Return whether both have the same states because they hold one Hugging Face model."""
        return isinstance(other, FrozenBert) and self._frozen is other._frozen and self.layers == other.layers

    def __deepcopy__(self, memo: Dict[int, Any]) -> "FrozenBert":
        """Return a copy that shares the weights with this BERT until one of the two is moved."""
        memo.update((id(p), nn.Parameter(p.data, requires_grad=False)) for p in self._frozen.parameters())
        memo.update((id(buffer), buffer) for buffer in self._frozen.buffers())
        memo[id(self)] = twin = type(self).__new__(type(self))
        vars(twin).update(copy.deepcopy(vars(self), memo))
        return twin


def _move(model: "PreTrainedModel", device: torch.device, dtype: torch.dtype) -> None:
    # transformers keeps in single precision: rotary frequencies, and in fp16 T5's wo, which would clamp large states
    in_single = set(model._keep_in_fp32_modules or ()) if dtype == torch.float16 else set()
    kept = {
        name: tensor.data
        for name, tensor in (*model.named_parameters(), *model.named_buffers())
        if name.endswith("inv_freq") or not in_single.isdisjoint(name.split("."))
    }
    model.to(device, dtype)
    for name, tensor in (*model.named_parameters(), *model.named_buffers()):
        if name in kept:
            tensor.data = kept[name].to(device)
