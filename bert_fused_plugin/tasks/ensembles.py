"""Ensembles whose members differ: in whether they read BERT, in which BERT, and in how it is given the source."""

import copy
import json
from typing import Any, Dict, List, Sequence, Tuple
from weakref import WeakValueDictionary

from bert_fused_plugin.bert.frozen_bert import FrozenBert
from bert_fused_plugin.bert.source import BertSource, source_of
from bert_fused_plugin.models.bert_fused.encoder import BertFusedEncoder
from bert_fused_plugin.models.gru_bahdanau import GruModel

Berts = WeakValueDictionary[Tuple[str, str, str], FrozenBert]  # by weights and settings


def members(models: Sequence[Any]) -> Sequence[Any]:
    """Return *models* as an ensemble whose batches may bring BERT's input for those that read it."""
    if not any(map(source_of, models)):
        return models
    return [model if source_of(model) else _ignoring_bert_input(model) for model in models]


def _ignoring_bert_input(model: Any) -> Any:
    member = copy.copy(model)
    member._modules = {**model._modules, "encoder": copy.copy(model.encoder)}
    for module in (member, member.encoder):  # fairseq's scorer runs the model, and its generator the encoder
        forward = module.forward
        module.forward = lambda *args, run=forward, **net_input: run(*args, **without_bert_input(net_input))
    return member


def without_bert_input(net_input: Dict[str, Any]) -> Dict[str, Any]:
    """Return *net_input* without BERT's tokens and states."""
    return {name: value for name, value in net_input.items() if name not in ("bert_tokens", "bert_out")}


def share_bert(berts: Berts, source: BertSource) -> None:
    """Let *source* share the frozen BERT in *berts* that is the same; if there is none, its own one joins them."""
    if isinstance(source.bert, FrozenBert):  # a BERT that trains belongs to its own model
        record, settings = source.record.content, {**source.bert.model.config.to_dict(), "_name_or_path": None}
        key = (record["weights_in_layers"], record["configuration"], json.dumps(settings, default=str, sort_keys=True))
        source.bert.share(berts.setdefault(key, source.bert))


def agree_on_bert_input(models: Sequence[Any]) -> bool:
    """Return whether all *models* that read BERT have the same input for it."""
    inputs = []
    for source in _sources(models):
        record = source.record.content
        settings = {**record["settings"], "bert_mask_special_tokens": None, "bert_layer": None}  # about BERT's states
        inputs.append((source.bridge.max_tokens, record["tokenizer"], settings))
    return all(one == inputs[0] for one in inputs)


def with_bert_states(models: Sequence[Any], net_input: Dict[str, Any]) -> Dict[str, Any]:
    """Return *net_input* with the tokens, and the states of one BERT, for all of *models*, which share their input."""
    sources = _sources(models)
    if any(not source.bert.is_same(sources[0].bert) for source in sources):  # each model reads its own later
        return {name: value for name, value in net_input.items() if name != "bert_out"}
    return sources[0].with_states(net_input) if sources else net_input


def ensemble_errors(models: Sequence[Any], print_alignment: bool) -> List[str]:
    """Return a sentence for each reason why *models* cannot translate together, or cannot give alignments."""
    errors = []
    contexts = [source.bridge.context for source in _sources(models)]
    if any(contexts) and not agree_on_bert_input(models):
        errors.append(f"--bert-context {max(contexts)}: the models differ in BERT's input; take those that share it")
    if print_alignment and not all(map(_aligns, models)):
        errors.append(
            "--print-alignment needs attention to source tokens, and a model with --bert-fusion embedding or "
            "--attention none has none; leave it out"
        )
    return errors


def _sources(models: Sequence[Any]) -> List[BertSource]:
    return [*filter(None, map(source_of, models))]


def _aligns(model: Any) -> bool:
    if isinstance(model, GruModel):
        return model.decoder.attention is not None
    return not (isinstance(model.encoder, BertFusedEncoder) and model.encoder.replaces_embeddings)
