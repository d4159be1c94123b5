"""The table of attentions is the only list of them: flags, checks, models and documents follow it."""

import argparse
import re
from pathlib import Path
from typing import get_type_hints

import pytest
import torch
from helpers import assert_close, make_gru
from recurrent_models import make_batch
from torch import nn

from bert_fused_plugin.errors import BertFusedError
from bert_fused_plugin.models.gru_bahdanau import GruModel
from bert_fused_plugin.modules.recurrent_attention import (
    RECURRENT_ATTENTIONS,
    AttentionKind,
    RecurrentAttention,
    build_recurrent_attention,
)

ROOT = Path(__file__).resolve().parents[2]


class BilinearAttention(nn.Module):
    """softmax(tanh(q_i . k_j) * w): an attention that the package does not have, with a vector of its own."""

    def __init__(self, query_dim, key_dim, attention_dim, after_coverage=False):
        super().__init__()
        self.query_proj = nn.Linear(query_dim, attention_dim, bias=False)
        self.key_proj = nn.Linear(key_dim, attention_dim, bias=False)
        self.w = nn.Parameter(torch.empty(1))
        self.after_coverage = after_coverage

    def forward(self, query, keys, padding_mask, coverage=None):
        energies = torch.tanh(query @ keys.transpose(1, 2)) * self.w
        if self.after_coverage:
            energies = energies - coverage
        return energies.masked_fill(padding_mask.unsqueeze(1), -torch.inf).softmax(dim=-1)

    def initialise_vectors(self):
        nn.init.constant_(self.w, 3.0)


@pytest.fixture
def bilinear(monkeypatch):
    kind = AttentionKind(BilinearAttention, {"coverage": "after_coverage"}, "a toy")
    monkeypatch.setitem(RECURRENT_ATTENTIONS, "bilinear", kind)
    return "bilinear"


@pytest.mark.parametrize("options", [{}, {"coverage": True}, {"attention_query": "new", "input_feeding": True}])
def test_an_attention_added_to_the_table_trains_and_decodes(dictionary, bilinear, options):
    model = make_gru(dictionary, attention=bilinear, **options).train()
    attention = model.decoder.attention
    assert isinstance(attention, BilinearAttention)
    assert attention.after_coverage == options.get("coverage", False)
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
    model.eval()
    logits, extra = model(source, None, target)
    encoder_out, state = model.encoder(source), {}
    for t in range(target.size(1)):
        step, step_extra = model.decoder(target[:, : t + 1], encoder_out=encoder_out, incremental_state=state)
        assert_close(step[:, 0], logits[:, t], atol=1e-5)
        assert_close(step_extra["attn"][0][:, 0], extra["attn"][0][:, t], atol=1e-5)


def test_an_attention_added_to_the_table_is_checked_and_named(dictionary, bilinear):
    with pytest.raises(BertFusedError, match=r"must be one of additive, dot, none, bilinear, got trilinear"):
        make_gru(dictionary, attention="trilinear")
    with pytest.raises(BertFusedError, match=r"--coverage works only with --attention additive or bilinear, got"):
        make_gru(dictionary, attention="dot", coverage=True)
    with pytest.raises(BertFusedError, match=r"--attention-scaled works only with --attention dot, got .*bilinear"):
        make_gru(dictionary, attention=bilinear, attention_scaled=True)


def test_the_command_line_and_its_help_offer_the_kinds_of_the_table():
    parser = argparse.ArgumentParser()
    GruModel.add_args(parser)
    [action] = [action for action in parser._actions if "--attention" in action.option_strings]
    assert list(action.choices) == list(RECURRENT_ATTENTIONS) == ["additive", "dot", "none"]
    assert all(f"{name}: {kind.help}" in action.help for name, kind in RECURRENT_ATTENTIONS.items())


def test_the_documents_name_the_kinds_of_the_table():
    pages = [path.read_text(encoding="utf-8") for path in (ROOT / "README.md", *(ROOT / "docs").glob("*.md"))]
    [row] = [row for page in pages for row in re.findall(r"^\| `--attention` \|.*$", page, re.MULTILINE)]
    assert re.findall(r"`([a-z]+)`", row.split("|")[3]) == list(RECURRENT_ATTENTIONS)


@pytest.mark.parametrize("name", RECURRENT_ATTENTIONS)
def test_every_kind_obeys_the_protocol(name):
    flags = {"attention_scaled": True, "coverage": True, "attention_map": "sparsemax"}
    attention = build_recurrent_attention(name, 3, 4, 5, flags)
    if name == "none":
        assert attention is None
        return
    # not by isinstance: since Python 3.12 that does not see what nn.Module keeps in its tables
    names = [*get_type_hints(RecurrentAttention), *(n for n in vars(RecurrentAttention) if not n.startswith("_"))]
    assert {"query_proj", "forward", "initialise_vectors"} <= set(names)
    assert [name for name in names if not hasattr(attention, name)] == []
    assert attention.query_proj.weight.shape == (5, 3)
    assert attention.key_proj.weight.shape == (5, 4)
    assert attention.query_proj.bias is None


def test_an_unknown_kind_is_no_decoder_without_attention():
    with pytest.raises(ValueError, match=r"must be one of additive, dot, none, got 'nothing'"):
        build_recurrent_attention("nothing", 3, 4, 5, {})
