"""One copy of a sentence's tensors serves all of the beams of the sentence."""

import weakref
from typing import Any, Callable, Dict, List, Optional, Tuple

import torch
from torch import Tensor

EncoderOut = Dict[str, List[Any]]  # fairseq's ``encoder_out``, with ``beam_size``, the number of rows of each sentence

_TIME_FIRST = ("encoder_out", "encoder_states")  # (S, B, C); the batch is the first dimension of all other tensors
Kept = Tuple[Optional[Tensor], int]
_Asked = Tuple[Callable[[], Optional[Tensor]], Tuple[int, ...], Kept]
_last: _Asked = (lambda: None, (), (None, 1))  # the last order, what was asked about it, and the answer


def reorder_encoder_out(encoder_out: EncoderOut, new_order: Tensor) -> EncoderOut:
    """Return *encoder_out* with its rows in *new_order*; a sentence is kept once for all of its beams."""
    [beam_size] = encoder_out["beam_size"]
    keep, beam_size = sentences_to_keep(new_order, len(encoder_out["encoder_padding_mask"][0]), beam_size)
    reordered: EncoderOut = {**encoder_out, "beam_size": [beam_size]}
    if keep is not None:
        for key, tensors in encoder_out.items():
            if key != "beam_size":
                reordered[key] = [tensor.index_select(1 if key in _TIME_FIRST else 0, keep) for tensor in tensors]
    return reordered


def sentences_to_keep(new_order: Tensor, num_sentences: int, beam_size: int) -> Kept:
    """Return which sentences to keep, and their number of beams, after fairseq's generator has reordered the beams.

    Row r belongs to sentence r // beam_size.  The generator repeats each sentence at the start, lets beams of one
    sentence change places, and drops the sentences that are done.  After each of these, a tensor of a sentence, such
    as the encoder's states, needs no copy for each beam.  After any other order, each row is a sentence of its own.

    The answer depends on numbers that a GPU may not have computed yet.  The generator gives the same order to the
    decoder and to the encoder of each model, so the last answer is kept, and the program waits for a GPU once.

    The rows *new_order* come next.  Before it there are *num_sentences* with *beam_size* rows each.  Returned are the
    sentences to keep, or None if all of them stay as they are, and the new number of rows of each.
    """
    global _last  # no state of a model: an answer about one tensor
    if new_order.is_inference():  # torch does not count the changes of such a tensor
        return _decide(new_order, num_sentences, beam_size)
    question = (new_order._version, num_sentences, beam_size)
    order, asked, answer = _last
    if order() is not new_order or asked != question:
        answer = _decide(new_order, num_sentences, beam_size)
        _last = (weakref.ref(new_order), question, answer)
    return answer


def select_sentences(memory: Any, sentences: Tensor) -> Any:
    """Return *memory*, a named tuple of tensors with a row for each sentence, for *sentences*, in that order."""
    return type(memory)(*(tensor.index_select(0, sentences) for tensor in memory))


def _decide(new_order: Tensor, num_sentences: int, beam_size: int) -> Kept:
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
