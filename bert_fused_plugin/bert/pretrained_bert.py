"""A pre-trained Hugging Face encoder as the source of BERT's states: what frozen and fine-tuned ones have in common."""

import inspect
import logging
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Dict, Iterator, List, Optional, Sequence, Tuple, Type, TypeVar

import torch
from torch import Tensor, nn

from bert_fused_plugin.bert.batch_states import HalfRangeWatch
from bert_fused_plugin.bert.hugging_face import hub_revision, load_encoder
from bert_fused_plugin.bert.identity import Settings, describe_identity
from bert_fused_plugin.bert.layers import layer_indices
from bert_fused_plugin.data.collate import BERT_PAD
from bert_fused_plugin.errors import BertFusedError

if TYPE_CHECKING:
    from transformers import PreTrainedModel

logger = logging.getLogger(__name__)

_NO_LIMIT = 1_000_000  # positions of encoders that have relative ones
_FEWEST_TOKENS = 256  # that a CPU computes together, so that its products are large enough
_TRIED_TOKENS = 12  # of the sentence that shows whether padding changes states
_TOLERANCE = 1e-4  # of these states; rounding is at most a tenth of it

AnyBert = TypeVar("AnyBert", bound="PretrainedBert")


class PretrainedBert(nn.Module, ABC):
    """H_B = BERT(x), the states of one or several of its layers (Zhu et al. 2020, section 4.1, step 1).

    A subclass says how the Hugging Face model is held, as its attribute ``model``, and how it is run.

    Args:
        model: any encoder, or causal language model, of ``transformers.AutoModel``; it is put into evaluation mode,
            and its parameters no longer require gradients.
        layers: name of the layers whose states are returned, see `layer_indices`.

    Raises:
        BertFusedError: There is no such layer.
    """

    model: "PreTrainedModel"
    saves_weights: bool
    """Whether the checkpoints of a fused model hold the weights of BERT."""

    def __init__(self, model: "PreTrainedModel", layers: str = "-1") -> None:
        super().__init__()
        self.depth = int(model.config.num_hidden_layers)
        try:
            self.layers = layer_indices(layers, self.depth)
        except ValueError as error:
            raise BertFusedError(f"--bert-layer {error}, for --bert-model {model.name_or_path}") from error
        self._only_last = self.layers == (self.depth,)
        model.eval().requires_grad_(False)
        model.config.use_cache = False  # causal models would return a cache of keys and values
        self.name = str(model.name_or_path)
        self.revision: Optional[str] = None
        self.dim = int(model.config.hidden_size)
        self.max_positions = count_positions(model)
        self.num_parameters = sum(parameter.numel() for parameter in model.parameters())
        self.half_range = HalfRangeWatch()
        self.reads_segments = (model.config.to_dict().get("type_vocab_size") or 0) > 1
        self.reads_lengths_apart = False
        parameters = inspect.signature(model.forward).parameters
        self._takes_mask = "attention_mask" in parameters or "kwargs" in parameters  # FNet of transformers 4 does not
        # Padded positions are masked out, so any id will do, but RoBERTa counts positions by its own padding id.
        self._filler = model.config.pad_token_id or 0

    @classmethod
    def from_pretrained(cls: Type[AnyBert], name: str, layers: str = "-1", **options: Any) -> AnyBert:
        """Load the encoder *name*, a local directory or a name on the Hugging Face hub.

        Raises:
            BertFusedError: The encoder cannot be loaded or run, or it has no such *layers*.
        """
        bert = cls(load_encoder(name), layers, **options)
        bert.name, bert.revision = name, hub_revision(name)
        bert.reads_lengths_apart = bert._depends_on_padding()
        if bert.reads_lengths_apart:
            logger.warning(
                f"--bert-model {name}: padding changes its states, so it reads sentences of different lengths one "
                "after the other, which takes longer"
            )
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
        return self._read(bert_tokens, bert_padding_mask, segments), bert_padding_mask

    def _read(self, bert_tokens: Tensor, bert_padding_mask: Tensor, segments: Optional[Tensor]) -> Tensor:
        """Return the states of *bert_tokens*, (B, L, N x D)."""
        if not self.reads_lengths_apart and bert_tokens.device.type != "cpu":
            return self._compute(bert_tokens, bert_padding_mask, segments)
        lengths, width = (~bert_padding_mask).sum(dim=1).clamp(min=1).tolist(), bert_tokens.size(1)
        groups = list(groups_by_length(lengths, 1 if self.reads_lengths_apart else _FEWEST_TOKENS))
        if len(groups) == 1:
            return self._compute(bert_tokens, bert_padding_mask, segments)
        states = []
        for rows in groups:
            part = (torch.tensor(rows, device=bert_tokens.device), slice(lengths[rows[-1]]))
            own_segments = None if segments is None else segments[part]
            computed = self._compute(bert_tokens[part], bert_padding_mask[part], own_segments)
            states.append(nn.functional.pad(computed, (0, 0, 0, width - computed.size(1))))
        order = torch.tensor([row for rows in groups for row in rows], device=bert_tokens.device)
        return torch.cat(states)[order.argsort()]

    def _compute(self, bert_tokens: Tensor, bert_padding_mask: Tensor, segments: Optional[Tensor]) -> Tensor:
        """Return the states of one batch for the Hugging Face model."""
        inputs: Dict[str, Any] = {
            "input_ids": bert_tokens.masked_fill(bert_padding_mask, self._filler),
            "output_hidden_states": not self._only_last,
        }
        if self._takes_mask:
            inputs["attention_mask"] = (~bert_padding_mask).long()
        if self.reads_segments and segments is not None:
            inputs["token_type_ids"] = segments
        output = self._run(inputs)
        if self._only_last:
            states: Tensor = output.last_hidden_state
            return states
        # BigBird pads its input to whole blocks
        return torch.cat([output.hidden_states[layer][:, : bert_tokens.size(1)] for layer in self.layers], dim=-1)

    @abstractmethod
    def _run(self, inputs: Dict[str, Any]) -> Any:
        """Return the output of the Hugging Face model for *inputs*."""

    def weights(self) -> Dict[str, Tensor]:
        """Return the present weights of the Hugging Face model, by the model's own names."""
        return self.model.state_dict()

    def identity(self) -> Settings:
        """Return everything that the states depend on, except the sentence."""
        return describe_identity(self.model, self.layers)

    def extra_repr(self) -> str:
        """Name the model where a module is printed."""
        return f"{self.name!r}, layers={self.layers}, dim={self.dim}, parameters={self.num_parameters:,}"

    def _depends_on_padding(self) -> bool:
        """Return whether a sentence gets other states if it is padded, as with FNet and ConvBERT.

        Raises:
            BertFusedError: The encoder cannot read a batch of token ids, or gives no finite numbers.
        """
        symbols = range(self.model.get_input_embeddings().num_embeddings)
        sentence = [i for i in reversed(symbols) if i != self._filler][: min(_TRIED_TOKENS, self.max_positions)]
        tokens, length = torch.tensor([sentence] * 2), len(sentence) // 2
        tokens[1, length:] = BERT_PAD
        try:
            with torch.no_grad():
                padded = self._compute(tokens, tokens.eq(BERT_PAD), None)[1, :length]
                alone = self._compute(tokens[1:, :length], tokens[1:, :length].eq(BERT_PAD), None)[0]
        except Exception as error:  # of any code of transformers
            reason = " ".join(f"{type(error).__name__}: {error}".split())[:300]
            raise BertFusedError(
                f"--bert-model {self.name!r} cannot read a batch of two sentences; give another encoder of text "
                f"[{reason}]"
            ) from error
        if not torch.isfinite(alone).all():
            raise BertFusedError(
                f"--bert-model {self.name!r} gives states that are not finite; its weights are damaged, so copy them "
                "again, or give another encoder"
            )
        return bool((padded - alone).abs().max() > _TOLERANCE * alone.abs().max())


def count_positions(model: "PreTrainedModel") -> int:
    """Return the largest number of tokens for which *model* has position embeddings."""
    config = model.config.to_dict()
    limit = int(config.get("max_position_embeddings") or config.get("n_positions") or _NO_LIMIT)
    for name, module in model.named_modules():
        if name.endswith("position_embeddings") and isinstance(module, nn.Embedding):
            # RoBERTa and its relatives count positions from the padding id + 1, and Nystromformer has two more rows.
            return min(limit, module.num_embeddings - (0 if module.padding_idx is None else module.padding_idx + 1))
    return limit


def groups_by_length(lengths: Sequence[int], fewest: int) -> Iterator[List[int]]:
    """Yield the rows of a batch in groups, shortest sentences first, so that little is computed for padding.

    A group ends where the length rises and the group has *fewest* tokens or more, with its padding.  So sentences of
    one length stay together, and with *fewest* 1 no group has padding.

    Args:
        lengths: number of tokens of each row.
        fewest: tokens that a group has at least, except for the last one.
    """
    group: List[int] = []
    for row in sorted(range(len(lengths)), key=lengths.__getitem__):
        if group and lengths[row] > lengths[group[-1]] and len(group) * lengths[group[-1]] >= fewest:
            yield group
            group = []
        group.append(row)
    if group:
        yield group
