"""What the installed commands share."""

import os
from argparse import ArgumentTypeError, Namespace
from pathlib import Path
from typing import List, Optional

from fairseq.utils import import_user_module

from bert_fused_plugin.errors import flag_name


def output_errors(**outputs: Optional[Path]) -> List[str]:
    """Return a sentence for each flag whose file, if one is given, cannot be written."""
    return [
        f"{flag_name(flag)} {path} must be a file in an existing directory that can be written"
        for flag, path in outputs.items()
        if path is not None and ((path.exists() and not path.is_file()) or not os.access(path.parent, os.W_OK))
    ]


def user_module(path: str) -> str:
    """Import the plug-in of fairseq in the directory *path*, so that its architectures are known."""
    try:
        import_user_module(Namespace(user_dir=os.path.expanduser(path)))
    except (OSError, ImportError, TypeError, ValueError) as error:  # of the plug-in, too
        raise ArgumentTypeError(str(error)) from error
    return path
