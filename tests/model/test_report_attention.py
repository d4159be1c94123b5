"""Attention and its entropy, as the report shows them: layers keep their numbers, masked positions do not count."""

import pytest
import torch
from helpers import encode, make_gru, pad

from bert_fused_plugin.reports.attention import BERT, SOURCE
from bert_fused_plugin.reports.attention_statistics import AttentionStatistics

LINES = ["the old man sees a dog", "a dog"]


@pytest.fixture
def net_input(dictionary, build):
    rows = [encode(dictionary, line) for line in LINES]
    src_tokens = pad(rows, dictionary.pad(), left=True)
    bert_tokens = build().encoder.bridge.bert_tokens(src_tokens)
    return {
        "src_tokens": src_tokens,
        "src_lengths": torch.tensor(list(map(len, rows))),
        "bert_tokens": bert_tokens,
    }


@pytest.fixture
def translations(dictionary):
    return [encode(dictionary, line) for line in ("a red apple .", "the")]


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("kind", ["parallel", "embedding", "gru"])
def test_uniform_attention_is_the_largest_possible(build, dictionary, bert_dir, net_input, translations, kind, masked):
    options = {"bert_mask_special_tokens": masked, "bert_model": bert_dir}
    model = (make_gru(dictionary, **options) if kind == "gru" else build(**options, bert_fusion=kind)).eval()
    for name, parameter in model.named_parameters():
        if ".q_proj." in name or name.endswith("attention.v"):
            torch.nn.init.zeros_(parameter)
    statistics = AttentionStatistics()
    statistics.add(model, net_input, translations)
    shares = {what: [layer.share for layer in layers] for what, layers in statistics.entropies().items()}
    assert list(shares) == ([BERT] if kind == "embedding" else [SOURCE, BERT])
    for layers in shares.values():
        assert layers == pytest.approx([1.0] * len(layers), abs=1e-5)
