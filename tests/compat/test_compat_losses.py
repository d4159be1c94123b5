"""What fairseq_compat mends where fairseq would lose checkpoints, counts or flags in silence."""

from types import SimpleNamespace

import pytest
import torch
from fairseq import checkpoint_utils, utils
from fairseq.data import data_utils
from fairseq.dataclass.configs import CheckpointConfig
from fairseq.optim.adam import FairseqAdam, FairseqAdamConfig
from fairseq.optim.lr_scheduler.reduce_lr_on_plateau import (
    ReduceLROnPlateauLRSchedule,
    ReduceLROnPlateauLRScheduleConfig,
)

from fairseq_compat.patches import checkpoints_asked_for


def save_at_the_end_of(epoch, cfg, updates, loss=None):
    trainer = SimpleNamespace(
        data_parallel_rank=0, should_save_checkpoint_on_current_rank=True, checkpoint_suffix="",
        consolidate_optimizer=lambda: None, save_checkpoint=lambda path, extra: open(path, "wb").close(),
        get_num_updates=lambda: updates,
    )  # fmt: skip
    epoch_itr = SimpleNamespace(epoch=epoch, end_of_epoch=lambda: True, state_dict=dict)
    checkpoint_utils.save_checkpoint(cfg, trainer, epoch_itr, loss)


@pytest.mark.parametrize(("is_max", "kept"), [(True, [3.0, 4.0, 5.0]), (False, [1.0, 2.0, 3.0])])
def test_the_best_checkpoints_are_kept_from_the_first_on(tmp_path, monkeypatch, is_max, kept):
    monkeypatch.setattr(checkpoint_utils.save_checkpoint, "best", 9.0 if is_max else 0.0, raising=False)
    cfg = CheckpointConfig(save_dir=str(tmp_path), keep_best_checkpoints=3, maximize_best_checkpoint_metric=is_max)
    found = []
    for epoch, loss in enumerate([4.0, 2.0, 5.0, 3.0, 1.0], start=1):
        save_at_the_end_of(epoch, cfg, updates=epoch, loss=loss)
        found.append(sorted(float(path.name.split("_")[-1][:5]) for path in tmp_path.glob("checkpoint.best_*")))
    assert [len(names) for names in found] == [1, 2, 3, 3, 3]
    assert found[-1] == kept


@pytest.mark.parametrize(
    ("no_epoch_checkpoints", "updates", "name"), [(True, 6, "_2_6"), (True, 5, None), (False, 6, "2")]
)
def test_an_interval_that_ends_with_an_epoch_is_saved(tmp_path, no_epoch_checkpoints, updates, name):
    cfg = CheckpointConfig(
        save_dir=str(tmp_path),
        no_epoch_checkpoints=no_epoch_checkpoints,
        save_interval_updates=3,
        no_last_checkpoints=True,
    )
    save_at_the_end_of(2, cfg, updates)
    assert [path.name for path in tmp_path.iterdir()] == ([f"checkpoint{name}.pt"] if name else [])


def test_what_saving_returns_reaches_its_caller():
    """In fairseq's main it is the path, which ``task.post_save`` is given."""
    module = SimpleNamespace(save_checkpoint=lambda cfg, *rest: cfg.save_dir, checkpoint_paths=None)
    checkpoints_asked_for(module)
    assert module.save_checkpoint(CheckpointConfig(save_dir="here"), None, None) == "here"


def test_bad_validations_are_counted_over_a_restart():
    def schedule():
        adam = FairseqAdamConfig(lr=[0.1], adam_betas="(0.9, 0.98)", tpu=False, use_old_adam=False)
        cfg = ReduceLROnPlateauLRScheduleConfig(lr=[0.1], lr_patience=2, maximize_best_checkpoint_metric=True)
        return ReduceLROnPlateauLRSchedule(cfg, FairseqAdam(adam, [torch.nn.Parameter(torch.zeros(1))]))

    unbroken, resumed = schedule(), schedule()
    for epoch, score in enumerate([10, 9, 9, 9, 9, 9, 9], start=1):
        rate, state = resumed.optimizer.get_lr(), resumed.state_dict()
        resumed = schedule()
        resumed.load_state_dict(state)
        resumed.optimizer.set_lr(rate)
        assert unbroken.step(epoch, score) == resumed.step(epoch, score)
    assert unbroken.optimizer.get_lr() < 0.1
    resumed.load_state_dict({"best": 1.0})  # of a checkpoint before


def test_a_valid_subset_is_named_as_on_the_command_line(tmp_path):
    for name in ("valid.en-de.en.bin", "valid1.en-de.en.bin", "valid1.en-de.en.idx", "valid1.en-de.de.bin"):
        (tmp_path / name).touch()
    settings = {"ignore_unused_valid_subsets": False, "combine_valid_subsets": False, "disable_validation": False}
    cfg = SimpleNamespace(task=SimpleNamespace(data=str(tmp_path)), dataset=SimpleNamespace(**settings))
    cfg.dataset.valid_subset = "valid,valid1"
    data_utils.raise_if_valid_subsets_unintentionally_ignored(cfg)
    cfg.dataset.valid_subset = "valid"
    with pytest.raises(ValueError, match="valid1"):
        data_utils.raise_if_valid_subsets_unintentionally_ignored(cfg)


def test_swish_is_a_choice_and_a_function():
    assert utils.get_available_activation_fns().count("swish") == 1
    assert utils.get_activation_fn("swish")(torch.zeros(2)).tolist() == [0, 0]
    assert utils.get_activation_fn("relu") is torch.nn.functional.relu
