"""Switches of fairseq's task with which a model would fail in training, or learn something else, are refused."""

import pytest
from fairseq.criterions.label_smoothed_cross_entropy_with_alignment import (
    LabelSmoothedCrossEntropyCriterionWithAlignment,
)
from helpers import GRU_SIZES, SIZES, parse_flags, randomise, task_of
from recurrent_models import make_batch
from torch import tensor

from bert_fused_plugin.errors import BertFusedError
from bert_fused_plugin.models.bert_fused import BertFusedModel
from bert_fused_plugin.models.gru_bahdanau import GruModel

GRU = {name: value for name, value in GRU_SIZES.items() if "positions" not in name}
MODELS = {"bert_fused": (BertFusedModel, SIZES), "gru_bahdanau": (GruModel, GRU)}


@pytest.fixture
def make(bert_dir, dictionary):
    """Build a model of flags for a task that has them too: make("bert_fused", "--load-alignments")."""

    def build_of(arch, flags):
        model, sizes = MODELS[arch]
        args, task = parse_flags(flags.replace("{bert}", f"--bert-model {bert_dir}"), sizes, arch), task_of(dictionary)
        vars(task.cfg).update(vars(args))
        return model.build_model(args, task)

    return build_of


@pytest.mark.parametrize(
    ("arch", "flags", "reason"),
    [
        ("bert_fused", "{bert}", "its layers give no attention weights in training"),
        ("gru_bahdanau", "{bert}", r"--bert-drop-net 1\.0 leaves the attention to the source out of some steps"),
        ("gru_bahdanau", "--attention none", "--attention none aligns no words"),
    ],
)
def test_alignments_are_refused_where_a_step_may_have_no_attention(make, arch, flags, reason):
    with pytest.raises(BertFusedError, match=rf"^--load-alignments .*, got True: {reason}.*; leave it out$"):
        make(arch, f"{flags} --load-alignments")
    make(arch, flags)


def test_targets_that_are_padded_on_the_left_are_refused_by_recurrent_models(make):
    with pytest.raises(BertFusedError, match=r"^--left-pad-target .*, got True: the decoder .*; leave it out$"):
        make("gru_bahdanau", "--left-pad-target")
    make("bert_fused", "{bert} --left-pad-target")


@pytest.mark.parametrize("flags", ["", "{bert} --bert-drop-net 0"])
def test_a_recurrent_model_with_attention_in_each_step_learns_alignments(make, dictionary, flags):
    model = make("gru_bahdanau", f"{flags} --load-alignments").train()
    randomise(model)
    source, previous = make_batch(dictionary)
    net_input = {"src_tokens": source, "src_lengths": None, "prev_output_tokens": previous}
    sample = {"net_input": net_input, "target": previous, "ntokens": 10}
    sample.update(alignments=tensor([[0, 0], [1, 1]]), align_weights=tensor([1.0, 1.0]))
    criterion = LabelSmoothedCrossEntropyCriterionWithAlignment(task_of(dictionary), False, 0.1, 0.05)
    _, _, log = criterion(model, sample)
    assert log["alignment_loss"] > 0
