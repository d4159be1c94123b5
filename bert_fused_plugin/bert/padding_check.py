"""Finds out whether padding changes what an encoder computes: the states of a sentence must not depend on its batch."""

from typing import Callable

import torch
from torch import Tensor

from bert_fused_plugin.data.collate import BERT_PAD
from bert_fused_plugin.errors import BertFusedError

_LONGEST = 12
_TOLERANCE = 1e-4  # rounding is at most a tenth of it

Read = Callable[[Tensor, Tensor, None], Tensor]


def depends_on_padding(read: Read, name: str, symbols: int, filler: int, positions: int) -> bool:
    """Return whether an encoder gives a sentence other states if it is padded, as FNet and ConvBERT do.

    Args:
        read: function from token ids, padding mask and segments to states.
        name: name of the encoder, for the message.
        symbols: number of the encoder's token ids.
        filler: id that the encoder gets at padded positions.
        positions: number of tokens that the encoder can read.

    Raises:
        BertFusedError: The encoder cannot read a batch of token ids, or gives no finite numbers.
    """
    longest = min(_LONGEST, positions)
    ids = [i for i in range(symbols) if i != filler] or [0]
    tokens = torch.tensor([[ids[(-1 - i) % len(ids)] for i in range(longest)]] * 2)
    length = max(1, longest // 2)
    tokens[1, length:] = BERT_PAD
    try:
        with torch.no_grad():
            padded = read(tokens, tokens.eq(BERT_PAD), None)[1, :length]
            alone = read(tokens[1:, :length], tokens[1:, :length].eq(BERT_PAD), None)[0]
    except Exception as error:  # of any code of transformers
        reason = " ".join(f"{type(error).__name__}: {error}".split())[:300]
        raise BertFusedError(
            f"--bert-model {name!r} cannot read a batch of two sentences; give another encoder of text [{reason}]"
        ) from error
    if not torch.isfinite(alone).all():
        raise BertFusedError(
            f"--bert-model {name!r} gives states that are not finite; its weights are damaged, so copy them again, or "
            "give another encoder"
        )
    return bool((padded - alone).abs().max() > _TOLERANCE * alone.abs().max())
