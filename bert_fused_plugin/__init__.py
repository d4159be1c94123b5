"""BERT-fused neural machine translation as a plugin of stock fairseq (``--user-dir bert_fused_plugin``).

Data flow (Zhu et al., "Incorporating BERT into Neural Machine Translation", ICLR 2020)::

    raw text ── fairseq-preprocess ──> src_tokens ──────────────> BertFusedEncoder ─> BertFusedDecoder
                                          │                        │  each layer        │  each layer
                                   DictionaryBridge                │  attends to        │  attends to
                                          │                        │  bert_out          │  bert_out
                                     bert_tokens ─> FrozenBert ────┴── bert_out ────────┘

Shapes, in all docstrings: B batch, S source length, L BERT length (word pieces), T target length,
C model width, D BERT width, H attention heads, V vocabulary.  A ``*_padding_mask`` is bool, True is
padding.  ``bert_tokens`` is (B, L), always right-padded.  Layers work batch first, (B, S, C); only ``encoder_out`` is
(S, B, C), as in fairseq's models.

Whatever reads flags, files or checkpoints raises a `BertFusedError` (errors.py) for what the user has to change.

The map of the package; CONTRIBUTING.md says in which order to read it::

    flags.py         the specification of a flag, from which parser, checks, record and docs follow
    data/            from fairseq's token ids to BERT's input, and the cache of BERT's states
    bert/            the source of BERT's tokens and states: the pre-trained encoder, frozen or trained, and its layers
    modules/         the parts of the papers' figures; they import no other folder
    models/          the architectures: bert_fused/, gru_bahdanau/, and what both do alike
    tasks/           fairseq's translation task with BERT's input in every batch
    criterions/      cross entropy with label smoothing, without the scores of a whole batch
    checkpoints/     what checkpoints record of a model, and how their files are read
    cache_command.py  ``bert-fused-cache``, which prepares BERT's states before a training
"""

from importlib.util import find_spec

import fairseq_compat  # noqa: F401  # a Python that was running when it was installed has not read its .pth file
from bert_fused_plugin.errors import BertFusedError, install_excepthook

install_excepthook()
if find_spec("fairseq") is None:  # no dependency of the package, since no pip can meet what fairseq demands
    raise BertFusedError("bert_fused_plugin needs fairseq; install it with: pip install --no-deps fairseq==0.12.2")

# fairseq's --user-dir imports models/ and tasks/ by itself, but not criterions/
from bert_fused_plugin import models, tasks  # noqa: E402
from bert_fused_plugin.criterions import label_smoothed_cross_entropy  # noqa: E402

__all__ = ["label_smoothed_cross_entropy", "models", "tasks"]
