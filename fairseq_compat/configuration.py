"""What fairseq_compat changes in how stock fairseq reads its settings: configs, Hydra, flags, warnings and logs."""

import dataclasses
import functools
import importlib.util
import logging
import multiprocessing
import os
import sys
import warnings
from argparse import Namespace
from typing import Any, Callable, List, Set, Union, get_args, get_origin

# warnings that users can do nothing about: their category, and the start of message and module as regular expressions
_HOPELESS_WARNINGS = (
    # torch 2.4 renamed torch.cuda.amp.X(...) to torch.amp.X('cuda', ...)
    (FutureWarning, r"`torch\.cuda\.amp\.autocast\(args\.\.\.\)` is", r"fairseq\.tasks\."),
    (FutureWarning, r"`torch\.cuda\.amp\.GradScaler\(args\.\.\.\)` is", r"fairseq\.optim\."),
    # torch 2.14: fairseq's parts of non-autoregressive models are scripted when they are imported
    (FutureWarning, r"`torch\.jit\.script` is (deprecated|not supported in Python 3\.14)", r"torch\.jit\._script$"),
    # torch 2.0: fairseq's attention gives a bool padding mask and a float causal mask
    (UserWarning, r"Support for mismatched key_padding_mask and", r"torch\.nn\.functional$"),
    # fairseq's data loader asks for pinned memory with --cpu too
    (UserWarning, r"'pin_memory' argument is set as true but no", r"torch\.utils\.data\."),
    # Hydra 1.1 and 1.2 would like other headers and calls than fairseq-hydra-train and its files have
    (UserWarning, r"\nThe version_base parameter is not specified", r"fairseq_cli\.hydra_train$"),
    (UserWarning, r"In '.*': Usage of deprecated keyword in package header", r"hydra\.core\."),
    (UserWarning, r"\n'.*' is validated against ConfigStore schema", r"(sys|hydra\.main)$"),
    (UserWarning, r"Future Hydra versions will no longer change working", r"hydra\._internal\."),
)

# the same of log messages: the starts of messages of a logger
_OF_MAIN = ("can_reuse_epoch_itr = ", "reuse_dataloader = ", "rebuild_batches = ", "creating new batches for epoch ")
_HOPELESS_MESSAGES = {
    # of speech synthesis, whose task is imported with all others
    "fairseq.tasks.text_to_speech": ("Please install tensorboardX: pip install tensorboardX",),
    "fairseq.tasks.fairseq_task": _OF_MAIN,  # for each buffer of fairseq-interactive and each call of the hub interface
}

_root_logger: List[Any] = []  # as it was before fairseq: its level and its handlers


def _is_of_use(record: logging.LogRecord) -> bool:
    return not record.getMessage().startswith(_HOPELESS_MESSAGES[record.name])


def around(owner: Any, name: str) -> Callable[[Callable[..., Any]], None]:
    """Put a function around *name* of *owner*, a module or a class; its first argument is the stock function."""
    stock = getattr(owner, name)

    def put(function: Callable[..., Any]) -> None:
        @functools.wraps(stock)
        def call(*args: Any, **options: Any) -> Any:
            return function(stock, *args, **options)

        setattr(owner, name, call)

    return put


def before_fairseq() -> None:
    """Prepare Python before the first line of fairseq runs; repeating it does no harm."""
    _root_logger[:] = [logging.root.level, *logging.root.handlers]
    for category, message, module in _HOPELESS_WARNINGS:
        warnings.filterwarnings("ignore", message, category, module)
    for logger in _HOPELESS_MESSAGES:
        logging.getLogger(logger).addFilter(_is_of_use)

    # Python 3.14 starts workers of data loaders in a new process that imports all anew and gets a copy of the data set.
    if sys.version_info >= (3, 14) and multiprocessing.get_start_method(allow_none=True) is None:
        multiprocessing.set_start_method("fork")  # as before: they share the memory of the training

    if not hasattr(dataclasses, "_MISSING_TYPE"):  # in Python 3.15, MISSING has no class of its own
        vars(dataclasses)["_MISSING_TYPE"] = type(dataclasses.MISSING)

    # Python 3.11 rejects defaults that cannot be hashed, and the configs of fairseq and of its plug-ins have configs as
    # defaults.  An identity hash gives those what Python 3.10 did.
    if sys.version_info < (3, 11) or hasattr(dataclasses._process_class, "__wrapped__"):  # type: ignore[attr-defined]
        return

    @around(dataclasses, "_process_class")  # what dataclass() calls, also where it was imported by name before
    def _process_class(stock: Any, cls: Any, *args: Any) -> Any:
        for default in list(vars(cls).values()):
            kind = type(default.default if isinstance(default, dataclasses.Field) else default)
            if kind.__hash__ is None and any(str(base.__module__).startswith("fairseq.") for base in kind.__mro__):
                kind.__hash__ = object.__hash__
        return stock(cls, *args)


def no_root_logger(_module: Any) -> None:
    """Take back that fairseq sets up the root logger when it is imported."""
    if _root_logger:  # empty if fairseq was there before this package
        level, *logging.root.handlers[:] = _root_logger
        logging.root.setLevel(level)


def current_hydra(module: Any) -> None:
    """Give fairseq compose() and initialize() without the deprecation warnings of hydra.experimental."""
    import hydra

    def quiet(function: Any, **fixed: Any) -> Any:
        def call(*args: Any, **options: Any) -> Any:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return function(*args, **options, **fixed)

        return call

    module.compose = quiet(hydra.compose)
    # version 1.1 keeps what fairseq's "@package _group_" headers and strict=False need
    module.initialize = quiet(hydra.initialize, caller_stack_depth=2, version_base="1.1")


def optional_types(module: Any) -> None:
    """Let fairseq see that a setting may be None, which it reads from the text of a type; Python 3.14 changed that."""

    @around(module, "interpret_dc_type")
    def interpret_dc_type(stock: Any, field_type: Any) -> Any:
        kinds = get_args(field_type) if get_origin(field_type) is Union else ()
        return kinds[0] if type(None) in kinds else stock(field_type)


def hydra_flags(_module: Any) -> None:
    """Let Hydra 1.3 describe its flags: Python 3.14 checks their help, and that of one is no text."""
    from hydra._internal import utils

    from fairseq_compat.patches import overlay

    class Parser(utils.argparse.ArgumentParser):
        def _check_help(self, action: Any) -> None:
            if isinstance(action.help, str):
                super()._check_help(action)

    if sys.version_info >= (3, 14):
        utils.argparse = overlay(utils.argparse, ArgumentParser=Parser)


def separate_jobs(module: Any) -> None:
    """Let each job of a multirun of fairseq-hydra-train begin without anything of the job before, as its best loss."""
    from fairseq.checkpoint_utils import save_checkpoint
    from fairseq.logging import metrics, progress_bar
    from fairseq_cli.train import should_stop_early
    from hydra.core.hydra_config import HydraConfig
    from hydra.types import RunMode

    save_dirs: Set[str] = set()  # of the jobs of this multirun

    @around(module, "_hydra_main")
    def _hydra_main(stock: Any, cfg: Any, **kwargs: Any) -> Any:
        if HydraConfig.initialized() and HydraConfig.get().mode == RunMode.MULTIRUN:
            save_dir = os.path.abspath(cfg.checkpoint.save_dir)
            if save_dir in save_dirs:
                raise ValueError(
                    f"checkpoint.save_dir={cfg.checkpoint.save_dir} is the folder of an earlier job of this multirun; "
                    "name it by what changes, for example 'checkpoint.save_dir=checkpoints/${common.seed}'"
                )
            save_dirs.add(save_dir)
        vars(save_checkpoint).clear()
        vars(should_stop_early).clear()
        metrics.reset()
        progress_bar._close_writers()
        progress_bar._tensorboard_writers.clear()
        progress_bar.logger.handlers.clear()
        return stock(cfg, **kwargs)


def user_dir_by_name(module: Any) -> None:
    """Let --user-dir also take the name of an installed package; an existing path wins, unless ours is imported."""

    @around(module, "import_user_module")
    def import_user_module(stock: Any, args: Any) -> None:
        user_dir = os.fspath(getattr(args, "user_dir", None) or "").rstrip(os.sep)
        # fairseq compares paths as texts, and takes the same package under another path for another one of its name
        imported = getattr(sys.modules.get(os.path.basename(os.path.abspath(user_dir))), "__path__", ())
        ours = imported and user_dir == "bert_fused_plugin"
        if ours or os.path.realpath(user_dir) in map(os.path.realpath, imported):
            return
        package = os.path.dirname(module.__file__)
        seen_by_stock = ("", package, os.path.dirname(package))
        inside = "__init__.py" if user_dir == "bert_fused_plugin" else ""  # a clone of that name is no package
        if user_dir and not any(os.path.exists(os.path.join(d, user_dir, inside)) for d in seen_by_stock):
            spec = importlib.util.find_spec(user_dir) if user_dir.isidentifier() else None
            if spec is None or not spec.submodule_search_locations:
                raise FileNotFoundError(
                    f"--user-dir {user_dir}: neither a folder (seen from {os.getcwd()}) nor a package that this Python "
                    "can import; give the path of the plug-in's folder, or install the package with this Python's pip"
                )
            # a copy: the name, not this machine's path, belongs into checkpoints
            args = Namespace(user_dir=next(iter(spec.submodule_search_locations)))
        stock(args)


def bf16_without_tpu(module: Any) -> None:
    """Let --bf16 and --memory-efficient-bf16 work on CPUs and GPUs, as they do in fairseq-hydra-train."""

    @around(module, "parse_args_and_arch")
    def parse_args_and_arch(stock: Any, parser: Any, input_args: Any = None, *rest: Any, **options: Any) -> Any:
        argv = sys.argv if input_args is None else input_args
        parsed = stock(parser, input_args, *rest, **options)
        args = parsed[0] if isinstance(parsed, tuple) else parsed
        if getattr(args, "bf16", False) and "--tpu" not in argv and not importlib.util.find_spec("torch_xla"):
            args.tpu = False
        return parsed
