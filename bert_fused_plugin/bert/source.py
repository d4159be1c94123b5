"""BERT's states as the encoder of a model reads them."""

from typing import Any, Dict, Optional, Tuple

import torch
from torch import Tensor

from bert_fused_plugin.data.collate import BERT_PAD
from bert_fused_plugin.errors import BertFusedError


def read_bert(
    encoder: Any, src_tokens: Tensor, bert_tokens: Optional[Tensor], bert_out: Optional[Tensor], dtype: torch.dtype
) -> Tuple[Tensor, Tensor]:
    """Return H_B = BERT(x), (B, L, D), in *dtype*, and its padding mask, (B, L).

    Args:
        encoder: the encoder, with its ``bert``, ``bridge``, ``layer_mix`` and ``mask_special_tokens``.
        src_tokens: source tokens, (B, S).
        bert_tokens: BERT's input, (B, L); default: derived from *src_tokens*.
        bert_out: BERT's states for *bert_tokens*, (B, L, N x D), from the cache; default: computed.
        dtype: number format of the model.

    Raises:
        BertFusedError: The batch does not have the context that BERT must read, or half precision cannot hold
            the states.
    """
    bert_tokens, bert_out = bert_states(encoder, src_tokens, bert_tokens, bert_out)
    bert_out, bert_padding_mask = bert_out.to(dtype), bert_tokens.eq(BERT_PAD)
    # under --amp the parameters are in single precision, and CUDA's autocast turns the states to half precision later
    if dtype == torch.float16 or torch.is_autocast_enabled():
        encoder.bert.check_half_range(bert_out)
    if encoder.mask_special_tokens:
        for special in encoder.bridge.special_tokens:  # two or three; a tensor of them would be a copy to the device
            bert_padding_mask = bert_padding_mask | bert_tokens.eq(special)
        bert_padding_mask[:, 0] &= ~bert_padding_mask.all(dim=1)  # an empty sentence keeps its first one
    if encoder.layer_mix is not None:
        bert_out = encoder.layer_mix(bert_out.unflatten(-1, (-1, encoder.bert.dim)))
    # Time comes first in memory, as attention reads it, so that no layer copies the states for its keys and values.
    return bert_out.transpose(0, 1).contiguous().transpose(0, 1), bert_padding_mask


def read_once(encoder: Any, net_input: Dict[str, Any]) -> Dict[str, Any]:
    """Return *net_input* with BERT's tokens and states, if *encoder* reads a frozen BERT.

    A BERT that trains is read by its model, in the mode and without the graph that fairseq sets.
    """
    if not hasattr(encoder, "bert") or encoder.bert is None or encoder.bert.saves_weights:
        return net_input
    tokens, states = bert_states(encoder, **net_input)
    return {**net_input, "bert_tokens": tokens, "bert_out": states}


def bert_states(
    encoder: Any, src_tokens: Tensor, bert_tokens: Optional[Tensor] = None, bert_out: Optional[Tensor] = None, **_: Any
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
        bert_out = encoder.bert(bert_tokens, bridge.segments(bert_tokens))
    return bert_tokens, bert_out
