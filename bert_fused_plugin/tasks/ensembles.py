"""Ensembles whose members differ: in whether they read BERT, in which BERT, and in how it is given the source."""

import json
from typing import Any, Dict, Sequence, Tuple
from weakref import WeakValueDictionary

from torch import nn

from bert_fused_plugin.bert.frozen_bert import FrozenBert
from bert_fused_plugin.errors import BertFusedError
from bert_fused_plugin.models.bert_fused import BertFusedModel
from bert_fused_plugin.models.bert_fused.encoder import BertFusedEncoder
from bert_fused_plugin.models.gru_bahdanau import GruModel
from bert_fused_plugin.models.gru_bahdanau.encoder import GruEncoder

NetInput = Dict[str, Any]


class SharedBerts:
    """The frozen BERTs of the models that a task has built; models with the same BERT hold one object.

    Its memory of recent states then serves all members of an ensemble, so that BERT runs once for each sentence.
    """

    def __init__(self) -> None:
        self._berts: WeakValueDictionary[Tuple[str, str, Tuple[int, ...]], FrozenBert] = WeakValueDictionary()

    def share(self, encoder: Any) -> None:
        """Give *encoder* the BERT of an earlier model that is the same, with the same layers, if there is one."""
        record = encoder.bert_record.record
        weights = record["weights_in_layers"]
        if weights is not None:  # None: a BERT that trains belongs to its own model
            config = json.dumps(record["config"], sort_keys=True)
            encoder.bert = self._berts.setdefault((weights, config, encoder.bert.layers), encoder.bert)


class _Wrapper(nn.Module):
    """A module that has the attributes of *wrapped*, except those that a subclass defines."""

    def __init__(self, wrapped: nn.Module) -> None:
        super().__init__()
        self.wrapped = wrapped

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(super().__getattr__("wrapped"), name)


class IgnoresBertInput(_Wrapper):
    """A model that does not read BERT, as a member of an ensemble whose batches bring BERT's input for others.

    The wrapper drops that input; the model itself is not changed.

    Args:
        model: an encoder-decoder model of fairseq.
    """

    def __init__(self, model: Any) -> None:
        super().__init__(model)
        self.encoder = _EncoderIgnoresBertInput(model.encoder)

    def forward(self, *inputs: Any, **net_input: Any) -> Any:
        """Return the model's output."""
        return self.wrapped(*inputs, **without_bert_input(net_input))


class _EncoderIgnoresBertInput(_Wrapper):
    def forward_torchscript(self, net_input: NetInput) -> Any:
        encoder: Any = self.wrapped
        return encoder.forward_torchscript(without_bert_input(net_input))


def reads_bert(model: Any) -> bool:
    """Return whether *model*, of any kind, attends to BERT."""
    encoder = model.encoder  # not the model's class: in validation under DDP a model is wrapped
    return isinstance(encoder, (BertFusedEncoder, GruEncoder)) and encoder.bridge is not None


def share_bert_input(models: Sequence[Any]) -> bool:
    """Return whether all *models* that read BERT have the same BERT and the same input for it."""
    encoders = [model.encoder for model in models if reads_bert(model)]
    inputs = ((b.max_tokens, b.detok, b.subword, b.bpe, b.tags, b.context) for b in (e.bridge for e in encoders))
    return len(set(zip((id(e.bert) for e in encoders), inputs))) <= 1


def members(models: Sequence[Any]) -> Sequence[Any]:
    """Return *models* as an ensemble whose batches may bring BERT's input for those that read it."""
    if not any(map(reads_bert, models)):
        return models
    return [model if reads_bert(model) else IgnoresBertInput(model) for model in models]


def without_bert_input(net_input: NetInput) -> NetInput:
    """Return *net_input* without BERT's tokens and states."""
    return {key: value for key, value in net_input.items() if key not in ("bert_tokens", "bert_out")}


def check_context(models: Sequence[Any]) -> None:
    """Check that an ensemble which reads context is given one BERT input.

    Raises:
        BertFusedError: the models differ in BERT or in its input.
    """
    contexts = [model.encoder.bridge.context for model in models if reads_bert(model)]
    if any(contexts) and not share_bert_input(models):
        raise BertFusedError(
            f"--bert-context {max(contexts)}: the models of this ensemble differ in BERT or in its input; "
            "translate with models that share them"
        )


def check_alignment(models: Sequence[Any]) -> None:
    """Check that each of *models* attends to source tokens, from which ``--print-alignment`` is made.

    Raises:
        BertFusedError: one of them does not.
    """
    if any(isinstance(model, BertFusedModel) and model.encoder.replaces_embeddings for model in models):
        raise BertFusedError(
            "--print-alignment needs attention to source tokens, but a model with --bert-fusion embedding attends to "
            "BERT's word pieces only; leave it out"
        )
    if any(isinstance(model, GruModel) and model.decoder.attention is None for model in models):
        raise BertFusedError(
            "--print-alignment needs attention, but a model with --attention none has none; leave it out"
        )
