"""Gives an encoder BERT's states of a batch."""

from typing import Optional, Protocol, Tuple

import torch
from torch import Tensor, nn

from bert_fused_plugin.bert.layer_mix import RandomLayer, ScalarMix
from bert_fused_plugin.bert.pretrained_bert import PretrainedBert
from bert_fused_plugin.data.collate import BERT_PAD
from bert_fused_plugin.data.dictionary_bridge import DictionaryBridge
from bert_fused_plugin.errors import BertFusedError


class ReadsBert(Protocol):
    """The attributes of an encoder that reads BERT."""

    bert: PretrainedBert
    bridge: DictionaryBridge
    layer_mix: Optional[nn.Module]
    mask_special_tokens: bool


def build_layer_mix(layers: str, bert: PretrainedBert) -> Optional[nn.Module]:
    """Return the module that combines the states of the *layers* of ``--bert-layer``; None for a single layer."""
    if layers == "mix":
        return ScalarMix(len(bert.layers))
    return RandomLayer() if len(bert.layers) > 1 else None


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
    if bert_tokens is None:
        if bridge.context:
            raise BertFusedError(
                f"--bert-context {bridge.context} needs the sentences before the current one, and a batch of this "
                "task does not bring them; use --task bert_fused_translation"
            )
        bert_tokens = bridge.bert_tokens(src_tokens)
    if bert_out is None:
        bert_out, bert_padding_mask = encoder.bert(bert_tokens, bridge.segments(bert_tokens))
    else:
        bert_padding_mask = bert_tokens.eq(BERT_PAD)
    bert_out = bert_out.to(dtype)
    # under --amp the parameters are in single precision, and CUDA's autocast turns the states to half precision later
    if dtype == torch.float16 or torch.is_autocast_enabled():
        encoder.bert.half_range.check(bert_out, encoder.bert.name, wait=not encoder.bert.training)
    if encoder.mask_special_tokens:
        bert_padding_mask = _mask_special_tokens(bridge, bert_tokens, bert_padding_mask)
    # Time comes first in memory, as attention reads it, so that no layer copies the states for its keys and values.
    bert_out = bert_out.transpose(0, 1).contiguous().transpose(0, 1)
    if encoder.layer_mix is not None:
        bert_out = encoder.layer_mix(bert_out.unflatten(-1, (-1, encoder.bert.dim)))
    return bert_out, bert_padding_mask


def _mask_special_tokens(bridge: DictionaryBridge, bert_tokens: Tensor, bert_padding_mask: Tensor) -> Tensor:
    """Return *bert_padding_mask* with the special tokens masked too; an empty sentence keeps its first one."""
    masked = bert_padding_mask
    for special in bridge.special_tokens:  # two or three; a tensor of them would be a copy to the device
        masked = masked | bert_tokens.eq(special)
    masked[:, 0] &= ~masked.all(dim=1)
    return masked
