"""A model fed with cached states computes what it computes with BERT."""

import torch
from helpers import assert_close, encode, pad, randomise


def test_cached_states_give_the_same_logits_and_gradients(build, dictionary):
    model = build(bert_drop_net=0.0)
    randomise(model)
    lines = ["the old man sees a dog", "red apple", ""]
    src_tokens = pad([encode(dictionary, line) for line in lines], dictionary.pad(), left=True)
    prev_output_tokens = pad([encode(dictionary, line) for line in lines], dictionary.pad(), left=False)
    bert_tokens = model.encoder.bridge.bert_tokens(src_tokens)
    bert_out, _ = model.encoder.bert(bert_tokens)

    def logits_and_gradient(**cached):
        model.zero_grad()
        logits, _ = model(src_tokens, None, prev_output_tokens, bert_tokens=bert_tokens, **cached)
        logits.square().sum().backward()
        return logits.detach(), [parameter.grad.clone() for parameter in model.parameters()]

    expected = logits_and_gradient()
    # what the cache leaves at padded positions is of no account
    padded = bert_tokens.lt(0).unsqueeze(-1)
    actual = logits_and_gradient(bert_out=bert_out.masked_fill(padded, 0.0))
    assert_close(actual[0], expected[0])
    for actual_grad, expected_grad in zip(actual[1], expected[1]):
        assert_close(actual_grad, expected_grad, atol=1e-4)

    half = logits_and_gradient(bert_out=bert_out.half())
    assert_close(half[0], expected[0], atol=5e-2)
    assert not torch.equal(half[0], expected[0])


def test_a_model_that_gets_all_states_from_the_cache_does_not_move_bert(build, dictionary):
    """So the memory of a GPU does not hold it."""
    model = build()
    expected = model.encoder.bert(model.encoder.bridge.bert_tokens(encode(dictionary, "a dog").unsqueeze(0)))[0]
    model = model.double().train()
    src_tokens = encode(dictionary, "a dog").unsqueeze(0)
    bert_tokens = model.encoder.bridge.bert_tokens(src_tokens)
    logits, _ = model(src_tokens, None, src_tokens, bert_tokens=bert_tokens, bert_out=expected.half())
    logits.sum().backward()
    assert model.encoder.bert._frozen.dtype == torch.float
    model(src_tokens, None, src_tokens, bert_tokens=bert_tokens)
    assert model.encoder.bert._frozen.dtype == torch.double
