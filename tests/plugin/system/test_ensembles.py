"""Ensembles of all kinds: each step's probability is the mean of the members', computed here one by one."""

from pathlib import Path

import pytest
import torch
from fairseq import checkpoint_utils
from in_process import Model, mean_log_probabilities, train
from workspace import GRU_SIZES, TINY

from bert_fused_plugin.models.bert_fused import BertFusedModel

OWN, STOCK = "bert_fused_translation", "translation"


@pytest.fixture(scope="module")
def members(workspace, tmp_path_factory):
    """Checkpoints of one data-bin: BERT-fused, fairseq's transformer, RNNsearch without and with BERT."""
    path, gru = tmp_path_factory.mktemp("members"), ["gru_bahdanau", *GRU_SIZES]
    models = {"plain": ["transformer", *TINY], "gru": gru, "gru+bert": [*gru, "--bert-model", workspace.bert_dir]}
    for name, flags in models.items():
        train(workspace.data, path / name, "--task", STOCK, "--max-update", "20", "--arch", *flags)
    return {"fused": workspace.checkpoint, **{name: str(path / name / "checkpoint_last.pt") for name in models}}


def translate(data, paths, task, *args):
    return Model(data, ":".join(paths)).generate(*args, task=task)


@pytest.mark.parametrize(
    ("names", "task"), [("fused plain gru", OWN), ("gru+bert fused", OWN), ("gru+bert fused", STOCK)]
)
def test_the_ensembles_probability_is_the_mean_of_its_members(workspace, members, names, task):
    names, alone = names.split(), []
    for name in names:
        [model], _, its_task = checkpoint_utils.load_model_ensemble_and_task([members[name]], {"data": workspace.data})
        alone.append((model.eval(), its_task))
    searched, forced, turned = (
        translate(workspace.data, [members[name] for name in names[::step]], task, *flags)
        for step, flags in ((1, []), (1, ["--score-reference"]), (-1, []))
    )
    for out, kind in ((searched, "H"), (forced, "T")):
        for number, words in out.tokens(kind).items():
            expected = mean_log_probabilities(alone, out.tokens("S")[number], words)
            assert out.positional()[number] == pytest.approx(expected, abs=2e-4)
    assert turned.tokens() == searched.tokens()
    assert turned.scores() == pytest.approx(searched.scores(), abs=1e-5)


def write_with_dogs(workspace, folder):
    """Write the raw text of the test set to *folder*, with another word in each line."""
    lines = (Path(workspace.data).parent / "test.en").read_text(encoding="utf-8").splitlines()
    (folder / "test.en").write_text("".join(f"dogs {line}\n" for line in lines), encoding="utf-8")


def test_the_text_and_the_cache_of_bert_serve_a_member_beside_plain_ones(workspace, members, tmp_path, caplog):
    paths = [members[name] for name in ("plain", "fused", "gru")]
    derived = translate(workspace.data, paths, OWN)
    cached = translate(workspace.data, paths, OWN, "--bert-cache", tmp_path / "cache")
    assert cached.tokens() == derived.tokens()
    assert cached.scores() == pytest.approx(derived.scores(), abs=1e-3)  # of half precision
    write_with_dogs(workspace, tmp_path)
    other = translate(workspace.data, paths, OWN, "--bert-text", tmp_path)
    assert other.scores() != pytest.approx(derived.scores(), abs=1e-3)
    assert "do not use" not in caplog.text


def test_members_of_different_berts_read_the_derived_text(workspace, members, tmp_path, caplog):
    state = torch.load(members["fused"], weights_only=False)
    state["cfg"]["model"].bert_max_tokens = 4
    torch.save(state, tmp_path / "short.pt")
    write_with_dogs(workspace, tmp_path)
    paths = [members["fused"], str(tmp_path / "short.pt")]
    derived, other = (translate(workspace.data, paths, OWN, *more) for more in ([], ["--bert-text", tmp_path]))
    assert other.scores() == derived.scores()
    assert "differ in BERT or its input, and do not use --bert-text" in caplog.text
    alone = [translate(workspace.data, [path], OWN).scores() for path in paths]
    assert alone[0] != alone[1] != derived.scores() != alone[0]


def test_the_shortest_member_says_where_sources_are_cut(workspace, members, tmp_path):
    """Not skipped, not refused: no line of a test set is lost, whatever the order and the kind of the members."""
    for name in ("fused", "plain"):
        state = torch.load(members[name], weights_only=False)
        state["cfg"]["model"].max_source_positions = 5
        torch.save(state, tmp_path / f"{name}.pt")
    fused, plain = (str(tmp_path / f"{name}.pt") for name in ("fused", "plain"))
    for short, long in ((fused, members["fused"]), (plain, members["fused"]), (plain, members["plain"])):
        one, other = (translate(workspace.data, paths, OWN) for paths in ((short, long), (long, short)))
        assert len(one.tokens()) == 30
        assert max(map(len, one.tokens("S").values())) == 4  # and eos
        assert one.tokens() == other.tokens()
    line = "the dog sees a man . " * 2
    out = Model(workspace.data, f"{fused}:{members['fused']}").interactive(f"{line}\nthe dog\n")
    assert [len(words) for words in out.tokens("S").values()] == [4, 2]
    hub = BertFusedModel.from_pretrained(str(tmp_path), "fused.pt", workspace.data)
    assert hub.translate([line]) == hub.translate(["the dog sees a"])


def test_an_ensemble_in_the_hub_interface_translates_again_and_again(workspace, members):
    hub = BertFusedModel.from_pretrained(workspace.save_dir, f"checkpoint_last.pt:{members['plain']}", workspace.data)
    first, plain = hub.translate(["the dog", "a man"], beam=2), hub.models[1]
    assert hub.translate(["the dog", "a man"], beam=2) == first
    for module in (plain, plain.encoder):  # a copy stands for the model, which stays as it is
        assert not {"forward", "forward_torchscript"} & set(vars(module))
