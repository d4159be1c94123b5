"""The criterions."""

from bert_fused_plugin.criterions import label_smoothed_cross_entropy

__all__ = ["label_smoothed_cross_entropy"]
