"""BERT's rows of a batch: one tensor, always padded on the right."""

from typing import Any, Dict, List, Sequence

from fairseq.data import data_utils
from torch import Tensor

# No tokenizer has this id, so BERT's input needs no padding token of the tokenizer's own.
BERT_PAD = -1


def collate_bert_tokens(rows: Sequence[Tensor]) -> Tensor:
    """Return *rows* of word-piece ids as one LongTensor (B, L), padded on the right with `BERT_PAD`.

    The padding is on the right whatever the NMT side does: BERT counts positions from the left, and
    its states must not depend on the batch that a sentence happens to be in.
    """
    padded: Tensor = data_utils.collate_tokens(rows, BERT_PAD, left_pad=False)
    return padded.long()


def add_bert_tokens(batch: Dict[str, Any], samples: List[Dict[str, Any]]) -> Dict[str, Any]:
    """Put ``bert_tokens`` of *samples* into ``net_input`` of the collated *batch*, in the batch's order.

    fairseq's collater sorts the samples by length; ``batch["id"]`` tells the order.
    """
    rows = {sample["id"]: sample["bert_tokens"] for sample in samples}
    batch["net_input"]["bert_tokens"] = collate_bert_tokens([rows[i] for i in batch["id"].tolist()])
    return batch
