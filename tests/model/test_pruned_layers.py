"""LayerDrop's pruning keeps some layers of a trained model, and these keep their gates."""

from argparse import Namespace

import pytest
import torch


@pytest.mark.parametrize(
    ("encoder", "decoder"), [("0,2", "0,1,2"), ("2", "1,2"), ("0,1,2", "1"), ("0", "0"), ([2, 1], [0, 2])]
)
def test_the_gates_are_those_of_the_layers_that_are_kept(build, encoder, decoder):
    sizes = {"encoder_layers": 3, "decoder_layers": 3, "bert_gates": "0,1,1"}
    if (encoder, decoder) == ("0", "0"):
        sizes["bert_gates"] = "1,0,0"
    trained = build(**sizes)
    keep = {"encoder_layers_to_keep": encoder, "decoder_layers_to_keep": decoder}
    pruned = build(**sizes, **keep)
    texts = {n: ",".join(map(str, v)) if isinstance(v, list) else v for n, v in keep.items()}
    pruned.load_state_dict(trained.state_dict(), strict=True, model_cfg=Namespace(arch="bert_fused", **texts))
    for side, kept in (("encoder", encoder), ("decoder", decoder)):
        old, new = getattr(trained, side).layers, getattr(pruned, side).layers
        numbers = sorted(map(int, kept if isinstance(kept, list) else kept.split(",")))
        assert len(new) == len(numbers)
        for number, layer in zip(numbers, new):
            expected = old[number].state_dict()
            assert layer.state_dict().keys() == expected.keys()
            assert all(torch.equal(value, expected[name]) for name, value in layer.state_dict().items())
