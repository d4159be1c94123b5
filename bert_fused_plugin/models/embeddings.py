"""The embeddings of a model, which may come from a file of word vectors."""

import logging
import os
from typing import Any, List

import torch
from fairseq import utils
from torch import nn

from bert_fused_plugin.errors import BertFusedError
from bert_fused_plugin.fairseq_settings import flags_beside, resumed_from

logger = logging.getLogger(__name__)


def sharing_errors(cfg: Any, src_dict: Any, tgt_dict: Any) -> List[str]:
    """Return a sentence for each reason why encoder and decoder of *cfg* cannot share their embeddings."""
    errors = []
    if src_dict != tgt_dict:
        errors.append(
            "--share-all-embeddings (which bert_fused_tiny and gru_bahdanau_tiny imply) needs one dictionary for "
            f"both languages, got {len(src_dict)} source and {len(tgt_dict)} target symbols that differ; "
            "run fairseq-preprocess with --joined-dictionary"
        )
    if cfg.encoder_embed_dim != cfg.decoder_embed_dim:
        errors.append(
            "--share-all-embeddings needs --encoder-embed-dim equal to --decoder-embed-dim, got "
            f"{cfg.encoder_embed_dim} and {cfg.decoder_embed_dim}; make them equal, or leave it out"
        )
    if cfg.decoder_embed_path not in (None, cfg.encoder_embed_path):
        errors.append(
            "--decoder-embed-path is not for --share-all-embeddings (which bert_fused_tiny and gru_bahdanau_tiny "
            f"imply), got {cfg.decoder_embed_path}; give the file with --encoder-embed-path"
        )
    return errors


def load_embeddings(args: Any, cfg: Any, model: Any) -> None:
    """Copy the vectors of ``--encoder-embed-path`` and ``--decoder-embed-path`` to the embeddings of *model*.

    Raises:
        BertFusedError: a file cannot be read, its vectors have another width, or another flag brings the embeddings.
    """
    replaced = flags_beside(args, "checkpoint").get("finetune_from_model")
    for side, part in (("encoder", model.encoder), ("decoder", model.decoder)):
        path = getattr(cfg, f"{side}_embed_path")
        if path is not None:
            setattr(args, f"{side}_embed_path", None)  # fairseq saves it, and the trained model does not need the file
            if resumed_from(args) is None:
                if replaced:
                    raise BertFusedError(f"--{side}-embed-path has no effect with --finetune-from-model; leave one out")
                _load(f"--{side}-embed-path", path, part.dictionary, part.embed_tokens)


def _load(flag: str, path: str, dictionary: Any, embedding: nn.Embedding) -> None:
    vectors = {}
    try:
        # the shell leaves the ~ of --FLAG=~/FILE
        with open(os.path.expanduser(path), encoding="utf-8") as file:
            for word, *numbers in (line.rstrip().split(" ") for line in file):
                if word in dictionary and len(numbers) > 1:  # a first line may count the vectors and their numbers
                    vectors[word] = torch.tensor([float(value) for value in numbers])
        utils.load_embedding(vectors, dictionary, embedding)
    except (OSError, ValueError, RuntimeError) as error:
        raise BertFusedError(
            f"{flag} {path} cannot be used ({error}); give a text file in which each line has a word and "
            f"{embedding.embedding_dim} numbers, or set {flag.replace('path', 'dim')} to the width of its vectors"
        ) from error
    logger.info(f"{flag} {path}: {len(vectors):,} of the {len(dictionary):,} symbols have a vector there")
