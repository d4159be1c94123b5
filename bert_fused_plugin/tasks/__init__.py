"""The tasks."""

from bert_fused_plugin.tasks import bert_fused_translation

__all__ = ["bert_fused_translation"]
