"""``--bert-warm-start``: a new model takes the parameters of a checkpoint by name, and its embeddings by symbol."""

import logging
import os
import re
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Dict, List, Optional, Tuple

import torch
from fairseq.data import Dictionary
from fairseq.data.data_utils import infer_language_pair
from torch import Tensor, nn

from bert_fused_plugin.checkpoints import record
from bert_fused_plugin.checkpoints.reading import data_directory, diverged, read_saved, saved_flags
from bert_fused_plugin.errors import BertFusedError, flag_name, raise_all
from bert_fused_plugin.fairseq_settings import flags_beside, resumed_from, task_settings
from bert_fused_plugin.models.bert_fused.config import OF_BOTH, OF_FAIRSEQ, OF_SIDES, BertFusedConfig
from bert_fused_plugin.models.translation_model import shape_text

logger = logging.getLogger(__name__)

State = Dict[str, Tensor]

# in a model these may be one parameter; then they are equal in the checkpoint
_EMBEDDINGS = ("decoder.output_projection.weight", "decoder.embed_tokens.weight", "encoder.embed_tokens.weight")
_BERT = "encoder.bert."
_OF_BERT = re.compile(r"encoder\.(bert|bert_proj|layer_mix)\.|.+\.(bert_attn|bert_attn_layer_norm|fusion)\.")
# version numbers, records, sinusoids, and the weights that encoder layers of fairseq 0.12 save twice
NO_PARAMETER = re.compile(r".*(\.(version|text|weights|_float_tensor)|(in_proj|out_proj|fc1|fc2)_(weight|bias))$")
_REMEDY = "give the checkpoint of a fairseq transformer, such as its checkpoint_best.pt"


def read_warm_start(args: Any, cfg: BertFusedConfig, task: Any) -> Tuple[Optional["WarmStart"], List[str]]:
    """Return the checkpoint of ``--bert-warm-start``, if one is read, and sentences about why it cannot be used."""
    if cfg.bert_warm_start is None:
        return None, []
    path = os.path.expanduser(cfg.bert_warm_start)  # the shell leaves the ~ of --bert-warm-start=~/FILE
    args.bert_warm_start = cfg.bert_warm_start = None  # fairseq saves it, and the trained model does not need the file
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
    for side, what in (("encoder", "source"), ("decoder", "target")):
        if side == "decoder" or not cfg.fusion.replaces_embeddings:
            errors += warm_start.match_vocabulary(side, what, task)
    return warm_start, errors


@dataclass
class WarmStart:
    """A checkpoint of a transformer, which can be copied into a model."""

    path: str
    state: State  # the parameters, with the names that fairseq gives them today
    flags: Dict[str, Any]  # of the training, as the checkpoint has them
    origins: List[record.Origin]  # the checkpoint itself, and those that its training began from
    # for each side whose embeddings can be used: the row of each symbol of the data in them, (V,), or -1 for none
    rows: Dict[str, Tensor] = field(default_factory=dict)
    notes: List[str] = field(default_factory=list)  # for the log, about the dictionaries of the training

    @classmethod
    def read(cls, path: str) -> "WarmStart":
        """Read the checkpoint *path*.

        Raises:
            BertFusedError: The file cannot be read, or it is damaged, not safe to read, or not of a transformer.
        """
        checkpoint = read_saved(path, _REMEDY, name=f"--bert-warm-start {path}")
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
        origin = record.Origin(os.path.abspath(path), history[-1].get("num_updates"))
        return cls(path, state, flags, [origin, *record.origins({**checkpoint, "optimizer_history": history})])

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
        changed = [setting for setting in settings if any(setting[1:]) and str(setting[1]) != str(setting[2])]
        return ["; ".join(record.reason_and_remedy(f"--bert-warm-start {self.path}", setting)) for setting in changed]

    def sharing_errors(self, cfg: BertFusedConfig) -> List[str]:
        """Return a sentence if *cfg* shares embeddings that differ in the checkpoint; warn if it shares fewer."""
        shared = cfg.share_all_embeddings or cfg.share_decoder_input_output_embed
        now = {"share_all_embeddings": cfg.share_all_embeddings, "share_decoder_input_output_embed": shared}
        lost = [flag_name(name) for name in now if self.flags.get(name) and not now[name]]
        if lost:
            logger.warning(
                f"--bert-warm-start {self.path} was trained with {lost[0]}, and this model is built without it, so "
                "its embeddings are more parameters; give the flag here, too, unless each language has a dictionary"
            )
        all_three = cfg.share_all_embeddings and not cfg.fusion.replaces_embeddings
        names = _EMBEDDINGS if all_three else _EMBEDDINGS[:2] if shared else ()
        tables = [self.state[name] for name in names if name in self.state]
        if all(table.shape == tables[0].shape and torch.equal(table, tables[0]) for table in tables):
            return []
        flag = "--share-all-embeddings" if all_three else "--share-decoder-input-output-embed"
        return [
            f"--bert-warm-start {self.path} was trained without {flag}, and this model is built with it "
            f"(bert_fused_tiny implies --share-all-embeddings); train that model with {flag}, too, or leave it out here"
        ]

    def match_vocabulary(self, side: str, what: str, task: Any) -> List[str]:
        """Find the symbols of the *what* dictionary of *task* in the embeddings of one *side*, or return why not."""
        if f"{side}.embed_tokens.weight" not in self.state:
            return []
        dictionary: Dictionary = task.source_dictionary if what == "source" else task.target_dictionary
        size = len(self.state[f"{side}.embed_tokens.weight"])
        symbols = record.read_json(self.state, record.SETTINGS_RECORD).get("symbols", {}).get(side)
        name = f"dict.{self.flags.get(f'{what}_lang') or task_settings(task)[f'{what}_lang']}.txt"
        paths = [os.path.join(folder, name) for folder in (os.path.dirname(self.path), *self.flags["data"])]
        for path in paths:
            old: Any = None
            with suppress(Exception):  # fairseq raises various exceptions for a file that is no dictionary
                old = Dictionary.load(path)
            if old is not None and len(dictionary) == size and dictionary.symbols[: len(old)] == old.symbols:
                old = dictionary  # a task may append tags of languages to that of the file
            if old is not None and len(old) == size and symbols in (None, record.fingerprint(old)):
                self.rows[side] = torch.tensor([old.indices.get(symbol, -1) for symbol in dictionary.symbols])
                known = self.rows[side] >= 0
                count = f"{int(known.sum()):,} of {len(known):,} symbols of the {what} dictionary"
                self.notes.append(f"{count} are in {path}")
                if known.sum() < len(known) / 2:
                    logger.warning(
                        f"--bert-warm-start {self.path} knows only {count}; the other embeddings begin "
                        "with random numbers; prepare the data with the subwords of its training"
                    )
                return []
        return [
            f"--bert-warm-start {self.path} needs the {what} dictionary of its training, with {size:,} symbols; "
            f"it is not at {' and '.join(paths)}; put {name} beside the checkpoint"
        ]

    def copy_to(self, model: Any) -> None:
        """Copy the parameters that fit into *model*, a `BertFusedModel`, and log which ones do not."""
        bias, rows = self.state.pop("decoder.output_projection.bias", None), self.rows.get("decoder")
        if bias is not None and rows is not None:  # the model makes place for it, of the size that it has here
            self.state["decoder.output_projection.bias"] = bias[rows.clamp(min=0)].masked_fill(rows < 0, 0)
        # This is fairseq's own renaming; it also drops the final layer norms that the oldest models did not have.
        model.upgrade_state_dict(self.state)
        expected: State = model.state_dict(keep_vars=True)
        offered = self._offered(expected, model.cfg.bert_identity_start)
        fitting = {name: value for name, value in offered.items() if value.shape == expected[name].shape}
        nn.Module.load_state_dict(model, fitting, strict=False)
        # --bert-model gives BERT, or the checkpoint
        total = [n for n, _ in model.named_parameters() if n in offered or not n.startswith(_BERT)]
        new = [
            f"{n} ({shape_text(offered[n])} there, {shape_text(expected[n])} here)" if n in offered else n
            for n in total
            if n not in fitting
        ]
        used = {self.state[name].data_ptr() for name in offered}
        unused = [n for n, value in self.state.items() if value.data_ptr() not in used and not NO_PARAMETER.match(n)]
        not_copied = {"keep their initial values": new, "of the checkpoint are not used": unused}
        parts = [f"{len(names)} {what}: {_first(names)}" for what, names in not_copied.items() if names]
        start = f"initialised {len(total) - len(new)} of {len(total)} parameters from {self.path}"
        logger.info("; ".join([start, *parts, *self.notes]))
        unlike = [name for name in (*new, *unused) if not _OF_BERT.match(name)]
        if model.cfg.bert_identity_start and unlike:
            logger.warning(
                f"training does not begin exactly as {self.path}, because of {_first(unlike)}; give the flags of its "
                "training that set sizes and layers"
            )
        for change in self._changes(model):
            logger.warning(f"--bert-warm-start {change}")
        model.encoder.source.record.update(began_from=self.origins)

    def _changes(self, model: Any) -> List[str]:
        """Return a sentence for each way in which *model* uses BERT, or computes attention, unlike the checkpoint."""
        computed = record.read_json(self.state, record.SETTINGS_RECORD).get("computed", {})
        # the flags of fairseq are compared before the model is built, or the log says what they change
        then = {name: value for name, value in computed.items() if name not in OF_FAIRSEQ}
        changed = record.differences(then, model.settings_record.content["computed"])
        if not model.cfg.bert_finetune and any(name.startswith(f"{_BERT}model.") for name in self.state):
            changed.append(("bert_finetune", True, False))
        sentences = ["; ".join(record.reason_and_remedy(self.path, difference)) for difference in changed]
        bert = record.read_json(self.state, record.BERT_RECORD)
        if model.cfg.bert_identity_start:
            if any(".bert_attn.out_proj." in name for name in self.state):
                sentences.append(
                    f"{self.path} has a trained BERT branch, which --bert-identity-start discards; leave it out, and "
                    "give --bert-branch-weights 1,1 --bert-drop-net 0 if that training had it"
                )
        elif bert:
            bert["settings"] = {name: value for name, value in bert["settings"].items() if name not in record.OF_DATA}
            unlike = record.differences_of_bert(model.cfg.bert_model, bert, model.encoder.source.record.content)
            sentences += [f"{self.path}: {sentence}" for sentence in unlike]
        return sentences

    def _offered(self, expected: State, identity_start: bool) -> State:
        """Return the values for a model whose parameters are *expected*, of which some may have other shapes."""
        of_bert = [name for name in expected if name.startswith(f"{_BERT}model.")]
        # BERT is taken as a whole or not
        has_bert = all(name in self.state and self.state[name].shape == expected[name].shape for name in of_bert)
        offered = {
            name: value
            for name, value in self.state.items()
            if name in expected
            and (has_bert or not name.startswith(_BERT))
            and (name not in _EMBEDDINGS or name.split(".")[0] in self.rows)
            and not (identity_start and ".bert_attn.out_proj." in name)  # BERT's branch stays zero
        }
        for name in offered.keys() & set(_EMBEDDINGS):
            table, rows = offered[name], self.rows[name.split(".")[0]]
            if table.shape[1:] == expected[name].shape[1:]:
                offered[name] = expected[name].detach().clone()
                offered[name][rows >= 0] = table[rows[rows >= 0]].to(offered[name])
        return offered


def _bring_up_to_date(state: State) -> None:
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
    # fairseq saves among the flags of a training only the languages that were given
    noted = record.read_json(state, record.SETTINGS_RECORD).get("noted", {})
    pairs = [infer_language_pair(folder) for folder in flags["data"] if os.path.isdir(folder)] or [(None, None)]
    languages = zip(("source_lang", "target_lang"), pairs[0])
    return {name: flags.get(name) or noted.get(name) or lang for name, lang in languages}


def _first(names: List[str]) -> str:
    """Return the first three of *names*, with those outside BERT's branch before the others."""
    shown = sorted(names, key=lambda name: bool(_OF_BERT.match(name)))
    return ", ".join(shown if len(shown) < 4 else [*shown[:3], "..."])
