"""Bad values of the model's flags are refused, all of them together."""

import pytest
from helpers import make_model

from bert_fused_plugin.errors import BertFusedError


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"bert_gates": "1,0,1"}, r"--bert-gates must be a 0 or 1 for each of the 2 layers.*got '1,0,1'"),
        ({"bert_gates": "1,x"}, r"--bert-gates must be a 0 or 1"),
        ({"bert_gates": "0,0"}, r"lets none of the 2 encoder and 2 decoder layers attend to BERT"),
        ({"bert_branch_weights": "1"}, r"--bert-branch-weights must be two numbers .* got '1'"),
        ({"bert_branch_weights": "1,nan"}, r"--bert-branch-weights must be two numbers"),
        ({"bert_branch_weights": "1,2,3"}, r"--bert-branch-weights must be two numbers"),
        ({"bert_layer": "3"}, r"--bert-layer must be in \[0, 2\], or in \[-3, -1\] from the end.*got '3'"),
        ({"bert_layer": "-4"}, r"--bert-layer must be in \[0, 2\].*got '-4'"),
        ({"bert_drop_net": float("nan")}, r"--bert-drop-net must be in \[0, 1\]"),
    ],
)
def test_bad_values_are_refused(build, options, message):
    with pytest.raises(BertFusedError, match=message):
        build(**options)


def test_bad_values_are_refused_together(dictionary, bert_dir):
    with pytest.raises(BertFusedError) as caught:
        make_model(dictionary, bert_model=bert_dir, bert_gates="1", bert_branch_weights="a,b", bert_layer="9")
    assert [flag for flag in ("gates", "branch-weights", "layer") if f"--bert-{flag} must be" in str(caught.value)] == [
        "gates",
        "branch-weights",
        "layer",
    ]
