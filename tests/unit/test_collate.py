"""BERT's rows of a batch."""

import torch
from helpers import assert_close

from bert_fused_plugin.data.collate import add_bert_tokens

ROWS = [torch.tensor(row, dtype=torch.int32) for row in ([2, 7, 3], [2, 3], [2, 8, 9, 4, 3])]


def test_the_rows_follow_the_order_that_fairseq_has_sorted_the_batch_into():
    states = [torch.full((len(row), 4), float(i)) for i, row in enumerate(ROWS)]
    samples = [{"id": i, "bert_tokens": ROWS[i], "bert_out": states[i]} for i in range(len(ROWS))]
    batch = add_bert_tokens({"id": torch.tensor([2, 0, 1]), "net_input": {"src_tokens": None}}, samples)
    net_input = batch["net_input"]
    assert set(net_input) == {"src_tokens", "bert_tokens", "bert_out"}
    assert net_input["bert_tokens"][:, 1].tolist() == [8, 7, 3]
    assert net_input["bert_out"].shape == (3, 5, 4)
    assert_close(net_input["bert_out"][:, 0, 0], torch.tensor([2.0, 0.0, 1.0]))
    assert not net_input["bert_out"][2, 2:].any()  # padding
