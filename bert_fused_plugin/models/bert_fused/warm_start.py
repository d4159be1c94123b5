"""``--bert-warm-start``: a new model takes the parameters of a checkpoint by name, and its embeddings by symbol."""

import logging
import os
import re
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any, Dict, List, NamedTuple, Optional, Set, Tuple

import torch
from fairseq.data import Dictionary
from fairseq.data.data_utils import infer_language_pair
from torch import Tensor, nn

from bert_fused_plugin.checkpoints.origins import Origin, origins
from bert_fused_plugin.checkpoints.reading import data_directory, diverged, read_saved, saved_flags
from bert_fused_plugin.checkpoints.record import (
    BERT_RECORD,
    OF_DATA,
    SETTINGS_RECORD,
    Difference,
    differences,
    differences_of_bert,
    fingerprint,
    read_json,
    reason_and_remedy,
)
from bert_fused_plugin.errors import BertFusedError, raise_all
from bert_fused_plugin.fairseq_settings import flags_beside, resumed_from, task_settings
from bert_fused_plugin.models.bert_fused.config import HOST, OF_BOTH, OF_SIDES, BertFusedConfig
from bert_fused_plugin.models.translation_model import shape_text

logger = logging.getLogger(__name__)

State = Dict[str, Tensor]

# in a model these may be one parameter; then they are equal in the checkpoint
_EMBEDDINGS = ("decoder.output_projection.weight", "decoder.embed_tokens.weight", "encoder.embed_tokens.weight")
_BERT = "encoder.bert."
_OF_BERT = re.compile(r"encoder\.(bert|bert_proj|layer_mix)\.|.+\.(bert_attn|bert_attn_layer_norm|fusion)\.")
# version numbers, sinusoids, the records of BERT and of the settings, and the weights that encoder layers of
# fairseq 0.12 save twice
_NO_PARAMETER = re.compile(
    r"settings_record\.text$|(en|de)coder\.(version|bert\.scaled|bert_record\.text|embed_positions\.(weights|_float_tensor)|"
    r"layers\.\d+\.(in_proj|out_proj|fc1|fc2)_\w+)$"
)
_SECTIONS = ("copied", "new", "unused", "shape mismatch")
_REMEDY = "give the checkpoint of a fairseq transformer, such as its checkpoint_best.pt"


def read_warm_start(args: Any, cfg: BertFusedConfig, task: Any) -> Tuple[Optional["WarmStart"], List[str]]:
    """Return the checkpoint of ``--bert-warm-start``, if one is read, and sentences about why it cannot be used.

    The flag is removed from *args*, which fairseq saves, so that the trained model does not need the file again.  The
    record of BERT keeps the name of the file.  A training that resumes does not need it either.
    """
    if cfg.bert_warm_start is None:
        return None, []
    path = os.path.expanduser(cfg.bert_warm_start)  # the shell leaves the ~ of --bert-warm-start=~/FILE
    args.bert_warm_start = cfg.bert_warm_start = None
    resumed = resumed_from(args)
    if resumed is not None:
        logger.info(f"--bert-warm-start {path} is not read: training resumes from {resumed}")
        return None, []
    if flags_beside(args, "checkpoint").get("finetune_from_model") is not None:
        return None, ["--bert-warm-start and --finetune-from-model exclude each other; leave one of them out"]
    if cfg.encoder_embed_path or cfg.decoder_embed_path:
        return None, ["--bert-warm-start brings embeddings; leave out --encoder-embed-path and --decoder-embed-path"]
    try:
        warm_start = WarmStart.read(path)
    except BertFusedError as error:
        return None, list(error.errors)
    errors = [*warm_start.incompatibilities(cfg), *warm_start.sharing_errors(cfg)]
    return warm_start, [*errors, *warm_start.match_vocabularies(cfg, task)]


@dataclass
class WarmStart:
    """A checkpoint of a transformer, which can be copied into a model."""

    path: str
    state: State  # the parameters, with the names that fairseq gives them today
    flags: Dict[str, Any]  # of the training, as the checkpoint has them
    origins: List[Origin]  # the checkpoint itself, and those that its training began from
    # for each side whose embeddings can be used: the row of each symbol of the data in them, (V,), or -1 for none
    rows: Dict[str, Tensor] = field(default_factory=dict)
    notes: List[str] = field(default_factory=list)  # for the log, about the dictionaries of the training

    @classmethod
    def read(cls, path: str) -> "WarmStart":
        """Read the checkpoint *path*.

        Raises:
            BertFusedError: The file cannot be read, or it is damaged, not safe to read, or not of a transformer.
        """
        checkpoint = read_saved(path, _REMEDY, given=f"--bert-warm-start {path}")
        state = {key: value for key, value in checkpoint["model"].items() if isinstance(value, Tensor)}
        if any(key.startswith("bert_encoder.") for key in state):
            raise BertFusedError(f"--bert-warm-start {path} is of bert-nmt; convert it with bert-fused-import first")
        flags = saved_flags(checkpoint, "model", "task", "checkpoint")
        needed = ("decoder.layers.0.self_attn.", "decoder.layers.0.encoder_attn.", "decoder.layers.0.fc1.weight")
        if not all(any(key.startswith(name) for key in state) for name in needed):
            arch = flags.get("arch") or flags.get("_name") or "unknown"
            raise BertFusedError(
                f"--bert-warm-start {path} is no transformer with encoder and decoder (--arch {arch}); {_REMEDY}"
            )
        raise_all(diverged(f"--bert-warm-start {path}", state))
        _bring_up_to_date(state)
        flags["data"] = data_directory(path, flags)
        flags.update(_languages(flags, state))
        history = checkpoint.get("optimizer_history") or [{}]
        own = Origin(os.path.abspath(path), history[-1].get("num_updates"))
        return cls(path, state, flags, [own, *origins({**checkpoint, "optimizer_history": history})])

    def incompatibilities(self, cfg: BertFusedConfig) -> List[str]:
        """Return a sentence for each flag of *cfg* that gives the parameters another shape or another meaning."""
        then, names = dict(self.flags), [*OF_BOTH]
        for side, part in (("encoder", cfg.encoder), ("decoder", cfg.decoder)):
            layer = self.state.get(f"{side}.layers.0.fc1.weight")
            if layer is not None and part.layers > 0:
                then[f"{side}_embed_dim"] = layer.size(-1)
                names += [f"{side}_{name}" for name in ("embed_dim", *OF_SIDES)]
        if cfg.fusion.replaces_embeddings:
            then.pop("encoder_learned_pos", None)  # here these are positions of word pieces
        settings = [(name, then[name], getattr(cfg, name)) for name in names if name in then]
        return [
            "; ".join(reason_and_remedy(f"--bert-warm-start {self.path}", (name, old, new)))
            for name, old, new in settings
            if (old or new) and str(old) != str(new)
        ]

    def sharing_errors(self, cfg: BertFusedConfig) -> List[str]:
        """Return a sentence if *cfg* shares embeddings that differ in the checkpoint; warn if it shares fewer."""
        now = {"share_all_embeddings": cfg.share_all_embeddings}
        now["share_decoder_input_output_embed"] = cfg.share_all_embeddings or cfg.share_decoder_input_output_embed
        lost = [name.replace("_", "-") for name in now if self.flags.get(name) and not now[name]]
        if lost:
            logger.warning(
                f"--bert-warm-start {self.path} was trained with --{lost[0]}, and this model is built without it, so "
                "its embeddings are more parameters; give the flag here, too, unless each language has a dictionary"
            )
        all_three = cfg.share_all_embeddings and not cfg.fusion.replaces_embeddings
        if not (cfg.share_all_embeddings or cfg.share_decoder_input_output_embed):
            return []
        tables = [self.state[name] for name in _EMBEDDINGS[: 3 if all_three else 2] if name in self.state]
        if all(table.shape == tables[0].shape and torch.equal(table, tables[0]) for table in tables):
            return []
        flag = "--share-all-embeddings" if all_three else "--share-decoder-input-output-embed"
        return [
            f"--bert-warm-start {self.path} was trained without {flag}, and this model is built with it "
            f"(bert_fused_tiny implies --share-all-embeddings); train that model with {flag}, too, or leave it out here"
        ]

    def match_vocabularies(self, cfg: BertFusedConfig, task: Any) -> List[str]:
        """Find the symbols of the dictionaries of *task*; return a sentence for each reason why this is impossible."""
        sides = (("encoder", "source"), ("decoder", "target"))
        used = sides[1:] if cfg.fusion.replaces_embeddings else sides
        return [error for side, what in used for error in self._match_vocabulary(side, what, task)]

    def _match_vocabulary(self, side: str, what: str, task: Any) -> List[str]:
        """Find the symbols of the *what* dictionary of *task* in the embeddings of one *side*, if it has embeddings.

        The dictionary of the training is looked up beside the checkpoint, then in the data directory of the training.
        """
        if f"{side}.embed_tokens.weight" not in self.state:
            return []
        dictionary: Dictionary = task.source_dictionary if what == "source" else task.target_dictionary
        size = len(self.state[f"{side}.embed_tokens.weight"])
        symbols = read_json(self.state, SETTINGS_RECORD).get("symbols", {}).get(side)
        name = f"dict.{self.flags.get(f'{what}_lang') or task_settings(task)[f'{what}_lang']}.txt"
        paths = [os.path.join(folder, name) for folder in (os.path.dirname(self.path), *self.flags["data"])]
        for path in paths:
            old = _load_dictionary(path)
            if old is not None and len(dictionary) == size and dictionary.symbols[: len(old)] == old.symbols:
                old = dictionary  # a task may append tags of languages to that of the file
            if old is not None and len(old) == size and symbols in (None, fingerprint(old)):
                self.rows[side] = torch.tensor([old.indices.get(symbol, -1) for symbol in dictionary.symbols])
                known = self.rows[side] >= 0
                self.notes.append(f"{what} dictionary: {_count(known)} are in {path}")
                if known.sum() < len(known) / 2:
                    logger.warning(
                        f"--bert-warm-start {self.path} knows only {_count(known)} of the {what} dictionary; the other "
                        "embeddings begin with random numbers; prepare the data with the subwords of its training"
                    )
                return []
        return [
            f"--bert-warm-start {self.path} needs the {what} dictionary of its training, with {size:,} symbols; "
            f"it is not at {' and '.join(paths)}; put {name} beside the checkpoint"
        ]

    def copy_to(self, model: Any) -> None:
        """Copy the parameters that fit into *model*, a `BertFusedModel`, and log which ones were copied."""
        # This is fairseq's own renaming; it also drops the final layer norms that the oldest models did not have.
        model.upgrade_state_dict(self.state)
        expected: State = model.state_dict(keep_vars=True)
        offered = self._offered(expected, model.cfg.bert_identity_start)
        names_of: Dict[int, List[str]] = defaultdict(list)  # of each tensor, because some are tied
        for name, tensor in expected.items():
            if name in offered or not name.startswith(_BERT):  # --bert-model gives BERT, or the checkpoint
                names_of[id(tensor)].append(name)
        table: List[_Row] = []
        used: Set[int] = set()
        values: State = {}
        for names in names_of.values():
            found = [name for name in dict.fromkeys((*_EMBEDDINGS, *names)) if name in names and name in offered]
            value, row = self._value(names, found, expected[names[0]])
            used.update(offered[name].data_ptr() for name in found)
            table.append(row)
            if value is not None:
                values.update(dict.fromkeys(names, value))
        for name, tensor in self.state.items():
            if tensor.data_ptr() not in used:  # nor under another name
                table.append(_Row("unused", name, tensor.numel()))
        table = [row for row in table if not _NO_PARAMETER.match(row.name)]
        fitting = [row.size for row in table if row.section == "copied" and not _OF_BERT.match(row.name)]
        total = sum(p.numel() for n, p in model.named_parameters() if not _OF_BERT.match(n))
        share = f"{sum(fitting) / total:.1%} of the {total:,} parameters outside BERT's branch"
        logger.info("\n".join([f"warm start from {self.path}: {share}", *self.notes, *_lines(table)]))
        if model.cfg.bert_identity_start and any(
            row.section != "copied" and not _OF_BERT.match(row.name) for row in table
        ):
            logger.warning(
                f"training does not begin exactly as {self.path}: the log lists under new, unused and shape mismatch "
                "which parameters differ; give the flags of its training that set sizes and layers"
            )
        nn.Module.load_state_dict(model, {**model.state_dict(), **values})
        for change in self._changes(model):
            logger.warning(f"--bert-warm-start {change}")
        model.encoder.source.record.update(began_from=self.origins)

    def _changes(self, model: Any) -> List[str]:
        """Return a sentence for each way in which *model* uses BERT, or computes attention, unlike the checkpoint."""
        computed = read_json(self.state, SETTINGS_RECORD).get("computed", {})
        # the flags of fairseq are compared before the model is built, or the table shows what they change
        then = {name: value for name, value in computed.items() if name not in HOST}
        changed: List[Difference] = differences(then, model.settings_record.content["computed"])
        if not model.cfg.bert_finetune and any(name.startswith(f"{_BERT}model.") for name in self.state):
            changed.append(("bert_finetune", True, False))
        sentences = ["; ".join(reason_and_remedy(self.path, difference)) for difference in changed]
        bert = read_json(self.state, BERT_RECORD)
        if model.cfg.bert_identity_start:
            if any(".bert_attn.out_proj." in name for name in self.state):
                sentences.append(
                    f"{self.path} has a trained BERT branch, which --bert-identity-start discards; leave it out, and "
                    "give --bert-branch-weights 1,1 --bert-drop-net 0 if that training had it"
                )
        elif bert:
            bert["settings"] = {name: value for name, value in bert["settings"].items() if name not in OF_DATA}
            unlike = differences_of_bert(model.cfg.bert_model, bert, model.encoder.source.record.content)
            sentences += [f"{self.path}: {sentence}" for sentence in unlike]
        return sentences

    def _offered(self, expected: State, identity_start: bool) -> State:
        """Return the values that a model may take whose parameters are *expected*.

        It takes BERT as a whole or not.  With *identity_start* BERT's branch stays zero.
        """
        of_bert = [name for name in expected if name.startswith(f"{_BERT}model.")]
        has_bert = all(name in self.state and self.state[name].shape == expected[name].shape for name in of_bert)
        return {
            name: value
            for name, value in self.state.items()
            if (has_bert or not name.startswith(_BERT))
            and (name not in _EMBEDDINGS or name.split(".")[0] in self.rows)
            and not (identity_start and ".bert_attn.out_proj." in name)
        }

    def _value(self, names: List[str], found: List[str], tensor: Tensor) -> Tuple[Optional[Tensor], "_Row"]:
        """Return what the *tensor* that has *names* in the model takes, and its row in the table.

        It takes nothing, and keeps its initial value, if its names *found* in the checkpoint are none, or do not fit.
        """
        if not found:
            return None, _Row("new", names[0], tensor.numel())
        value, is_embedding = self.state[found[0]], found[0] in _EMBEDDINGS
        if value.shape[is_embedding:] != tensor.shape[is_embedding:]:  # embeddings may have other rows
            note = f"{shape_text(value)} in the checkpoint, {shape_text(tensor)} in the model"
            return None, _Row("shape mismatch", names[0], tensor.numel(), note)
        if not is_embedding:
            return value, _Row("copied", names[0], tensor.numel())
        # a copy of the tensor, (V, C), with the embeddings of the symbols that the checkpoint has
        table, rows = value, self.rows[found[0].split(".")[0]]
        value, known = tensor.detach().clone(), rows >= 0
        value[known] = table[rows[known]].to(value)
        return value, _Row("copied", " = ".join(names), value[known].numel(), _count(known))


def _bring_up_to_date(state: State) -> None:
    """Change *state* in place: name and copy the embeddings as fairseq does today."""
    for side in ("encoder", "decoder"):
        # fairseq mistakes decoders of version 2 for those of version 1, which had no final layer norm.
        if f"{side}.layer_norm.weight" in state:
            state[f"{side}.version"] = torch.tensor([3.0])
    output, embeddings = "decoder.output_projection.weight", state.get("decoder.embed_tokens.weight")
    if "decoder.embed_out" in state:
        state[output] = state.pop("decoder.embed_out")
    elif embeddings is not None:
        state.setdefault(output, embeddings)


def _languages(flags: Dict[str, Any], state: State) -> Dict[str, Any]:
    """Return the languages of a training; fairseq saves among its *flags* only those that were given."""
    noted = read_json(state, SETTINGS_RECORD).get("noted", {})
    pair = (None, None)
    for folder in filter(os.path.isdir, flags["data"]):
        pair = infer_language_pair(folder)
    names = ("source_lang", "target_lang")
    return {name: flags.get(name) or noted.get(name) or found for name, found in zip(names, pair)}


def _load_dictionary(path: str) -> Optional[Dictionary]:
    try:
        return Dictionary.load(path)
    except Exception:  # fairseq raises various exceptions for a file that is no dictionary
        return None


def _count(symbols: Tensor) -> str:
    return f"{int(symbols.sum()):,} of {len(symbols):,} symbols"


class _Row(NamedTuple):
    """A tensor in the table for the log that says how each tensor was used."""

    section: str
    name: str
    size: int
    note: str = ""


def _lines(table: List[_Row]) -> List[str]:
    """Return a line for each section of the table, followed by one for each part of the model in it."""
    lines = []
    for section in _SECTIONS:
        sizes: Dict[str, List[int]] = {"": []}
        for row in table:
            if row.section == section:
                sizes[""].append(row.size)
                sizes.setdefault(f"  {_part(row)}", []).append(row.size)
        for part, numbers in sorted(sizes.items()):
            lines.append(f"{part or section}: {len(numbers):,} tensors, {sum(numbers):,} parameters")
    return lines


def _part(row: _Row) -> str:
    """Return the part of the model that a row belongs to, and its note; ``*`` stands for the number of a layer."""
    if row.name.startswith(_BERT):
        return "encoder.bert"
    name = re.sub(r"\.\d+(?=\.|$)", ".*", row.name)
    if row.note:
        return f"{name} ({row.note})"
    return re.sub(r"^(\w+\.layers\.\*\.\w+).*", r"\1", name)
