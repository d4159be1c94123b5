"""The translation models of transformers that fairseq's transformer computes, in the names and layouts of both.

M2M100, NLLB and mBART-50 were made with fairseq.  OPUS-MT's Marian has other sinusoids, which become learned positions
here.  It begins a translation with padding instead of the end of sentence; the difference of their embeddings is added
to the first position.  Its scores have a bias, for which `fairseq_compat` makes a place in fairseq's decoder.
"""

import math
from typing import Any, Dict, Mapping

import torch
from torch import Tensor
from torch.nn.functional import pad

from bert_fused_plugin.errors import BertFusedError
from bert_fused_plugin.models.bert_fused.warm_start import NO_PARAMETER

SIDES = ("encoder", "decoder")
EMBEDDINGS = ("encoder.embed_tokens.weight", "decoder.embed_tokens.weight", "decoder.output_projection.weight")
BIAS = "decoder.output_projection.bias"
_NAMES = {f"model.{name}": name for name in EMBEDDINGS[:2]}
_NAMES.update({"lm_head.weight": EMBEDDINGS[2], "final_logits_bias": BIAS})
_PAD = 1  # in fairseq's dictionaries; the first position of a sentence is the next one
_NEVER = -100.0  # the bias of a symbol that a model does not have, so that it gets no part of the softmax
_ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "gelu_new": "gelu_accurate", "silu": "swish", "swish": "swish"}
_LEARNED = {f"{side}_learned_pos": True for side in SIDES}
_PRE_NORM = {f"{side}_normalize_before": True for side in SIDES}
# the model_type of transformers: flags of fairseq
_FAMILIES: Dict[str, Dict[str, bool]] = {
    "marian": _LEARNED,
    "m2m_100": _PRE_NORM,
    "mbart": {**_PRE_NORM, **_LEARNED, "layernorm_embedding": True},
}


def model_flags(name: str, config: Any) -> Dict[str, Any]:
    """Return the flags of fairseq's transformer for the model *name* of *config*, except those that tie embeddings.

    Raises:
        BertFusedError: fairseq's transformer cannot compute this model.
    """
    kind = config.model_type
    if kind not in _FAMILIES:
        known = "marian (OPUS-MT), m2m_100 (M2M100 and dense NLLB) and mbart (mBART-50)"
        raise BertFusedError(
            f"{name} is a model of the type {kind}, and only {known} can be imported; give one of these"
        )
    activation, start = config.activation_function, config.decoder_start_token_id
    if activation not in _ACTIVATIONS:
        raise BertFusedError(f"{name} has the activation {activation}; give a model with {', '.join(_ACTIVATIONS)}")
    if kind != "marian" and start != config.eos_token_id:
        raise BertFusedError(
            f"{name} begins translations with the symbol {start} (decoder_start_token_id) instead of the end of "
            "sentence, as mBART-25 does; give a model of mBART-50"
        )
    names = {"layers": "layers", "ffn_embed_dim": "ffn_dim", "attention_heads": "attention_heads"}
    return {
        **{f"{s}_{ours}": config.to_dict()[f"{s}_{theirs}"] for s in SIDES for ours, theirs in names.items()},
        **{f"{side}_embed_dim": config.d_model for side in SIDES},
        **{f"max_{side}_positions": config.max_position_embeddings for side in ("source", "target")},
        **dict.fromkeys((*_LEARNED, *_PRE_NORM, "layernorm_embedding"), False),
        **_FAMILIES[kind],
        "activation_fn": _ACTIVATIONS[activation],
        "no_scale_embedding": not config.scale_embedding,
    }


def to_fairseq(weights: Mapping[str, Tensor], config: Any, ids: Mapping[str, Tensor]) -> Dict[str, Tensor]:
    """Return the state of fairseq's transformer, in single precision; tables that are one tensor stay one.

    Args:
        weights: the state of the model of transformers, all names of a table included.
        config: that model's.
        ids: for the dictionary of each side, the number that transformers gives to each symbol, (V,), or -1.
    """
    state = {f"{side}.version": torch.tensor([3.0]) for side in SIDES}  # else fairseq drops the last layer norm
    tables: Dict[int, Tensor] = {}
    is_marian = config.model_type == "marian"
    for key, value in weights.items():
        name = _NAMES.get(key, key.replace("model.", "", 1))
        if name in EMBEDDINGS:
            if value.data_ptr() not in tables:
                tables[value.data_ptr()] = _rows(value.float(), ids[name.split(".")[0]], 0.0)
            state[name] = tables[value.data_ptr()]
        elif name == BIAS and (value.any() or is_marian):  # which has no <s>
            state[name] = _rows(value.float().flatten(), ids["decoder"], _NEVER)
        elif is_marian and name.endswith("embed_positions.weight"):
            state[name] = pad(value.float(), (0, 0, _PAD + 1, 0))
        elif name not in (BIAS, "shared.weight") and not name.endswith("embed_positions.weights"):
            state[name] = value.float()
    if is_marian:
        state["decoder.embed_positions.weight"][_PAD + 1] += _start(
            weights["model.decoder.embed_tokens.weight"], config
        )
    return state


def to_hf(
    state: Mapping[str, Tensor], config: Any, ids: Mapping[str, Tensor], original: Mapping[str, Tensor]
) -> Dict[str, Tensor]:
    """Return the inverse of `to_fairseq`, without the names of tables that transformers ties to others.

    Symbols that *ids* lack keep their rows of the *original* weights; if no symbol is lacking, none are needed.

    The embedding of Marian's padding is zero, as all programs assume; fairseq trains it as a part of its softmax.
    """
    is_marian = config.model_type == "marian"
    are_shared = config.tie_word_embeddings and (not is_marian or config.share_encoder_decoder_embeddings)
    keys = {name: key for key, name in _NAMES.items()}
    keys.update({EMBEDDINGS[0]: "model.shared.weight", EMBEDDINGS[1]: ""} if are_shared else {})
    keys.update({EMBEDDINGS[2]: ""} if config.tie_word_embeddings else {})
    weights = {}
    for name, value in state.items():
        key, numbers = keys.get(name, f"model.{name}"), ids[name.split(".")[0]]
        if name in (*EMBEDDINGS, BIAS) and key:
            empty = value.new_zeros(int(numbers.max()) + 1, *value.shape[1:], dtype=torch.float)
            table = original[key].float().reshape(-1, *value.shape[1:]).clone() if original else empty
            table[numbers[numbers >= 0]] = value[numbers >= 0].float()
            if is_marian and name in EMBEDDINGS[:2] and numbers[_PAD] == config.pad_token_id:
                table[config.pad_token_id] = 0
            weights[key] = table[None] if name == BIAS else table
        elif key and not NO_PARAMETER.match(name):
            is_longer = is_marian and name.endswith("embed_positions.weight")
            weights[key] = value[_PAD + 1 if is_longer else 0 :].float().clone()
    if is_marian:
        table = weights["model.shared.weight" if are_shared else "model.decoder.embed_tokens.weight"]
        weights["model.decoder.embed_positions.weight"][0] -= _start(table, config)
    return weights


def _start(table: Tensor, config: Any) -> Tensor:
    """Return by how much more than fairseq's a decoder of transformers adds to the first position, (C,)."""
    change = (table[config.decoder_start_token_id] - table[config.eos_token_id]).float()
    return math.sqrt(config.d_model) * change if config.scale_embedding else change


def _rows(table: Tensor, ids: Tensor, other: float) -> Tensor:
    """Return the rows *ids* of *table*, where -1 is a row of the number *other*; no copy if that is the table."""
    if torch.equal(ids, torch.arange(len(table))):
        return table
    rows = table[ids.clamp(min=0)]
    rows[ids < 0] = other
    return rows
