"""The recurrent loop as one function gives the states and the gradients of the loop that autograd follows."""

import pytest
import torch
from helpers import make_gru, randomise
from recurrent_models import make_batch

from bert_fused_plugin.models.gru_bahdanau import decoder as decoder_module

OPTIONS = {
    "paper": {},
    "dot": {"attention": "dot"},
    "no attention": {"attention": "none"},
    "two layers": {"decoder_layers": 2, "encoder_layers": 2},
    "dropout": {"dropout": 0.3},
    "sparsemax": {"attention_map": "sparsemax"},
    "entmax15, dot": {"attention": "dot", "attention_map": "entmax15"},
    "entmax": {"attention_map": "entmax"},
}
COVERED = {*OPTIONS} - {"entmax"}


def results(model, batch):
    """Return the logits, the attentions and the gradients of all parameters."""
    model.zero_grad()
    torch.manual_seed(1)
    logits, extra = model(batch[0], None, batch[1])
    attentions = [extra[name][0] for name in ("attn", "bert_attn") if extra[name] is not None]
    sum((tensor.sin() * (i + 1)).sum() for i, tensor in enumerate([logits, *attentions])).backward()
    return [logits, *attentions, *(parameter.grad.clone() for parameter in model.parameters())]


@pytest.mark.parametrize("bert", [{}, {"bert_drop_net": 0.0}, {"bert_drop_net": 1.0}], ids=["", "BERT", "drop-net"])
@pytest.mark.parametrize("name", OPTIONS)
def test_both_loops_agree(dictionary, bert_dir, monkeypatch, name, bert):
    settings = {**OPTIONS[name], **({"bert_model": bert_dir, **bert} if bert else {})}
    model = make_gru(dictionary, **settings).double().train()
    randomise(model)
    batch = make_batch(dictionary)
    fused, taken = decoder_module.fused_loop, []

    def observed(*arguments):
        taken.append(fused(*arguments))
        return taken[-1]

    monkeypatch.setattr(decoder_module, "fused_loop", observed)
    ours = results(model, batch)
    if not bert.get("bert_drop_net"):  # which may leave out the attention that is not covered
        assert any(result is not None for result in taken) == (name in COVERED)
    monkeypatch.setattr(decoder_module, "fused_loop", lambda *arguments: None)
    for one, other in zip(ours, results(model, batch)):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-10)


def test_a_graph_that_is_kept_gives_the_same_gradients_again(dictionary):
    model = make_gru(dictionary).double().train()
    source, target = make_batch(dictionary)
    loss = model(source, None, target)[0].square().sum()
    parameters = list(model.parameters())
    first = torch.autograd.grad(loss, parameters, retain_graph=True)
    for one, other in zip(first, torch.autograd.grad(loss, parameters)):
        torch.testing.assert_close(one, other, rtol=1e-12, atol=0)
