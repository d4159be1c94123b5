"""With BERT's branch weighted zero the whole model is fairseq's transformer, and takes its checkpoints."""

import pytest
from helpers import LINES, assert_close, encode, pad, randomise


@pytest.fixture
def batch(dictionary, source):
    rows = [encode(dictionary, line) for line in LINES]
    return source, source.ne(dictionary.pad()).sum(1), pad(rows, dictionary.pad(), left=False)


@pytest.mark.parametrize("pre_norm", [False, True], ids=["post-norm", "pre-norm"])
def test_logits_and_attention_are_those_of_fairseq(stock, build, batch, pre_norm):
    options = {"encoder_normalize_before": pre_norm, "decoder_normalize_before": pre_norm}
    ours = build(bert_branch_weights="1,0", **options)
    randomise(ours)
    stock, ours = stock(**options).train(), ours.eval()
    state = stock.state_dict()
    ours.upgrade_state_dict(state)
    missing, unexpected = ours.load_state_dict(state, strict=False)
    assert unexpected == []
    assert {".bert_attn." in name for name in missing} == {True}
    # in training mode, without dropout, fairseq computes what it was written for: no fused path
    expected, extra = stock(*batch)
    actual, own_extra = ours(*batch)
    target = batch[2].ne(1)
    assert_close(actual[target], expected[target], atol=1e-5)
    assert_close(own_extra["attn"][0][target], extra["attn"][0][target], atol=1e-5)


def test_keys_and_values_are_cached_once_not_once_more_in_each_step(build, batch):
    ours = build().eval()
    encoder_out, incremental_state = ours.encoder(batch[0]), {}
    seen = []
    for step in (1, 2, 3):
        ours.decoder(batch[2][:, :step], encoder_out=encoder_out, incremental_state=incremental_state)
        for layer in ours.decoder.layers:
            assert layer.self_attn._get_input_buffer(incremental_state)["states"].size(3) == step
        seen.append(encoder_out["memories"][0])
    assert seen[0] is seen[1] is seen[2]
    lengths = [memory.keys.size(2) for memory in seen[0][0]]
    assert lengths == [batch[0].size(1), encoder_out["bert_out"][0].size(1)]
