"""The architectures."""

from bert_fused_plugin.models import bert_fused, gru_bahdanau

__all__ = ["bert_fused", "gru_bahdanau"]
