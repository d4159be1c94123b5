"""What belongs to a sentence is kept once for all its beams."""

import pytest
import torch

from bert_fused_plugin.modules.beam_order import select_rows, sentences_to_keep


@pytest.mark.parametrize(
    ("order", "sentences", "size", "kept"),
    [
        ([0, 0, 1, 1], 2, 1, (None, 2)),  # the start of a search
        ([1, 0, 2, 2], 2, 2, (None, 2)),  # beams of a sentence change places
        ([3, 2], 2, 2, ([1], 2)),  # a sentence is done
        ([3, 2, 1, 1], 2, 2, ([1, 0], 2)),
        ([3, 2, 1, 1], 4, 1, ([3, 2, 1, 1], 1)),  # each row is a sentence
        ([0, 1, 2, 3], 4, 1, (None, 1)),
        ([1, 2, 0, 0], 2, 2, ([0, 1, 0, 0], 1)),  # beams of two sentences: no order of a beam search
        ([2, 0, 0], 2, 2, ([1, 0, 0], 1)),
    ],
)
def test_a_sentence_is_kept_once_while_its_beams_stay_together(order, sentences, size, kept):
    keep, size = sentences_to_keep(torch.tensor(order), sentences, size)
    assert (None if keep is None else keep.tolist(), size) == kept


def test_rows_are_selected_in_all_that_a_search_keeps():
    rows, tensor = torch.tensor([2, 0]), torch.arange(3)
    kept = select_rows([[(tensor, None)], 5], rows)
    assert kept[0][0][0].tolist() == [2, 0]
    assert (kept[0][0][1], kept[1]) == (None, 5)
    assert select_rows(torch.eye(3), rows, dim=1).tolist() == torch.eye(3)[:, [2, 0]].tolist()
