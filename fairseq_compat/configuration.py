"""The changes of fairseq_compat to how fairseq 0.12.2 reads its settings: the types of flags, and Hydra."""

import argparse
import functools
import warnings
from typing import Any, Callable, Union, get_args, get_origin

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
