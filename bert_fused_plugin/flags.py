"""The specification of a flag, in its field, from which parser, checks, record in checkpoints, and docs follow."""

# fairseq reads the field types of configs: no `from __future__ import annotations`, no `X | None` here.
from dataclasses import dataclass, field, fields, replace
from enum import Enum
from typing import Any, Callable, Dict, Iterable, List, Mapping, NamedTuple, Optional, Tuple

from omegaconf import OmegaConf

from bert_fused_plugin.errors import flag_name

NO_EFFECT = object()  # the value of a flag that does not change the model at hand


class Record(Enum):
    """What a checkpoint says about a flag."""

    COMPUTED = "the value; with another one the model would compute something else, so that is an error"
    NOTED = "the value; another one gives a warning"
    BERT = "the value; with another one BERT would read or return something else, so that is an error"
    NOTHING = "nothing: parameters show it, or it may change, as what is about the start, training, memory, or a limit"


class Rule(NamedTuple):
    """What the value of a flag must be, or, in `Flag.where`, the whole config."""

    holds: Callable[[Any], bool]  # whether it is allowed; it may raise a ValueError for a value that is not
    says: str  # such as "must be at least 1", or "is for --bert-finetune"
    remedy: str  # such as "give a positive number"


@dataclass(frozen=True)
class Flag:
    """All that is known of a flag beside its type, its default and its help."""

    record: Record = Record.NOTHING
    rule: Optional[Rule] = None
    where: Tuple[Rule, ...] = ()  # rules for the config; where they do not hold, only the default is allowed
    # makes of the config what is recorded, if it is not the value: a default that follows from other flags, `NO_EFFECT`
    effective: Optional[Callable[[Any], Any]] = None
    values: str = ""  # its values in docs/flags.md, where the choices and the rule do not say it
    unset: str = ""  # what applies where it is not given, in docs/flags.md, if that is not its default


def flag(help: str, default: Any, record: Record = Record.NOTHING, **specification: Any) -> Any:
    """Return the field of a flag; the *specification* is that of `Flag`."""
    return field(default=default, metadata={"help": help, "flag": Flag(record, **specification)})


class Specified:
    """A config whose fields are made by `flag`."""

    @classmethod
    def flags(cls) -> Dict[str, Flag]:
        """Return the specification of each flag, by the name of its setting."""
        config: Any = cls
        return {item.name: item.metadata["flag"] for item in fields(config) if "flag" in item.metadata}


def at_least(smallest: int, remedy: str = "") -> Rule:
    """Return the rule for a number that must not be below *smallest*; None, a flag that was not given, obeys it."""
    remedy = remedy or f"choose {smallest} or more"
    return Rule(lambda value: value is None or value >= smallest, f"must be at least {smallest}", remedy)


def only_with(setting: str) -> Rule:
    """Return the rule for a flag that has an effect only beside another one, of this *setting*."""
    other = flag_name(setting)
    remedy = f"add {other}, or leave this flag out"
    return Rule(lambda cfg: getattr(cfg, setting) not in (None, False), f"is for {other}", remedy)


def only_for(setting: str, kinds: Mapping[str, Any], fits: Callable[[Any], bool]) -> Rule:
    """Return the rule for a flag that has an effect with the *kinds* that fit, among which a *setting* chooses."""
    *others, last = [name for name, kind in kinds.items() if fits(kind)]
    says = f"is for {flag_name(setting)} {', '.join(others)}{' and ' * bool(others)}{last}"
    return Rule(lambda cfg: fits(kinds[str(getattr(cfg, setting))]), says, "leave it out")


def limited(flags: Mapping[str, Flag], where: Rule, names: Iterable[str]) -> Dict[str, Flag]:
    """Return *flags*, of which those with *names* have an effect only *where* a condition holds, too."""
    return {**flags, **{name: replace(flags[name], where=(where, *flags[name].where)) for name in names}}


def flag_errors(cfg: Any) -> List[str]:
    """Return a sentence for each flag that breaks a rule in the config *cfg*: flag, rule, value and remedy."""
    errors, config_class = [], OmegaConf.get_type(cfg)
    defaults = {item.name: item.default for item in fields(config_class)}
    for setting, spec in config_class.flags().items():
        if not hasattr(cfg, setting):  # a flag of another version of fairseq
            continue
        name, value = flag_name(setting), getattr(cfg, setting)
        broken = next((where for where in spec.where if not where.holds(cfg)), None)
        if broken is not None and str(value) != str(defaults.get(setting)):
            errors.append(f"{name} {broken.says}, got {value}; {broken.remedy}")
        if broken is None and spec.rule is not None and not _holds(spec.rule, value):
            errors.append(f"{name} {spec.rule.says}, got {value!r}; {spec.rule.remedy}")
    return errors


def _holds(rule: Rule, value: Any) -> bool:
    try:
        return rule.holds(value)
    except ValueError:
        return False


def recorded(cfg: Any, record: Record) -> Dict[str, Any]:
    """Return the values of the flags that a checkpoint records as *record* says, where they have an effect."""
    values = {
        setting: getattr(cfg, setting) if spec.effective is None else spec.effective(cfg)
        for setting, spec in cfg.flags().items()
        if spec.record is record and all(where.holds(cfg) for where in spec.where)
    }
    return {setting: value for setting, value in values.items() if value is not NO_EFFECT}
