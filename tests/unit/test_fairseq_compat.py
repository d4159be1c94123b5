"""What fairseq_compat promises: safe checkpoints, plug-ins by name, and a hook that breaks nothing."""

import argparse
import builtins
import copy
import functools
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import io
import logging
import operator
import os
import pickle
import subprocess
import sys
import types
import warnings
from collections import OrderedDict
from pathlib import Path

import fairseq.distributed.utils
import fairseq_cli.score
import numpy as np
import pytest
import sacrebleu
import torch
from fairseq import checkpoint_utils, options, utils
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.logging import meters, metrics
from fairseq.models.transformer import TransformerConfig, base_architecture
from fairseq.modules import transformer_layer
from omegaconf import DictConfig, OmegaConf

import fairseq_compat
from fairseq_compat import checkpoint, patches
from fairseq_compat.checkpoint import CheckpointError

ROOT = Path(__file__).resolve().parents[2]
GOLDEN = ROOT.parent / "shared" / "golden"
TRUST = "FAIRSEQ_COMPAT_TRUST_CHECKPOINTS"


@pytest.fixture(autouse=True)
def _untrusting(monkeypatch):
    monkeypatch.delenv(TRUST, raising=False)


class Call:
    """Pickles as the call of a function, which then happens when it is loaded."""

    def __init__(self, function, *arguments):
        self.call = function, arguments

    def __reduce__(self):
        return self.call


def stock_state():
    return copy.deepcopy(make_stock_state())


@functools.lru_cache
def make_stock_state():
    """The state of a fairseq checkpoint, from fairseq's own parser, config and metrics."""
    parser = options.get_training_parser("translation")
    args = options.parse_args_and_arch(parser, ["data-bin", "--arch", "transformer_tiny", "--lr", "0.1"])
    cfg = convert_namespace_to_omegaconf(args)
    with metrics.aggregate() as aggregator:
        metrics.log_scalar("loss", np.float32(2.5), 3, round=3)
        metrics.log_scalar("_bleu_counts", np.array([4, 3, 2, 1]))
    meter = meters.AverageMeter()
    meter.update(np.float64(7))
    return {
        "args": None,
        "cfg": OmegaConf.to_container(cfg, resolve=True, enum_to_str=True),
        "model": OrderedDict(weight=torch.arange(6.0).reshape(2, 3)),
        "optimizer_history": [{"num_updates": 3, "lr_scheduler_state": {"best": np.float64(0.5)}}],
        "last_optimizer_state": {"state": {0: {"step": 3, "exp_avg": torch.ones(2)}}},
        "task_state": {},
        "extra_state": {
            "metrics": {"default": aggregator.state_dict()},
            "train_iterator": {"epoch": 1, "iterations_in_epoch": 0, "shuffle": True},
            "val_loss": np.float64(1.25),
            "meter": meter.state_dict(),
        },
    }


def save(state, path, **how):
    with open(path, "wb") as file:
        torch.save(state, file, **how)
    return str(path)


# checkpoints that load


@pytest.mark.parametrize("zipped", [True, False])
def test_a_stock_checkpoint_loads(tmp_path, zipped):
    path = save(stock_state(), tmp_path / "stock.pt", _use_new_zipfile_serialization=zipped)

    state = checkpoint_utils.load_checkpoint_to_cpu(path)

    assert isinstance(state["cfg"], DictConfig)
    assert state["cfg"].model.arch == "transformer_tiny"
    assert torch.equal(state["model"]["weight"], torch.arange(6.0).reshape(2, 3))
    extra = state["extra_state"]
    assert type(extra["val_loss"]) is np.float64
    assert extra["val_loss"] == 1.25
    counts = dict((key, value) for _, key, _, value in extra["metrics"]["default"])["_bleu_counts"]["val"]
    assert type(counts) is np.ndarray
    assert counts.tolist() == [4, 3, 2, 1]


def test_a_config_object_loads_with_its_flags_and_namespace():
    model = argparse.Namespace(arch="x", lr=[0.1], size=np.int64(3))
    cfg = OmegaConf.create(
        {"model": model, "a": [1, 2.5, None, True, "s", {}], "ref": "${a}"}, flags={"allow_objects": True}
    )
    OmegaConf.set_struct(cfg, True)

    loaded = round_trip({"cfg": cfg})["cfg"]

    assert loaded == cfg
    assert loaded.ref == cfg.a
    assert OmegaConf.is_struct(loaded)


def round_trip(state):
    buffer = io.BytesIO()
    torch.save(state, buffer)
    return checkpoint.load(io.BytesIO(buffer.getvalue()))


def restricted_round_trip(state):
    """As with torch < 2.6, in both formats of torch.save."""
    for zipped in (False, True):
        buffer = io.BytesIO()
        torch.save(state, buffer, _use_new_zipfile_serialization=zipped)
        buffer.seek(0)
        allowed = checkpoint.allowed_globals()
        loaded = checkpoint.load_with_restricted_pickle(buffer, "cpu", allowed)
    return checkpoint._unwrap(loaded)


def old_torch(monkeypatch):
    monkeypatch.setattr(checkpoint, "_torch_version", lambda: (2, 5))


@pytest.mark.parametrize("load", [round_trip, restricted_round_trip])
@pytest.mark.parametrize(
    "value",
    [
        np.float64(1.5),
        np.float32(-2),
        np.int64(2**40),
        np.bool_(True),
        np.str_("naïve"),
        np.bytes_(b"ab"),
        np.complex128(1 + 2j),
        np.arange(24, dtype=np.int16).reshape(2, 3, 4),
        np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        np.arange(3, dtype=">i4"),
        np.array(["x", "yy"]),
        np.array(3.5),
        np.zeros((0, 4)),
        np.array([True, False]),
    ],
    ids=repr,
)
def test_numpy_values_come_back_as_they_were(load, value):
    nested = load({"a": [value, (value,)], "b": argparse.Namespace(c={"d": value})})

    for loaded in (nested["a"][0], nested["a"][1][0], nested["b"].c["d"]):
        assert type(loaded) is type(value)
        assert loaded.dtype == value.dtype
        assert loaded.shape == value.shape
        assert np.array_equal(loaded, value)


@pytest.mark.parametrize("core", ["core", "_core"])
def test_numpy_values_of_another_numpy_version_load(core, tmp_path):
    ours = np.float64(1).__reduce__()[0].__module__.encode()
    theirs = b"numpy." + core.encode() + b".multiarray"
    path = save({"x": np.float64(3), "y": np.arange(2)}, tmp_path / "c.pt", _use_new_zipfile_serialization=False)
    Path(path).write_bytes(Path(path).read_bytes().replace(b"c" + ours + b"\n", b"c" + theirs + b"\n"))

    with open(path, "rb") as file:
        state = checkpoint.load(file)

    assert state["x"] == 3
    assert state["y"].tolist() == [0, 1]


def test_what_one_process_broadcasts_to_another_loads():
    distributed = fairseq.distributed.utils
    tensors = []
    state = distributed._split_tensors_from_obj({"w": torch.ones(2), "cfg": OmegaConf.create({"a": 1})}, tensors)
    buffer = io.BytesIO()
    torch.save(state, buffer)
    buffer.seek(0)

    received = distributed.torch.load(buffer, map_location="cpu")

    assert distributed._put_tensors_in_obj(received, tensors)["w"].tolist() == [1, 1]
    assert received["cfg"] == {"a": 1}


@pytest.mark.parametrize("name", ["s2", "s2_dropnet", "stack"])
def test_a_checkpoint_of_fairseq_0_8_with_meter_objects_loads(name):
    path = GOLDEN / name / "checkpoint.pt"
    if not path.exists():
        pytest.skip("the golden checkpoints are not next to the repository")
    with open(path, "rb") as file:
        state = checkpoint.load(file, "cpu")
    assert type(state["args"]) is argparse.Namespace
    assert type(state["extra_state"]["train_meters"]["train_loss"]) is meters.AverageMeter
    assert all(torch.isfinite(tensor).all() for tensor in state["model"].values())


# checkpoints that do not


def hide(payload, place):
    """A state with *payload* in that place."""
    state = stock_state()
    if place == "alone":
        return payload
    if place == "in extra_state":
        state["extra_state"] = (payload,)
    elif place == "in cfg":
        state["cfg"]["task"] = {**state["cfg"]["task"], "source_lang": payload}
    elif place == "in the model's Namespace":
        state["cfg"]["model"] = argparse.Namespace(arch="transformer_tiny", extra=[{"x": payload}])
    else:
        assert place == "in an OmegaConf object"
        state["cfg"] = OmegaConf.create({"a": argparse.Namespace(b=payload)}, flags={"allow_objects": True})
    return state


PLACES = ["alone", "in extra_state", "in cfg", "in the model's Namespace", "in an OmegaConf object"]


@pytest.mark.parametrize("torch_is", ["new", "old"])
@pytest.mark.parametrize("zipped", [True, False])
@pytest.mark.parametrize("place", PLACES)
def test_a_pickle_that_would_write_a_file_does_not_run(tmp_path, monkeypatch, place, zipped, torch_is):
    if torch_is == "old":
        old_torch(monkeypatch)
    mark = tmp_path / "mark"
    state = hide(Call(os.system, f"touch '{mark}'"), place)
    path = save(state, tmp_path / "evil.pt", _use_new_zipfile_serialization=zipped)

    with pytest.raises(CheckpointError, match=rf"evil\.pt is refused: it holds posix\.system.*{TRUST}=1"):
        checkpoint_utils.load_checkpoint_to_cpu(path)

    assert not mark.exists()


@pytest.mark.parametrize("place", PLACES)
def test_with_the_opt_out_it_does_run(tmp_path, monkeypatch, place):
    monkeypatch.setenv(TRUST, "1")
    mark = tmp_path / "mark"
    path = save(hide(Call(os.system, f"touch '{mark}'"), place), tmp_path / "evil.pt")

    with open(path, "rb") as file:
        checkpoint.load(file)

    assert mark.exists()


def test_another_value_of_the_opt_out_does_not_open_the_door(tmp_path, monkeypatch):
    monkeypatch.setenv(TRUST, "0")
    path = save({"x": Call(os.system, "true")}, tmp_path / "evil.pt")
    with pytest.raises(CheckpointError, match=r"posix\.system"):
        checkpoint_utils.load_checkpoint_to_cpu(path)


GADGETS = {
    "builtins.eval": Call(builtins.eval, "1"),
    "builtins.getattr": Call(getattr, argparse.Namespace(x=1), "x"),
    "_operator.getitem": Call(operator.getitem, [1], 0),
    "functools.partial": Call(functools.partial, str),
    f"{open.__module__}.open": Call(open, os.devnull),  # io, in Python 3.12 _io
    "torch.storage._load_from_bytes": Call(torch.storage._load_from_bytes, b""),
    "subprocess.Popen": Call(subprocess.Popen, ["true"]),
    "importlib.import_module": Call(importlib.import_module, "this"),
    "types.SimpleNamespace": types.SimpleNamespace(x=1),
    "numpy.dtype('O8')": np.array([None], dtype=object),
    "numpy.dtype('V12')": np.zeros(2, dtype=[("a", "i4"), ("b", "f8")]),
    "numpy.dtype('O')": Call(np.dtype, "O"),
    "numpy.dtype({": Call(np.dtype, {"names": ["a"], "formats": ["O"]}),
}


@pytest.mark.parametrize("torch_is", ["new", "old"])
@pytest.mark.parametrize("name", GADGETS)
def test_whatever_else_is_refused_by_name(tmp_path, monkeypatch, name, torch_is):
    if torch_is == "old":
        old_torch(monkeypatch)
    path = save({"model": {}, "x": GADGETS[name]}, tmp_path / "c.pt")
    with pytest.raises(CheckpointError) as refused:
        checkpoint_utils.load_checkpoint_to_cpu(path)
    assert f"it holds {name}" in str(refused.value)
    assert TRUST in str(refused.value)


@pytest.mark.skipif(torch.__version__ < (2, 6), reason="torch lists the types of a checkpoint since 2.6")
def test_all_refused_types_are_named_at_once(tmp_path):
    path = save({"x": GADGETS["functools.partial"], "y": types.SimpleNamespace()}, tmp_path / "c.pt")
    with pytest.raises(CheckpointError, match=r"functools\.partial, types\.SimpleNamespace"):
        checkpoint_utils.load_checkpoint_to_cpu(path)


def test_numpy_layouts_that_reach_beyond_their_memory_have_no_effect():
    # numpy's own dtype.__setstate__ takes this and then reads a million bytes off: fields at an offset
    layout = (3, "<", None, ("a",), {"a": (np.dtype("i8"), 10**6)}, -1, -1, 16)

    class Forged:
        def __reduce__(self):
            return np.dtype, ("i8", False, True), layout

    class Array:
        def __reduce__(self):
            return np.empty(0).__reduce__()[0], (np.ndarray, (0,), b"b"), (1, (1,), Forged(), False, b"A" * 8)

    for load in (round_trip, restricted_round_trip):
        loaded = load({"x": Array()})["x"]
        assert loaded.dtype == np.dtype("<i8")
        assert loaded.dtype.fields is None


@pytest.mark.parametrize("shape", [(2,), (10**12,)])
def test_an_array_whose_shape_does_not_fit_its_bytes_is_refused(shape):
    class Array:
        def __reduce__(self):
            state = (1, shape, np.dtype("i8"), False, b"A" * 8)
            return np.empty(0).__reduce__()[0], (np.ndarray, (0,), b"b"), state

    with pytest.raises(CheckpointError, match="cannot be read"):
        round_trip({"x": Array()})


@pytest.mark.parametrize("zipped", [True, False])
@pytest.mark.parametrize("keep", [0.0, 0.001, 0.5, 0.99])
def test_a_checkpoint_cut_short_is_named(tmp_path, zipped, keep):
    path = Path(save(stock_state(), tmp_path / "half.pt", _use_new_zipfile_serialization=zipped))
    whole = path.read_bytes()
    path.write_bytes(whole[: int(len(whole) * keep)])
    with pytest.raises(CheckpointError, match=r"checkpoint .*half\.pt cannot be read: it is cut off"):
        checkpoint_utils.load_checkpoint_to_cpu(str(path))


def test_a_text_file_is_no_checkpoint(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("hello\n" * 100)
    with pytest.raises(CheckpointError, match=r"notes\.txt cannot be read: .*no checkpoint"):
        checkpoint_utils.load_checkpoint_to_cpu(str(path))


def test_torch_load_itself_is_left_alone(tmp_path):
    path = save({"args": argparse.Namespace()}, tmp_path / "c.pt")
    listed = getattr(torch.serialization, "get_safe_globals", list)  # since torch 2.4
    allowed = set(listed())  # torch and others have put theirs there
    checkpoint_utils.load_checkpoint_to_cpu(save(stock_state(), tmp_path / "stock.pt"))

    assert torch.load.__module__ == "torch.serialization"
    assert set(listed()) == allowed
    with pytest.raises(pickle.UnpicklingError, match=r"argparse\.Namespace"):
        torch.load(path, weights_only=True)


@pytest.mark.system
def test_a_command_ends_with_the_message_and_no_stack_trace(tmp_path):
    path = save({"x": Call(os.system, "true")}, tmp_path / "evil.pt")
    code = f"from fairseq import checkpoint_utils; checkpoint_utils.load_checkpoint_to_cpu({path!r})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert done.stderr.splitlines()[-1].startswith(f"error: checkpoint {path} is refused")


# plug-ins by name


@pytest.fixture
def plugin(tmp_path, monkeypatch):
    """An importable package `toy_plugin_<n>` in a folder that is not the working directory."""
    name = f"toy_plugin_{abs(hash(tmp_path)) % 10**8}"
    package = tmp_path / "site" / name
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("WHERE = 'installed'\n")
    monkeypatch.syspath_prepend(str(package.parent))
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    yield name
    sys.modules.pop(name, None)


def test_user_dir_takes_the_name_of_a_package(plugin):
    args = argparse.Namespace(user_dir=plugin)
    utils.import_user_module(args)
    utils.import_user_module(args)  # fairseq does so in each of its processes
    assert sys.modules[plugin].WHERE == "installed"
    assert args.user_dir == plugin  # a checkpoint must not hold the path of this machine


def test_an_existing_path_wins_over_a_package(plugin):
    Path(plugin).mkdir()
    (Path(plugin) / "__init__.py").write_text("WHERE = 'here'\n")
    utils.import_user_module(argparse.Namespace(user_dir=plugin))
    assert sys.modules[plugin].WHERE == "here"


@pytest.mark.parametrize("user_dir", ["no_such_plugin", "no/such/folder", "../nothing", "argparse"])
def test_an_unknown_user_dir_says_what_is_wanted(user_dir):
    with pytest.raises(FileNotFoundError, match=rf"--user-dir {user_dir}: neither a folder .* nor a package"):
        utils.import_user_module(argparse.Namespace(user_dir=user_dir))


def test_no_user_dir_is_fine():
    utils.import_user_module(argparse.Namespace(user_dir=None))
    utils.import_user_module(argparse.Namespace())


# precision


def parsed_precision(*flags):
    arguments = ["data", "--task", "translation", "--arch", "transformer", *flags]
    args = options.parse_args_and_arch(options.get_training_parser(), arguments)
    return args.bf16, args.tpu


@pytest.mark.parametrize("flag", ["--bf16", "--memory-efficient-bf16"])
def test_bf16_asks_for_no_tpu(flag, monkeypatch):
    assert parsed_precision(flag) == (True, False)
    assert parsed_precision(flag, "--tpu") == (True, True)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: name)
    assert parsed_precision(flag) == (True, True)  # where torch_xla is, all is as fairseq has it


# the other patches


def test_encoder_layers_never_take_the_fast_path():
    args = argparse.Namespace(encoder_embed_dim=8, encoder_ffn_embed_dim=12, encoder_attention_heads=2, dropout=0.0)
    base_architecture(args)
    layer = transformer_layer.TransformerEncoderLayerBase(TransformerConfig.from_namespace(args)).eval()
    padding = torch.tensor([[False, False, False], [False, False, True]])
    with torch.no_grad():
        alone = layer(torch.ones(2, 1, 8), padding[1:, :2])
        padded = layer(torch.ones(3, 2, 8), padding)
    assert not layer.can_use_fastpath
    assert torch.allclose(alone[:, 0], padded[:2, 1], atol=1e-6)


def test_configs_are_composed_without_warnings():
    parser = options.get_training_parser("translation")
    args = options.parse_args_and_arch(parser, ["data-bin", "--arch", "transformer_tiny"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert convert_namespace_to_omegaconf(args).model.arch == "transformer_tiny"


def test_numpy_aliases_are_seen_by_fairseq_only():
    from fairseq.data import data_utils

    assert data_utils.np.int is int
    assert data_utils.np.float is float
    assert data_utils.np.arange is np.arange
    mask = data_utils.compute_mask_indices((2, 20), None, mask_prob=0.5, mask_length=2)
    assert mask.shape == (2, 20)
    if np.lib.NumpyVersion(np.__version__) >= "1.24.0":
        assert not hasattr(np, "int")


@pytest.mark.parametrize(
    ("flag", "expected"), [("--sacrebleu", "BLEU = 100.00"), ("--sentence-bleu", "BLEU4 = 100.00")]
)
def test_the_score_command_works_and_leaves_sacrebleu_alone(tmp_path, monkeypatch, capsys, flag, expected):
    text = tmp_path / "text"
    text.write_text("a small red house stands here\nthe dog runs to the old man\n")
    monkeypatch.setattr(sys, "argv", ["fairseq-score", "--sys", str(text), "--ref", str(text), flag])
    stock = sacrebleu.corpus_bleu

    fairseq_cli.score.cli_main()

    assert expected in capsys.readouterr().out
    assert sacrebleu.corpus_bleu is stock
    assert sys.modules["sacrebleu"] is sacrebleu


def test_only_warnings_nobody_can_help_are_hidden():
    def warn(category, text, module):
        warnings.warn_explicit(text, category, "file.py", 1, module=module)

    autocast = (
        "`torch.cuda.amp.autocast(args...)` is deprecated. Please use `torch.amp.autocast('cuda', args...)` instead."
    )
    mismatch = "Support for mismatched key_padding_mask and attn_mask is deprecated. Use same type for both instead."
    with warnings.catch_warnings(record=True) as seen:
        warnings.resetwarnings()
        warnings.simplefilter("always")
        patches.before_fairseq()
        warn(FutureWarning, autocast, "fairseq.tasks.fairseq_task")
        warn(UserWarning, mismatch, "torch.nn.functional")
        assert seen == []
        warn(FutureWarning, autocast, "my.module")
        warn(UserWarning, "Something else.", "torch.nn.functional")
    assert len(seen) == 2


def test_only_messages_nobody_can_help_are_hidden(caplog):
    patches.before_fairseq()
    logger = logging.getLogger("fairseq.tasks.text_to_speech")
    with caplog.at_level(logging.INFO):
        logger.info("Please install tensorboardX: pip install tensorboardX")
        logger.info("Please install %s", "something else")
    assert caplog.messages == ["Please install something else"]


@pytest.mark.system
def test_the_hydra_command_goes_as_far_as_its_data_without_warnings(tmp_path):
    command = Path(sys.executable).parent / "fairseq-hydra-train"
    if not command.exists():
        pytest.skip("fairseq-hydra-train is not next to this Python")
    words = "task=language_modeling model=transformer_lm/transformer_lm_gpt criterion=cross_entropy optimizer=adam"
    words += f" lr_scheduler=fixed optimization.lr=[0.1] common.cpu=true dataset.batch_size=1 task.data={tmp_path}/none"
    done = subprocess.run([command, *words.split()], cwd=tmp_path, capture_output=True, text=True)
    assert "none/dict.txt" in done.stderr
    assert "Warning" not in done.stderr + done.stdout


# the hook


@pytest.fixture
def toy(tmp_path, monkeypatch):
    """A module `compat_toy` with VALUE = 1, which the hook is told to set to 2."""
    (tmp_path / "compat_toy.py").write_text("VALUE = 1\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setitem(fairseq_compat._PATCHES, "compat_toy", "toy_patch")
    monkeypatch.setattr(patches, "toy_patch", lambda module: setattr(module, "VALUE", 2), raising=False)
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    fairseq_compat._install()  # in front of pytest's own finder
    yield "compat_toy"
    sys.modules.pop("compat_toy", None)


def test_a_module_is_adapted_and_looks_as_without_the_hook(toy):
    module = importlib.import_module(toy)
    assert module.VALUE == 2
    assert type(module.__spec__.loader) is importlib.machinery.SourceFileLoader
    assert module.__loader__ is module.__spec__.loader


def test_a_reloaded_module_is_adapted_again(toy):
    module = importlib.import_module(toy)
    assert importlib.reload(module).VALUE == 2


def test_a_module_imported_before_the_hook_is_adapted_once(toy, monkeypatch):
    monkeypatch.setattr(sys, "meta_path", [f for f in sys.meta_path if not hasattr(f, "is_fairseq_compat")])
    module = importlib.import_module(toy)
    assert module.VALUE == 1
    fairseq_compat._install()
    assert module.VALUE == 2
    module.VALUE = 3
    fairseq_compat._install()
    assert module.VALUE == 3


def test_installing_twice_leaves_one_finder_in_front(toy):
    fairseq_compat._install()
    again = importlib.util.spec_from_file_location("loaded_again", fairseq_compat.__file__)
    again.loader.exec_module(importlib.util.module_from_spec(again))
    assert [hasattr(finder, "is_fairseq_compat") for finder in sys.meta_path].count(True) == 1
    assert hasattr(sys.meta_path[0], "is_fairseq_compat")


def test_a_finder_without_find_spec_is_passed_over(toy):
    class Old:  # of Python 3.3 and before
        def find_module(self, name, path=None):
            return None

    sys.meta_path.insert(1, Old())
    assert importlib.import_module(toy).VALUE == 2


def test_a_loader_without_exec_module_is_named(toy):
    class Finder:
        def find_spec(self, name, path=None, target=None):
            return importlib.machinery.ModuleSpec(name, object()) if name == toy else None

    sys.meta_path.insert(1, Finder())
    with pytest.raises(ImportError, match=r"fairseq_compat cannot adapt compat_toy: its loader, .* has no exec_module"):
        importlib.import_module(toy)


def test_a_missing_module_is_reported_by_python_itself(monkeypatch):
    monkeypatch.setitem(fairseq_compat._PATCHES, "compat_nowhere", "toy_patch")
    with pytest.raises(ModuleNotFoundError, match="No module named 'compat_nowhere'"):
        importlib.import_module("compat_nowhere")


def test_a_failing_patch_says_which_module_and_which_versions(toy, monkeypatch):
    def broken(module):
        return module.NO_SUCH_NAME

    monkeypatch.setattr(patches, "toy_patch", broken)
    with pytest.raises(ImportError, match=r"cannot adapt compat_toy \(fairseq .*, torch .*NO_SUCH_NAME.*0\.12\.2"):
        importlib.import_module(toy)
    assert toy not in sys.modules


def test_the_hook_imports_nothing_else():
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); before = set(sys.modules)\n"
        "import fairseq_compat; print(sorted(set(sys.modules) - before))"
    )
    done = subprocess.run([sys.executable, "-I", "-S", "-c", code, str(ROOT)], capture_output=True, text=True)
    assert done.stdout.strip() == "['fairseq_compat']", done.stderr
