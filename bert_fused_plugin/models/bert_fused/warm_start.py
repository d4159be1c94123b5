"""``--bert-warm-start``: a new model takes the parameters of a checkpoint by name, and its embeddings by symbol."""

import logging
import os
import re
from collections import defaultdict
from dataclasses import dataclass
from typing import Any, Dict, List, Optional, Set, Tuple

import torch
from torch import Tensor, nn

from bert_fused_plugin.bert.from_flags import task_settings
from bert_fused_plugin.errors import BertFusedError
from bert_fused_plugin.models.bert_fused.config import BertFusedConfig
from bert_fused_plugin.models.bert_fused.stock_checkpoint import SavedTransformer, Vocabulary
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


@dataclass
class WarmStart:
    """A checkpoint that can be copied into a model.

    Args:
        saved: the checkpoint.
        vocabularies: vocabularies of its ``encoder`` and ``decoder``, if their embeddings can be used.
        identity_start: whether BERT's branch stays zero, also if the checkpoint has values for it.
    """

    saved: SavedTransformer
    vocabularies: Dict[str, Vocabulary]
    identity_start: bool

    def copy_to(self, model: Any) -> None:
        """Copy the parameters that fit into *model*, a `BertFusedModel`, and log which ones were copied.

        Raises:
            BertFusedError: Less than half of the parameters outside BERT's branch fit.
        """
        # This is fairseq's own renaming; it also drops the final layer norms that the oldest models did not have.
        model.upgrade_state_dict(self.saved.state)
        expected: State = model.state_dict(keep_vars=True)
        tied: Dict[int, List[str]] = defaultdict(list)
        for name, tensor in expected.items():
            tied[id(tensor)].append(name)
        table, values = _Table(), {}
        for names in tied.values():
            value = self._value(names, expected, table)
            if value is not None:
                values.update(dict.fromkeys(names, value))
        table.add_unused(self.saved.state)

        path, total = self.saved.path, sum(p.numel() for n, p in model.named_parameters() if not _OF_BERT.match(n))
        share = f"{table.matched / total:.1%} of the {total:,} parameters outside BERT's branch"
        sources = [vocabulary.source for vocabulary in self.vocabularies.values()]
        logger.info("\n".join([f"warm start from {path}: {share}", *sources, *table.lines()]))
        if table.matched < total / 2:
            raise BertFusedError(
                f"--bert-warm-start {path} fits only {share}, but must fit half of them; "
                "give the checkpoint of a model like this one, or leave the flag out"
            )
        nn.Module.load_state_dict(model, {**model.state_dict(), **values})
        model.encoder.bert_record.note_origins(self.saved.origins)

    def _value(self, names: List[str], expected: State, table: "_Table") -> Optional[Tensor]:
        """Return a value for the tensor that has *names* in the model, or None if it keeps its initial value."""
        name, tensor = names[0], expected[names[0]]
        if name.endswith("._float_tensor"):  # a buffer of fairseq without a meaning
            return None
        if name.startswith("encoder.bert.") and not self._has_bert(expected):  # --bert-model gives it then
            return None
        found = [n for n in (_EMBEDDINGS if name in _EMBEDDINGS else names) if n in names and self._offers(n)]
        if not found:
            table.add("new", name, tensor)
            return None
        table.used.update(found)
        value, shape = self.saved.state[found[0]], tensor.shape
        if name in _EMBEDDINGS:
            shape = torch.Size((self._vocabulary(found[0]).size, tensor.size(1)))
        if value.shape != shape:
            note = f"{_shape(value)} in the checkpoint, {_shape(tensor)} in the model"
            table.add("shape mismatch", name, tensor, note)
            return None
        if name in _EMBEDDINGS:
            return self._embedding(names, found, tensor, table)
        table.add("copied", name, tensor)
        return value

    def _has_bert(self, expected: State) -> bool:
        """Say whether the checkpoint has all weights of BERT, and the factor by which they are scaled."""
        state, names = self.saved.state, [name for name in expected if name.startswith("encoder.bert.")]
        names = [name for name in names if name != "encoder.bert.scaled"]  # earlier versions did not save it
        return all(name in state and state[name].shape == expected[name].shape for name in names)

    def _offers(self, name: str) -> bool:
        """Say whether the checkpoint has a usable value for *name*."""
        if name in _EMBEDDINGS and name.split(".")[0] not in self.vocabularies:
            return False
        return name in self.saved.state and not (self.identity_start and ".bert_attn.out_proj." in name)

    def _embedding(self, names: List[str], found: List[str], tensor: Tensor, table: "_Table") -> Tensor:
        """Return a copy of *tensor*, (V, C), with the checkpoint's embeddings of the symbols that it has."""
        value, fresh = tensor.detach().clone(), torch.ones(len(tensor), dtype=torch.bool)
        found = [name for name in found if self.saved.state[name].shape[1:] == tensor.shape[1:]]
        for name in found:
            rows = self._vocabulary(name).rows
            taken = fresh & (rows >= 0)
            value[taken] = self.saved.state[name][rows[taken]].to(value)
            fresh &= ~taken
        if any(not torch.equal(self.saved.state[found[0]], self.saved.state[name]) for name in found[1:]):
            logger.warning(
                f"--bert-warm-start {self.saved.path}: {', '.join(found)} differ in the checkpoint and are one in the "
                "model (--share-all-embeddings, --share-decoder-input-output-embed), which takes the first of them"
            )
        section = "copied" if self._vocabulary(found[0]).same else "remapped"
        symbols = f"{int((~fresh).sum()):,} of {len(fresh):,} symbols"
        table.add(section, " = ".join(names), value[~fresh], symbols)
        return value

    def _vocabulary(self, name: str) -> Vocabulary:
        return self.vocabularies[name.split(".")[0]]


def read_warm_start(args: Any, cfg: BertFusedConfig, task: Any) -> Tuple[Optional[WarmStart], List[str]]:
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
        saved = SavedTransformer.read(path)
    except BertFusedError as error:
        return None, [*errors, *error.errors]
    vocabularies, missing = _match_vocabularies(saved, cfg, task)
    adaptive = cfg.adaptive_softmax_cutoff is not None and any(".adaptive_softmax." in key for key in saved.state)
    if adaptive and "decoder" in vocabularies and not vocabularies["decoder"].same:
        errors.append(
            f"--bert-warm-start {path}: --adaptive-softmax-cutoff goes by the order of the target dictionary, and the "
            "dictionary of the data is not that of the checkpoint; use that of the checkpoint (fairseq-preprocess "
            "--tgtdict), or leave out --adaptive-softmax-cutoff"
        )
    warm_start = WarmStart(saved, vocabularies, identity_start=cfg.bert_identity_start)
    return warm_start, [*errors, *saved.incompatibilities(cfg), *missing]


def _match_vocabularies(
    saved: SavedTransformer, cfg: BertFusedConfig, task: Any
) -> Tuple[Dict[str, Vocabulary], List[str]]:
    found: Dict[str, Vocabulary] = {}
    errors: List[str] = []
    settings = task_settings(task)
    for side, dictionary, lang in (
        ("encoder", task.source_dictionary, settings["source_lang"]),
        ("decoder", task.target_dictionary, settings["target_lang"]),
    ):
        if side == "encoder" and cfg.fusion.replaces_embeddings:
            continue
        try:
            vocabulary = saved.match_vocabulary(side, dictionary, lang)
        except BertFusedError as error:
            errors += error.errors
            continue
        if vocabulary is not None:
            found[side] = vocabulary
    return found, errors


class _Table:
    """A table for the log that says how each tensor was used; in names ``*`` stands for the number of a layer."""

    def __init__(self) -> None:
        self.used: Set[str] = set()
        self.matched = 0  # number of parameters outside BERT's branch that were copied
        self._rows: Dict[str, List[Tuple[str, int, str]]] = {
            section: [] for section in ("copied", "remapped", "new", "unused", "shape mismatch")
        }

    def add(self, section: str, name: str, tensor: Tensor, note: str = "") -> None:
        """Add a tensor, under its full name."""
        if _NO_PARAMETER.match(name):
            return
        if section in ("copied", "remapped") and not _OF_BERT.match(name):
            self.matched += tensor.numel()
        self._rows[section].append((name, tensor.numel(), note))

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
    first, last = numbers[0], numbers[-1]
    if first == last:
        return f"layer {first}"
    is_range = numbers == list(range(first, last + 1))
    return f"layers {first}-{last}" if is_range else f"layers {', '.join(map(str, numbers))}"


def _compress(name: str, whole: bool) -> str:
    """Return *name* with ``*`` for numbers; unless *whole*, only the part of a layer that it belongs to is named."""
    if name.startswith("encoder.bert."):
        return "encoder.bert"
    name = re.sub(r"\.\d+(?=\.|$)", ".*", name)
    return name if whole else re.sub(r"^(\w+\.layers\.\*\.\w+).*", r"\1", name)


def _shape(tensor: Tensor) -> str:
    return " x ".join(map(str, tensor.shape))
