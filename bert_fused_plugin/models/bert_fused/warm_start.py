"""``--bert-warm-start``: a new model takes the parameters of a checkpoint by name, and its embeddings by symbol."""

import logging
import os
import re
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any, Dict, List, Optional, Set, Tuple

import torch
from fairseq.data import Dictionary
from fairseq.utils import split_paths
from torch import Tensor, nn

from bert_fused_plugin.bert.from_flags import task_settings
from bert_fused_plugin.checkpoints.origins import Origin, origins
from bert_fused_plugin.checkpoints.reading import read_saved, saved_flags
from bert_fused_plugin.errors import BertFusedError, flag_name
from bert_fused_plugin.models.bert_fused.config import OF_BOTH, OF_SIDES, BertFusedConfig
from bert_fused_plugin.models.presets import flags_beside, resumed_from

logger = logging.getLogger(__name__)

State = Dict[str, Tensor]

# In a model these may be one parameter.  It takes the first of these from the checkpoint, which a tied embedding
# resembles most (Press & Wolf, EACL 2017); symbols that the first does not have are taken from the next.
_EMBEDDINGS = ("decoder.output_projection.weight", "decoder.embed_tokens.weight", "encoder.embed_tokens.weight")
_OF_BERT = re.compile(r"encoder\.(bert|bert_proj|layer_mix)\.|.+\.(bert_attn|bert_attn_layer_norm|fusion)\.")
# version numbers, sinusoids, the records of BERT and of the settings, and the weights that encoder layers of
# fairseq 0.12 save twice
_NO_PARAMETER = re.compile(
    r"settings_record\.text$|(en|de)coder\.(version|bert\.scaled|bert_record\.text|embed_positions\.(weights|_float_tensor)|"
    r"layers\.\d+\.(in_proj|out_proj|fc1|fc2)_\w+)$"
)
_LANGUAGES = {"encoder": "source", "decoder": "target"}
_REMEDY = "give the checkpoint of a fairseq transformer, such as its checkpoint_best.pt"


def read_warm_start(args: Any, cfg: BertFusedConfig, task: Any) -> Tuple[Optional["WarmStart"], List[str]]:
    """Read the checkpoint of ``--bert-warm-start``.

    The flag is removed from *args*, which fairseq saves, so that the trained model does not need the file again.  The
    record of BERT keeps the name of the file.
    A training that resumes does not need the file either.

    Args:
        args: the flags in the form that fairseq saves.
        cfg: the flags in the form that the model reads.
        task: fairseq's task, which has the dictionaries and languages of the data.

    Returns:
        The checkpoint, or None if there is none to be read, and a sentence for each reason why it cannot be used.
    """
    if cfg.bert_warm_start is None:
        return None, []
    path = os.path.expanduser(cfg.bert_warm_start)  # the shell leaves the ~ of --bert-warm-start=~/FILE
    args.bert_warm_start = cfg.bert_warm_start = None
    flags = flags_beside(args, "checkpoint")
    resumed = resumed_from(args)
    if resumed is not None:
        logger.info(f"--bert-warm-start {path} is not read: training resumes from {resumed}")
        return None, []
    errors = []
    if flags.get("finetune_from_model") is not None:
        errors.append("--bert-warm-start and --finetune-from-model exclude each other; leave one of them out")
    try:
        warm_start = WarmStart.read(path, cfg.bert_identity_start)
    except BertFusedError as error:
        return None, [*errors, *error.errors]
    return warm_start, [*errors, *warm_start.incompatibilities(cfg), *warm_start.match_vocabularies(cfg, task)]


@dataclass
class WarmStart:
    """A checkpoint of a transformer, which can be copied into a model.

    Attributes:
        path: the file.
        state: parameters, with the names that fairseq gives them today.
        flags: flags of the training, as the checkpoint has them.
        origins: the checkpoint itself, and those that its training began from.
        identity_start: whether BERT's branch stays zero, also if the checkpoint has values for it.
        rows: for ``encoder`` and ``decoder``, if their embeddings can be used, the row of each symbol of the data in
            them, or -1 if there is none; (V,).
        notes: sentences for the log about the dictionaries of the training.
    """

    path: str
    state: State
    flags: Dict[str, Any]
    origins: List[Origin]
    identity_start: bool
    rows: Dict[str, Tensor] = field(default_factory=dict)
    notes: List[str] = field(default_factory=list)

    @classmethod
    def read(cls, path: str, identity_start: bool) -> "WarmStart":
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
        start = [own, *origins({**checkpoint, "optimizer_history": history})]
        return cls(path, state, flags, start, identity_start)

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

    def match_vocabularies(self, cfg: BertFusedConfig, task: Any) -> List[str]:
        """Find the symbols of the dictionaries of *task*; return a sentence for each reason why this is impossible."""
        errors: List[str] = []
        settings = task_settings(task)
        for side, dictionary in (("encoder", task.source_dictionary), ("decoder", task.target_dictionary)):
            if side == "decoder" or not cfg.fusion.replaces_embeddings:
                try:
                    self._match_vocabulary(side, dictionary, settings[f"{_LANGUAGES[side]}_lang"])
                except BertFusedError as error:
                    errors += error.errors
        adaptive = cfg.adaptive_softmax_cutoff is not None and any(".adaptive_softmax." in key for key in self.state)
        if adaptive and "decoder" in self.rows and not self._has_same_symbols("decoder"):
            errors.append(
                f"--bert-warm-start {self.path}: --adaptive-softmax-cutoff goes by the order of the target dictionary, "
                "and the dictionary of the data is not that of the checkpoint; use that of the checkpoint "
                "(fairseq-preprocess --tgtdict), or leave out --adaptive-softmax-cutoff"
            )
        return errors

    def _match_vocabulary(self, side: str, dictionary: Dictionary, lang: str) -> None:
        """Find the symbols of *dictionary* in the embeddings of one *side*, if it has embeddings.

        The dictionary that the checkpoint was trained with is looked up beside the checkpoint, then in the data
        directory of its training.

        Args:
            side: ``encoder`` or ``decoder``.
            dictionary: dictionary of the data.
            lang: language of *dictionary*, which is used if the checkpoint does not name its language.

        Raises:
            BertFusedError: The dictionary of the training is not found, and that of the data has another size.
        """
        if f"{side}.embed_tokens.weight" not in self.state:
            return
        size, what = len(self.state[f"{side}.embed_tokens.weight"]), _LANGUAGES[side]
        name = f"dict.{self.flags.get(f'{what}_lang') or lang}.txt"
        data = self.flags.get("data") or []
        folders = [os.path.dirname(self.path), *(split_paths(data) if isinstance(data, str) else data)[:1]]
        seen = []
        for path in (os.path.join(folder, name) for folder in folders):
            old = _load_dictionary(path)
            if old is not None and len(old) == size:
                rows = torch.tensor([old.indices.get(symbol, -1) for symbol in dictionary.symbols])
                found = f"{int((rows >= 0).sum()):,} of {len(rows):,} symbols"
                self.rows[side] = rows
                self.notes.append(f"{what} dictionary: {found} are in {path}")
                return
            seen.append(f"{path} ({'cannot be read' if old is None else f'{len(old):,} symbols'})")
        missing = f"the {what} dictionary of its training, {size:,} symbols, was not found: {', '.join(seen)}"
        if size != len(dictionary):
            raise BertFusedError(
                f"--bert-warm-start {self.path}: {missing}; the dictionary of the data has "
                f"{len(dictionary):,} symbols, so put {name} beside the checkpoint"
            )
        logger.warning(
            f"--bert-warm-start {self.path}: {missing}; embeddings are copied row by row, which is right only if "
            "the dictionary of the data, which has the same size, is that dictionary; if it is another one, put "
            f"{name} beside the checkpoint"
        )
        self.rows[side] = torch.arange(size)
        self.notes.append(f"{what} dictionary: it was not found, and its embeddings are copied row by row")

    def _has_same_symbols(self, side: str) -> bool:
        """Whether the embeddings of *side* are of the symbols of the data, in the same order."""
        return torch.equal(self.rows[side], torch.arange(len(self.state[f"{side}.embed_tokens.weight"])))

    def copy_to(self, model: Any) -> None:
        """Copy the parameters that fit into *model*, a `BertFusedModel`, and log which ones were copied.

        Raises:
            BertFusedError: Less than half of the parameters outside BERT's branch fit.
        """
        # This is fairseq's own renaming; it also drops the final layer norms that the oldest models did not have.
        model.upgrade_state_dict(self.state)
        expected: State = model.state_dict(keep_vars=True)
        tied: Dict[int, List[str]] = defaultdict(list)
        for name, tensor in expected.items():
            tied[id(tensor)].append(name)
        table, values = _Table(), {}
        for names in tied.values():
            value = self._value(names, expected, table)
            if value is not None:
                values.update(dict.fromkeys(names, value))
        table.add_unused(self.state)

        total = sum(p.numel() for n, p in model.named_parameters() if not _OF_BERT.match(n))
        share = f"{table.matched() / total:.1%} of the {total:,} parameters outside BERT's branch"
        logger.info("\n".join([f"warm start from {self.path}: {share}", *self.notes, *table.lines()]))
        if table.matched() < total / 2:
            raise BertFusedError(
                f"--bert-warm-start {self.path} fits only {share}, but must fit half of them; "
                "give the checkpoint of a model like this one, or leave the flag out"
            )
        nn.Module.load_state_dict(model, {**model.state_dict(), **values})
        model.encoder.bert_record.update(began_from=self.origins)

    def _value(self, names: List[str], expected: State, table: "_Table") -> Optional[Tensor]:
        """Return a value for the tensor that has *names* in the model, or None if it keeps its initial value."""
        name, tensor = names[0], expected[names[0]]
        if name.startswith("encoder.bert.") and not self._has_bert(expected):  # --bert-model gives it then
            return None
        found = [n for n in (_EMBEDDINGS if name in _EMBEDDINGS else names) if n in names and self._offers(n)]
        if not found:
            table.add("new", name, tensor)
            return None
        table.used.update(found)
        value, is_embedding = self.state[found[0]], name in _EMBEDDINGS
        if value.shape[is_embedding:] != tensor.shape[is_embedding:]:  # embeddings may have other rows
            note = f"{_shape(value)} in the checkpoint, {_shape(tensor)} in the model"
            table.add("shape mismatch", name, tensor, note)
            return None
        if is_embedding:
            return self._embedding(names, found, tensor, table)
        table.add("copied", name, tensor)
        return value

    def _has_bert(self, expected: State) -> bool:
        """Say whether the checkpoint has all weights of BERT, and the factor by which they are scaled."""
        names = [name for name in expected if name.startswith("encoder.bert.")]
        return all(name in self.state and self.state[name].shape == expected[name].shape for name in names)

    def _offers(self, name: str) -> bool:
        """Say whether the checkpoint has a usable value for *name*."""
        if name in _EMBEDDINGS and name.split(".")[0] not in self.rows:
            return False
        return name in self.state and not (self.identity_start and ".bert_attn.out_proj." in name)

    def _embedding(self, names: List[str], found: List[str], tensor: Tensor, table: "_Table") -> Tensor:
        """Return a copy of *tensor*, (V, C), with the checkpoint's embeddings of the symbols that it has."""
        value, fresh = tensor.detach().clone(), torch.ones(len(tensor), dtype=torch.bool)
        found = [name for name in found if self.state[name].shape[1:] == tensor.shape[1:]]
        for name in found:
            rows = self.rows[name.split(".")[0]]
            taken = fresh & (rows >= 0)
            value[taken] = self.state[name][rows[taken]].to(value)
            fresh &= ~taken
        if any(not torch.equal(self.state[found[0]], self.state[name]) for name in found[1:]):
            logger.warning(
                f"--bert-warm-start {self.path}: {', '.join(found)} differ in the checkpoint and are one in the "
                "model (--share-all-embeddings, --share-decoder-input-output-embed), which takes the first of them"
            )
        section = "copied" if self._has_same_symbols(found[0].split(".")[0]) else "remapped"
        symbols = f"{int((~fresh).sum()):,} of {len(fresh):,} symbols"
        table.add(section, " = ".join(names), value[~fresh], symbols)
        return value


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


class _Table:
    """A table for the log that says how each tensor was used; in names ``*`` stands for the number of a layer."""

    def __init__(self) -> None:
        self.used: Set[str] = set()
        self._rows: Dict[str, List[Tuple[str, int, str]]] = {
            section: [] for section in ("copied", "remapped", "new", "unused", "shape mismatch")
        }

    def add(self, section: str, name: str, tensor: Tensor, note: str = "") -> None:
        """Add a tensor, under its full name."""
        if not _NO_PARAMETER.match(name):
            self._rows[section].append((name, tensor.numel(), note))

    def matched(self) -> int:
        """Return the number of parameters outside BERT's branch that were copied."""
        rows = [*self._rows["copied"], *self._rows["remapped"]]
        return sum(size for name, size, _ in rows if not _OF_BERT.match(name))

    def add_unused(self, state: State) -> None:
        """Add the tensors of *state* that were not used, except second names of used ones."""
        seen = {state[name].data_ptr() for name in self.used}
        for name, tensor in state.items():
            if name not in self.used and tensor.data_ptr() not in seen:
                self.add("unused", name, tensor)

    def lines(self) -> List[str]:
        """Return the lines of the table: one for each section, followed by one for each part of the model."""
        cells: List[Tuple[str, List[int], str]] = []
        for section, rows in self._rows.items():
            cells.append((section, [size for _, size, _ in rows], ""))
            parts: Dict[Tuple[str, str], Dict[str, int]] = defaultdict(dict)
            for name, size, note in rows:
                parts[_compress(name, whole=section == "shape mismatch"), note][name] = size
            for (name, note), sizes in sorted(parts.items()):
                notes = ", ".join(filter(None, [_layers(list(sizes)), note]))
                cells.append((f"  {name}", list(sizes.values()), notes))
        width = max(len(name) for name, _, _ in cells)
        lines = []
        for name, counts, notes in cells:
            unit = "tensor " if len(counts) == 1 else "tensors"
            lines.append(f"{name:{width}} {len(counts):6,} {unit} {sum(counts):13,} parameters  {notes}".rstrip())
        return lines


def _layers(names: List[str]) -> str:
    numbers = sorted({int(number) for name in names for number in re.findall(r"coder\.layers\.(\d+)\.", name)})
    if not numbers:
        return ""
    if len(numbers) == 1:
        return f"layer {numbers[0]}"
    is_range = len(numbers) == numbers[-1] - numbers[0] + 1
    return f"layers {numbers[0]}-{numbers[-1]}" if is_range else f"layers {', '.join(map(str, numbers))}"


def _compress(name: str, whole: bool) -> str:
    """Return *name* with ``*`` for numbers; unless *whole*, only the part of a layer that it belongs to is named."""
    if name.startswith("encoder.bert."):
        return "encoder.bert"
    name = re.sub(r"\.\d+(?=\.|$)", ".*", name)
    return name if whole else re.sub(r"^(\w+\.layers\.\*\.\w+).*", r"\1", name)


def _shape(tensor: Tensor) -> str:
    return " x ".join(map(str, tensor.shape))
