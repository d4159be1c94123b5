"""Dropout of units, of the same units at all positions, and of words."""

import torch

from bert_fused_plugin.modules.sequence_dropout import SequenceDropout, WordDropout


def test_dropout_of_units_and_of_words():
    x = torch.ones(40, 50, 6)
    plain, locked, words = SequenceDropout(0.25).train(), SequenceDropout(0.25, True).train(), WordDropout(0.25).train()
    for dropout in (plain, locked, words):
        out = dropout(x)
        assert set(out.unique().tolist()) == {0.0, torch.tensor(1 / 0.75).item()}
        assert abs(out.mean().item() - 1) < 0.15
        assert torch.equal(dropout.eval()(x), x)
    for dropout in (SequenceDropout(0.0).train(), SequenceDropout(0.0, True).train(), WordDropout(0.0).train()):
        assert dropout(x) is x  # no work, and no random numbers
    assert (locked.train()(x).std(dim=1) == 0).all()  # the same units at all positions
    assert (plain.train()(x).std(dim=1) > 0).any()
    assert (words.train()(x).std(dim=2) == 0).all()  # whole words
    assert (words(x).std(dim=1) > 0).any()


def test_dropout_is_retained_in_translation_by_name():
    x = torch.ones(4, 5, 6)
    for dropout in (SequenceDropout(0.5).eval(), WordDropout(0.5).eval()):
        dropout.make_generation_fast_("", retain_dropout=True, retain_dropout_modules=["another"])
        assert torch.equal(dropout(x), x)
        dropout.make_generation_fast_("", retain_dropout=True, retain_dropout_modules=[type(dropout).__name__])
        assert not torch.equal(dropout(x), x)
