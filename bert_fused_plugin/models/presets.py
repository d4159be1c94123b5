"""Presets that serve fairseq-train and fairseq-hydra-train alike.

fairseq gives a preset either the flags as a Namespace or the ``model:`` section of a YAML file as a DictConfig.  This
file reads the section as fairseq reads the command line, and adds the settings of the preset and all defaults.
"""

import difflib
import functools
import logging
import os
from argparse import SUPPRESS, Action, ArgumentParser, Namespace
from typing import Any, Callable, Dict, List, Optional

import torch
from fairseq.dataclass.utils import gen_parser_from_dataclass
from fairseq.models import MODEL_REGISTRY, register_model_architecture
from omegaconf import DictConfig, OmegaConf

from bert_fused_plugin.errors import raise_all

logger = logging.getLogger(__name__)

Preset = Callable[[Namespace], None]

# fairseq keeps these settings among the flags of the task
_OF_TASK = {name: f"${{task.{name}}}" for name in ("max_source_positions", "max_target_positions")}


def register_preset(model: str, arch: str) -> Callable[[Preset], Callable[[Any], None]]:
    """Register the decorated preset as an architecture.

    Args:
        model: the name of a registered model, whose flags are the fields of its ``config_class``, a dataclass.
        arch: the name of the architecture.

    Returns:
        The decorator of the preset, which is a function that sets what a Namespace lacks.
    """

    def register(preset: Preset) -> Callable[[Any], None]:
        @register_model_architecture(model, arch)
        @functools.wraps(preset)
        def apply(flags: Any) -> None:
            if isinstance(flags, DictConfig):
                _complete(flags, preset, MODEL_REGISTRY[model].config_class)
            else:
                preset(flags)

        return apply

    return register


def as_namespace(flags: Any) -> Namespace:
    """Return *flags*, a Namespace or the ``model:`` section of a YAML file, as a Namespace."""
    if isinstance(flags, DictConfig):
        return Namespace(**_values(flags))
    return flags


def flags_beside(flags: Any, section: str) -> Dict[str, Any]:
    """Return settings that include those of fairseq's *section*; they were given together with *flags*, the model's."""
    if not isinstance(flags, DictConfig):
        return vars(flags)
    root: Any = flags._get_root()
    return dict(root[section] or {}) if section in root else {}


def resumed_from(flags: Any) -> Optional[str]:
    """Return the checkpoint that fairseq-train will restore after the model is built from *flags*, if there is one."""
    given = flags_beside(flags, "checkpoint")
    if given.get("restore_file") is None:
        return None
    suffix = given.get("checkpoint_suffix") or ""
    path: str = given["restore_file"].replace(".pt", f"{suffix}.pt")
    if given["restore_file"] == "checkpoint_last.pt":
        path = os.path.join(given.get("save_dir") or "", path)
    return path if os.path.isfile(path) else None


def sharding_errors(flags: Any) -> List[str]:
    """Return a sentence if the training shards its parameters, which was never tried with the models of this package.

    fairscale, to which fairseq leaves it, needs GPUs.  It would not see a frozen BERT, which is no submodule.
    """
    if str(flags_beside(flags, "distributed_training").get("ddp_backend")) != "fully_sharded":
        return []
    return [
        "--ddp-backend fully_sharded is not supported by the architectures of this package; leave it out, or give "
        "--ddp-backend legacy_ddp: a frozen BERT needs neither gradients nor the optimizer's memory"
    ]


def warn_of_lone_processes() -> None:
    """Warn if torchrun has started several processes, and fairseq has not joined them.

    fairseq's main looks for torchrun's variables only with ``--distributed-world-size``, so each process would train
    alone, and write the same checkpoints.
    """
    processes = os.environ.get("WORLD_SIZE", "1")
    if "TORCHELASTIC_RUN_ID" in os.environ and processes != "1" and not torch.distributed.is_initialized():
        logger.warning(
            f"torchrun has started {processes} processes, but fairseq has not joined them, so each works alone; "
            f"to train together, give --distributed-world-size {processes}"
        )


def _complete(section: DictConfig, preset: Preset, config_class: Any) -> None:
    """Write into the ``model:`` section of a YAML file what the preset and the defaults give, in the flags' types."""
    parser = ArgumentParser()
    gen_parser_from_dataclass(parser, config_class(), with_prefix="")
    actions = {action.dest: action for action in parser._actions if action.default is not SUPPRESS}
    no_flags = Namespace(_name=None, arch=None)
    preset(no_flags)  # a preset sets names that are no flags, too
    values = _values(section)
    kept = {name: value for name, value in values.items() if name not in actions and name in no_flags}
    of_task = {name: values.get(name, default) for name, default in _OF_TASK.items()}
    given = {name: value for name, value in values.items() if name not in kept and name not in of_task}
    flags = Namespace(**kept, **of_task, **_read(given, actions))
    preset(flags)
    for name, default in vars(parser.parse_args([])).items():
        vars(flags).setdefault(name, default)
    section.update(vars(flags))


def _values(section: DictConfig) -> Dict[str, Any]:
    values: Any = OmegaConf.to_container(section, resolve=True, enum_to_str=True)
    return {name: value for name, value in values.items() if value != "???"}


def _read(values: Dict[str, Any], actions: Dict[str, Action]) -> Dict[str, Any]:
    """Return *values* in the types that the command line gives them.

    Raises:
        BertFusedError: all settings that the command line would refuse.
    """
    read = {}
    errors: List[str] = []
    for name, value in values.items():
        try:
            read[name] = _read_value(value, actions[name])
        except KeyError:
            meant = difflib.get_close_matches(name, actions, n=1)
            errors.append(
                f"model.{name}, got {value!r}, is no setting of this model; "
                + (f"did you mean {meant[0]}?" if meant else "leave it out")
            )
        except ValueError as error:
            errors.append(f"model.{name} must be {error}, got {value!r}")
    raise_all(errors)
    return read


def _read_value(value: Any, action: Action) -> Any:
    if action.nargs == 0:  # a switch
        if not isinstance(value, bool):
            raise ValueError("true or false")
        return value
    if value is None or (action.type is None and action.choices is None):  # fairseq gives no type to a derived default
        return value
    if action.choices is not None:
        if str(value) not in action.choices:
            raise ValueError(f"one of {', '.join(action.choices)}")
        return str(value)
    convert: Any = action.type
    try:
        return convert(str(value))
    except (ValueError, SyntaxError) as error:
        raise ValueError(f"what --{action.dest.replace('_', '-')} takes on the command line") from error
