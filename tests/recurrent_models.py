"""Tiny recurrent models of all kinds with random parameters, and a batch for them."""

import torch
from helpers import encode, make_gru, pad, randomise

from bert_fused_plugin.modules.recurrent_attention import RECURRENT_ATTENTIONS

KINDS = {
    **{kind: {"attention": kind} for kind in RECURRENT_ATTENTIONS},
    "deep": {"encoder_layers": 2, "decoder_layers": 3},
    "sparsemax, dot": {"attention": "dot", "attention_map": "sparsemax"},
    "entmax": {"attention_map": "entmax"},
}
WITH_BERT = {
    "BERT": {"bert_branch_weights": "0.7,0.2"},
    "BERT, mix": {"bert_layer": "mix"},
    "BERT, no attention": {"attention": "none"},
    "BERT, deep": {"decoder_layers": 2, "bert_mask_special_tokens": True},
    "BERT, entmax15": {"attention_map": "entmax15"},
}
LINES = ["the old man sees a small dog .", "a dog", "", "play@@ house ? the hou@@ se , the red apple ."]
PREFIXES = ["a big house", "the dog eats a red apple", "runs", "old man sees"]


def make_random_gru(name, dictionary, bert_dir):
    """Return the model *name* of `KINDS` or `WITH_BERT` in double precision, and its options."""
    options = KINDS[name] if name in KINDS else {**WITH_BERT[name], "bert_model": bert_dir}
    model = make_gru(dictionary, **options)
    randomise(model)
    return model.double().eval(), options


def make_batch(dictionary, rows=slice(None), left=True):
    """Return source tokens, padded on the left or on the right, and previous target tokens."""
    source = pad([encode(dictionary, line) for line in LINES[rows]], dictionary.pad(), left)
    targets = [encode(dictionary, line) for line in PREFIXES[rows]]
    return source, pad([torch.cat([t[-1:], t[:-1]]) for t in targets], dictionary.pad(), left=False)
