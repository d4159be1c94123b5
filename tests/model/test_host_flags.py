"""Models with fairseq's own flags are saved, and built and loaded again, as fairseq's commands do it."""

import copy

import pytest
import torch
from fairseq import options
from helpers import encode, pad, randomise
from warm_start_helpers import task_of

from bert_fused_plugin.models.bert_fused import BertFusedModel

SIZES = (
    "--encoder-embed-dim 8 --decoder-embed-dim 8 --encoder-ffn-embed-dim 18 --decoder-ffn-embed-dim 18 "
    "--encoder-layers 2 --decoder-layers 2 --encoder-attention-heads 2 --decoder-attention-heads 2 --dropout 0"
)
ADAPTIVE = "--adaptive-softmax-cutoff 5,10 --adaptive-softmax-factor 2"


@pytest.fixture
def parsed(bert_dir):
    """Return the flags as fairseq-train reads them: parsed("--share-all-embeddings")."""

    def parse(flags):
        words = f"nowhere --arch bert_fused --task translation --bert-model {bert_dir} {SIZES} {flags}".split()
        return options.parse_args_and_arch(options.get_training_parser(), words)

    return parse


@pytest.fixture
def round_trip(parsed, dictionary):
    """Build a model of flags, and load its parameters into another one; return the scores of both, (B, T, V)."""

    def run(flags):
        args = parsed(flags)
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
