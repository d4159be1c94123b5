"""BERT's rows of a batch."""

import torch

from bert_fused_plugin.data.collate import BERT_PAD, collate_bert_tokens

ROWS = [torch.tensor(row, dtype=torch.int32) for row in ([2, 7, 3], [2, 3], [2, 8, 9, 4, 3])]


def test_rows_are_padded_on_the_right():
    assert collate_bert_tokens(ROWS).tolist() == [
        [2, 7, 3, BERT_PAD, BERT_PAD],
        [2, 3, BERT_PAD, BERT_PAD, BERT_PAD],
        [2, 8, 9, 4, 3],
    ]
    assert collate_bert_tokens(ROWS).dtype == torch.long
