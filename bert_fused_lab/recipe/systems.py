"""The systems that a recipe trains, as a table, the flags of their trainings, and the best checkpoints of one."""

from dataclasses import dataclass
from pathlib import Path
from typing import Dict, List, Sequence

from bert_fused_lab.recipe.running import say
from bert_fused_lab.recipe.settings import Size

TRANSFORMER, FUSED, RECURRENT = "transformer", "BERT-fused", "recurrent"  # architectures of a size


@dataclass(frozen=True)
class System:
    """What is trained, and how."""

    help: str
    arch: str = TRANSFORMER
    begins: bool = False  # with the transformer's parameters; it is then trained for MORE updates
    bert: str = ""  # which one it reads: none, "given" or "random"
    rate: str = "lr"  # one of `Size`
    flags: str = ""
    default: bool = False  # whether it is trained if no step is named
    shared: bool = False  # by all seeds: it is trained once
    distilled: bool = False  # whether it learns from what its teacher has translated


def _fused(text: str, flags: str = "", bert: str = "given", default: bool = False) -> System:
    return System(text, FUSED, True, bert, "more_lr", flags, default)


def _recurrent(text: str, flags: str = "", bert: str = "") -> System:
    return System(text, RECURRENT, False, bert, "gru_lr", f"--clip-norm 1.0 {flags}")


_R_DROP = "--consistency r-drop"
SYSTEMS: Dict[str, System] = {
    "transformer": System("fairseq's own, for UPDATES updates", default=True),
    "control": System("the transformer, fine-tuned for MORE updates: what bert_fused has to beat",
        begins=True, rate="control_lr", default=True),
    "control_r_drop": System("the same with R-Drop, in more than twice the time (docs/tuning.md)", begins=True,
        rate="control_lr", flags=_R_DROP),
    "bert_fused": _fused("the transformer, fine-tuned for MORE updates with BERT", default=True),
    "bert_fused_r_drop": _fused("the same with R-Drop", _R_DROP),
    "bert_mix": _fused("the same, and it learns which of BERT's layers to read", "--bert-layer mix"),
    "random_bert": _fused("the same with a BERT of random weights: is it pre-training that helps?", bert="random"),
    "scratch": System("bert_fused from random parameters, for UPDATES + MORE updates", FUSED, bert="given"),
    "gru_bahdanau": _recurrent("RNNsearch, for UPDATES + MORE updates"),
    "gru_dot": _recurrent("the same with dot-product attention", "--attention dot"),
    "gru_seq2seq": _recurrent("the same without attention", "--attention none"),
    "gru_bert": _recurrent("RNNsearch with BERT", "--bert-drop-net 0", "given"),
    "bert_decoder": System("BERT instead of the encoder", FUSED, bert="given",
        flags="--bert-fusion embedding --encoder-layers 0"),
    "student": System("the model that --student names, trained on the teacher's translations", begins=True,
        rate="more_lr", shared=True, distilled=True),
    "student_control": System("the same model, trained on the original text", begins=True, rate="more_lr", shared=True),
}  # fmt: skip


def of_student(layers: str) -> System:
    """Return a student of *layers* such as 6+2, which begins with random parameters.

    Layer norms are before the sub-layers: with those behind them, six layers learn slowly at these rates.
    """
    encoder, decoder = layers.split("+")
    norms = "--encoder-normalize-before --decoder-normalize-before"
    return System("", flags=f"--encoder-layers {encoder} --decoder-layers {decoder} {norms}")


def training_flags(system: System, size: Size, transformer: Path, fused_start: Sequence[str]) -> List[str]:
    """Return the flags of a *system* about architecture, start (the checkpoint *transformer*) and length."""
    arch = {TRANSFORMER: size.transformer, FUSED: f"--arch {size.fused_arch}", RECURRENT: size.gru}[system.arch]
    flags = arch.split()
    if system.begins and system.arch == FUSED:
        flags += [*fused_start, "--bert-warm-start", str(transformer)]
    elif system.begins:
        flags += ["--finetune-from-model", str(transformer)]
    rate, warmup = vars(size)[system.rate], size.more_warmup if system.begins else size.warmup
    updates = size.more if system.begins else size.updates + size.more * (system is not SYSTEMS["transformer"])
    return [*flags, "--lr", str(rate), "--warmup-updates", str(warmup), "--max-update", str(updates)]


def near_best(folder: Path) -> List[Path]:
    """Return the best checkpoints whose BLEU is at most 1 below the highest, the best one first.

    Of a short training, the other ones are so different that their average is worse than each.
    """
    bleu = {path: float(path.stem.rpartition("_")[2]) for path in folder.glob("checkpoint.best_bleu_*.pt")}
    if not bleu:  # of another --best-checkpoint-metric, or put there alone
        return sorted(folder.glob("checkpoint.best_*.pt")) or [folder / "checkpoint_best.pt"]
    return sorted((path for path in bleu if bleu[path] >= max(bleu.values()) - 1), key=bleu.__getitem__, reverse=True)


def first_seeds(folders: Sequence[Path]) -> List[Path]:
    """Return the folders of a system, one for each seed, up to the first one that is not trained.

    The report pairs seeds by their places; both systems of a seed begin with one transformer.
    """
    there = [(folder / "checkpoint_best.pt").exists() for folder in folders]
    first = folders[: there.index(False)] if False in there else folders
    if left := [str(folder) for folder, trained in zip(folders, there) if trained and folder not in first]:
        say(f"compare: not in the report: {' '.join(left)}; train the seed before, {folders[len(first)]}")
    return [*first]
