"""A pre-trained Hugging Face encoder that trains with the model, at a learning rate of its own."""

from typing import Any, Dict, List, Optional, Tuple

import torch
from torch import Tensor, nn
from torch.func import functional_call
from transformers import PreTrainedModel

from bert_fused_plugin.bert.frozen_bert import FrozenBert
from bert_fused_plugin.errors import BertFusedError, raise_all


class FinetunedBert(FrozenBert):
    """BERT as a registered submodule: its parameters train, follow ``train()`` and are saved in checkpoints.

    fairseq's optimizers know one learning rate.  So a trained weight W is kept as theta = W / f, f being
    *lr_factor*, and the gradient of W is handed to theta as it is: a step of any optimizer moves W by f times
    what it would have.  (Weight decay is relative, so it acts at the full rate.)  A checkpoint holds theta,
    and f beside it.

    Args:
        model: the encoder.
        layers: whose states, as of `FrozenBert`.
        last_layers: train the last K layers that are used; default: these and the embeddings.
        lr_factor: f, in [0.0001, 10000].

    Raises:
        BertFusedError: there are no such layers, or f is out of range.
    """

    lr_factor: Tensor

    def __init__(
        self,
        model: PreTrainedModel,
        layers: str = "-1",
        last_layers: Optional[int] = None,
        lr_factor: float = 1.0,
    ) -> None:
        super().__init__(model, layers)
        self.memory = None  # its states change
        top = max(self.layers)
        errors = []
        if top == 0:
            errors.append("--bert-finetune has nothing to train with --bert-layer 0; use another layer")
        elif last_layers is not None and not 1 <= last_layers <= top:
            errors.append(
                f"--bert-finetune-layers must be in [1, {top}], the layers of --bert-model {model.name_or_path} that "
                f"--bert-layer {layers} uses, got {last_layers}"
            )
        if not 1e-4 <= lr_factor <= 1e4:
            errors.append(
                f"--bert-lr-factor must be in [0.0001, 10000], got {lr_factor}; "
                "leave --bert-finetune out to keep BERT frozen"
            )
        raise_all(errors)
        self.register_buffer("lr_factor", torch.tensor(lr_factor))
        self._factor = lr_factor
        for parameter in _used_parameters(model, self.depth, top, last_layers):
            parameter.requires_grad_(True)
            parameter.data /= self._factor

    @property
    def num_trained(self) -> int:
        """How many of the parameters train."""
        return sum(p.numel() for p in self.model.parameters() if p.requires_grad)

    def _hold(self, model: PreTrainedModel) -> None:
        self.model = model

    def _run(self, inputs: Dict[str, Any]) -> Any:
        weights = {
            name: _Scaled.apply(theta, self._factor)
            for name, theta in self.model.named_parameters()
            if theta.requires_grad and self._factor != 1
        }
        return functional_call(self.model, weights, (), inputs)

    def _load_from_state_dict(self, state_dict: Dict[str, Tensor], prefix: str, *args: Any, **kwargs: Any) -> None:
        """Take theta of another lr_factor as the same weights."""
        ratio = float(state_dict.get(f"{prefix}lr_factor", self.lr_factor)) / self._factor
        if abs(ratio - 1) < 2e-3:  # half precision rounds f
            ratio = 1.0
        for name, theta in self.model.named_parameters():
            key = f"{prefix}model.{name}"
            if theta.requires_grad and key in state_dict and ratio != 1:
                state_dict[key] = state_dict[key] * ratio
        state_dict[f"{prefix}lr_factor"] = torch.tensor(self._factor)
        super()._load_from_state_dict(state_dict, prefix, *args, **kwargs)


class _Scaled(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, theta: Tensor, factor: float) -> Tensor:
        return theta * factor

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tuple[Tensor, None]:
        return gradients[0], None


def _used_parameters(model: PreTrainedModel, depth: int, top: int, last_layers: Optional[int]) -> List[nn.Parameter]:
    """Return the parameters that shape the states of layer *top*, or those of the *last_layers* below it."""
    stack = next((m for m in model.modules() if isinstance(m, nn.ModuleList) and len(m) == depth), None)
    if stack is None and last_layers is None and top == depth:
        return list(model.parameters())
    if stack is None:
        raise BertFusedError(
            f"--bert-finetune: the layers of {type(model).__name__} cannot be told apart (some models share one); "
            "leave out --bert-finetune-layers and --bert-layer"
        )
    bottom = 0 if last_layers is None else top - last_layers
    inside = list(stack[bottom:top].parameters())
    if last_layers is not None:
        return inside
    in_stack = {id(parameter) for parameter in stack.parameters()}
    # beside the layers there are embeddings, and norms after the last layer
    outside = [
        parameter
        for name, parameter in model.named_parameters()
        if id(parameter) not in in_stack and (top == depth or "embed" in name or name.startswith(("wte", "wpe")))
    ]
    return outside + inside
