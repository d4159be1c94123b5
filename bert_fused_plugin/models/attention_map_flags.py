"""What the flags ``--attention-map`` and ``--self-attention-map`` have in common: help, checks, and their old value."""

from typing import Any, Dict, List, Sequence

from bert_fused_plugin.modules.attention_map import ATTENTION_MAPS, PACKAGE, lacks_package

# the settings of checkpoints that were written before there was a choice
BEFORE_MAPS: Dict[str, Any] = {"attention_map": "softmax", "self_attention_map": "softmax"}


def map_help(attentions: str) -> str:
    """Return the help of a flag that chooses the map of some *attentions*."""
    kinds = "; ".join(f"{name}: {kind.help}" for name, kind in ATTENTION_MAPS.items())
    return f"The map from scores to weights in {attentions}. {kinds}. All but softmax need the package {PACKAGE}."


def map_package_errors(cfg: Any, settings: Sequence[str]) -> List[str]:
    """Return a sentence for each of the *settings* of *cfg* whose map needs a package that is not installed."""
    values = {name: str(vars(cfg)[name]) for name in settings}
    return [
        f"--{name.replace('_', '-')} {value} needs the package {PACKAGE}, which is not installed; "
        f"run: pip install {PACKAGE}"
        for name, value in values.items()
        if lacks_package(value)
    ]
