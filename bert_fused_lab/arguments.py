"""What the command lines share.  Those of the report need neither torch nor fairseq, so nothing here imports them."""

import math
import os
from argparse import ArgumentParser, ArgumentTypeError, Namespace, RawDescriptionHelpFormatter
from pathlib import Path
from typing import List, Optional, Tuple

NamedPaths = Tuple[str, List[Path]]  # NAME=PATH,PATH,...


def parser_of(description: Optional[str], command: Optional[str] = None) -> ArgumentParser:
    """Return a parser whose help shows *description*, the docstring of a *command*, as it is."""
    return ArgumentParser(command, description=description, formatter_class=RawDescriptionHelpFormatter)


def given_path(text: str) -> Path:
    """Return the path that *text* of a command line names; the shell leaves the ``~`` of ``--flag=~/FILE``."""
    return Path(os.path.expanduser(text))


def named_paths(text: str) -> NamedPaths:
    """Return the name and the paths of ``NAME=PATH,PATH,...``."""
    name, _, paths = text.partition("=")
    if not (name and all(paths.split(","))) or "/" in name:  # which names files
        raise ArgumentTypeError(f"must be NAME=PATH, or NAME=PATH,PATH for two seeds, with no / in NAME, got {text!r}")
    return name, [given_path(path) for path in paths.split(",")]


def output_errors(**outputs: Optional[Path]) -> List[str]:
    """Return a sentence for each flag whose file, if one is given, cannot be written."""
    return [
        f"--{flag.replace('_', '-')} {path} must be a file in an existing directory that can be written"
        for flag, path in outputs.items()
        if path is not None and ((path.exists() and not path.is_file()) or not _takes_files(path.resolve().parent))
    ]


def _takes_files(folder: Path) -> bool:
    return folder.is_dir() and os.access(folder, os.W_OK)


def number_errors(options: Namespace, **least: float) -> List[str]:
    """Return a sentence for each number of *options* that is not finite, or below its bound in *least*."""
    return [
        f"--{name.replace('_', '-')} must be a finite number{f' of at least {bound}' if bound > -math.inf else ''}, "
        f"got {value}"
        for name, bound in least.items()
        if not (math.isfinite(value := vars(options)[name]) and value >= bound)
    ]


def user_module(path: str) -> str:
    """Import the plug-in of fairseq in the directory *path*, so that its architectures are known."""
    from fairseq.utils import import_user_module

    try:
        import_user_module(Namespace(user_dir=os.path.expanduser(path)))
    except (OSError, ImportError, TypeError, ValueError) as error:  # of the plug-in, too
        raise ArgumentTypeError(str(error)) from error
    return path
