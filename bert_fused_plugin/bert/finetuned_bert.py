"""A pre-trained Hugging Face encoder that trains with the model, at a learning rate of its own."""

import math
import threading
from typing import TYPE_CHECKING, Any, Dict, List, Optional, Set, Tuple

import torch
from torch import Tensor, nn
from torch.func import functional_call

from bert_fused_plugin.bert.pretrained_bert import PretrainedBert, fixed_tables
from bert_fused_plugin.errors import BertFusedError

if TYPE_CHECKING:
    from transformers import PreTrainedModel

_ONE_AT_A_TIME = threading.Lock()  # functional_call changes the module while it runs
_ROUNDING = 2**-8  # of the factor in a checkpoint, of which EMA takes rounded means


class FinetunedBert(PretrainedBert):
    """BERT as a registered submodule: its parameters train, follow ``train()`` and are saved in checkpoints.

    fairseq's optimizers know only one learning rate.  A trained weight W is therefore stored as theta = W / f, where
    f is *lr_factor*, and theta receives the gradient of W unchanged: a step of the optimizer moves W by f times
    the usual distance.  (What is relative acts at the full rate: weight decay, and the steps of LAMB and of Adafactor
    with ``--scale-parameter``.)  A checkpoint holds theta, f and which parameters f scales.

    Of the layers that are used only the last *last_layers* train; by default all of them and the embeddings do.

    Raises:
        BertFusedError: There are no such layers.
    """

    saves_weights = True
    lr_factor: Tensor
    scaled: Tensor

    def __init__(
        self, model: "PreTrainedModel", layers: str = "-1", last_layers: Optional[int] = None, lr_factor: float = 1.0
    ) -> None:
        super().__init__(model, layers)
        self.model = model
        top = max(self.layers)
        if last_layers is not None and not 1 <= last_layers <= top:
            raise BertFusedError(
                f"--bert-finetune-layers must be in [1, {top}], the layers of --bert-model {model.name_or_path} that "
                f"--bert-layer {layers} uses, got {last_layers}"
            )
        for part in model.modules():
            if hasattr(part, "layerdrop"):  # as M2M100 has it
                part.layerdrop = 0.0  # DDP wants a gradient for each parameter in each step
            if hasattr(part, "gradient_checkpointing"):  # which some old configurations switch on
                part.gradient_checkpointing = False  # it would compute with theta instead of W again
        self._factor = lr_factor  # the buffer may be on a GPU
        # requires_grad may change: fairseq's copy for EMA has no parameter that trains
        self._trained = _used_parameters(model, top, last_layers)
        self.num_trained = sum(theta.numel() for _, theta in self._thetas())
        for _, theta in self._thetas():
            theta.requires_grad_(True)
            theta.data /= lr_factor
        scaled = [float(name in self._trained) for name, _ in model.named_parameters()]
        self.register_buffer("lr_factor", torch.tensor(lr_factor))
        self.register_buffer("scaled", torch.tensor(scaled))  # numbers, since EMA takes means of all that is saved

    def weights(self) -> Dict[str, Tensor]:
        """Return the weights W, by the model's own names."""
        return {**self.model.state_dict(), **{name: theta * self._factor for name, theta in self._thetas()}}

    def _thetas(self) -> List[Tuple[str, nn.Parameter]]:
        return [(name, theta) for name, theta in self.model.named_parameters() if name in self._trained]

    def _run(self, inputs: Dict[str, Any]) -> Any:
        if self._factor == 1:
            return self.model(**inputs)
        with _ONE_AT_A_TIME:
            weights = {name: _Scaled.apply(theta, self._factor) for name, theta in self._thetas()}
            return functional_call(self.model, weights, (), inputs)

    def _apply(self, fn: Any, *args: Any, **kwargs: Any) -> Any:
        # fairseq's --fp16 comes here as half(), in which T5, for example, would overflow
        if self.model._keep_in_fp32_modules and fn(torch.zeros(())).dtype == torch.float16:
            raise BertFusedError(f"--bert-model {self.name}, fine-tuned, would overflow with --fp16; use --bf16")
        frequencies = {name: buffer for name, buffer in self.named_buffers() if name.endswith("inv_freq")}
        super()._apply(fn, *args, **kwargs)
        for name, buffer in self.named_buffers():
            if name in frequencies:  # of rotary positions, which would be rounded
                buffer.data = frequencies[name].to(buffer.device)
        self.lr_factor = torch.full_like(self.lr_factor, self._factor, dtype=torch.float32)  # half precision rounds it
        return self

    def _load_from_state_dict(self, state_dict: Dict[str, Tensor], prefix: str, *args: Any, **kwargs: Any) -> None:
        # the checkpoint may have another lr_factor, or other layers; the weights W stay the same
        saved = float(state_dict.get(f"{prefix}lr_factor", self._factor))
        if math.isclose(saved, self._factor, rel_tol=_ROUNDING):
            saved = self._factor
        scaled = state_dict.get(f"{prefix}scaled", self.scaled)  # an imported checkpoint has only the factor 1
        for (name, _), then in zip(self.model.named_parameters(), scaled.tolist()):
            key = f"{prefix}model.{name}"
            ratio = (saved if then > 0.5 else 1.0) / (self._factor if name in self._trained else 1.0)
            if key in state_dict and ratio != 1:
                state_dict[key] = state_dict[key] * ratio
        state_dict.update({f"{prefix}lr_factor": torch.tensor(self._factor), f"{prefix}scaled": self.scaled})
        super()._load_from_state_dict(state_dict, prefix, *args, **kwargs)


class _Scaled(torch.autograd.Function):
    """The weight W = f theta, whose gradient goes to theta unchanged."""

    @staticmethod
    def forward(ctx: Any, theta: Tensor, factor: float) -> Tensor:
        return theta * factor

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tuple[Tensor, None]:
        return gradients[0], None


def _used_parameters(model: "PreTrainedModel", top: int, last_layers: Optional[int]) -> Set[str]:
    """Return the names of the parameters that the states of layer *top* depend on, or only of its *last_layers*.

    Some models have others, as LUKE for entities, and DDP wants a gradient for each parameter that trains.
    """
    fixed = fixed_tables(model)
    thetas = {name: theta.requires_grad_() for name, theta in model.named_parameters() if name not in fixed}
    with torch.enable_grad():
        output = model(input_ids=torch.arange(2, 10, device=model.device).unsqueeze(0), output_hidden_states=True)
    states = (*output.hidden_states[:-1], output.last_hidden_state)

    def behind(layer: int) -> Set[str]:
        gradients = torch.autograd.grad(states[layer].sum(), [*thetas.values()], retain_graph=True, allow_unused=True)
        return {name for name, gradient in zip(thetas, gradients) if gradient is not None}

    used = behind(top) - (set() if last_layers is None else behind(top - last_layers))
    if not used:
        raise BertFusedError("--bert-finetune-layers: layers that share parameters cannot be told apart; leave it out")
    model.requires_grad_(False)
    return used
