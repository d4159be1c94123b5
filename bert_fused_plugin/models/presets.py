"""Presets for the flags of fairseq-train, a Namespace, and for the ``model:`` section of Hydra, a DictConfig."""

import difflib
from argparse import SUPPRESS, ArgumentParser, Namespace
from typing import Any, Callable, Dict

from fairseq.dataclass.utils import gen_parser_from_dataclass
from fairseq.models import MODEL_REGISTRY, register_model_architecture
from omegaconf import DictConfig

from bert_fused_plugin.errors import flag_name, raise_all
from bert_fused_plugin.fairseq_settings import as_namespace

# fairseq keeps these settings among the flags of the task
_OF_TASK = {name: f"${{task.{name}}}" for name in ("max_source_positions", "max_target_positions")}
_NO_FLAGS = (*_OF_TASK, "_name", "arch", "decoder_input_dim")  # fairseq's presets set the last one

TINY = {  # a transformer for small data
    "encoder_embed_dim": 128,
    "encoder_ffn_embed_dim": 256,
    "encoder_layers": 4,
    "encoder_attention_heads": 4,
    "decoder_layers": 4,
    "decoder_attention_heads": 4,
}


def register_preset(
    model: str, arch: str, of_fairseq: Callable[[Namespace], None] = lambda flags: None, **values: Any
) -> Callable[[Any], None]:
    """Register a preset as the architecture *arch* of a *model*, and return it: a function that sets what flags lack.

    The preset has the *values*, and *of_fairseq*, one of fairseq's presets, sets what these leave.
    """

    def complete(flags: Namespace) -> None:
        for name, value in values.items():
            vars(flags).setdefault(name, value)
        of_fairseq(flags)

    @register_model_architecture(model, arch)
    def preset(flags: Any) -> None:
        if isinstance(flags, DictConfig):
            _complete(flags, complete, MODEL_REGISTRY[model].config_class)
        else:
            complete(flags)

    return preset


def _complete(section: DictConfig, preset: Callable[[Namespace], None], config_class: Any) -> None:
    """Write into the ``model:`` section of a YAML file what the preset and the defaults give, in the flags' types."""
    parser = ArgumentParser()
    gen_parser_from_dataclass(parser, config_class(), with_prefix="")
    actions = {action.dest: action for action in parser._actions if action.default is not SUPPRESS}
    values = vars(as_namespace(section))
    # a complete section is a checkpoint's, and another version of fairseq may have written it
    unknown = values.keys() - actions.keys() if actions.keys() <= values.keys() else set()
    others = {name: values.pop(name) for name in (*_NO_FLAGS, *unknown) if name in values}
    flags = Namespace(**{**_OF_TASK, **others, **_read(values, actions)})
    preset(flags)
    for name, default in vars(parser.parse_args([])).items():
        vars(flags).setdefault(name, default)
    section.update(vars(flags))


def _read(values: Dict[str, Any], actions: Dict[str, Any]) -> Dict[str, Any]:
    """Return *values* in the types that the command line gives them."""
    read, errors = {}, []
    for name, value in values.items():
        read[name], rule = value, None
        if name not in actions:
            meant = [f"did you mean {other}?" for other in difflib.get_close_matches(name, actions, n=1)]
            errors.append(f"model.{name}, got {value!r}, is no setting of this model; {(*meant, 'leave it out')[0]}")
        elif actions[name].nargs == 0:  # a switch
            rule = None if isinstance(value, bool) else "true or false"
        elif value is None and actions[name].default is not None:
            rule = "left out for the architecture's own value"
        elif actions[name].choices is not None and value is not None and str(value) not in actions[name].choices:
            rule = f"one of {', '.join(actions[name].choices)}"
        elif actions[name].type is not None and value is not None:  # fairseq gives no type to a derived default
            try:
                read[name] = actions[name].type(str(value))
            except (ValueError, SyntaxError):
                rule = f"what {flag_name(name)} takes on the command line"
        if rule is not None:
            errors.append(f"model.{name} must be {rule}, got {value!r}")
    raise_all(errors)
    return read
