"""An attention of the recurrent models needs a class and a row of the table alone."""

import pytest
import torch
from helpers import make_gru
from recurrent_models import make_batch
from torch import nn

from bert_fused_plugin.modules.recurrent_attention import (
    RECURRENT_ATTENTIONS,
    AttentionKind,
    RecurrentAttention,
)


class BilinearAttention(RecurrentAttention):
    """pi(tanh(q_i . k_j) * w): an attention that the package does not have, with a vector of its own."""

    def __init__(self, *widths_and_map):
        super().__init__(*widths_and_map)
        self.w = nn.Parameter(torch.empty(1))

    def energies(self, query, keys):
        return torch.tanh(query @ keys.transpose(1, 2)) * self.w

    def initialise_vectors(self):
        nn.init.constant_(self.w, 3.0)


@pytest.mark.parametrize("attention_map", ["softmax", "sparsemax"])
def test_an_attention_added_to_the_table_trains(dictionary, monkeypatch, attention_map):
    monkeypatch.setitem(RECURRENT_ATTENTIONS, "toy-bilinear", AttentionKind(BilinearAttention, "a toy"))
    model = make_gru(dictionary, attention="toy-bilinear", attention_map=attention_map).train()
    attention = model.decoder.attention
    assert isinstance(attention, BilinearAttention)
    assert attention.w.item() == 3.0
    source, target = make_batch(dictionary)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    losses = []
    for _ in range(5):
        logits, _ = model(source, None, target)
        losses.append(nn.functional.cross_entropy(logits[:, :-1].transpose(1, 2), target[:, 1:]))
        optimizer.zero_grad()
        losses[-1].backward()
        assert [name for name, parameter in model.named_parameters() if parameter.grad is None] == []
        optimizer.step()
    assert losses[-1] < losses[0]
