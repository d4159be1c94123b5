"""What the heads of a model have learned about their maps of attention."""

import logging
from typing import Dict, List

from torch import nn

from bert_fused_plugin.modules.attention_map import LearnedEntmax

logger = logging.getLogger(__name__)


def learned_alphas(model: nn.Module) -> Dict[str, List[float]]:
    """Return the alpha of each head for each attention of *model* that learns it, by the name of the attention."""
    return {
        name.rpartition(".")[0]: module.alpha().tolist()
        for name, module in model.named_modules()
        if isinstance(module, LearnedEntmax)
    }


def log_alphas(model: nn.Module) -> Dict[str, float]:
    """Log the alphas of *model*, and return their mean under the name of a statistic; nothing if it learns none."""
    alphas = learned_alphas(model)
    if not alphas:
        return {}
    for name, heads in alphas.items():
        logger.info(f"alpha of {name}: {' '.join(f'{alpha:.3f}' for alpha in heads)}")
    every = [alpha for heads in alphas.values() for alpha in heads]
    return {"alpha": round(sum(every) / len(every), 3)}
