"""A transformer in a fairseq checkpoint: its parameters, flags and dictionaries."""

import logging
import os
from argparse import Namespace
from dataclasses import dataclass
from typing import Any, Dict, List, Optional

import torch
from fairseq.data import Dictionary
from fairseq.utils import split_paths
from omegaconf import OmegaConf
from torch import Tensor

from bert_fused_plugin.errors import BertFusedError
from bert_fused_plugin.models.bert_fused.config import BertFusedConfig, replaces_embeddings
from fairseq_compat.checkpoint import load

logger = logging.getLogger(__name__)

_LANGUAGES = {"encoder": "source", "decoder": "target"}
_REMEDY = "give the checkpoint of a fairseq transformer, such as its checkpoint_best.pt"
# flags that give no parameter another shape, but change what is computed with it
_OF_SIDES = ("attention_heads", "normalize_before", "learned_pos")
_OF_BOTH = ("activation_fn", "no_scale_embedding", "no_token_positional_embeddings", "no_decoder_final_norm")


@dataclass
class Vocabulary:
    """Where the symbols of the data are in a checkpoint's embeddings.

    Attributes:
        size: rows of the embeddings.
        rows: for each symbol of the data its row, or -1; (V,).
        source: what is known of the checkpoint's dictionary, for people.
    """

    size: int
    rows: Tensor
    source: str

    @property
    def same(self) -> bool:
        """Say whether each symbol has its place."""
        return torch.equal(self.rows, torch.arange(self.size))


@dataclass
class SavedTransformer:
    """A checkpoint that has been read, with today's names for the embeddings; its flags are those in it."""

    path: str
    state: Dict[str, Tensor]
    flags: Dict[str, Any]

    @classmethod
    def read(cls, path: str) -> "SavedTransformer":
        """Read the checkpoint *path* of ``--bert-warm-start``.

        Raises:
            BertFusedError: there is none, it is damaged or not safe to read, or it is of no transformer.
        """
        try:
            with open(path, "rb") as file:
                checkpoint = load(file, map_location="cpu")
        except OSError as error:
            raise BertFusedError(f"--bert-warm-start {path} cannot be read: {error.strerror}; {_REMEDY}") from error
        except Exception as error:  # CheckpointError, which names the remedy; anything where the check is turned off
            raise BertFusedError(f"--bert-warm-start {path}: {error}") from error
        if not isinstance(checkpoint, dict) or not isinstance(checkpoint.get("model"), dict):
            raise BertFusedError(f"--bert-warm-start {path} holds no model of fairseq; {_REMEDY}")
        state = {key: value for key, value in checkpoint["model"].items() if isinstance(value, Tensor)}
        flags = _flags(checkpoint)
        needed = ("decoder.layers.0.self_attn.", "decoder.layers.0.encoder_attn.", "decoder.layers.0.fc1.weight")
        if not all(any(key.startswith(name) for key in state) for name in needed):
            arch = flags.get("arch") or flags.get("_name") or "unknown"
            raise BertFusedError(
                f"--bert-warm-start {path} is no transformer with encoder and decoder (--arch {arch}); {_REMEDY}"
            )
        _bring_up_to_date(state)
        return cls(path, state, flags)

    def misfits(self, cfg: BertFusedConfig) -> List[str]:
        """Return a sentence for each flag of *cfg* with which the parameters do not fit, or mean something else."""
        errors = []
        wanted: Dict[str, Any] = {name: vars(cfg)[name] for name in _OF_BOTH}
        for side, part in (("encoder", cfg.encoder), ("decoder", cfg.decoder)):
            layer = self.state.get(f"{side}.layers.0.fc1.weight")
            if layer is None or part.layers == 0:
                continue
            wanted.update({f"{side}_{name}": vars(part)[name] for name in _OF_SIDES})
            if layer.size(-1) != part.embed_dim:
                errors.append(
                    f"--bert-warm-start {self.path}: its {side} has width {layer.size(-1)}, this model's "
                    f"{part.embed_dim}; set --{side}-embed-dim {layer.size(-1)}"
                )
        if replaces_embeddings(cfg):
            wanted.pop("encoder_learned_pos", None)  # of word pieces, here
        for name, value in wanted.items():
            old = self.flags.get(name, value)
            if (old or value) and str(old) != str(value):
                errors.append(f"--bert-warm-start {self.path} was trained {_difference(name, old, value)}")
        return errors

    def match_vocabulary(self, side: str, dictionary: Dictionary, lang: str) -> Optional[Vocabulary]:
        """Find the symbols of *dictionary* in the embeddings of *side*, encoder or decoder, if it has any.

        The dictionary of the checkpoint's training is looked for beside it, then in its data directory.

        Args:
            side: ``encoder`` or ``decoder``.
            dictionary: of the data.
            lang: its language, for a checkpoint that does not say its own.

        Raises:
            BertFusedError: there is no such dictionary, and that of the data is of another size.
        """
        embeddings = self.state.get(f"{side}.embed_tokens.weight")
        if embeddings is None:
            return None
        size, what = len(embeddings), _LANGUAGES[side]
        name = f"dict.{self.flags.get(f'{what}_lang') or lang}.txt"
        data = self.flags.get("data") or []
        folders = [os.path.dirname(self.path), *(split_paths(data) if isinstance(data, str) else data)[:1]]
        seen = []
        for path in (os.path.join(folder, name) for folder in folders):
            old = _load_dictionary(path)
            if old is not None and len(old) == size:
                rows = torch.tensor([old.indices.get(symbol, -1) for symbol in dictionary.symbols])
                found = f"{int((rows >= 0).sum()):,} of {len(rows):,} symbols"
                return Vocabulary(size, rows, f"{what} dictionary: {found} are in {path}")
            seen.append(f"{path} ({'cannot be read' if old is None else f'{len(old):,} symbols'})")
        missing = f"the {what} dictionary of its training, {size:,} symbols, was not found: {', '.join(seen)}"
        if size != len(dictionary):
            raise BertFusedError(
                f"--bert-warm-start {self.path}: {missing}; the data's has {len(dictionary):,} symbols, so that {name} "
                "must be put beside the checkpoint"
            )
        logger.warning(
            f"--bert-warm-start {self.path}: {missing}; embeddings are copied row by row, which is right only if it is "
            f"that of the data, of the same size; if it is not, put {name} beside the checkpoint"
        )
        return Vocabulary(size, torch.arange(size), f"{what} dictionary: not found, copied row by row")


def _difference(name: str, old: Any, value: Any) -> str:
    flag, so = f"--{name.replace('_', '-')}", "its parameters would compute something else"
    if not isinstance(value, bool):
        return f"with {flag} {old}, this model has {value}: {so}; set {flag} {old}"
    if old:
        return f"with {flag}, which this model lacks: {so}; add {flag}"
    return f"without {flag}, which this model has: {so}; leave {flag} out"


def _flags(checkpoint: Dict[str, Any]) -> Dict[str, Any]:
    """Return the flags of model and task, whichever fairseq has saved them."""
    if isinstance(checkpoint.get("args"), Namespace):
        return vars(checkpoint["args"])
    cfg = checkpoint.get("cfg")
    if OmegaConf.is_config(cfg):
        cfg = OmegaConf.to_container(cfg)
    flags: Dict[str, Any] = {}
    # the task's last: it has the languages, which fairseq may have found out by itself
    for section in (cfg.get("model"), cfg.get("task")) if isinstance(cfg, dict) else ():
        flags.update(vars(section) if isinstance(section, Namespace) else section if isinstance(section, dict) else {})
    return flags


def _bring_up_to_date(state: Dict[str, Tensor]) -> None:
    """Give the embeddings the names and copies of today, in place."""
    for side in _LANGUAGES:
        # fairseq takes decoders of version 2 for those of version 1, which had no final layer norm
        if f"{side}.layer_norm.weight" in state:
            state[f"{side}.version"] = torch.tensor([3.0])
    output, embeddings = "decoder.output_projection.weight", state.get("decoder.embed_tokens.weight")
    if "decoder.embed_out" in state:
        state[output] = state.pop("decoder.embed_out")
    elif embeddings is not None and not any(".adaptive_softmax." in key for key in state):
        state.setdefault(output, embeddings)


def _load_dictionary(path: str) -> Optional[Dictionary]:
    try:
        return Dictionary.load(path)
    except Exception:  # what fairseq raises for a file that is no dictionary
        return None
