"""One copy of a sentence's tensors serves all of the beams of the sentence."""

from typing import Optional, Tuple

import torch
from torch import Tensor


def sentences_to_keep(new_order: Tensor, num_sentences: int, beam_size: int) -> Tuple[Optional[Tensor], int]:
    """Return which sentences to keep, and their number of beams, after fairseq's generator has reordered the beams.

    Row r belongs to sentence r // beam_size.  The generator repeats each sentence at the start, lets beams of one
    sentence change places, and drops the sentences that are done.  After each of these, a tensor of a sentence, such
    as the encoder's states, needs no copy for each beam.  After any other order, each row is a sentence of its own.

    Args:
        new_order: the rows that come next, (rows,).
        num_sentences: the number of sentences before the order.
        beam_size: the number of rows of each sentence before the order.

    Returns:
        The sentences to keep, or None if all of them stay as they are, and the new number of rows of each.
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
    together, unmoved = torch.stack([together, unmoved]).tolist()  # the program waits for a GPU once, not twice
    if not together:
        return sentence, 1
    return (None if unmoved else first), size
