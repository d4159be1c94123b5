"""The changes of fairseq_compat to how fairseq 0.12.2 reads its settings: the types of flags, and Hydra."""

import argparse
import functools
import os
import warnings
from typing import Any, Callable, Set, Union, get_args, get_origin

from fairseq_compat.overlay import overlay


def hydra_and_types(module: Any) -> None:
    """Adapt Hydra's compose() and initialize(), and flags whose type is Optional."""
    current_hydra(module)
    optional_types(module)


def optional_types(module: Any) -> None:
    """Let fairseq read a flag of type Optional[int] as an int."""
    # fairseq knows such a type by its text, which is "int | None" since Python 3.14.  Can go when fairseq
    # asks typing.get_origin.
    stock = module.interpret_dc_type

    def interpret_dc_type(kind: Any) -> Any:
        types = get_args(kind) if get_origin(kind) is Union else ()
        return types[0] if types[-1:] == (type(None),) else stock(kind)

    module.interpret_dc_type = interpret_dc_type


def current_hydra(module: Any) -> None:
    """Give fairseq compose() and initialize() without the deprecation warnings of hydra.experimental."""
    # Hydra 1.1 moved them; Hydra 1.2 wants version_base, of which "1.1" keeps what fairseq's
    # "@package _group_" headers and strict=False need.  Can go when fairseq asks for Hydra >= 1.2.
    import hydra

    def quiet(function: Callable[..., Any], **fixed: Any) -> Callable[..., Any]:
        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return function(*args, **kwargs, **fixed)

        return call

    if hasattr(hydra, "compose"):  # Hydra >= 1.1
        module.compose = quiet(hydra.compose)
        module.initialize = quiet(hydra.initialize, caller_stack_depth=2, version_base="1.1")


def hydra_command(module: Any) -> None:
    """Let fairseq-hydra-train start on Python 3.14, and let the jobs of one multirun train apart."""
    help_written_later(module)
    separate_jobs(module)


def separate_jobs(module: Any) -> None:
    """Let each job of a multirun of fairseq-hydra-train begin without anything of the job before."""
    # Not a matter of versions: the jobs run in one process, in which fairseq keeps the best score, the meters and the
    # files of --tensorboard-logdir and --log-file.  A job that was worse than the job before wrote no
    # checkpoint_best.pt.
    from fairseq.checkpoint_utils import save_checkpoint
    from fairseq.logging import metrics, progress_bar
    from fairseq_cli.train import should_stop_early
    from hydra.core.hydra_config import HydraConfig
    from hydra.types import RunMode

    stock = module._hydra_main
    save_dirs: Set[str] = set()  # of the jobs of this multirun

    def check_save_dir(cfg: Any) -> None:
        if not HydraConfig.initialized() or HydraConfig.get().mode != RunMode.MULTIRUN:
            return
        if HydraConfig.get().job.num == 0:
            save_dirs.clear()
        save_dir = os.path.abspath(cfg.checkpoint.save_dir)
        if save_dir in save_dirs:
            raise ValueError(
                f"checkpoint.save_dir={cfg.checkpoint.save_dir} is the folder of an earlier job of this multirun, and "
                "this job would continue the training of that one; let the name of the folder contain what changes, "
                "for example 'checkpoint.save_dir=checkpoints/${common.seed}'"
            )
        save_dirs.add(save_dir)

    @functools.wraps(stock)
    def _hydra_main(cfg: Any, **kwargs: Any) -> Any:
        check_save_dir(cfg)
        vars(save_checkpoint).clear()
        vars(should_stop_early).clear()
        metrics.reset()
        progress_bar._close_writers()
        progress_bar._tensorboard_writers.clear()
        progress_bar.logger.handlers.clear()
        return stock(cfg, **kwargs)

    module._hydra_main = _hydra_main


def help_written_later(_module: Any) -> None:
    """Let fairseq-hydra-train start, although one help text of Hydra is an object that becomes text later."""
    # Python 3.14 checks a help text when the flag is added, and takes strings alone.  This changes the parser
    # that hydra._internal.utils makes.  Can go when Hydra gives a string.
    import hydra._internal.utils

    class Parser(argparse.ArgumentParser):
        def _check_help(self, action: Any) -> None:
            if isinstance(action.help, str):
                super()._check_help(action)  # type: ignore[misc]

    hydra._internal.utils.argparse = overlay(argparse, ArgumentParser=Parser)
