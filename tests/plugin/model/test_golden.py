"""Imported checkpoints of bert-nmt compute what the authors' code did, layer by layer.

Its output (checkpoints, states, logits, gradients and translations of three small models) lies outside the repository,
in the folder that the environment variable GOLDEN names; default: shared/golden beside the repository.
"""

import json
import os
import shutil
from argparse import Namespace
from pathlib import Path

import numpy as np
import pytest
import torch
from bert_nmt_formulas import BertNmt, run_import
from documentation import ROOT
from fairseq import checkpoint_utils

from bert_fused_plugin.criterions.label_smoothed_cross_entropy import LabelSmoothedCrossEntropy
from bert_fused_plugin.data.dictionary_bridge import BERT_PAD

GOLDEN = Path(os.environ.get("GOLDEN") or ROOT.parent / "shared" / "golden")
COMMON = GOLDEN / "common"
SETS = ["s2", "s2_dropnet", "stack"]
PAD, WORD_PIECE_PAD = 1, 0
pytestmark = pytest.mark.skipif(
    not GOLDEN.is_dir(), reason=f"GOLDEN, the output of bert-nmt to compare with, is not there: {GOLDEN}"
)


def bert_of(path: Path) -> Path:
    """Make the BERT of all sets a Hugging Face directory, as docs/from_other_code.md says."""
    folder = shutil.copytree(COMMON / "tiny-bert", path / "bert")
    config = json.loads((folder / "bert_config.json").read_text(encoding="utf-8"))
    (folder / "config.json").write_text(json.dumps({**config, "model_type": "bert"}), encoding="utf-8")
    return folder


class Golden:
    """One set: the imported model, and its files."""

    def __init__(self, name: str, path: Path) -> None:
        self.folder, output = GOLDEN / name, path / f"{name}.pt"
        run_import(self.folder / "checkpoint.pt", "--bert", bert_of(path), "--output", output)
        data = str(COMMON / "data-bin")
        [model], _, self.task = checkpoint_utils.load_model_ensemble_and_task(
            [str(output)], arg_overrides={"data": data}
        )
        self.model = model.eval()

    def file(self, name: str):
        with np.load(self.folder / f"{name}.npz") as arrays:
            return {key: torch.from_numpy(arrays[key]) for key in arrays.files}


@pytest.fixture(scope="module", params=SETS)
def golden(request, tmp_path_factory):
    return Golden(request.param, tmp_path_factory.mktemp("golden"))


def bert_tokens(bert_input):
    return bert_input.masked_fill(bert_input.eq(WORD_PIECE_PAD), BERT_PAD)


def left_padded_states(model, bert_input):
    """Return the states of all layers as bert-nmt computes them: positions count the padding on the left too."""
    positions = torch.arange(bert_input.size(1)).expand_as(bert_input)
    inputs = {"input_ids": bert_input, "attention_mask": bert_input.ne(WORD_PIECE_PAD).long()}
    with torch.no_grad():
        bert = model.encoder.source.bert.model
        return bert(**inputs, position_ids=positions, output_hidden_states=True).hidden_states


def assert_within(actual, expected, limit=1e-4):
    assert actual.shape == expected.shape
    assert (actual - expected).abs().max() <= limit


def test_bert_and_logits_of_single_sentences(golden):
    single, batch = golden.file("single8"), golden.file("batch8")
    texts = (COMMON / "raw" / "test.bert.en").read_text(encoding="utf-8").splitlines()
    assert len(batch["id"]) == 8
    for row, i in enumerate(batch["id"].tolist()):
        source, pieces = single[f"src_tokens_{i}"][None], bert_tokens(single[f"bert_input_{i}"][None])
        expected = single[f"logits_{i}"]
        prev_output_tokens = batch["prev_output_tokens"][row : row + 1, : len(expected)]
        with torch.no_grad():
            bert_out = golden.model.encoder(source, bert_tokens=pieces)["bert_out"][0]
            logits, _ = golden.model(source, None, prev_output_tokens, bert_tokens=pieces)
        assert golden.model.encoder.source.bridge.text(source[0]) == texts[i]  # as derived without --bert-text
        assert_within(bert_out[0], single[f"bert_last_{i}"])
        assert_within(logits[0], expected)


def test_all_layers_and_the_loss_and_its_gradients_on_bert_nmts_own_batch(golden):
    """Its BERT input is padded on the left, so BERT's states are computed its way, and given to the model."""
    model, batch, seen = golden.model, golden.file("batch8"), {}
    states = left_padded_states(model, batch["bert_input"])
    for name, state in zip(("bert_embeddings", "bert_layer_0", "bert_layer_1"), states):
        assert_within(state, batch[name])

    net_input = {key: batch[key] for key in ("src_tokens", "src_lengths", "prev_output_tokens")}
    net_input.update(bert_tokens=bert_tokens(batch["bert_input"]), bert_out=states[-1])
    hooks = []
    for path, module in model.named_modules():  # encoder.layers.0.self_attn is encoder_layer_0_self_attn there
        name = path.replace(".layers.", "_layer_").replace(".", "_")
        if name in batch:
            hooks.append(module.register_forward_hook(lambda *call, name=name: seen.update({name: call[2]})))
    logits, _ = model(**net_input)
    for hook in hooks:
        hook.remove()
    is_token = {"encoder": batch["src_tokens"].ne(PAD), "decoder": batch["target"].ne(PAD)}
    assert {name for name in batch if "_layer_" in name and "bert_layer" not in name} == set(seen)
    assert len(seen) >= 12
    for name, out in seen.items():
        mask = is_token[name.split("_")[0]]
        expected = batch[name].transpose(0, 1)  # the authors' layers work time first
        assert_within((out[0] if isinstance(out, tuple) else out)[mask], expected[mask])
    assert_within(logits[is_token["decoder"]], batch["logits"][is_token["decoder"]])

    criterion = LabelSmoothedCrossEntropy(golden.task, label_smoothing=0.1, sentence_avg=False)
    sample = {"net_input": net_input, "target": batch["target"], "ntokens": int(batch["ntokens"])}
    loss, _, logged = criterion(model, sample)
    assert loss.item() == pytest.approx(batch["loss_sum"].item(), rel=1e-6)
    assert logged["nll_loss"].item() == pytest.approx(batch["nll_sum"].item(), rel=1e-6)
    if (golden.folder / "grads.npz").exists():  # of this batch's loss, in evaluation mode
        assert_gradients(model, loss, golden.file("grads"))


def assert_gradients(model, loss, expected):
    model.zero_grad()
    loss.backward()
    gradients = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
    names = {theirs: names_today(theirs) for theirs in expected}
    # that of the tied embeddings is there once
    assert sorted(name for today in names.values() for name in today) == sorted(gradients)
    for theirs, today in names.items():
        actual = torch.cat([gradients[name] for name in today])
        assert (actual - expected[theirs]).norm() <= 1e-4 * expected[theirs].norm(), theirs


def names_today(name):
    """Return the parameters, or the parts, that bert-nmt's parameter *name* has become."""
    prefix, joint, kind = name.partition("in_proj_")
    if joint:
        return [f"{prefix}{part}_proj.{kind}" for part in "qkv"]
    return [name.replace("_proj_weight", "_proj.weight")]


def test_the_formulas_are_those_of_bert_nmt(golden):
    single, batch, weights = golden.file("single8"), golden.file("batch8"), golden.file("params")
    args = Namespace(**json.loads((golden.folder / "args.json").read_text(encoding="utf-8")))
    for row, i in enumerate(batch["id"].tolist()):
        expected = single[f"logits_{i}"]
        model = BertNmt(weights, args, single[f"bert_last_{i}"], None)
        assert_within(
            model.logits(single[f"src_tokens_{i}"], batch["prev_output_tokens"][row, : len(expected)]), expected
        )
