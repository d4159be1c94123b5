"""Loads encoders and tokenizers from a local directory or from the Hugging Face hub.

transformers is imported where it is used, since it takes longer than all other imports together, and a plain model
needs none of it.
"""

import logging
import os
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Callable, Iterator, Optional, TypeVar

import torch

from bert_fused_plugin.errors import BertFusedError

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

logger = logging.getLogger(__name__)

T = TypeVar("T")

_BACKEND = "TokenizersBackend"


def load_encoder(name: str) -> "PreTrainedModel":
    """Load the encoder *name* in single precision; of an encoder-decoder model only the encoder is kept.

    Raises:
        BertFusedError: The encoder cannot be loaded, or some of its weights are missing, or it does not read text.
    """
    from transformers import AutoModel

    logger.info(f"loading BERT {name}")
    with _quiet():
        model, report = _load(AutoModel.from_pretrained, name, torch_dtype=torch.float32, output_loading_info=True)
    # the encoder of T5 that was saved alone says that it has no decoder, but AutoModel builds one
    has_decoder = model.config.is_encoder_decoder or any(key.startswith("decoder.") for key in report["missing_keys"])
    if has_decoder:
        model = model.get_encoder()
    if hasattr(model, "pooler"):
        model.pooler = None  # its output is never used
    unused = ("pooler.", "decoder.") if has_decoder else ("pooler.",)
    missing = sorted(key for key in report["missing_keys"] if not any(part in key for part in unused))
    reads_text = hasattr(model.config, "hidden_size") and hasattr(model.config, "num_hidden_layers")
    reads_text = reads_text and _has_symbols(model)
    if missing or not reads_text:
        reason = (
            f"{len(missing)} of its weights are missing ({missing[0]}, ...)" if missing else "it does not read text"
        )
        raise BertFusedError(f"--bert-model {name!r} cannot be used: {reason}; give a complete pre-trained encoder")
    for tensor in (*model.parameters(), *model.buffers()):
        tensor.data = tensor.data.clone()  # not a map of the file, whose content somebody may replace
    encoder: PreTrainedModel = model
    return encoder


def _has_symbols(model: "PreTrainedModel") -> bool:
    """Return whether *model* has an embedding for each word piece, as encoders of pictures and of characters do not."""
    try:
        return isinstance(model.get_input_embeddings(), torch.nn.Embedding)
    except NotImplementedError:
        return False


def load_tokenizer(name: str) -> "PreTrainedTokenizerBase":
    """Load the tokenizer of the encoder *name*.

    Raises:
        BertFusedError: The tokenizer cannot be loaded, or it has no vocabulary.
    """
    tokenizer: PreTrainedTokenizerBase = _load(_tokenizer_from_pretrained, name)
    if set(tokenizer.get_vocab()) <= set(tokenizer.all_special_tokens):
        raise BertFusedError(
            f"--bert-model {name!r} has no vocabulary: the directory lacks the tokenizer's files "
            "(tokenizer.json, or vocab.txt and similar files); copy them from the place that the model comes from"
        )
    return tokenizer


def _tokenizer_from_pretrained(name: str, **options: Any) -> Any:
    """Load a tokenizer; transformers 4 does not know the class by which transformers 5 names most fast tokenizers."""
    import transformers
    from transformers.models.auto.tokenization_auto import get_tokenizer_config

    if not hasattr(transformers, _BACKEND) and get_tokenizer_config(name).get("tokenizer_class") == _BACKEND:
        with _quiet():  # it warns that the class has another name
            return transformers.PreTrainedTokenizerFast.from_pretrained(name, **options)
    return transformers.AutoTokenizer.from_pretrained(name, **options)


def hub_revision(name: str) -> Optional[str]:
    """Return the commit of the model *name* if it came from the hub, otherwise None."""
    from huggingface_hub import try_to_load_from_cache

    config = None if os.path.isdir(name) else try_to_load_from_cache(name, "config.json")
    return Path(config).parent.name if isinstance(config, str) else None


def _load(load: Callable[..., T], name: str, **options: Any) -> T:
    is_directory = os.path.isdir(name)
    if name.startswith(("/", ".", "~")) and not is_directory:
        raise BertFusedError(
            f"--bert-model {name!r}: no such directory; give an existing one, or a name on the Hugging Face hub"
        )
    try:
        return load(name, trust_remote_code=False, **options)
    except Exception as error:  # a damaged file can raise any exception
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        if is_directory:
            remedy = "the directory must hold config.json, the tokenizer's files and the weights, undamaged"
        else:
            remedy = (
                "give a local model directory, or a name on the Hugging Face hub (which needs the internet, "
                "or an earlier download together with HF_HUB_OFFLINE=1)"
            )
        raise BertFusedError(f"--bert-model {name!r} cannot be loaded; {remedy} [{reason}]") from error


@contextmanager
def _quiet() -> Iterator[None]:
    """Hide the progress bar and the loading report, which lists heads and poolers that are not used."""
    from transformers.utils import logging as hf_logging

    verbosity, progress = hf_logging.get_verbosity(), hf_logging.is_progress_bar_enabled()
    hf_logging.set_verbosity_error()
    hf_logging.disable_progress_bar()
    try:
        yield
    finally:
        hf_logging.set_verbosity(verbosity)
        if progress:
            hf_logging.enable_progress_bar()
