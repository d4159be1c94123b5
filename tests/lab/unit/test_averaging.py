"""Averages of checkpoints, by hand-made ones."""

import json
from argparse import Namespace

import pytest
import torch

from bert_fused_lab.exporting.average_checkpoints import average_checkpoints, last_checkpoints, main
from bert_fused_plugin.checkpoints.reading import read_checkpoint
from bert_fused_plugin.errors import BertFusedError


def as_text(**parts):
    return torch.tensor([float(byte) for byte in json.dumps(parts).encode()])


def record(name="some/bert", weights="w", tokenizer="t", configuration="num_heads 2", **of_flags):
    parts = {"weights_in_layers": weights, "configuration": configuration, "tokenizer": tokenizer}
    parts.update(settings=of_flags, given=[])
    return {"encoder.bert_record.text": as_text(name=name, **parts)}


def settings(noted=0.0, symbols=None, **computed):
    parts = {"computed": computed, "noted": {"bert_drop_net": noted}, "symbols": symbols or {}}
    return {"settings_record.text": as_text(**parts)}


def save(path, updates=7, **model):
    """Write a checkpoint of *model*, whose names are without dots, as fairseq-train does."""
    history = {"criterion_name": "c", "optimizer_name": "o", "lr_scheduler_state": {}}
    state = {
        "args": None,
        "cfg": {"model": Namespace(arch="x", updates=updates), "task": {"_name": "translation"}, "common": None},
        "model": {key.replace("__", "."): value for key, value in model.items()},
        "optimizer_history": [{**history, "num_updates": 1}, {**history, "num_updates": updates}],
        "extra_state": {"train_iterator": {"epoch": 3, "shuffle": True}, "ema": {}, "metrics": {}},
        "last_optimizer_state": {"state": torch.zeros(4)},
        "task_state": {},
    }
    torch.save(state, path)
    return path


def saves(path, *models):
    return [save(path / f"{i}.pt", updates=10 + i, **model) for i, model in enumerate(models)]


def refusal(paths):
    with pytest.raises(BertFusedError) as caught:
        average_checkpoints(paths)
    return str(caught.value)


@pytest.mark.parametrize(
    ("values", "dtype", "mean"),
    [
        ((1e8, 1.0, -1e8), torch.float32, pytest.approx(1 / 3)),  # as in double precision
        ((1.0, 1.0078125), torch.float16, 1.00390625),
        ((1.0, 1.0078125), torch.bfloat16, 1.00390625),
    ],
)
def test_means_are_single(tmp_path, values, dtype, mean):
    paths = saves(tmp_path, *({"w": torch.tensor([value, 3.0], dtype=dtype)} for value in values))
    model = average_checkpoints(paths)["model"]
    assert model["w"].tolist() == [mean, 3.0]
    assert model["w"].dtype == torch.float32


def test_all_that_is_no_mean_comes_from_the_first_and_the_state_of_training_goes(tmp_path):
    first, second = ({"w": torch.ones(2), "count": torch.tensor([n])} for n in (5, 9))
    state = average_checkpoints(saves(tmp_path, first, second))
    assert state["model"]["count"].tolist() == [5]
    assert vars(state["cfg"]["model"])["updates"] == 10
    assert [entry["num_updates"] for entry in state["optimizer_history"]] == [1, 10]  # it says where training began
    assert state["extra_state"] == {"train_iterator": {"epoch": 3}, "averaged": ["0.pt", "1.pt"]}
    assert state["last_optimizer_state"] is None


def test_shared_parameters_stay_shared_and_others_of_equal_values_do_not_become_so(tmp_path):
    models = []
    for value in (1.0, 2.0):
        shared = torch.full((3,), value)
        models.append({"a": shared, "b": shared, "c": shared.clone()})
    state = average_checkpoints(saves(tmp_path, *models))
    torch.save(state, tmp_path / "average.pt")
    model = read_checkpoint(tmp_path / "average.pt")["model"]
    assert model["a"].data_ptr() == model["b"].data_ptr()
    assert model["a"].data_ptr() != model["c"].data_ptr()
    assert model["c"].tolist() == [1.5] * 3


def test_a_parameter_that_was_shared_in_the_first_only_keeps_its_own_mean(tmp_path):
    shared = torch.ones(2)
    paths = saves(tmp_path, {"a": shared, "b": shared}, {"a": torch.ones(2), "b": torch.full((2,), 3.0)})
    model = average_checkpoints(paths)["model"]
    assert (model["a"].tolist(), model["b"].tolist()) == ([1.0, 1.0], [2.0, 2.0])


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        ({"a": torch.ones(2), "b": torch.ones(2)}, {"a": torch.ones(2)}, "such as b (none and (2,)); average"),
        ({"a": torch.ones(2)}, {"a": torch.ones(2), "c": torch.ones(2)}, "differ in size, such as c ((2,) and none)"),
        ({"a": torch.ones(2)}, {"a": torch.ones(3)}, "1 parameters differ in size, such as a ((3,) and (2,))"),
        (record(weights="w"), record(weights="v"), "differ in BERT's weights_in_layers (v and w); average"),
        (record(tokenizer="t"), record(tokenizer="u"), "differ in BERT's tokenizer (u and t)"),
        (record(), record(configuration="num_heads 4"), "differ in BERT's num_heads (4 and 2)"),
        (record(bert_layer="3"), record(bert_layer="4"), "differ in --bert-layer (4 and 3)"),
        (
            settings(bert_branch_weights="1,1", new="x"),
            settings(bert_branch_weights="0.5,0.5", old="y"),
            "differ in --bert-branch-weights (0.5,0.5 and 1,1); average",
        ),
        (
            *(settings(symbols={"encoder": {"count": 5, "hash": name}}) for name in "xy"),
            "differ in the dictionary of the encoder (y and x); average",
        ),
        (
            {"encoder__bert__lr_factor": torch.tensor(0.1), "encoder__bert__scaled": torch.tensor([0.0, 1.0])},
            {"encoder__bert__lr_factor": torch.tensor(0.2), "encoder__bert__scaled": torch.tensor([1.0, 1.0])},
            "differ in --bert-lr-factor (0.2 and 0.1); --bert-finetune-layers, in parameters (2 and 1)",
        ),
    ],
)  # fmt: skip
def test_checkpoints_of_different_models_are_refused(tmp_path, first, second, message):
    paths = saves(tmp_path, first, second)
    seen = refusal(paths)
    assert message.format(*paths) in seen
    assert all(str(path) in seen for path in paths)


def test_a_checkpoint_of_a_training_that_diverged_is_refused(tmp_path):
    good, bad = torch.ones(2), torch.tensor([1.0, float("nan")])
    for models in (({"a": good}, {"a": bad}), ({"a": bad}, {"a": good})):
        with pytest.raises(BertFusedError, match=r"\d.pt has numbers that are not finite in .* such as a: its"):
            average_checkpoints(saves(tmp_path, *models))
    average_checkpoints(saves(tmp_path, {"a": good, "_float_tensor": bad}, {"a": good, "_float_tensor": good}))
    large = torch.full((2,), torch.finfo(torch.float32).max)  # whose sum is infinite
    average_checkpoints(saves(tmp_path, {"a": large}, {"a": large}))


def test_imported_checkpoints_of_a_finetuned_bert_can_be_averaged(tmp_path):
    imported = {"encoder__bert__lr_factor": torch.tensor(1.0)}  # and no word of which parameters were trained
    average_checkpoints(saves(tmp_path, imported, imported))


def test_the_same_bert_in_another_place_is_the_same(tmp_path):
    parts = {"bert": "num_heads 2", "/home/someone/bert": "num_heads 2, num_hidden_layers 3"}  # of older transformers
    first, second = ({"w": torch.ones(1), **record(name=name, configuration=of)} for name, of in parts.items())
    state = average_checkpoints(saves(tmp_path, first, second))
    assert torch.equal(state["model"]["encoder.bert_record.text"], first["encoder.bert_record.text"])


def test_a_training_may_go_on_with_another_drop_net(tmp_path):
    newer, old = ({"w": torch.tensor([value])} for value in (1.0, 2.0))
    newer.update(settings(noted=1.0, bert_fusion="gated", bert_gates=None))
    old.update(settings(noted=0.25, bert_fusion="gated"))
    state = average_checkpoints(saves(tmp_path, newer, old))
    assert state["model"]["w"].tolist() == [1.5]
    assert torch.equal(state["model"]["settings_record.text"], newer["settings_record.text"])
    average_checkpoints(saves(tmp_path, old, newer))


def test_files_that_are_no_checkpoints(tmp_path):
    whole = torch.load(save(tmp_path / "good.pt", w=torch.ones(1)), weights_only=False)
    for other in ({"model": {}, "args": None}, {key: value for key, value in whole.items() if key != "cfg"}):
        torch.save(other, tmp_path / "other.pt")
        assert "other.pt holds no model of fairseq" in refusal([tmp_path / "good.pt", tmp_path / "other.pt"])


def names(paths):
    return [path.name for path in paths]


@pytest.fixture
def save_dir(tmp_path):
    for name in "checkpoint2 checkpoint9 checkpoint10 checkpoint_9_90 checkpoint_10_100 checkpoint_10_105".split():
        (tmp_path / f"{name}.pt").touch()
    for name in ("checkpoint_best.pt", "checkpoint_last.pt", "checkpoint11.pt.tmp", "checkpoint.best_bleu_12.300.pt"):
        (tmp_path / name).touch()
    return tmp_path


def test_the_last_checkpoints_are_found_by_number(save_dir):
    assert names(last_checkpoints(save_dir, 2)) == ["checkpoint10.pt", "checkpoint9.pt"]
    assert names(last_checkpoints(save_dir, 2, upper_bound=9)) == ["checkpoint9.pt", "checkpoint2.pt"]
    updates = last_checkpoints(save_dir, 2, by_updates=True, upper_bound=104)
    assert names(updates) == ["checkpoint_10_100.pt", "checkpoint_9_90.pt"]


@pytest.mark.parametrize(
    ("count", "options", "message"),
    [
        (4, {}, "--num-epoch-checkpoints 4: {0} has 3 epoch checkpoints; ask for fewer, or give other --inputs"),
        (3, {"upper_bound": 9}, "has 2 epoch checkpoints up to --checkpoint-upper-bound 9"),
        (4, {"by_updates": True}, "--num-update-checkpoints 4: {0} has 3 update checkpoints"),
        (0, {}, "--num-epoch-checkpoints must be at least 1, got 0"),
    ],
)
def test_too_few_checkpoints(save_dir, count, options, message):
    with pytest.raises(BertFusedError) as caught:
        last_checkpoints(save_dir, count, **options)
    assert message.format(save_dir) in str(caught.value)


def run(*args):
    main([str(arg) for arg in args])


def test_the_script_averages_the_last_ones(tmp_path, capsys):
    for epoch in (1, 2, 3):
        save(tmp_path / f"checkpoint{epoch}.pt", updates=epoch, w=torch.tensor([float(epoch)]))
    output = tmp_path / "average.pt"
    run("--inputs", tmp_path, "--num-epoch-checkpoints", 2, "--output", output)
    state = read_checkpoint(output)
    assert state["model"]["w"].tolist() == [2.5]
    assert [entry["num_updates"] for entry in state["optimizer_history"]] == [1, 3]
    wrote = (
        f"wrote {output}, the average of 2 checkpoints: {tmp_path / 'checkpoint3.pt'} {tmp_path / 'checkpoint2.pt'}\n"
    )
    assert capsys.readouterr().out == wrote


def test_no_input_is_overwritten(save_dir):
    last = save_dir / "checkpoint10.pt"
    for inputs in ([save_dir / "checkpoint2.pt", last], [save_dir, "--num-epoch-checkpoints", 2]):
        with pytest.raises(BertFusedError, match="is one of the checkpoints to average; write another file"):
            run("--inputs", *inputs, "--output", last)


def test_flags_that_exclude_each_other(tmp_path):
    with pytest.raises(BertFusedError) as caught:
        run("--inputs", "a", "b", "--num-epoch-checkpoints", 2, "--output", tmp_path)
    assert "got 2 inputs; give the --save-dir" in caught.value.errors[0]
    assert f"--output {tmp_path} must be a file in an existing directory" in caught.value.errors[1]
    with pytest.raises(BertFusedError, match="--checkpoint-upper-bound needs --num-epoch-checkpoints"):
        run("--inputs", "a", "--checkpoint-upper-bound", 2, "--output", tmp_path / "x.pt")
