"""Warm start with other dictionaries than the checkpoint's: rows of embeddings are copied symbol by symbol."""

import os
from contextlib import nullcontext
from pathlib import Path

import pytest
import torch
from fairseq.data import Dictionary
from warm_start_helpers import LARGER, REORDERED, SMALLER, assert_same_logits, said

from bert_fused_plugin.checkpoints.record import SETTINGS_RECORD, JsonRecord, fingerprint
from bert_fused_plugin.errors import BertFusedError


def test_symbols_that_the_old_dictionary_lacks_stay_fresh(stock, save, start, dictionary, caplog):
    path = save(stock())
    torch.manual_seed(7)
    fresh = start(None, LARGER)
    torch.manual_seed(7)
    model = start(path, LARGER)
    for name in ("encoder.embed_tokens", "decoder.embed_tokens", "decoder.output_projection"):
        new, before = (m.state_dict()[f"{name}.weight"] for m in (model, fresh))
        for symbol in LARGER.symbols:
            unchanged = torch.equal(new[LARGER.index(symbol)], before[LARGER.index(symbol)])
            assert unchanged == (symbol in ("whale", "ship", "sea")), symbol
    known, folder = f"{len(dictionary)} of {len(LARGER)} symbols of the", os.path.dirname(path)
    for what, lang in (("source", "en"), ("target", "de")):
        assert f"; {known} {what} dictionary are in {folder}/dict.{lang}.txt" in said(caplog)


def test_a_bias_of_the_scores_follows_its_symbols(stock, save, start, dictionary):
    """As the imports of OPUS-MT have one."""
    path, bias = save(stock()), torch.arange(1.0, len(dictionary) + 1)
    state = torch.load(path, weights_only=False)
    state["model"]["decoder.output_projection.bias"] = bias
    torch.save(state, path)
    model = start(path, LARGER)
    for symbol in LARGER.symbols:
        expected = bias[dictionary.index(symbol)] if symbol in dictionary else 0
        assert model.decoder.output_projection.bias[LARGER.index(symbol)] == expected, symbol


def test_a_dictionary_of_other_subwords_is_warned_of(stock, save, start, dictionary, caplog):
    path = save(stock())
    for symbols, warned in ((dictionary.symbols[4:], False), (["the"] + [f"x{i}" for i in range(9)], True)):
        caplog.clear()
        other = Dictionary()
        for symbol in symbols:
            other.add_symbol(symbol)
        start(path, other)
        assert (f"knows only 5 of {len(other)} symbols of the target dictionary" in caplog.text) == warned


def test_a_shared_embedding_counts_once(stock, save, start, dictionary, caplog):
    baseline = stock(share_all_embeddings=True)
    model = start(save(baseline), REORDERED, share_all_embeddings=True, bert_identity_start=True)
    total = len([*model.parameters()])
    assert f"initialised {total - 32} of {total} parameters" in said(caplog)  # those of 4 attentions to BERT
    assert_same_logits(model, baseline, dictionary, REORDERED)


def test_a_shared_embedding_goes_into_a_model_that_does_not_share(stock, save, start, dictionary, caplog):
    baseline = stock(share_all_embeddings=True)
    model = start(save(baseline), REORDERED, LARGER, bert_identity_start=True)
    assert "trained with --share-all-embeddings, and this model is built without it" in caplog.text
    assert_same_logits(model, baseline, dictionary, REORDERED, LARGER)


@pytest.mark.parametrize(
    ("before", "now"),
    [
        ({}, "share_all_embeddings"),
        ({"target": SMALLER}, "share_all_embeddings"),
        ({"share_decoder_input_output_embed": True}, "share_all_embeddings"),
        ({}, "share_decoder_input_output_embed"),
    ],
    ids=["nothing", "two dictionaries", "the decoder's", "nothing, decoder"],
)
def test_embeddings_that_differ_cannot_become_one(stock, save, start, before, now):
    path, flag = save(stock(**before), target=before.get("target")), f"--{now.replace('_', '-')}"
    with pytest.raises(BertFusedError, match=f"was trained without {flag}, and .*; train that model with {flag}, too"):
        start(path, **{now: True})


def test_nor_can_those_of_a_decoder_with_embedding_fusion(stock, save, start):
    with pytest.raises(BertFusedError, match="was trained without --share-decoder-input-output-embed"):
        start(save(stock()), bert_fusion="embedding", share_all_embeddings=True)


def test_without_its_dictionary_a_checkpoint_is_refused(stock, save, start, dictionary, tmp_path):
    path = save(stock(), beside=False)
    with pytest.raises(BertFusedError) as caught:
        start(path, REORDERED)
    size = f"with {len(dictionary)} symbols"
    for error, lang, what in zip(caught.value.errors, ("en", "de"), ("source", "target")):
        assert f"needs the {what} dictionary of its training, {size}; it is not at " in error
        assert f"{tmp_path}/dict.{lang}.txt and " in error
        assert error.endswith(f"nowhere/dict.{lang}.txt; put dict.{lang}.txt beside the checkpoint")
    assert len(caught.value.errors) == 2


def test_another_dictionary_of_the_same_size_is_refused_if_the_checkpoint_knows_its_own(stock, save, start, dictionary):
    baseline = stock()
    for own, error in ((dictionary, None), (REORDERED, "needs the source dictionary of its training")):
        symbols = {"encoder": fingerprint(own), "decoder": fingerprint(dictionary)}
        record = JsonRecord({"computed": {}, "noted": {}, "symbols": symbols})
        path = save(baseline, model={**baseline.state_dict(), SETTINGS_RECORD: record.text})
        with nullcontext() if error is None else pytest.raises(BertFusedError, match=error):
            start(path)


def test_a_dictionary_of_another_size_is_passed_over(stock, save, start, dictionary, tmp_path, caplog):
    baseline = stock()
    (tmp_path / "data").mkdir()
    path = save(baseline, data=str(tmp_path / "data"))
    for lang in ("en", "de"):
        (tmp_path / f"dict.{lang}.txt").rename(tmp_path / "data" / f"dict.{lang}.txt")
        LARGER.save(str(tmp_path / f"dict.{lang}.txt"))
    model = start(path, REORDERED, bert_identity_start=True)
    assert_same_logits(model, baseline, dictionary, REORDERED)
    assert f"symbols of the source dictionary are in {tmp_path}/data/dict.en.txt" in said(caplog)


def test_a_relative_data_directory_is_where_that_training_ran(stock, save, start, dictionary, tmp_path, monkeypatch):
    """Here, the directory of that name has another dictionary of the same size."""
    baseline = stock()
    for place, symbols in (("old", dictionary), ("new", REORDERED)):
        (tmp_path / place / "data-bin").mkdir(parents=True)
        for lang in ("en", "de"):
            symbols.save(str(tmp_path / place / "data-bin" / f"dict.{lang}.txt"))
    task = {"_name": "translation", "data": "data-bin", "source_lang": "en", "target_lang": "de"}
    cfg = {"model": baseline.flags, "task": task, "checkpoint": {"save_dir": "./runs/plain"}}
    path = tmp_path / "old" / "runs" / "plain" / "checkpoint_best.pt"
    path.parent.mkdir(parents=True)
    Path(save(baseline, beside=False, cfg=cfg)).rename(path)
    monkeypatch.chdir(tmp_path / "new")
    model = start(str(path), REORDERED, bert_identity_start=True)
    assert_same_logits(model, baseline, dictionary, REORDERED)


def save_reversed(model, save, path, dictionary):
    """Save a *model* from German to English, whose training did not name its languages, and its dictionaries."""
    dictionary.save(str(path / "dict.de.txt"))
    REORDERED.save(str(path / "dict.en.txt"))
    task = {"_name": "translation", "data": str(path / "old"), "source_lang": None, "target_lang": None}
    return save(model, beside=False, cfg={"model": model.flags, "task": task})


@pytest.mark.parametrize("known_by", ["record", "data directory"])
def test_languages_that_fairseq_has_found_by_itself_are_found_again(stock, save, start, dictionary, tmp_path, known_by):
    """The new training is from English to German, and both dictionaries have the same size."""
    baseline = stock(target=REORDERED)
    if known_by == "record":
        baseline.settings_record = JsonRecord({"computed": {}, "noted": {"source_lang": "de", "target_lang": "en"}})
    else:
        (tmp_path / "old").mkdir()
        (tmp_path / "old" / "train.de-en.de.idx").touch()
    model = start(save_reversed(baseline, save, tmp_path, dictionary), REORDERED, dictionary)
    for new, old, now, then in (
        (model.encoder, baseline.encoder, REORDERED, dictionary),
        (model.decoder, baseline.decoder, dictionary, REORDERED),
    ):
        rows = [then.index(symbol) for symbol in now.symbols]
        assert torch.equal(new.embed_tokens.weight, old.embed_tokens.weight[rows])


def test_a_dictionary_of_a_training_in_other_languages_is_asked_for_by_its_name(stock, save, start, tmp_path):
    baseline = stock()
    baseline.settings_record = JsonRecord({"computed": {}, "noted": {"source_lang": "en", "target_lang": "fr"}})
    path = save_reversed(baseline, save, tmp_path, REORDERED)
    with pytest.raises(BertFusedError, match=r"old/dict\.fr\.txt; put dict\.fr\.txt beside the checkpoint$"):
        start(path)
