"""What fairseq_compat.patches changes in fairseq: plug-ins by name, precision, warnings and old names of numpy."""

import argparse
import concurrent.futures
import dataclasses
import importlib
import importlib.util
import logging
import pickle
import runpy
import shutil
import sys
import types
import warnings
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import fairseq_cli.score
import numpy as np
import pytest
import sacrebleu
import torch
from bitarray import bitarray
from compat_states import round_trip, stock_state
from fairseq import checkpoint_utils, options, tasks, utils
from fairseq.data import Dictionary, indexed_dataset
from fairseq.data.huffman import HuffmanCodeBuilder, huffman_coder
from fairseq.dataclass import FairseqDataclass
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.models import BaseFairseqModel
from fairseq.models.transformer import TransformerConfig, base_architecture
from fairseq.modules import transformer_layer
from fairseq.ngram_repeat_block import NGramRepeatBlock
from fairseq.optim.amp_optimizer import AMPOptimizer
from fairseq.search import Sampling
from omegaconf import OmegaConf
from omegaconf.errors import ConfigKeyError

from fairseq_compat import configuration, patches

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


@pytest.mark.parametrize("end", ["", "/"])
def test_user_dir_takes_the_name_of_a_package(plugin, end):
    args = argparse.Namespace(user_dir=plugin + end)
    utils.import_user_module(args)
    utils.import_user_module(args)  # fairseq does so in each of its processes
    assert sys.modules[plugin].WHERE == "installed"
    assert args.user_dir == plugin + end  # a checkpoint must not hold the path of this machine


def test_a_package_that_is_imported_already_may_be_named_by_any_path(plugin, tmp_path):
    importlib.import_module(plugin)
    (tmp_path / "link").symlink_to(tmp_path / "site")
    for folder in ("link", "site", "elsewhere/../site"):
        utils.import_user_module(argparse.Namespace(user_dir=str(tmp_path / folder / plugin)))
    (tmp_path / "other" / plugin).mkdir(parents=True)
    with pytest.raises(ImportError, match="not globally unique"):
        utils.import_user_module(argparse.Namespace(user_dir=str(tmp_path / "other" / plugin)))


def test_an_existing_path_wins_over_a_package(plugin):
    Path(plugin).mkdir()
    (Path(plugin) / "__init__.py").write_text("WHERE = 'here'\n")
    utils.import_user_module(argparse.Namespace(user_dir=plugin))
    assert sys.modules[plugin].WHERE == "here"


def test_a_user_dir_may_be_a_path(plugin, tmp_path):
    utils.import_user_module(argparse.Namespace(user_dir=tmp_path / "site" / plugin))
    assert plugin in sys.modules


@pytest.mark.parametrize("user_dir", ["no_such_plugin", "no/such/folder", "../nothing", "argparse"])
def test_an_unknown_user_dir_says_what_is_wanted(user_dir):
    with pytest.raises(FileNotFoundError, match=rf"--user-dir {user_dir}: neither a folder .* nor a package"):
        utils.import_user_module(argparse.Namespace(user_dir=user_dir))


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


@pytest.mark.parametrize(("path", "expected"), [("x.pt", torch.bfloat16), (None, torch.float32)])
def test_bf16_of_a_training_does_not_change_the_hub_interface(path, expected):
    class Model(BaseFairseqModel):
        pass

    model = Model()
    model.weight = torch.nn.Parameter(torch.zeros(2))
    model.prepare_for_inference_(
        OmegaConf.create({"common": {"bf16": True}, "common_eval": {"path": path}, "generation": {}})
    )
    assert model.weight.dtype == expected


class ToyTrainer:
    """Has a step that says which kernel it is given, or that fails."""

    def __init__(self, bf16, cuda):
        self.cfg = OmegaConf.create({"common": {"bf16": bf16}})
        self.cuda = cuda

    def train_step(self, samples):
        if not samples:
            raise ValueError("no samples")
        return torch.backends.cuda.flash_sdp_enabled()


@pytest.mark.parametrize(("bf16", "cuda", "flash"), [(True, False, False), (True, True, True), (False, False, True)])
def test_only_updates_in_bf16_on_a_cpu_do_without_the_flash_kernel(bf16, cuda, flash):
    toy_trainer = type("Trainer", (ToyTrainer,), {})
    patches.bf16_training_on_cpus(types.SimpleNamespace(Trainer=toy_trainer, torch=torch))
    assert toy_trainer(bf16, cuda).train_step([{}]) == flash
    with pytest.raises(ValueError, match="no samples"):
        toy_trainer(bf16, cuda).train_step([])
    assert torch.backends.cuda.flash_sdp_enabled()


# the other patches


@pytest.mark.parametrize("version", [torch.__version__, "2.7.0a0+79aa17489c.nv25.04"])
def test_encoder_layers_never_take_the_fast_path(version, monkeypatch):
    monkeypatch.setattr(torch, "__version__", version)
    args = argparse.Namespace(encoder_embed_dim=8, encoder_ffn_embed_dim=12, encoder_attention_heads=2, dropout=0.0)
    base_architecture(args)
    layer = transformer_layer.TransformerEncoderLayerBase(TransformerConfig.from_namespace(args)).eval()
    padding = torch.tensor([[False, False, False], [False, False, True]])
    with torch.no_grad():
        alone = layer(torch.ones(2, 1, 8), padding[1:, :2])
        padded = layer(torch.ones(3, 2, 8), padding)
    assert not layer.BT_version
    assert not layer.can_use_fastpath
    assert torch.allclose(alone[:, 0], padded[:2, 1], atol=1e-6)


@pytest.mark.parametrize(("wanted", "enabled"), [(None, False), ("1", True)])
def test_models_switch_cudnns_attention_off_unless_it_is_wanted(monkeypatch, wanted, enabled):
    if wanted is not None:
        monkeypatch.setenv("FAIRSEQ_COMPAT_CUDNN_ATTENTION", wanted)
    before = torch.backends.cuda.cudnn_sdp_enabled()
    torch.backends.cuda.enable_cudnn_sdp(True)
    try:
        BaseFairseqModel()
        assert torch.backends.cuda.cudnn_sdp_enabled() is enabled
    finally:
        torch.backends.cuda.enable_cudnn_sdp(before)


def test_offsets_of_large_data_do_not_overflow(tmp_path):
    builder = indexed_dataset.MMapIndexedDatasetBuilder(tmp_path / "x.bin", dtype=np.uint16)
    builder._sizes = [3, *[np.int32(2**29)] * 4, np.int32(7)]  # those of other workers are numpy's
    builder.finalize(tmp_path / "x.idx")
    index = indexed_dataset.MMapIndexedDataset.Index(str(tmp_path / "x.idx"))
    assert index._pointers.tolist() == [0, 6, *(6 + n * 2**30 for n in range(1, 5))]


def test_numpy_aliases_are_seen_by_fairseq_only():
    from fairseq.data import data_utils

    assert data_utils.np.int is int
    assert data_utils.np.float is float
    assert data_utils.np.arange is np.arange
    mask = data_utils.compute_mask_indices((2, 20), None, mask_prob=0.5, mask_length=2)
    assert mask.shape == (2, 20)
    if np.lib.NumpyVersion(np.__version__) >= "1.24.0":
        assert not hasattr(np, "int")


@pytest.mark.parametrize("start", ["fairseq-score", "python -m"])
@pytest.mark.parametrize(
    ("flag", "expected"), [("--sacrebleu", "BLEU = 100.00"), ("--sentence-bleu", "BLEU4 = 100.00")]
)
def test_the_score_command_works_and_leaves_sacrebleu_alone(tmp_path, monkeypatch, capsys, start, flag, expected):
    text = tmp_path / "text"
    text.write_text("a small red house stands here\nthe dog runs to the old man\n")
    monkeypatch.setattr(sys, "argv", ["fairseq-score", "--sys", str(text), "--ref", str(text), flag])
    stock = sacrebleu.corpus_bleu

    if start == "python -m":
        monkeypatch.setattr(fairseq_cli, "score", fairseq_cli.score)  # to be restored
        for name in ("__mp_main__", "__main__"):  # the first is that of child processes, and must do nothing
            assert capsys.readouterr().out == ""
            monkeypatch.delitem(sys.modules, "fairseq_cli.score", raising=False)
            runpy.run_module("fairseq_cli.score", run_name=name)
    else:
        fairseq_cli.score.cli_main()

    assert expected in capsys.readouterr().out
    assert sacrebleu.corpus_bleu is stock
    assert sys.modules["sacrebleu"] is sacrebleu


def test_the_score_command_counts_unknown_words_at_the_end(tmp_path, monkeypatch, capsys):
    for name, line in (("sys", "a b c d <unk> <unk>"), ("ref", "a b c d e f")):
        (tmp_path / name).write_text(f"{line}\n")
    files = ["--sys", str(tmp_path / "sys"), "--ref", str(tmp_path / "ref")]
    monkeypatch.setattr(sys, "argv", ["fairseq-score", *files, "--sentence-bleu"])
    fairseq_cli.score.cli_main()
    assert "BP=1.000, ratio=1.000, syslen=6, reflen=6" in capsys.readouterr().out


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
        configuration.before_fairseq()
        warn(FutureWarning, autocast, "fairseq.tasks.fairseq_task")
        warn(UserWarning, mismatch, "torch.nn.functional")
        assert seen == []
        warn(FutureWarning, autocast, "my.module")
        warn(UserWarning, "Something else.", "torch.nn.functional")
    assert len(seen) == 2


def test_only_messages_nobody_can_help_are_hidden(caplog):
    """Also notes of fairseq's main about each data set."""
    configuration.before_fairseq()
    hidden = ["Please install tensorboardX: pip install tensorboardX", "can_reuse_epoch_itr = True"]
    hidden += ["reuse_dataloader = True", "rebuild_batches = False", "creating new batches for epoch 1"]
    for task, notes in (("text_to_speech", hidden[:1]), ("fairseq_task", hidden[1:])):
        logger = logging.getLogger(f"fairseq.tasks.{task}")
        for note in (*notes, f"{task}: please install something else"):
            logger.info(note)
    assert caplog.messages == [f"{task}: please install something else" for task in ("text_to_speech", "fairseq_task")]


def test_fairseq_main_does_not_set_up_the_root_logger(monkeypatch):
    before = logging.Handler()
    monkeypatch.setattr(logging.root, "handlers", [before])
    monkeypatch.setattr(logging.root, "level", logging.ERROR)
    configuration.before_fairseq()
    logging.root.addHandler(logging.Handler())
    logging.root.setLevel(logging.DEBUG)
    configuration.no_root_logger(configuration)
    assert logging.root.handlers == [before]
    assert logging.root.level == logging.ERROR


@pytest.mark.skipif(sys.version_info < (3, 11), reason="Python before 3.11 refuses lists, dictionaries and sets alone")
def test_dataclasses_of_others_are_left_alone():
    nowhere = type("Nowhere", (), {"__hash__": None, "__module__": None})
    with pytest.raises(ValueError, match="mutable default"):
        dataclasses.dataclass(type("Config", (), {"__annotations__": {"value": object}, "value": nowhere()}))


@pytest.mark.parametrize(("size", "banned"), [(1, [[5, 7], [6]]), (2, [[], [6]])])
def test_no_ngram_is_repeated_also_when_scripted(size, banned):
    block = NGramRepeatBlock(size)
    tokens = torch.tensor([[2, 5, 7, 1], [2, 6, 6, 1]])
    for module in (block, torch.jit.script(block), pickle.loads(pickle.dumps(block))):
        scores = module(tokens, torch.zeros(2, 9), 1, 2, 2)
        assert [row.isinf().nonzero().flatten().tolist() for row in scores] == banned
    forced = torch.full((2, 9), -float("inf")).scatter_(1, torch.tensor([[5], [6]]), -3.0)  # by a prefix
    assert block(tokens, forced.clone(), 1, 2, 2).tolist() == forced.tolist()


@pytest.mark.parametrize("options", [{}, {"sampling_topk": 2}, {"sampling_topp": 0.9}])
def test_unlikely_words_are_sampled_also_when_scripted(options):
    """A forced end, whose probability is 0 in fp32, as of a low temperature; likely words keep fairseq's draws."""
    search = Sampling(Dictionary(), **options)
    forced = torch.full((1, 2, 5), -float("inf")).index_fill_(2, torch.tensor(3), -200.0)
    likely = torch.randn(1, 2, 5).log_softmax(2)
    for module in (search, torch.jit.script(search), pickle.loads(pickle.dumps(search))):
        for number, before in ((0, 0.0), (1, -1.5)):
            scores, words, beams = module.step(number, forced.clone(), torch.full((1, 2, number), before))
            assert (scores.tolist(), words.tolist()) == ([[before - 200] * 2], [[3, 3]])
            assert beams.tolist() == [[0, number]]
        torch.manual_seed(1)
        found = module.step(1, likely.clone(), torch.zeros(1, 2, 1))
        torch.manual_seed(1)
        assert all(map(torch.equal, found, search.step_of_likely_words(1, likely.clone(), torch.zeros(1, 2, 1))))


def test_configs_of_plug_ins_may_be_defaults():
    inner = dataclasses.dataclass(type("Inner", (FairseqDataclass,), {"__annotations__": {}}))()
    body = {"__annotations__": {"inner": type(inner)}, "inner": dataclasses.field(default=inner)}
    assert dataclasses.dataclass(type("Outer", (FairseqDataclass,), body))().inner is inner


def test_huffman_codes_come_back():
    words = HuffmanCodeBuilder()
    words.add_symbols(*"aaabbc")
    coder = words.build_code()
    assert [node.symbol for node in coder.decode(coder.encode(list("abcab")))] == list("abcab")
    assert huffman_coder.util.rindex(bitarray("010100"), 1) == 3


def test_a_checkpoint_with_settings_that_were_removed_loads(tmp_path):
    """Removed flags of the task and of the model, as fairseq-generate meets them; training refuses such a task."""
    words = Dictionary()
    words.save(str(tmp_path / "dict.en.txt"))
    words.save(str(tmp_path / "dict.de.txt"))
    flags = [str(tmp_path), "-s", "en", "-t", "de", "--arch", "transformer_tiny", "--lr", "0.1"]
    cfg = convert_namespace_to_omegaconf(options.parse_args_and_arch(options.get_training_parser("translation"), flags))
    model = tasks.setup_task(cfg.task).build_model(cfg.model)
    state = {**stock_state(), "cfg": OmegaConf.to_container(cfg), "model": model.state_dict()}
    state["optimizer_history"][0]["criterion_name"] = "CrossEntropyCriterion"
    state["cfg"]["task"]["removed"] = False
    state["cfg"]["model"] = argparse.Namespace(**{**vars(cfg.model), "removed": False})
    torch.save(state, tmp_path / "model.pt")
    [loaded], saved, task = checkpoint_utils.load_model_ensemble_and_task([str(tmp_path / "model.pt")])
    assert "removed" not in saved.task
    assert task.cfg.source_lang == "en"
    saved_parameters = zip(model.decoder.parameters(), loaded.decoder.parameters())  # stock encoders save not all
    assert all(torch.equal(old, new) for old, new in saved_parameters)
    with pytest.raises(ConfigKeyError, match="removed"):
        tasks.setup_task(OmegaConf.create(state["cfg"]["task"]))


def test_checkpoints_load_in_several_threads():
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with concurrent.futures.ThreadPoolExecutor(4) as threads:
            loaded = list(threads.map(round_trip, [stock_state()] * 40))
    finally:
        sys.setswitchinterval(before)
    assert all(state["args"] is None for state in loaded)


@pytest.mark.parametrize("alignment", [[(1, 0), (0, 1)], [1, 0], torch.tensor([1, 0])], ids=repr)
def test_unknown_words_are_replaced_by_pairs_and_by_positions(alignment):
    """Pairs are those of --print-alignment; positions are what the stock function takes."""
    assert utils.replace_unk("a <unk>", "x y", alignment, {}, "<unk>") == "a x"


@pytest.mark.parametrize("alignment", [None, torch.empty(0), [["0.5", "0.5"]]], ids=repr)
def test_unknown_words_are_not_replaced_without_a_hard_alignment(alignment):
    with pytest.raises(ValueError, match="--print-alignment"):
        utils.replace_unk("<unk>", "x y", alignment, {}, "<unk>")


def test_unknown_words_need_no_file_of_translations():
    """The flag --replace-unk without a value gives "@@ ", from a time when it was the mark of subwords."""
    assert utils.load_align_dict("@@ ") == utils.load_align_dict("") == {}


def test_amp_gives_the_optimizer_gradients_that_are_unscaled_once(monkeypatch):
    monkeypatch.setattr(torch.cuda.amp, "GradScaler", partial(torch.amp.GradScaler, "cpu"))
    weight = torch.nn.Parameter(torch.zeros(3))
    common = {"fp16_init_scale": 128, "min_loss_scale": 1e-4, "amp_scale_window": None}
    sgd = OmegaConf.create({"_name": "sgd", "lr": [1.0], "momentum": 0.0, "weight_decay": 0.0})
    amp = AMPOptimizer.build_optimizer(SimpleNamespace(common=SimpleNamespace(**common), optimizer=sgd), [weight])
    amp.backward(weight @ torch.tensor([1.0, 2.0, 3.0]))
    amp.clip_grad_norm(0.0)
    amp.step()
    assert weight.tolist() == [-1.0, -2.0, -3.0]


@pytest.mark.parametrize("overwrite", [True, False])
def test_a_copy_replaces_a_file_only_if_it_may_and_whole_or_not_at_all(tmp_path, monkeypatch, overwrite):
    """With iopath, fairseq refuses to replace a file unless it is told to."""
    (tmp_path / "new").write_text("new")
    (tmp_path / "there").write_text("old")

    class Manager:
        supports_rename = staticmethod(lambda path: True)

        @staticmethod
        def copy(src_path, dst_path, overwrite=False):
            if not overwrite and Path(dst_path).exists():
                return False
            return bool(shutil.copyfile(src_path, dst_path))

    patches.whole_copies(types.SimpleNamespace(PathManager=Manager))
    assert Manager.copy(str(tmp_path / "new"), str(tmp_path / "there"), overwrite=overwrite) == overwrite
    assert (tmp_path / "there").read_text() == ("new" if overwrite else "old")

    def torn(source, target):
        Path(target).write_text("ne")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(shutil, "copyfile", torn)
    with pytest.raises(OSError, match="No space left"):
        Manager.copy(str(tmp_path / "there"), str(tmp_path / "new"), overwrite=True)
    assert (tmp_path / "new").read_text() == "new"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["new", "there"]
