"""The architectures."""

from bert_fused_plugin.models import bert_fused

__all__ = ["bert_fused"]
