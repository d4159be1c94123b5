"""BERT-fused neural machine translation as a plugin of stock fairseq (``--user-dir bert_fused_plugin``).

Data flow (Zhu et al., "Incorporating BERT into Neural Machine Translation", ICLR 2020)::

    raw text ── fairseq-preprocess ──> src_tokens ──────────────> BertFusedEncoder ─> BertFusedDecoder
                                          │                        │  each layer        │  each layer
                                   DictionaryBridge                │  attends to        │  attends to
                                          │                        │  bert_out          │  bert_out
                                     bert_tokens ─> FrozenBert ────┴── bert_out ────────┘

Shapes, in all docstrings: B batch, S source length, L BERT length (word pieces), T target length,
C model width, D BERT width, H attention heads, V vocabulary.  A ``*_padding_mask`` is bool, True is
padding.  ``bert_tokens`` is (B, L), always right-padded.  Layers work time first: (S, B, C).

| what | where |
| --- | --- |
| text for BERT from fairseq's ids | ``data/dictionary_bridge.py`` |
| BERT input in datasets and batches | ``data/bert_pair_dataset.py``, ``data/collate.py`` |
| BERT's states on disk | ``data/feature_cache.py`` |
| the frozen encoder | ``bert/frozen_bert.py`` |
| the sentences before the current one | ``data/document_context.py`` |
| BERT that trains, mixes of its layers | ``bert/finetuned_bert.py``, ``bert/layer_mix.py`` |
| a batch's own random numbers, on any rank | ``modules/batch_rng.py`` |
| drop-net, fusions, fused layers | ``modules/{drop_net,fusion}.py``, ``modules/bert_fused_*_layer.py`` |
| how an encoder comes by BERT's states | ``bert/loading.py``, ``bert/reading.py`` |
| the BERT-fused transformer | ``models/bert_fused*.py``, ``models/bert_fused/config_checks.py`` |
| presets, for flags and for YAML files | ``models/presets.py`` |
| beginning from a plain transformer | ``models/bert_fused/warm_start.py``, ``models/bert_fused/stock_checkpoint.py`` |
| checkpoints of the authors' code | ``models/bert_fused/bert_nmt.py`` |
| RNNsearch and its variants | ``models/gru_bahdanau/``, ``modules/{recurrent_attention,conditional_gru}.py`` |
| finished models as files: averages, directories to move | ``checkpoints/`` |
| task, criterion | ``tasks/``, ``criterions/`` |
| comparing runs, attention in pictures | ``reports/`` |
"""

from bert_fused_plugin.errors import install_excepthook

install_excepthook()

# fairseq's --user-dir imports models/ and tasks/ by itself, but not criterions/;
# `import bert_fused_plugin` alone registers everything too.
from bert_fused_plugin import criterions, models, tasks  # noqa: E402

__all__ = ["criterions", "models", "tasks"]
