"""The steps of a recipe, as a table: each prints the commands that it runs."""

import importlib.util
import re
import shlex
import shutil
from argparse import Namespace
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Callable, Dict, List, Mapping, Sequence

import torch

from bert_fused_lab.evidence.files import read_json
from bert_fused_lab.importing.import_hf import SETTINGS
from bert_fused_lab.output import write_json
from bert_fused_lab.recipe.back_translation import binarise_mono, prepare_mono, prepared_mono, write_synthetic
from bert_fused_lab.recipe.data import binarise_alike, prepare, prepared, text_of
from bert_fused_lab.recipe.encoder import among_flags, bert_path, layer_and_width, write_random_bert
from bert_fused_lab.recipe.estimate import estimate
from bert_fused_lab.recipe.running import RECORD, Run, checksum, need, portable, say, settings_of, train
from bert_fused_lab.recipe.settings import KEPT, SHARED, SPLIT_BEFORE, Size, dropout_for, size_for
from bert_fused_lab.recipe.start import FOLDER, imported_settings, size_of_start, tags_of_start
from bert_fused_lab.recipe.systems import FUSED, SYSTEMS, System, first_seeds, near_best, of_student, training_flags
from bert_fused_plugin.errors import BertFusedError
from bert_fused_plugin.files import written_whole

_BOTH = "Are BERT and monolingual text together better than each alone?"
_SEARCH = ("--beam", "--lenpen", "--max-len-a", "--max-len-b")
_ALL = [  # flags of all trainings
    "--criterion", "bert_fused_label_smoothed_cross_entropy", "--label-smoothing", "0.1",
    "--optimizer", "adam", "--adam-betas", "(0.9, 0.98)", "--lr-scheduler", "inverse_sqrt",
    # on little text the loss rises while translations still get better; BLEU of subwords needs no rules of a language
    "--eval-bleu", "--eval-tokenized-bleu", "--eval-bleu-args", '{"beam": 1, "max_len_a": 2, "max_len_b": 10}',
    "--best-checkpoint-metric", "bleu", "--maximize-best-checkpoint-metric", "--patience", "10",
    "--validate-interval", "1000000", "--save-interval", "1000000", "--keep-interval-updates", "1",
    "--no-epoch-checkpoints", "--keep-best-checkpoints", "5", "--log-format", "simple", "--log-interval", "50",
]  # fmt: skip


@dataclass(frozen=True)
class Plan:
    """What follows from the text and the device: sizes, BERT, and flags."""

    record: Dict[str, Any]
    text: Path
    size: Size
    bert: str
    bert_flags: List[str]
    cache: List[str]
    training: List[str]
    train_flags: List[str]


class Recipe:
    """A call of the command, with the settings *args*; *run* runs the commands."""

    def __init__(self, args: Namespace, run: Run) -> None:
        self.args, self.run, self.out = args, run, args.out
        self.base = args.out / "mono" if args.mono else args.out  # of what is trained on one text
        self.seed, self.runs = args.seeds[0], self.base  # of the trainings, whose directory is that of the seed
        self._trained_anew = False  # whether a system was trained since the last report

    def do(self, steps: List[str]) -> None:
        """Do the *steps* for each seed, and those that all seeds share for the first one."""
        if not self.args.mono and (self.out / "mono" / "data-bin").exists():
            say(f"{self.out}/mono takes part only with --mono")
        for seed in self.args.seeds:
            self.seed, self.runs = seed, self._of_seed(seed, self.base)
            for step in steps:
                if seed == self.args.seeds[0] or not STEPS[step].shared:
                    STEPS[step].run(self, step)

    @cached_property
    def plan(self) -> Plan:
        """What follows from the text that is prepared."""
        args, record = self.args, prepared(self.args)
        bert, first = bert_path(record["bert"]), bert_path(args.bert or record["bert"])
        if portable(bert) != portable(first):
            raise BertFusedError(f"{self.out} was prepared with --bert {bert}; for --bert {first} give another --out")
        gpu, pairs, flags = torch.cuda.is_available(), record["pairs"], list(args.train_flags)
        if gpu and not re.search("fp16( |$)|bf16( |$)|--amp( |$)", " ".join(flags)):
            flags.insert(0, "--fp16")
        size = size_for(args, pairs, gpu, size_of_start(self.out) if args.start else None)
        layer, width = layer_and_width(bert)
        mono = prepared_mono(args)
        copies = max(1, round(mono["lines"] / (2 * pairs)))  # of the parallel text, which is then a third or more
        dropout = str(dropout_for(size, pairs + mono["lines"]))
        # a sentence in valid that is too long for the models would end the training; longer ones of train are left out
        training = ["--dropout", dropout, "--max-tokens", "4096", "--skip-invalid-size-inputs-valid-test"]
        training += [*args.training.split(), *([] if args.start else ["--share-all-embeddings"])]
        training += ["--upsample-primary", str(copies)] if args.mono else []
        tag = tags_of_start(args)[0]
        bert_flags = [*([] if layer is None else ["--bert-layer", str(layer)])]
        bert_flags += [*(["--bert-strip-tags", tag] if tag else []), *args.bert_flags]
        # a word piece for each subword and two special tokens
        pieces = copies * (record["tokens"] + 2 * pairs) + mono["tokens"] + 2 * mono["lines"]
        cache = self._cache(pieces, width)
        gpus = torch.cuda.device_count()
        if (earlier := max(1, read_json(self.out / KEPT).get("gpus", gpus))) != max(1, gpus):
            say(f"earlier trainings had batches of {earlier} GPUs, now of {max(1, gpus)}: give as many")
        device = f"{gpus} GPUs, with batches {gpus} times as large" if gpus > 1 else "a GPU" if gpu else "a CPU"
        first = f"{size.updates:,} updates (learning rate {size.lr}, warm-up {size.warmup}), then "
        say(
            f"{pairs:,} pairs on {device}: {args.start or size.fused_arch}, dropout {dropout}, "
            f"{'' if args.start else first}{size.more:,} updates (learning rate {size.more_lr}, of the control "
            f"{size.control_lr}; warm-up {size.more_warmup}); {' '.join([*bert_flags, *flags])}"
        )
        return Plan(record, text_of(args, record), size, bert, bert_flags, cache, training, flags)

    def _cache(self, pieces: int, width: int) -> List[str]:
        """Return the flags of a cache of the states of so many word pieces, if BERT is frozen and there is room."""
        room = shutil.disk_usage(self.out).free / 2e9 if self.args.cache_gb is None else self.args.cache_gb
        self._keep(cache_gb=room)
        if among_flags(self.args.bert_flags).bert_finetune:
            return []
        if pieces * width * 2 / 1e9 > room:  # two bytes a number
            say(f"BERT's states would take more than --cache-gb {room:g}, so BERT runs in every step")
            return []
        return ["--bert-cache", str(self.out / "bert-cache")]

    def prepare(self, step: str) -> None:
        """Make data-bin of the text, and prepare the monolingual text."""
        prepare(self.args, self.run)
        if self.args.mono:
            prepare_mono(self.args, text_of(self.args, prepared(self.args)))

    def estimate(self, step: str) -> None:
        """Print how long the trainings will take."""
        plain = "control" if self.args.start else "transformer"
        first = self._reverse if self.args.mono and not self.args.reverse else self.runs / plain
        if (first / RECORD).exists():
            say("estimate: skipped, because the training has begun")
        else:
            trainings = {"plain": self._command(plain), "fused": self._command("bert_fused")}
            estimate(self.args, self.run, self.plan.text, trainings)

    def reverse(self, step: str) -> None:
        """Train a transformer from the target to the source, which back_translate uses, on the parallel text alone.

        With --start, it begins with that model: one of many languages knows this direction, too.  --reverse names a
        model of this direction, which is imported and not trained.
        """
        args, plan, folder = self.args, self.plan, self._reverse
        is_used = (self.base / RECORD).exists() and (folder / "checkpoint_best.pt").exists()  # by back_translate
        if folder.exists() if args.reverse else is_used:
            say("reverse: done before")
            return
        if args.reverse:
            self.run(["bert-fused-import", "hf", args.reverse, str(folder), "-s", args.target, "-t", args.source])
            return
        command = self._command("control" if args.start else "transformer")
        command[1] = f"{self.out}/data-bin"
        dropout = dropout_for(plan.size, plan.record["pairs"])
        for flag, value in {"--save-dir": folder, "--dropout": dropout, "--upsample-primary": 1}.items():
            command[command.index(flag) + 1] = str(value)
        command += ["--source-lang", args.target, "--target-lang", args.source]
        train(self._run_training, folder, command, self.out, {})

    def back_translate(self, step: str) -> None:
        """Translate the monolingual text to the source language, and make the data-bin that all systems learn from.

        There, ``train`` is the parallel text and ``train1`` the synthetic pairs, which fairseq joins.
        """
        args, text, folder = self.args, self.plan.text, self.base
        # sampling gives the stronger signal, but with little parallel text beam search does (Edunov et al. 2018)
        is_sampled = prepared_mono(args)["lines"] > 10 * self.plan.record["pairs"]
        search = [*self._search(), "--max-len-a", "1.5", "--max-len-b", "10", "--seed", str(args.seeds[0])]
        search += ["--sampling", "--beam", "1"] if is_sampled else []
        imported = self._reverse if args.reverse else None
        if imported:
            need(imported / "checkpoint.pt", "reverse")
        search += _prefix(imported_settings(imported)["tags"] if imported else tags_of_start(args))
        model = imported / "checkpoint.pt" if imported else self._average(self._reverse)
        made_by = checksum(model) if imported else _checksums(self._reverse)
        if self._is_translated(step, folder, {"reverse": made_by, "search": search}):
            return
        places = (folder / "text", folder / "translated", args.target, args.source)
        self._translate(*places, binarise_mono(args, self.run, imported), "--path", model, *search)
        write_synthetic(args, text, imported)
        binarise_alike(args, self.run, folder / "synthetic", folder / "data-bin", self.out / "data-bin", "train1")

    def train(self, name: str) -> None:
        """Train a system."""
        system, start, origin = self._system(name), self._start, {}
        if name == "transformer" and self.args.start:
            say(f"transformer: {start}, as it was downloaded")
            return
        if system.begins:
            need(start, "prepare" if self.args.start else "transformer")
            record = read_json(start.with_name(RECORD))  # a transformer that was put there has none
            if record and not record["finished"]:
                raise BertFusedError(f"{start.parent} is not trained to its end; run the step transformer first")
            origin = {"transformer": record.get("settings")}
        if taught := self._taught_by(system):
            origin["taught by"] = [checksum(path) for path in taught]
        if system.arch == FUSED and system.begins and not self.args.start:  # a warm start looks for them there first
            for dictionary in (self.out / "data-bin").glob("dict.*.txt"):
                shutil.copy(dictionary, start.parent)
        if system.bert == "random" and not self._random_bert.is_dir():
            write_random_bert(self.plan.bert, self._random_bert)
        self._trained_anew |= train(self._run_training, self.runs / name, self._command(name), self.out, origin)

    def _taught_by(self, system: System) -> List[Path]:
        """Return the files that models have translated for the training of a *system*."""
        if self.args.mono:
            need(self.base / "data-bin", "back_translate")
        if not system.distilled:
            return sorted(self.base.glob("synthetic.*"))
        need(self._distilled / "data-bin", "distill")
        return sorted([*self.base.glob("synthetic.*"), *self._distilled.glob("train.*")])

    def distill(self, step: str) -> None:
        """Let the teacher, or the ensemble of several, translate the training text."""
        args, plan, folder = self.args, self.plan, self._distilled
        teachers = [self._average(self.base / system) for system in args.teacher]
        models = {system: _checksums(self.base / system) for system in args.teacher}
        search = [*self._search(), *_prefix(tags_of_start(args))]
        if self._is_translated(step, folder, {"teachers": models, "search": search}):
            return
        places = (plan.text, folder, args.source, args.target, self.out / "data-bin")
        flags = ["--task", "bert_fused_translation", "--path", ":".join(map(str, teachers)), *self._bert_text]
        self._translate(*places, *flags, *search)
        binarise_alike(args, self.run, folder / "train", folder / "data-bin", self.base / "data-bin")

    def _translate(self, *words: object) -> None:
        """Let models translate text to learn from; the *words* are those of `distill`."""
        precision = [flag for flag in ("--fp16", "--bf16") if flag in self.plan.train_flags]
        limits = ["--max-tokens", "4096", "--skip-invalid-size-inputs-valid-test"]
        program = ["python", "-m", "bert_fused_lab.recipe.distill"]
        self.run([*program, *map(str, words), "--user-dir", "bert_fused_plugin", *precision, *limits])

    def _is_translated(self, step: str, folder: Path, made_from: Dict[str, Any]) -> bool:
        """Return whether *folder* has the data-bin of what models have translated; otherwise, begin it."""
        if read_json(folder / RECORD) not in ({}, made_from):
            raise BertFusedError(f"{folder} was begun by another model or another search; remove it to begin anew")
        if (folder / "data-bin").exists():
            say(f"{step}: done before")
            return True
        folder.mkdir(exist_ok=True)
        write_json(folder / RECORD, made_from)
        return False

    def deploy(self, step: str) -> None:
        """Convert a plain transformer to a directory for CTranslate2, or one that began so for transformers."""
        args, plan = self.args, self.plan
        average = self._average(self.base / args.deploy)
        if args.start:
            with written_whole(exported := self.base / "deploy") as new:
                self.run(["bert-fused-export", "hf", str(average), str(new), "--imported", str(self._start.parent)])
            convert = ["ct2-transformers-converter", "--model", f"{exported}", "--output_dir", f"{exported}-int8"]
            say(f"{exported} is the model; for CTranslate2: {shlex.join(convert)} --quantization int8 --force")
            return
        if importlib.util.find_spec("ctranslate2") is None:
            self.run(["python", "-m", "pip", "install", "-q", "ctranslate2"])
        moses = {"moses": ["--moses"], "none": ["--no-moses"]}.get(among_flags(plan.bert_flags).bert_detok, [])
        words = [str(average), f"{self.out}/data-bin", str(plan.text), f"{self.base}/deploy", args.source, args.target]
        self.run(["python", "-m", "bert_fused_lab.exporting.to_ctranslate2", *words, *self._search(), *moses])
        write_json(self.base / "deploy.json", {args.deploy: _checksums(self.base / args.deploy)})

    def compare(self, step: str) -> None:
        """Write the report, unless that of the next seed will have all that this one would have."""
        if not (self._trained_anew or self.seed == self.args.seeds[-1]):
            return
        prepared(self.args)
        self._trained_anew, out, trained = False, self.out, self._trained()
        baseline = self._baseline(trained)
        if len(trained) == 1:
            raise BertFusedError(f"there is nothing to compare {baseline} with; train another system first")
        others = [name for name in trained if name != baseline]
        others.sort(key=lambda name: (baseline, name) != ("control_r_drop", "bert_fused_r_drop"))  # which comes first
        averages = {name: [*map(self._average, folders)] for name, folders in trained.items()}

        def flags(baseline: str, others: Sequence[str]) -> List[str]:
            shown = {name: ",".join(map(str, averages[name])) or f"{self._start}" for name in (baseline, *others)}
            named = [f"{name if averages[name] else 'as_downloaded'}={shown[name]}" for name in shown]
            return ["--baseline", named[0], *(word for run in named[1:] for word in ("--run", run))]

        for folder in sorted({*out.glob("seed-*"), *self.base.glob("seed-*")}):  # an earlier call may have had more
            if folder.name[5:] not in map(str, self.args.seeds) and self.seed == self.args.seeds[-1]:
                say(f"compare: {folder} is not in the report; it is with --seeds of {folder.name[5:]}, too")
        compare = ["bert-fused-compare", f"{out}/data-bin", *self._scoring, "--evidence", f"{out}/evidence"]
        page = ["--output", f"{out}/report.html", "--json", f"{out}/report.json"]
        self.run([*compare, *flags(baseline, others), *self._served(), *page])
        if {"bert_fused_mono", "control_mono", "bert_fused"} <= trained.keys():
            both = flags("bert_fused_mono", ["control_mono", "bert_fused"])
            self.run([*compare, *both, "--title", _BOTH, "--output", f"{out}/both.html"])

    def _trained(self) -> Dict[str, List[Path]]:
        """Return the folders of each trained system, one for each seed; of a model as it was downloaded, none."""
        reached = self.args.seeds[: self.args.seeds.index(self.seed) + 1]
        trained: Dict[str, List[Path]] = {"transformer": []} if self.args.start else {}
        for end, base in {"": self.out, **({"_mono": self.base} if self.args.mono else {})}.items():
            for name in SYSTEMS:
                if folders := first_seeds([self._of_seed(seed, base) / name for seed in reached]):
                    trained[name + end] = folders
        return trained

    def _baseline(self, trained: Mapping[str, List[Path]]) -> str:
        """Return the name of the system with which the report compares the other *trained* ones."""
        ends = ["", "_mono"] if self.args.mono else [""]
        usual = [f"{name}{end}" for name in ("control", "control_r_drop", "transformer") for end in ends]
        baseline = self.args.baseline or next(filter(trained.__contains__, usual), usual[-1])
        if baseline not in trained:
            name = baseline.removesuffix("_mono")
            need((self.out if name == baseline else self.base) / name / "checkpoint_best.pt", name)
        return str(baseline)

    def _served(self) -> List[str]:
        """Return the flags for the translations of what is deployed, which this makes for each test set."""
        made_from, deployed = read_json(self.base / "deploy.json"), self.base / "deploy"
        if not made_from or not deployed.exists():
            return []
        [(name, made_by)] = made_from.items()
        if _checksums(self.base / name) != made_by:
            say(f"compare: {deployed} is of an earlier training, and not in the report; run the step deploy")
            return []
        tokenised = [] if "--detok" in self._scoring else ["--tokenised"]
        log, source = self.base / "deploy.log", self.args.source
        log.unlink(missing_ok=True)
        for file in [self.plan.text / f"test.{source}", *sorted(self.plan.text.glob(f"test-*.{source}"))]:
            words = ["bert_fused_lab.exporting.measure_ctranslate2", str(deployed), str(file), *tokenised]
            self.run(["python", "-m", *words], log)
        say(log.read_text(encoding="utf-8") if log.exists() else "")
        files = [f"ctranslate2_{precision}={deployed}.{{subset}}.{precision}" for precision in ("float32", "int8")]
        return [word for file in files for word in ("--hypotheses", file)]

    def _average(self, folder: Path) -> Path:
        """Average the best checkpoints of a system, and return the file."""
        need(folder / "checkpoint_best.pt", folder.name)
        if not read_json(folder / RECORD).get("finished", True):
            say(f"{folder.name} is not trained to its end")
        output = folder / "average.pt"
        self.run(["bert-fused-average", "--inputs", *map(str, near_best(folder)), "--output", str(output)])
        return output

    def _system(self, name: str) -> System:
        system, layers = SYSTEMS[name], self.args.student
        is_student = name.startswith("student") and layers != "transformer"
        return replace(of_student(layers), distilled=system.distilled) if is_student else system

    def _command(self, name: str) -> List[str]:
        """Return the command that trains a system."""
        args, plan, system = self.args, self.plan, self._system(name)
        data = self._distilled if system.distilled else self.base
        with_bert: List[str] = []
        if system.bert:
            model = str(self._random_bert) if system.bert == "random" else plan.bert
            with_bert = ["--task", "bert_fused_translation", "--bert-model", model, *plan.bert_flags]
            with_bert += [*self._bert_text, *plan.cache]
        settings = among_flags(plan.bert_flags)  # some of these replace the identity start
        is_usual = not settings.bert_drop_net and settings.bert_fusion in (None, "parallel")
        fused_start = args.fused_start.split() or (["--bert-identity-start"] if is_usual else [])
        every = str(plan.size.every)
        return [
            "fairseq-train", f"{data}/data-bin", "--user-dir", "bert_fused_plugin",
            *training_flags(system, plan.size, self._start, fused_start), *with_bert,
            "--consistency", args.consistency, *system.flags.split(), *plan.training, *_ALL,
            "--validate-interval-updates", every, "--save-interval-updates", every, "--seed", str(self.seed),
            "--save-dir", f"{self.runs}/{name}", *plan.train_flags,
        ]  # fmt: skip

    def _run_training(self, command: List[str], *how: Any) -> None:
        """Run a training; later calls keep the settings of this one."""
        self._keep(**{name: vars(self.args)[name] for name in SHARED}, gpus=torch.cuda.device_count())
        self.run(command, *how)

    def _keep(self, **settings: Any) -> None:
        write_json(self.out / KEPT, {**read_json(self.out / KEPT), **settings})

    def _search(self) -> List[str]:
        given = settings_of(["", *self._scoring], self.out)
        return ["--beam", "5", *(str(word) for flag in _SEARCH if flag in given for word in (flag, *given[flag]))]

    @property
    def _scoring(self) -> List[str]:
        reference = f"{self.out}/text/reference.{{subset}}.{self.args.target}"
        is_raw = self.args.subwords != SPLIT_BEFORE
        of_raw = ["--reference", reference, "--max-len-a", "1.5", "--max-len-b", "10"] if is_raw else []
        return [*of_raw, *_prefix(tags_of_start(self.args)), *self._bert_text, *self.args.scoring.split()]

    def _of_seed(self, seed: int, base: Path) -> Path:
        return base if seed == self.args.seeds[0] else base / f"seed-{seed}"

    @property
    def _start(self) -> Path:
        """The checkpoint that systems begin with."""
        if self.args.start:
            return Path(self.out / FOLDER / "checkpoint.pt")
        return Path(self.runs / "transformer" / "checkpoint_best.pt")

    @property
    def _reverse(self) -> Path:
        """The directory of the model of the other direction."""
        given = self.args.reverse
        if given and (Path(given) / SETTINGS).exists():  # it is imported
            return Path(given)
        return Path(self.out / "-".join(["reverse", *re.findall(r"[\w.]+", given or "")]))

    @property
    def _bert_text(self) -> List[str]:
        return ["--bert-text", f"{self.out}/text/bert"] if self.args.bert_text else []

    @property
    def _random_bert(self) -> Path:
        return Path(self.out.resolve() / f"random-{Path(self.plan.bert).name}")  # it is read from anywhere

    @property
    def _distilled(self) -> Path:
        return Path(self.base / f"distilled-{'+'.join(self.args.teacher)}")


def _checksums(folder: Path) -> List[int]:
    return [checksum(path) for path in near_best(folder) if path.exists()]


def _prefix(tags: Sequence[str]) -> List[str]:
    return ["--prefix-size", "1"] if tags[1] else []  # a model of many languages needs that of the target


@dataclass(frozen=True)
class Step:
    """What a step does; one that is *shared* is done once for all seeds."""

    run: Callable[[Recipe, str], None]
    help: str
    default: bool = False
    shared: bool = True


_SYSTEMS = {name: Step(Recipe.train, system.help, system.default, system.shared) for name, system in SYSTEMS.items()}
_STUDENTS = {name: _SYSTEMS.pop(name) for name in ("student", "student_control")}
MONO_STEPS = {
    "reverse": Step(Recipe.reverse, "with --mono: a transformer of the other direction, or the import of --reverse"),
    "back_translate": Step(Recipe.back_translate, "with --mono: that model translates mono.TGT, on all cores or GPUs"),
}
STEPS: Dict[str, Step] = {
    "prepare": Step(Recipe.prepare, "text to OUT/data-bin", True),
    "estimate": Step(
        Recipe.estimate, "how long the trainings will take, from some updates on a part of the text", True
    ),
    **MONO_STEPS,
    **_SYSTEMS,
    "distill": Step(Recipe.distill, "TEACHER translates the training text, in parts, on all cores or GPUs"),
    **_STUDENTS,
    "deploy": Step(Recipe.deploy, "DEPLOY, a plain transformer, for CTranslate2, without fairseq or torch: OUT/deploy"),
    "compare": Step(Recipe.compare, "averages of the best checkpoints, scored: OUT/report.html", True, shared=False),
}
