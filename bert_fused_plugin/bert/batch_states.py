"""BERT's states of a batch, as the encoder of a model gets them."""

from typing import TYPE_CHECKING, Any, List, Optional, Protocol, Tuple

import torch
from torch import Tensor, nn

from bert_fused_plugin.data.collate import BERT_PAD
from bert_fused_plugin.data.dictionary_bridge import DictionaryBridge
from bert_fused_plugin.errors import BertFusedError
from bert_fused_plugin.modules.device_copy import Arrival

if TYPE_CHECKING:
    from bert_fused_plugin.bert.pretrained_bert import PretrainedBert


class ReadsBert(Protocol):
    """The attributes of an encoder that reads BERT."""

    bert: "PretrainedBert"
    bridge: DictionaryBridge
    layer_mix: Optional[nn.Module]
    mask_special_tokens: bool


def read_bert(
    encoder: ReadsBert,
    src_tokens: Tensor,
    bert_tokens: Optional[Tensor],
    bert_out: Optional[Tensor],
    dtype: torch.dtype,
) -> Tuple[Tensor, Tensor]:
    """Return H_B = BERT(x), (B, L, D), in *dtype*, and its padding mask, (B, L).

    Args:
        encoder: the encoder, with BERT and the bridge.
        src_tokens: source tokens, (B, S).
        bert_tokens: BERT's input, (B, L); default: derived from *src_tokens*.
        bert_out: BERT's states for *bert_tokens*, (B, L, N x D), from the cache; default: computed.
        dtype: number format of the model.

    Raises:
        BertFusedError: The batch does not have the context that BERT must read, or half precision cannot hold
            the states.
    """
    bridge = encoder.bridge
    bert_tokens, bert_out = bert_states(encoder, src_tokens, bert_tokens, bert_out)
    bert_padding_mask = bert_tokens.eq(BERT_PAD)
    bert_out = bert_out.to(dtype)
    # under --amp the parameters are in single precision, and CUDA's autocast turns the states to half precision later
    if dtype == torch.float16 or torch.is_autocast_enabled():
        encoder.bert.half_range.check(bert_out, encoder.bert.name, wait=not encoder.bert.training)
    if encoder.mask_special_tokens:
        for special in bridge.special_tokens:  # two or three; a tensor of them would be a copy to the device
            bert_padding_mask = bert_padding_mask | bert_tokens.eq(special)
        bert_padding_mask[:, 0] &= ~bert_padding_mask.all(dim=1)  # an empty sentence keeps its first one
    # Time comes first in memory, as attention reads it, so that no layer copies the states for its keys and values.
    bert_out = bert_out.transpose(0, 1).contiguous().transpose(0, 1)
    if encoder.layer_mix is not None:
        bert_out = encoder.layer_mix(bert_out.unflatten(-1, (-1, encoder.bert.dim)))
    return bert_out, bert_padding_mask


def bert_states(
    encoder: ReadsBert,
    src_tokens: Tensor,
    bert_tokens: Optional[Tensor] = None,
    bert_out: Optional[Tensor] = None,
    **_: Any,
) -> Tuple[Tensor, Tensor]:
    """Return ``bert_tokens``, (B, L), and ``bert_out``, (B, L, N x D), of a batch that may lack one or both.

    The arguments, which may be all of ``net_input``, and the error are those of `read_bert`.
    """
    bridge = encoder.bridge
    if bert_tokens is None:
        if bridge.context:
            raise BertFusedError(
                f"--bert-context {bridge.context} needs the sentences before the current one, and a batch of this "
                "task does not bring them; use --task bert_fused_translation"
            )
        bert_tokens = bridge.bert_tokens(src_tokens)
    if bert_out is None:
        bert_out, _mask = encoder.bert(bert_tokens, bridge.segments(bert_tokens))
    return bert_tokens, bert_out


class HalfRangeWatch:
    """Checks that half precision can hold the states of each batch; in training it does not wait for a GPU.

    In training on a GPU the largest state of a batch is read as soon as it has arrived on the CPU, which is usually
    with the next batch.  Nothing is lost until then, because fairseq skips an update whose gradients are not finite.
    """

    def __init__(self) -> None:
        self._arrivals: List[Arrival] = []

    def check(self, states: Tensor, name: str, wait: bool) -> None:
        """Check the *states* of the ``--bert-model`` *name*, and those of the batches before; *wait* for all of them.

        Otherwise training would end with fairseq's error about the loss scale, and translations would be random.

        Raises:
            BertFusedError: half precision cannot hold them.
        """
        self._arrivals.append(Arrival(states.detach().abs().max()))
        while self._arrivals and (wait or self._arrivals[0].has_arrived):
            largest = self._arrivals.pop(0).value()
            if not largest <= torch.finfo(torch.float16).max:  # also if the largest is NaN
                self._arrivals.clear()
                raise BertFusedError(
                    "--fp16 and --amp compute in half precision, whose largest number is 65,504, and some states of "
                    f"--bert-model {name} in a batch are larger, or are made from larger ones; train with --bf16 or "
                    "in single precision, and translate without --fp16"
                )

    def __reduce__(self) -> Any:
        return HalfRangeWatch, ()  # a copy of the model begins anew
