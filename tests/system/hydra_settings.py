"""The settings of fairseq-hydra-train beside those of fairseq-train."""

import re
import warnings
from argparse import Namespace

from conftest import ROOT
from fairseq.dataclass.initialize import add_defaults, hydra_init
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.models import ARCH_CONFIG_REGISTRY
from hydra import compose, initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from omegaconf import OmegaConf, open_dict

CONFIGS = ROOT / "examples" / "hydra"
# what may differ: the folder of the checkpoints, and how Hydra prints its log; the model's settings are compared apart
_MAY_DIFFER = re.compile(r"checkpoint\.save_dir|job_logging_cfg\..*|model(\..*)?")


def settings_of_command_line(args):
    """The settings that fairseq-train makes of its parsed flags."""
    return OmegaConf.to_container(convert_namespace_to_omegaconf(args))


def settings_of_hydra(*overrides):
    """The settings that fairseq-hydra-train makes of the files in examples/hydra and *overrides*."""
    hydra_init("translation")
    GlobalHydra.instance().clear()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Hydra's, about the way in which fairseq calls it
        with initialize_config_dir(str(CONFIGS), version_base="1.1"):
            settings = compose("translation", overrides=list(overrides))
    add_defaults(settings)
    with open_dict(settings.model):
        ARCH_CONFIG_REGISTRY[settings.model._name](settings.model)
    return OmegaConf.to_container(settings, resolve=True, enum_to_str=True)


def differences(expected, actual):
    """The settings that differ, as (of fairseq-train, of fairseq-hydra-train), by name."""
    ours, theirs = flat(expected), flat(actual)
    sides = {name: (ours.get(name), theirs.get(name)) for name in {*ours, *theirs} if not _MAY_DIFFER.fullmatch(name)}
    # the command line keeps all flags as those of the model, and Hydra the model's alone, with their defaults
    flags, model = vars(expected["model"]), actual["model"]
    assert isinstance(expected["model"], Namespace)
    sides.update({f"model.{name}": (flags[name], model[name]) for name in {*flags} & {*model}})
    return {name: values for name, values in sides.items() if values[0] != values[1]}


def flat(settings, prefix=""):
    """The settings by their names with dots."""
    if not isinstance(settings, dict):
        return {prefix[:-1]: settings}
    return {name: value for key in settings for name, value in flat(settings[key], f"{prefix}{key}.").items()}
