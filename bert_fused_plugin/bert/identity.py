"""What makes two encoders the same BERT: one definition, for the record in checkpoints and for the key of the cache.

Two encoders are the same BERT if their weights are equal, and all settings of their configurations that may change
states.  Settings that cannot change states are listed here, each group with its reason; every other setting counts.
"""

import hashlib
import json
import re
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING, Any, Dict, FrozenSet, List, Mapping, Sequence, Tuple

from torch import Tensor, nn

if TYPE_CHECKING:
    from transformers import PretrainedConfig, PreTrainedModel

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

    Both configurations are read by today's class, which gives a missing setting its default and knows the names that
    settings had earlier.  So an update of transformers makes no difference.

    Args:
        then: what `recorded_config` returned, perhaps in another version of transformers.
        now: the same of another encoder, or of the same one.
    """
    kinds = [settings.get("model_type") for settings in (then, now)]
    if kinds[0] != kinds[1]:
        return [("model_type", kinds[0], kinds[1])]
    then, now = _completed(then), _completed(now)
    names = sorted(name for name in {*then, *now} if then.get(name) != now.get(name))
    return [(name, then.get(name), now.get(name)) for name in names]


def describe_identity(model: "PreTrainedModel", layers: Sequence[int]) -> Settings:
    """Return all that the states of *model* depend on beside the sentence, as a folder of the cache records it.

    The settings are those that are not the default of their class, so that a new setting of a later version of
    transformers changes nothing.

    Args:
        model: the encoder.
        layers: indices of the layers whose states are read.
    """
    settings = recorded_config(model.config)
    settings, defaults = _completed(settings), _completed({"model_type": settings["model_type"]})
    return {
        "model_type": settings["model_type"],
        "config": {name: value for name, value in settings.items() if value != defaults.get(name)},
        "weights": weights_fingerprint(model),
        "layers": list(layers),
        "token types": True,
    }


def identity_fingerprint(identity: Settings) -> str:
    """Return the hash of what `describe_identity` returned."""
    return hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()


def weights_fingerprint(model: nn.Module) -> str:
    """Return a hash of the values of all parameters, and of the layers that they are in.

    Of the parameters' names, which differ between versions of transformers, only the numbers of the layers count.
    """
    parts = [
        ",".join(re.findall(r"\d+", name)).encode() + b":" + _digest(parameter)
        for name, parameter in model.named_parameters()
    ]
    return hashlib.sha256(b"".join(sorted(parts))).hexdigest()[:32]


def _digest(parameter: Tensor) -> bytes:
    hashed = hashlib.sha256(str(tuple(parameter.shape)).encode())
    hashed.update(parameter.detach().cpu().float().contiguous().numpy().data)
    return hashed.digest()


def _completed(settings: Settings) -> Settings:
    """Return *settings* with the defaults of their class, if it can read them, without the volatile ones."""
    from transformers import CONFIG_MAPPING

    with suppress(Exception):  # transformers may lack the class, which may refuse what another version of it wrote
        settings = CONFIG_MAPPING[settings["model_type"]].from_dict(dict(settings)).to_dict()
    return {name: value for name, value in _relevant(settings).items() if _FORMER_DEFAULTS.get(name, ...) != value}


def _relevant(settings: Mapping[str, Any]) -> Settings:
    """Return *settings* as they come back from JSON, at all depths without those that cannot change states.

    What JSON does not know becomes text.
    """

    def kept(pairs: List[Tuple[str, Any]]) -> Settings:
        return {name: value for name, value in pairs if not _is_volatile(name)}

    relevant: Settings = json.loads(json.dumps(settings, default=str), object_pairs_hook=kept)
    return relevant


@cache
def _volatile() -> FrozenSet[str]:
    from transformers import GenerationConfig

    generation = set(GenerationConfig().to_dict()) - {"pad_token_id"}  # RoBERTa counts positions by the padding
    return frozenset(_VOLATILE | generation)


def _is_volatile(name: str) -> bool:
    return name in _volatile() or name.startswith(_VOLATILE_BEGINNINGS) or name.endswith(_VOLATILE_ENDINGS)
