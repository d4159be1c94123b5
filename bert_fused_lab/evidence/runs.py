"""The runs that are compared: their checkpoints on the disk, and their loaded models with tasks."""

import filecmp
import re
from collections import defaultdict
from dataclasses import dataclass, field
from glob import escape
from pathlib import Path
from typing import Any, DefaultDict, Dict, List, Mapping, Optional, Sequence, Tuple

from fairseq import checkpoint_utils, tasks, utils
from fairseq.models.transformer import TransformerModelBase
from omegaconf import OmegaConf

from bert_fused_lab.arguments import NamedPaths
from bert_fused_lab.finished import training_defaults
from bert_fused_plugin.bert.layer_choice import is_sentence_encoder
from bert_fused_plugin.bert.source import source_of
from bert_fused_plugin.checkpoints.reading import data_directory, read_checkpoint, require_architecture, saved_flags
from bert_fused_plugin.checkpoints.record import SETTINGS_RECORD, origins
from bert_fused_plugin.data.data_bin import source_side
from bert_fused_plugin.errors import BertFusedError, flag_name, raise_all
from bert_fused_plugin.modules.drop_net import DropNet
from bert_fused_plugin.tasks.bert_fused_translation import BertFusedTranslationTask

Points = List[Tuple[int, float]]  # (updates, value)
Curves = Dict[str, Points]  # by "train nll_loss", "valid bleu", ...

METERS = ("loss", "nll_loss", "bleu")
# fairseq-train prints "... | valid | ...", and fairseq-hydra-train prints "[...][valid][INFO] - ..."
_LINE = re.compile(r"(?:\| |\]\[)(train_inner|train|valid)(?: \| |\]\[INFO\] - )(.*)")
# loss=1.5 and "loss 1.5 |", or in JSON "valid_loss": "1.5"; nan and inf have no match
_PAIR = re.compile(r'\b([a-z_]+)"?(?:[= ]|: )("?)(-?\d+\.?\d*(?:e[+-]?\d+)?)\2(?=[,\s|}]|$)')

_TASKS = ("translation", "bert_fused_translation")
_NEVER_USED = re.compile(r".*\.layers\.\d+\.\w+_(weight|bias)")  # parameters that fairseq's encoder layers hold in vain


@dataclass(frozen=True)
class RunFiles:
    """A run as the command line gives it, as ``NAME=PATH`` or without a name; messages name the *flag*."""

    flag: str
    name: str
    checkpoint: Path

    def __str__(self) -> str:
        return f"{self.flag} {self.name}={self.checkpoint}" if self.name else f"{self.flag} {self.checkpoint}"


@dataclass
class Run:
    """A run with its model, in evaluation mode on its device, and its task with the test sets loaded.

    *sources* are the whole sources of each test set; in the task's own data set, those too long for the model are cut.
    """

    files: RunFiles
    model: Any
    task: Any
    sources: Dict[str, Any]
    facts: Dict[str, Any]  # those of `SystemFacts` that the checkpoint tells
    remarks: List[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        """The name that the user gave."""
        return self.files.name

    @property
    def languages(self) -> Tuple[str, str]:
        """The languages of source and target."""
        return self.task.cfg.source_lang, self.task.cfg.target_lang

    def sample(self, subset: str, number: int) -> Dict[str, Any]:
        """Return the batch of one sentence of *subset*, on the model's device."""
        dataset = self.task.dataset(subset)
        return on_device(dataset.collater([dataset[number]]), self.model)


@dataclass(frozen=True)
class Place:
    """The test sets that all runs are tried on, what the task is given for BERT, and how the models compute."""

    data: str
    subsets: Sequence[str]
    bert_text: Optional[str] = None
    bert_documents: Optional[str] = None
    device: str = "cpu"
    bf16: bool = False


def find_runs(runs: Sequence[Tuple[str, NamedPaths]], hypotheses: Sequence[NamedPaths] = ()) -> List[List[RunFiles]]:
    """Return the seeds of each of *runs*, which come with their flags.

    The names of *hypotheses*, which are translations of other systems, must be others.

    Raises:
        BertFusedError: a name, or a checkpoint of one run, is used twice, or a file is missing.
    """
    names = [name for name, _ in (*(named for _, named in runs), *hypotheses)]
    errors = [
        f"--baseline, --run and --hypotheses must have names of their own, got {name!r} twice; rename one"
        for name in sorted({name for name in names if names.count(name) > 1})
    ]
    files_of = {
        name: [RunFiles(flag, name, path / "checkpoint_best.pt" if path.is_dir() else path) for path in paths]
        for flag, (name, paths) in runs
    }
    errors += [
        f"{files}: there is no such file; give a checkpoint, or a --save-dir with checkpoint_best.pt"
        for seeds in files_of.values()
        for files in seeds
        if not files.checkpoint.is_file()
    ]
    errors += [
        f"{seeds[0].flag} {name}= must have another checkpoint for each seed; leave out the copies"
        for name, seeds in files_of.items()
        if len({files.checkpoint.resolve() for files in seeds}) < len(seeds)
    ]
    raise_all(errors)
    return list(files_of.values())


def load_run(files: RunFiles, place: Place) -> Run:
    """Load one run, whatever translation task it was trained with, under this package's.

    Raises:
        BertFusedError: the checkpoint cannot be read, or does not fit the data.
    """
    state = read_checkpoint(files.checkpoint, name=str(files))
    require_architecture(files, state)
    saved, flags = saved_flags(state, "task"), saved_flags(state, "model")
    bert = flags.get("bert_model") or ""
    if bert.startswith("./") and (files.checkpoint.parent / bert).is_dir():  # of an exported model
        state = read_checkpoint(files.checkpoint, {"bert_model": str(files.checkpoint.parent / bert)}, name=str(files))
    if saved["_name"] not in _TASKS:
        raise BertFusedError(f"{files} was trained with --task {saved['_name']}; give runs of {' or '.join(_TASKS)}")
    task = _set_up_task(saved, place, flags)
    try:
        [model], cfg, _ = checkpoint_utils.load_model_ensemble_and_task([str(files.checkpoint)], task=task, state=state)
    except BertFusedError as error:
        raise BertFusedError(*(f"{files}: {reason}" for reason in error.errors)) from error
    except RuntimeError as error:  # torch's, of parameters that do not fit
        reason = " ".join(str(error).split())[:300]
        raise BertFusedError(f"{files} does not fit {place.data}; was it trained on this data?  [{reason}]") from error
    sources = {subset: _load_test_set(task, place.data, subset) for subset in place.subsets}
    run = Run(files, model.eval(), task, sources, _facts(files, state, model))
    run.remarks += _remarks(run, state, place)
    (model.bfloat16() if place.bf16 else model).to(place.device)
    model.prepare_for_inference_(cfg)  # last, since it lays the weights out for the device and the number format
    return run


def _facts(files: RunFiles, state: Mapping[str, Any], model: Any) -> Dict[str, Any]:
    flags = saved_flags(state, "model")
    return {
        "checkpoint": str(files.checkpoint),
        "architecture": str(flags.get("arch") or flags.get("_name")),
        "is_transformer": isinstance(model, TransformerModelBase),
        "updates": int(state["optimizer_history"][-1].get("num_updates", 0)),
        "max_update": int(saved_flags(state, "optimization").get("max_update") or 0),
        "parameters": count_parameters(model),
        "reads_bert": source_of(model) is not None,
        "drops_bert": any(isinstance(module, DropNet) and module.p_net > 0 for module in model.modules()),
        "began_from": [origin._asdict() for origin in origins(state)],
        "consistency": str(saved_flags(state, "criterion").get("consistency", "none")),
        "selection": selection(files, state),
    }


def require_context(runs: Sequence[Run], documents: Optional[str]) -> None:
    """Refuse the *documents* of ``--bert-documents`` that none of *runs* reads."""
    if documents is not None and not any(run.task.cfg.bert_documents for run in runs):
        trained = "needs a run that was trained with --bert-context, and there is none"
        raise BertFusedError(f"--bert-documents {documents} {trained}; leave it out")


def _remarks(run: Run, state: Mapping[str, Any], place: Place) -> List[str]:
    """Return what a reader of the report must know of the *run*, whose checkpoint is *state*."""
    saved, source = saved_flags(state, "task"), source_of(run.model)
    remarks = [
        f"{run.name} reads only the beginning of {cut} of the {len(texts)} sources of {subset!r}, since it takes at "
        f"most {run.task.max_source} tokens (--max-source-positions)."
        for subset, texts in run.sources.items()
        if (cut := int((texts.sizes > run.task.max_source).sum()))
    ]
    if SETTINGS_RECORD not in state["model"]:  # by which a model of this package compares the dictionaries
        remarks += _other_dictionaries(run, saved_flags(state, "task", "checkpoint"), place.data)
    read = {"bert_text": "text derived from the data", "bert_documents": "context across the borders of documents"}
    remarks += [
        f"{run.name} was trained with {flag_name(name)}, but its BERT reads {otherwise} here, since the report was "
        f"made without {flag_name(name)}."
        for name, otherwise in read.items()
        if source is not None and saved.get(name) is not None and vars(place)[name] is None
    ]
    if source is not None and is_sentence_encoder(source.bert.name):
        encoder = source.bert.model
        size = source.bert.num_parameters - encoder.get_input_embeddings().weight.numel()
        remarks.append(
            f"{run.name} reads {'/'.join(Path(source.bert.name).parts[-2:])}, which was made to compare sentences and "
            f"has {size:,} parameters without its embeddings (BERT-base has 86 million); a masked language model for "
            "the source language may help more."
        )
    return remarks


def _other_dictionaries(run: Run, flags: Mapping[str, Any], data: str) -> List[str]:
    """Return a remark for each dictionary where *run* was trained that differs from that of the test set.

    The folder may have got other data since then, so a difference proves nothing.
    """
    now = Path(utils.split_paths(data)[0])
    return [
        f"{run.name} may have been trained with another dictionary: {then / file} differs from {now / file}, and this "
        "checkpoint has no record of its own.  If so, its translations make no sense."
        for then in map(Path, data_directory(str(run.files.checkpoint), flags))
        for file in (f"dict.{language}.txt" for language in run.languages)
        if (then / file).is_file() and not filecmp.cmp(then / file, now / file, shallow=False)
    ]


def on_device(batch: Dict[str, Any], model: Any) -> Dict[str, Any]:
    """Return *batch* on the device of *model*."""
    device = next(model.parameters()).device
    return utils.apply_to_sample(lambda tensor: tensor.to(device), batch)


def count_parameters(model: Any) -> Dict[str, int]:
    """Return how many parameters of *model* are trained, and how many are frozen, with those of BERT."""
    names = {name: p for name, p in model.named_parameters() if not _NEVER_USED.fullmatch(name)}
    frozen = sum(p.numel() for p in names.values() if not p.requires_grad)
    if (source := source_of(model)) and not source.bert.saves_weights:
        frozen += source.bert.num_parameters  # which are not among the parameters of the model
    return {"trained": sum(p.numel() for p in names.values() if p.requires_grad), "frozen": frozen}


def _set_up_task(saved: Dict[str, Any], place: Place, flags: Mapping[str, Any]) -> BertFusedTranslationTask:
    overrides = {
        **training_defaults(),
        "_name": "bert_fused_translation",
        "data": place.data,
        "train_subset": "",  # every subset is a test set here
        "bert_text": place.bert_text,
        "bert_documents": place.bert_documents if flags.get("bert_context") else None,
    }
    return tasks.setup_task(OmegaConf.create({**saved, **overrides}))


def _load_test_set(task: BertFusedTranslationTask, data: str, subset: str) -> Any:
    """Let *task* load the test set; return the sources before any of them is cut."""
    files = Path(utils.split_paths(data)[0]).glob(f"{escape(subset)}.*-*.*")
    if any(file.stat().st_size == 0 for file in files):  # fairseq maps no empty file, and leaves a stray trace
        raise BertFusedError(f"{data}: {subset!r} has no sentences; give another --subset")
    try:
        task.load_dataset(subset)
    except FileNotFoundError as error:
        raise BertFusedError(
            f"{data} has no --subset {subset!r} for {task.cfg.source_lang}-{task.cfg.target_lang}; "
            "give a subset that fairseq-preprocess has made"
        ) from error
    return source_side(utils.split_paths(data)[0], subset, task)


def selection(files: RunFiles, state: Mapping[str, Any]) -> Dict[str, Any]:
    """Return the names of the checkpoints that are averaged, or of the one, and the metric that chose them, if any."""
    names = state["extra_state"].get("averaged", [files.checkpoint.name])
    flags = saved_flags(state, "checkpoint") if all("best" in name for name in names) else {}
    highest = flags.get("maximize_best_checkpoint_metric", False)
    return {"checkpoints": names, "metric": flags.get("best_checkpoint_metric"), "highest": highest}


def find_logs(checkpoint: Path) -> List[Path]:
    """Return the logs of a training: CHECKPOINT.log, or else ``*.log`` in the save-dir, or else SAVE_DIR.log.

    A folder without checkpoints of fairseq's names is no save-dir: its logs may belong to other runs.
    (What fairseq writes to ``--log-file`` holds no curves.)
    """
    log, save_dir = checkpoint.with_suffix(".log"), checkpoint.resolve().parent
    if log.is_file():
        return [log]
    if not any(save_dir.glob("checkpoint*.pt")):
        return []
    return sorted(save_dir.glob("*.log")) or [p for p in [save_dir.with_name(f"{save_dir.name}.log")] if p.is_file()]


def read_curves(logs: Sequence[Path]) -> Curves:
    """Return the curves in *logs*, in the order of their updates; if an update comes twice, the last value counts.

    The curves of the training set are those of ``--log-interval`` or, without such lines, those of whole epochs.
    """
    values: DefaultDict[Tuple[str, str], Dict[int, float]] = defaultdict(dict)
    for path in logs:
        for tag, rest in _LINE.findall(path.read_text(encoding="utf-8", errors="replace")):
            numbers = {key.removeprefix(f"{tag}_"): float(value) for key, _, value in _PAIR.findall(rest)}
            for meter in METERS:
                if meter in numbers and "num_updates" in numbers:
                    values[tag, meter][int(numbers["num_updates"])] = numbers[meter]
    of_training = "train_inner" if any(tag == "train_inner" for tag, _ in values) else "train"
    return {
        f"{name} {meter}": sorted(values[tag, meter].items())
        for name, tag in (("train", of_training), ("valid", "valid"))
        for meter in METERS
        if (tag, meter) in values
    }
