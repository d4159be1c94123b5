"""Reads a transformer from a checkpoint of fairseq: its parameters, its flags and its dictionaries."""

import logging
import os
from dataclasses import dataclass
from typing import Any, Dict, List, Optional

import torch
from fairseq.data import Dictionary
from fairseq.utils import split_paths
from torch import Tensor

from bert_fused_plugin.checkpoints.origins import Origin, origins
from bert_fused_plugin.checkpoints.reading import read_saved, saved_flags
from bert_fused_plugin.errors import BertFusedError, flag_name
from bert_fused_plugin.models.bert_fused.config import OF_BOTH, OF_SIDES, BertFusedConfig

logger = logging.getLogger(__name__)

_LANGUAGES = {"encoder": "source", "decoder": "target"}
_REMEDY = "give the checkpoint of a fairseq transformer, such as its checkpoint_best.pt"


@dataclass
class Vocabulary:
    """The places of the data's symbols in a checkpoint's embeddings.

    Attributes:
        size: number of rows of the embeddings.
        rows: row of each symbol of the data, or -1 if there is none; (V,).
        source: sentence for the log about the checkpoint's dictionary.
    """

    size: int
    rows: Tensor
    source: str

    @property
    def same(self) -> bool:
        """Whether the symbols are the same, in the same order."""
        return torch.equal(self.rows, torch.arange(self.size))


@dataclass
class SavedTransformer:
    """A checkpoint of a transformer that has been read.

    Attributes:
        path: the file.
        state: parameters, with the names that fairseq gives them today.
        flags: flags of the training, as the checkpoint has them.
        origins: the checkpoint itself, and those that its training began from.
    """

    path: str
    state: Dict[str, Tensor]
    flags: Dict[str, Any]
    origins: List[Origin]

    @classmethod
    def read(cls, path: str) -> "SavedTransformer":
        """Read the checkpoint *path* of ``--bert-warm-start``.

        Raises:
            BertFusedError: The file cannot be read, or it is damaged, not safe to read, or not of a transformer.
        """
        checkpoint = read_saved(path, _REMEDY, given=f"--bert-warm-start {path}")
        state = {key: value for key, value in checkpoint["model"].items() if isinstance(value, Tensor)}
        # The task comes last because it has the languages, which fairseq may have found by itself.
        flags = saved_flags(checkpoint, "model", "task")
        needed = ("decoder.layers.0.self_attn.", "decoder.layers.0.encoder_attn.", "decoder.layers.0.fc1.weight")
        if not all(any(key.startswith(name) for key in state) for name in needed):
            arch = flags.get("arch") or flags.get("_name") or "unknown"
            raise BertFusedError(
                f"--bert-warm-start {path} is no transformer with encoder and decoder (--arch {arch}); {_REMEDY}"
            )
        _bring_up_to_date(state)
        history = checkpoint["optimizer_history"] if checkpoint.get("optimizer_history") else [{}]
        own = Origin(os.path.abspath(path), history[-1].get("num_updates"))
        return cls(path, state, flags, [own, *origins({**checkpoint, "optimizer_history": history})])

    def incompatibilities(self, cfg: BertFusedConfig) -> List[str]:
        """Return a sentence for each flag of *cfg* that gives the parameters another shape or another meaning."""
        errors = []
        wanted: Dict[str, Any] = {name: vars(cfg)[name] for name in OF_BOTH}
        for side, part in (("encoder", cfg.encoder), ("decoder", cfg.decoder)):
            layer = self.state.get(f"{side}.layers.0.fc1.weight")
            if layer is None or part.layers == 0:
                continue
            wanted.update({f"{side}_{name}": vars(part)[name] for name in OF_SIDES})
            if layer.size(-1) != part.embed_dim:
                errors.append(
                    f"--bert-warm-start {self.path}: its {side} has width {layer.size(-1)}, and this model's "
                    f"{side} has width {part.embed_dim}; set --{side}-embed-dim {layer.size(-1)}"
                )
        if cfg.fusion.replaces_embeddings:
            wanted.pop("encoder_learned_pos", None)  # here these are positions of word pieces
        for name, value in wanted.items():
            old = self.flags.get(name, value)
            if (old or value) and str(old) != str(value):
                errors.append(f"--bert-warm-start {self.path} was trained {_difference(name, old, value)}")
        return errors

    def match_vocabulary(self, side: str, dictionary: Dictionary, lang: str) -> Optional[Vocabulary]:
        """Find the symbols of *dictionary* in the embeddings of one *side*; return None if it has no embeddings.

        The dictionary that the checkpoint was trained with is looked up beside the checkpoint, then in the data
        directory of its training.

        Args:
            side: ``encoder`` or ``decoder``.
            dictionary: dictionary of the data.
            lang: language of *dictionary*, which is used if the checkpoint does not name its language.

        Raises:
            BertFusedError: The dictionary of the training is not found, and that of the data has another size.
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
                f"--bert-warm-start {self.path}: {missing}; the dictionary of the data has "
                f"{len(dictionary):,} symbols, so put {name} beside the checkpoint"
            )
        logger.warning(
            f"--bert-warm-start {self.path}: {missing}; embeddings are copied row by row, which is right only if "
            f"the dictionary of the data, which has the same size, is that dictionary; if it is another one, put "
            f"{name} beside the checkpoint"
        )
        return Vocabulary(
            size, torch.arange(size), f"{what} dictionary: it was not found, and its embeddings are copied row by row"
        )


def _difference(name: str, old: Any, value: Any) -> str:
    flag, effect = flag_name(name), "its parameters would compute something else"
    if not isinstance(value, bool):
        return f"with {flag} {old}, and this model has {value}: {effect}; set {flag} {old}"
    if old:
        return f"with {flag}, which this model lacks: {effect}; add {flag}"
    return f"without {flag}, which this model has: {effect}; leave {flag} out"


def _bring_up_to_date(state: Dict[str, Tensor]) -> None:
    """Change *state* in place: name and copy the embeddings as fairseq does today."""
    for side in _LANGUAGES:
        # fairseq mistakes decoders of version 2 for those of version 1, which had no final layer norm.
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
    except Exception:  # fairseq raises various exceptions for a file that is no dictionary
        return None
