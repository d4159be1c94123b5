"""Models with fairseq's own flags are saved, and built and loaded again, as fairseq's commands do it."""

import copy

import pytest
import torch
from helpers import encode, pad, parse_flags, randomise
from warm_start_helpers import task_of

from bert_fused_plugin.models.bert_fused import BertFusedModel

ADAPTIVE = "--adaptive-softmax-cutoff 5,10 --adaptive-softmax-factor 2"


@pytest.fixture
def round_trip(bert_dir, dictionary):
    """Build a model of flags, and load its parameters into another one; return the scores of both, (B, T, V)."""

    def run(flags):
        args = parse_flags(f"--bert-model {bert_dir} {flags}")
        saved = copy.deepcopy(args)
        trained = BertFusedModel.build_model(args, task_of(dictionary))
        randomise(trained)
        again = BertFusedModel.build_model(saved, task_of(dictionary))
        again.load_state_dict(trained.state_dict(), strict=True, model_cfg=saved)
        rows = [encode(dictionary, line) for line in ("the old man sees a dog", "red apple", "")]
        source, target = pad(rows, dictionary.pad(), left=True), pad(rows, dictionary.pad(), left=False)
        with torch.no_grad():
            return [
                model.get_normalized_probs(model.eval()(source, None, target), log_probs=True)
                for model in (trained, again)
            ]

    return run


@pytest.mark.parametrize("share", ["", "--share-all-embeddings", "--share-decoder-input-output-embed"])
def test_an_adaptive_softmax_with_shared_embeddings_loads_again(round_trip, share):
    scores, again = round_trip(f"{ADAPTIVE} {share}")
    assert torch.equal(scores, again)


@pytest.mark.parametrize("flags", ["", "--decoder-normalize-before", f"{ADAPTIVE} --share-all-embeddings"])
def test_the_output_may_have_a_width_of_its_own(round_trip, flags):
    scores, again = round_trip(f"--decoder-output-dim 6 {flags}")
    assert torch.equal(scores, again)
