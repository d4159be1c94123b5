"""Keeps what belongs to a sentence once for all of its beams."""

from typing import Optional, Tuple

import torch
from torch import Tensor


def regroup(new_order: Tensor, num_sentences: int, beam_size: int) -> Tuple[Optional[Tensor], int]:
    """Return which sentences stay, and their number of beams, after fairseq's generator has reordered the beams.

    Row r belongs to sentence r // beam_size.  The generator repeats each sentence at the start, lets beams of one
    sentence change places, and drops sentences that are done; then a sentence's own tensors, such as the encoder's
    states, need no copy for each beam.  Any other order gives one sentence for each row.

    Args:
        new_order: which of the rows come next, (rows,).
        num_sentences: before.
        beam_size: rows of each sentence, before.

    Returns:
        The sentences to select, or None where all stay as they are, and the new number of rows of each.
    """
    sentence = torch.div(new_order, beam_size, rounding_mode="floor")
    rows = len(new_order)
    size = rows // num_sentences if beam_size == 1 else beam_size
    if size < 1 or rows % size:
        return sentence, 1
    groups = sentence.view(-1, size)
    first = groups[:, 0]
    together = (groups == first.unsqueeze(1)).all()
    if len(first) != num_sentences:
        return (first, size) if together else (sentence, 1)
    unmoved = (first == torch.arange(num_sentences, device=first.device)).all()
    together, unmoved = torch.stack([together, unmoved]).tolist()  # a GPU is waited for once
    if not together:
        return sentence, 1
    return (None if unmoved else first), size
