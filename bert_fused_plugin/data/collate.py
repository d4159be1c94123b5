"""BERT's input of a batch: one tensor, which is always padded on the right."""

from typing import Sequence

from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

# No tokenizer has this id, so that BERT's input does not depend on the padding token of the tokenizer.
BERT_PAD = -1


def collate_bert_tokens(rows: Sequence[Tensor]) -> Tensor:
    """Return *rows* of word-piece ids as one LongTensor (B, L), padded on the right with `BERT_PAD`.

    The padding is on the right whatever the NMT side does: BERT counts positions from the left, and its states must not
    depend on the batch that a sentence happens to be in.
    """
    return pad_sequence(list(rows), batch_first=True, padding_value=BERT_PAD).long()
