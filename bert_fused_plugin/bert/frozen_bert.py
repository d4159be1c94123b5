"""A pre-trained Hugging Face encoder that never trains and never lands in a checkpoint."""

import logging
import os
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, Optional, Tuple, TypeVar

import torch
from huggingface_hub import try_to_load_from_cache
from torch import Tensor, nn
from transformers import AutoModel, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase
from transformers.utils import logging as hf_logging

from bert_fused_plugin.bert.state_cache import LruStateCache
from bert_fused_plugin.data.collate import BERT_PAD
from bert_fused_plugin.data.feature_cache import model_fingerprint
from bert_fused_plugin.errors import BertFusedError

logger = logging.getLogger(__name__)

T = TypeVar("T")

_MEMORY_BYTES = 256 * 2**20  # the states of 87,000 word pieces of a width of 768
_NO_LIMIT = 1_000_000  # of an encoder with relative positions


class FrozenBert(nn.Module):
    """H_B = BERT(x), the states of one or several of its layers (Zhu et al. 2020, section 4.1, step 1).

    The Hugging Face model is no registered submodule: ``parameters()``, ``state_dict()``, ``train()``,
    optimizers and DDP never see it, so it stays frozen, in evaluation mode and out of checkpoints
    whatever happens around it.  Only copies, such as EMA's, and moves to a device or a dtype reach it.

    Args:
        model: any encoder, or causal language model, of ``transformers.AutoModel``.
        layers: whose states, see `layer_indices`.

    Raises:
        BertFusedError: there is no such layer.
    """

    model: PreTrainedModel

    def __init__(self, model: PreTrainedModel, layers: str = "-1") -> None:
        super().__init__()
        self.depth = int(model.config.num_hidden_layers)
        try:
            self.layers = layer_indices(layers, self.depth)
        except ValueError as error:
            raise BertFusedError(f"--bert-layer {error}, for --bert-model {model.name_or_path}") from error
        self.memory: Optional[LruStateCache] = LruStateCache(_MEMORY_BYTES)
        self._only_last = self.layers == (self.depth,)
        model.eval().requires_grad_(False)
        model.config.use_cache = False  # of keys and values, which causal models would return
        self.name = str(model.name_or_path)
        self.revision: Optional[str] = None  # on the hub
        self._hold(model)
        self.dim = int(model.config.hidden_size)
        self.max_positions = _count_positions(model)
        self.num_parameters = sum(parameter.numel() for parameter in model.parameters())
        self.reads_segments = (model.config.to_dict().get("type_vocab_size") or 0) > 1
        # what stands at padded positions is masked out; RoBERTa counts positions by its own padding id
        self._filler = model.config.pad_token_id or 0

    @classmethod
    def from_pretrained(cls, name: str, layers: str = "-1", **options: Any) -> "FrozenBert":
        """Load the encoder *name*, a local directory or a name on the Hugging Face hub.

        Raises:
            BertFusedError: it cannot be loaded, or has no such *layers*.
        """
        logger.info(f"loading BERT {name}")
        with _quiet():
            model, report = _load(AutoModel.from_pretrained, name, torch_dtype=torch.float32, output_loading_info=True)
        if model.config.is_encoder_decoder:
            model = model.get_encoder()
        if hasattr(model, "pooler"):
            model.pooler = None  # its output is never used
        missing = sorted(key for key in report["missing_keys"] if "pooler." not in key)
        reads_text = hasattr(model.config, "hidden_size") and hasattr(model.config, "num_hidden_layers")
        if missing or not reads_text:
            what = f"{len(missing)} of its weights are missing ({missing[0]}, ...)" if missing else "it reads no text"
            raise BertFusedError(f"--bert-model {name!r} cannot be used: {what}; give a complete pre-trained encoder")
        bert = cls(model, layers, **options)
        bert.name, bert.revision = name, _revision(name)
        return bert

    @property
    def state_dim(self) -> int:
        """The width of `forward`'s states: N x D."""
        return len(self.layers) * self.dim

    def forward(self, bert_tokens: Tensor, segments: Optional[Tensor] = None) -> Tuple[Tensor, Tensor]:
        """Return BERT's states and their padding mask.

        Args:
            bert_tokens: word-piece ids, (B, L), padded on the right with `BERT_PAD`.
            segments: token types, (B, L); default: zeros.

        Returns:
            The states of the N layers side by side, (B, L, N x D), and bert_padding_mask, (B, L).
        """
        bert_padding_mask = bert_tokens.eq(BERT_PAD)
        if self.memory is None or self.training:
            return self._read(bert_tokens, segments), bert_padding_mask
        return self.memory.read(bert_tokens, segments, self._read), bert_padding_mask

    def _read(self, bert_tokens: Tensor, segments: Optional[Tensor]) -> Tensor:
        bert_padding_mask = bert_tokens.eq(BERT_PAD)
        inputs: Dict[str, Any] = {
            "input_ids": bert_tokens.masked_fill(bert_padding_mask, self._filler),
            "attention_mask": (~bert_padding_mask).long(),
            "output_hidden_states": not self._only_last,
        }
        if self.reads_segments and segments is not None:
            inputs["token_type_ids"] = segments
        output = self._run(inputs)
        if self._only_last:
            states: Tensor = output.last_hidden_state
            return states
        return torch.cat([output.hidden_states[layer] for layer in self.layers], dim=-1)

    def fingerprint(self) -> str:
        """Return a hash of all that the states depend on beside the sentence."""
        return model_fingerprint(
            self.model, {**self.model.config.to_dict(), "states of layers": list(self.layers), "token types": True}
        )

    def _hold(self, model: PreTrainedModel) -> None:
        # a plain attribute: nn.Module.__setattr__ would register it
        object.__setattr__(self, "model", model)

    def _run(self, inputs: Dict[str, Any]) -> Any:
        with torch.no_grad():
            return self.model(**inputs)

    def _apply(self, fn: Callable[[Tensor], Tensor], *args: Any, **kwargs: Any) -> "FrozenBert":
        if self.memory is not None:
            self.memory.clear()  # of another device or precision
        super()._apply(fn, *args, **kwargs)
        self.model._apply(fn)
        return self

    def extra_repr(self) -> str:
        """Name the model where a module is printed."""
        return f"{self.name!r}, layers={self.layers}, dim={self.dim}, parameters={self.num_parameters:,}"


def layer_indices(layers: str, depth: int) -> Tuple[int, ...]:
    """Return which of the *depth* layers ``--bert-layer`` means, 0 being the embeddings.

    Args:
        layers: an index, negative from the end; ``mix``: all and the embeddings; ``random:K``: the last K.
        depth: BERT's number of layers.

    Raises:
        ValueError: there is no such layer; the message is the rule and the value.
    """
    if layers == "mix":
        return tuple(range(depth + 1))
    if layers.startswith("random:"):
        k = layers[len("random:") :]
        if not (k.isascii() and k.isdigit()) or not 1 <= int(k) <= depth:
            raise ValueError(f"random:K must have K in [1, {depth}], got {layers!r}")
        return tuple(range(depth - int(k) + 1, depth + 1))
    try:
        index = int(layers)
    except ValueError:
        index = depth + 1
    if not -depth - 1 <= index <= depth:
        raise ValueError(
            f"must be in [0, {depth}], or in [-{depth + 1}, -1] from the end, or mix, or random:K, got {layers!r}"
        ) from None
    return (index % (depth + 1),)


def load_tokenizer(name: str) -> PreTrainedTokenizerBase:
    """Load the tokenizer of the encoder *name*.

    Raises:
        BertFusedError: it cannot be loaded.
    """
    tokenizer: PreTrainedTokenizerBase = _load(AutoTokenizer.from_pretrained, name)
    if set(tokenizer.get_vocab()) <= set(tokenizer.all_special_tokens):
        raise BertFusedError(
            f"--bert-model {name!r} has no vocabulary: its directory lacks the tokenizer's files "
            "(tokenizer.json, or vocab.txt and the like); copy them from where the model comes from"
        )
    return tokenizer


def _revision(name: str) -> Optional[str]:
    """Return the commit of a model *name* that came from the hub."""
    config = None if os.path.isdir(name) else try_to_load_from_cache(name, "config.json")
    return Path(config).parent.name if isinstance(config, str) else None


def _count_positions(model: PreTrainedModel) -> int:
    """Return how many tokens the position embeddings of *model* have room for."""
    for name, module in model.named_modules():
        if name.endswith("position_embeddings") and isinstance(module, nn.Embedding):
            # RoBERTa and its kin count positions from the padding id + 1
            return module.num_embeddings - (0 if module.padding_idx is None else module.padding_idx + 1)
    config = model.config.to_dict()
    return int(config.get("max_position_embeddings") or config.get("n_positions") or _NO_LIMIT)


def _load(load: Callable[..., T], name: str, **options: Any) -> T:
    is_directory = os.path.isdir(name)
    if name.startswith(("/", ".", "~")) and not is_directory:
        raise BertFusedError(
            f"--bert-model {name!r}: no such directory; give an existing one, or a name on the Hugging Face hub"
        )
    try:
        return load(name, trust_remote_code=False, **options)
    except Exception as error:  # a damaged file can raise anything
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        if is_directory:
            remedy = "the directory must hold config.json, the tokenizer's files and the weights, undamaged"
        else:
            remedy = (
                "give a local model directory, or a name on the Hugging Face hub "
                "(needs the internet, or an earlier download with HF_HUB_OFFLINE=1)"
            )
        raise BertFusedError(f"--bert-model {name!r} cannot be loaded; {remedy} [{reason}]") from error


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep the loading report (unused heads and poolers) and the progress bar to ourselves."""
    verbosity, progress = hf_logging.get_verbosity(), hf_logging.is_progress_bar_enabled()
    hf_logging.set_verbosity_error()
    hf_logging.disable_progress_bar()
    try:
        yield
    finally:
        hf_logging.set_verbosity(verbosity)
        if progress:
            hf_logging.enable_progress_bar()
