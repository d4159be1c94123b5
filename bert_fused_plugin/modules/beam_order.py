"""One copy of a sentence's tensors serves all of the beams of the sentence."""

from functools import cache
from typing import Any, Dict, List, Optional, Tuple

import torch
from torch import Tensor
from torch.utils._pytree import tree_map

EncoderOut = Dict[str, List[Any]]  # fairseq's ``encoder_out``, with ``beam_size``, the number of rows of each sentence

_TIME_FIRST = ("encoder_out", "encoder_states")  # (S, B, C); the batch is the first dimension of all other tensors


def reorder_encoder_out(encoder_out: EncoderOut, new_order: Tensor) -> EncoderOut:
    """Return *encoder_out* with its rows in *new_order*; a sentence is kept once for all of its beams."""
    [beam_size] = encoder_out["beam_size"]
    keep, beam_size = sentences_to_keep(new_order, len(encoder_out["encoder_padding_mask"][0]), beam_size)
    if keep is None:
        return {**encoder_out, "beam_size": [beam_size]}
    reordered = {key: select_rows(value, keep, 1 if key in _TIME_FIRST else 0) for key, value in encoder_out.items()}
    return {**reordered, "beam_size": [beam_size]}


def sentences_to_keep(new_order: Tensor, num_sentences: int, beam_size: int) -> Tuple[Optional[Tensor], int]:
    """Return which sentences to keep, and their number of beams, after fairseq's generator has reordered the beams.

    Row r belongs to sentence r // beam_size.  The generator repeats each sentence at the start, lets beams of one
    sentence change places, and drops the sentences that are done.  After each of these, a tensor of a sentence, such
    as the encoder's states, needs no copy for each beam.  After any other order, each row is a sentence of its own.

    Before *new_order* there are *num_sentences* with *beam_size* rows each.  Returned are the sentences to keep, or
    None if all of them stay as they are, and the new number of rows of each.
    """
    # A GPU may not have computed these numbers yet, so the program waits for the answer: once in most steps, since the
    # generator gives the same tensor to each model of an ensemble, and the answer is kept with the tensor.
    answers = vars(new_order).setdefault("sentences_to_keep", {})
    if (num_sentences, beam_size) not in answers:
        answers[num_sentences, beam_size] = _decide(new_order, num_sentences, beam_size)
    return answers[num_sentences, beam_size]


def _decide(new_order: Tensor, num_sentences: int, beam_size: int) -> Tuple[Optional[Tensor], int]:
    sentences = torch.div(new_order.cpu(), beam_size, rounding_mode="floor")  # one copy instead of several launches
    size = len(new_order) // num_sentences if beam_size == 1 else beam_size
    if size < 1 or not torch.equal(sentences, sentences[::size].repeat_interleave(size)):
        size = 1
    if torch.equal(sentences[::size], torch.arange(num_sentences)):
        return None, size
    return torch.div(new_order[::size], beam_size, rounding_mode="floor"), size


def select_rows(value: Any, rows: Tensor, dim: int = 0) -> Any:
    """Return *value* with these *rows* of dimension *dim* of each tensor in it, which may be nested and come twice."""
    return tree_map(cache(lambda part: part.index_select(dim, rows) if isinstance(part, Tensor) else part), value)
