"""What the tests of warm start share: dictionaries, the logits of two models, and what is logged."""

import torch
from helpers import LINES, WORDS, dictionary_of, encode, pad

REORDERED = dictionary_of(*WORDS[::-1])
LARGER = dictionary_of(*WORDS[7:], "whale", *WORDS[:7], "ship", "sea")
SMALLER = dictionary_of(*WORDS[3:15])


def logits(model, source, target=None):
    return outputs(model, source, target)[0]


def outputs(model, source, target=None):
    """Return logits and attention to the source of `LINES`, translated by themselves, where they are not padding."""
    rows = [encode(source, line) for line in LINES]
    targets = [encode(target or source, line) for line in LINES]
    tokens, previous = pad(rows, source.pad(), left=True), pad(targets, source.pad(), left=False)
    found, extra = model(tokens, tokens.ne(source.pad()).sum(1), previous)
    kept = previous.ne(source.pad())
    return found[kept], [attn[kept] for attn in extra["attn"] or []]  # none in training


def assert_same_logits(model, stock, old, source=None, target=None):
    """The attention of *model*, and its logits for the symbols that both dictionaries know, are those of *stock*.

    *old* is the dictionary of *stock*.  In double precision, but fairseq computes a softmax in single precision here
    and there.
    """
    source, target = source or old, target or source or old
    (expected, attention), (actual, own) = outputs(stock.double(), old), outputs(model.double(), source, target)
    torch.testing.assert_close(own, attention, atol=1e-6, rtol=0, check_dtype=False)
    common = [symbol for symbol in target.symbols if symbol in old.indices]
    expected = expected[:, [old.indices[symbol] for symbol in common]]
    actual = actual[:, [target.indices[symbol] for symbol in common]]
    torch.testing.assert_close(actual, expected, atol=1e-6, rtol=0)


def said(caplog):
    """Return what the log says about the parameters, once."""
    [text] = [r.message for r in caplog.records if r.message.startswith("initialised ")]
    return text
