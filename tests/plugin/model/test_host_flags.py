"""Models with other fusions and with fairseq's own flags are saved, built and loaded again, as its commands do it."""

import copy
from itertools import combinations

import pytest
import torch
from fairseq import options
from helpers import SIZES, randomise, task_of

from bert_fused_plugin.models.bert_fused import BertFusedModel

SHARE_ALL, SHARE_OUTPUT = "--share-all-embeddings", "--share-decoder-input-output-embed"
WIDE_OUTPUT, WIDE_DECODER = "--decoder-output-dim 6", "--decoder-embed-dim 12"

# flags that change which parameters there are, and what they are called: each pair of them is tried
STRUCTURE = [SHARE_ALL, SHARE_OUTPUT, WIDE_OUTPUT, WIDE_DECODER, "--decoder-normalize-before"]
IMPOSSIBLE = [(SHARE_ALL, WIDE_OUTPUT), (SHARE_OUTPUT, WIDE_OUTPUT), (SHARE_ALL, WIDE_DECODER)]
OTHERS = """
--bert-fusion gated
--bert-fusion stacked
--bert-fusion embedding --bert-layer mix
--attention-map entmax --self-attention-map entmax
--encoder-normalize-before
--decoder-normalize-before --no-decoder-final-norm
--encoder-layerdrop 0.5
--decoder-layerdrop 0.5
--checkpoint-activations
--offload-activations
--layernorm-embedding
--encoder-learned-pos
--decoder-learned-pos --decoder-layers 1
--no-token-positional-embeddings
--encoder-layers 0
"""


@pytest.mark.parametrize(
    "flags",
    [
        *STRUCTURE,
        *OTHERS.strip().splitlines(),
        *(" ".join(pair) for pair in combinations(STRUCTURE, 2) if pair not in IMPOSSIBLE),
    ],
)
def test_a_model_trains_and_loads_again(bert_dir, dictionary, batch, flags):
    sizes = " ".join(f"--{name.replace('_', '-')} {value}" for name, value in SIZES.items())
    command = f"nowhere --task translation --arch bert_fused {sizes} --bert-model {bert_dir} {flags}"
    args = options.parse_args_and_arch(options.get_training_parser(), command.split())
    saved = copy.deepcopy(args)
    trained = BertFusedModel.build_model(args, task_of(dictionary))
    randomise(trained)
    trained.train()(*batch)[0].sum().backward()
    again = BertFusedModel.build_model(saved, task_of(dictionary))
    again.load_state_dict(trained.state_dict(), strict=True, model_cfg=saved)
    scores = []
    for model in (trained.eval(), again.eval()):
        with torch.no_grad():
            scores.append(model.get_normalized_probs(model(*batch), log_probs=True))
    assert torch.equal(*scores)
