"""BERT's input of a batch: one tensor, which is always padded on the right."""

from typing import Any, Dict, List, Sequence

from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

# No tokenizer has this id, so that BERT's input does not depend on the padding token of the tokenizer.
BERT_PAD = -1


def collate_bert_tokens(rows: Sequence[Tensor]) -> Tensor:
    """Return *rows* of word-piece ids as one LongTensor (B, L), padded on the right with `BERT_PAD`.

    The padding is on the right whatever the NMT side does: BERT counts positions from the left, and
    its states must not depend on the batch that a sentence happens to be in.
    """
    return pad_sequence(list(rows), batch_first=True, padding_value=BERT_PAD).long()


def add_bert_tokens(batch: Dict[str, Any], samples: List[Dict[str, Any]]) -> Dict[str, Any]:
    """Put ``bert_tokens`` of *samples*, and ``bert_out`` if they have it, into ``net_input`` of the collated *batch*.

    fairseq's collater sorts the samples by length; ``batch["id"]`` gives their order.
    """
    by_id = {sample["id"]: sample for sample in samples}
    ordered = [by_id[i] for i in batch["id"].tolist()]
    batch["net_input"]["bert_tokens"] = collate_bert_tokens([sample["bert_tokens"] for sample in ordered])
    if "bert_out" in ordered[0]:
        states = pad_sequence([sample["bert_out"] for sample in ordered])  # time first, as attention reads them
        batch["net_input"]["bert_out"] = states.transpose(0, 1)
    return batch
