"""fairseq's own settings, given on a command line or in a YAML file."""

import os
from argparse import Namespace
from typing import Any, Dict, Mapping, Optional

from omegaconf import DictConfig, OmegaConf


def as_namespace(flags: Any) -> Namespace:
    """Return *flags*, a Namespace or the ``model:`` section of a YAML file, as a Namespace."""
    if not isinstance(flags, DictConfig):
        return flags
    values: Any = OmegaConf.to_container(flags, resolve=True, enum_to_str=True)
    return Namespace(**{name: value for name, value in values.items() if value != "???"})


def flags_beside(flags: Any, section: str) -> Dict[str, Any]:
    """Return settings that include those of fairseq's *section*; they were given together with *flags*, the model's."""
    if not isinstance(flags, DictConfig):
        return vars(flags)
    root: Any = flags._get_root()
    return dict(root[section] or {}) if section in root else {}


def resumed_from(flags: Any) -> Optional[str]:
    """Return the checkpoint that fairseq-train will restore after the model is built from *flags*, if there is one."""
    settings = flags_beside(flags, "checkpoint")
    if settings.get("restore_file") is None:
        return None
    suffix = settings.get("checkpoint_suffix") or ""
    path: str = settings["restore_file"].replace(".pt", f"{suffix}.pt")
    if settings["restore_file"] == "checkpoint_last.pt":
        path = os.path.join(settings.get("save_dir") or "", path)
        path = path if os.path.isfile(path) else settings.get("continue_once") or path
    return path if os.path.isfile(path) else None


def task_settings(task: Any) -> Mapping[str, Any]:
    """Return the settings of *task*; a task that fairseq has not moved to dataclasses keeps them in ``args``."""
    settings = task.args if task.cfg is None else task.cfg
    return settings if isinstance(settings, Mapping) else vars(settings)
