"""What makes two encoders the same BERT: one definition, for the record in checkpoints and for the key of the cache.

Two encoders are the same BERT if their weights are equal, and all settings of their configurations that may change
states.  Settings that cannot change states are listed here, each group with its reason; every other setting counts.
"""

import hashlib
import json
import re
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING, Any, Dict, List, Tuple

from torch import nn

if TYPE_CHECKING:
    from transformers import PretrainedConfig

    from bert_fused_plugin.bert.pretrained_bert import PretrainedBert

Settings = Dict[str, Any]

_VOLATILE = {
    # names and versions
    *("transformers_version", "architectures", "auto_map", "custom_pipelines", "tokenizer_class"),
    # BERT is loaded in single precision whatever the file says, and the implementation changes roundings at most
    *("torch_dtype", "dtype", "attn_implementation"),
    # forms of the output, and what causal models keep for later steps
    *("return_dict", "use_return_dict", "output_hidden_states", "output_attentions", "torchscript"),
    *("use_cache", "use_mems_eval", "use_mems_train"),
    # heads
    *("id2label", "label2id", "num_labels", "problem_type", "finetuning_task", "task_specific_params"),
    *("tie_word_embeddings", "scale_decoder_outputs", "decoder_bias", "repad_logits_with_grad"),
    *("sparse_prediction", "sparse_pred_ignore_index"),
    # training
    *("gradient_checkpointing", "layerdrop", "tf_legacy_loss"),
}
_VOLATILE_BEGINNINGS = ("_", "init_", "initializer_", "classifier_", "summary_", "pooler_")  # private, start, heads
_VOLATILE_ENDINGS = ("dropout", "dropout_prob", "pdrop", "layerdrop")  # which acts in training only

# what transformers 4 wrote into each configuration and transformers 5 does not know; to miss it is to have this value
_FORMER_DEFAULTS = {"position_embedding_type": "absolute", "global_attn_every_n_layers": 3, "untie_r": True}


def recorded_config(config: "PretrainedConfig") -> Settings:
    """Return the settings of *config* that may change states, as JSON has them, for `config_differences`."""
    return _relevant(config.to_diff_dict())


def config_differences(then: Settings, now: Settings) -> List[Tuple[str, Any, Any]]:
    """Return name and both values of each setting that may change states and differs.

    Both are of `recorded_config`, and are read by today's class, which gives a missing setting its default and knows
    the names that settings had earlier.  So an update of transformers makes no difference.
    """
    if then.get("model_type") == now.get("model_type"):
        then, now = _completed(then), _completed(now)
        names = sorted({*then, *now})
    else:
        names = ["model_type"]
    return [(name, then.get(name), now.get(name)) for name in names if then.get(name) != now.get(name)]


def describe_identity(bert: "PretrainedBert") -> Settings:
    """Return all that the states of *bert* depend on beside the sentence, as a folder of the cache records it.

    The settings are those that are not the default of their class, so that a new setting of a later version of
    transformers changes nothing.
    """
    settings = _completed(recorded_config(bert.model.config))
    defaults = _completed({"model_type": settings["model_type"]})
    return {
        "model_type": settings["model_type"],
        "config": {name: value for name, value in settings.items() if value != defaults.get(name)},
        "weights": weights_fingerprint(bert.model),
        "layers": list(bert.layers),
        "token types": True,
    }


def identity_fingerprint(identity: Settings) -> str:
    """Return the hash of what `describe_identity` returned."""
    return hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()


def weights_fingerprint(model: nn.Module) -> str:
    """Return a hash of the values of all parameters, and of the layers that they are in.

    Of the parameters' names, which differ between versions of transformers, only the numbers of the layers count.
    """
    parts = []
    for name, parameter in model.named_parameters():
        digest = hashlib.sha256(str(tuple(parameter.shape)).encode())
        digest.update(parameter.detach().cpu().float().contiguous().numpy().data)
        parts.append(",".join(re.findall(r"\d+", name)).encode() + b":" + digest.digest())
    return hashlib.sha256(b"".join(sorted(parts))).hexdigest()[:32]


def _completed(settings: Settings) -> Settings:
    """Return *settings* with the defaults of their class, if it can read them, without the volatile ones."""
    from transformers import CONFIG_MAPPING

    with suppress(Exception):  # transformers may lack the class, which may refuse what another version of it wrote
        settings = CONFIG_MAPPING[settings["model_type"]].from_dict(dict(settings)).to_dict()
    return {name: value for name, value in _relevant(settings).items() if _FORMER_DEFAULTS.get(name, ...) != value}


def _relevant(settings: Settings) -> Settings:
    """Return *settings* as JSON has them, and text for what it does not know, at all depths without volatile ones."""
    relevant: Settings = json.loads(
        json.dumps(settings, default=str),
        object_pairs_hook=lambda pairs: {name: value for name, value in pairs if not _is_volatile(name)},
    )
    return relevant


@cache
def _is_volatile(name: str) -> bool:
    from transformers import GenerationConfig

    if name == "pad_token_id":  # RoBERTa counts positions by the padding
        return False
    return (
        name in _VOLATILE
        or name in GenerationConfig().to_dict()
        or name.startswith(_VOLATILE_BEGINNINGS)
        or name.endswith(_VOLATILE_ENDINGS)
    )
