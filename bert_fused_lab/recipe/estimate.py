"""How long will the trainings of a recipe take?  From some updates and translations on the same machine.

The updates and translations are those of the transformer and of BERT-fused on a part of the text, in OUT/probe:

- KIND.log is what fairseq-train says, with --log-format json: some updates, and then a validation and checkpoints;
- KIND-test.log is what fairseq-generate says.
"""

import json
import math
import re
import shutil
import statistics
import time
from argparse import Namespace
from datetime import datetime
from pathlib import Path
from typing import Dict, List, Mapping, Sequence

from bert_fused_lab.recipe.data import preprocess, sample
from bert_fused_lab.recipe.distill import processes
from bert_fused_lab.recipe.progress import minutes
from bert_fused_lab.recipe.running import Run, build_before, say, settings_of
from bert_fused_lab.recipe.start import FOLDER
from bert_fused_lab.recipe.subwords import count
from bert_fused_plugin.errors import BertFusedError

_UPDATES = 25
_CHECKPOINTS = 8  # of a system: the last one, the best one, the five best, and the one before a validation
_FUSED_TRANSLATIONS = 5  # of the test set: BERT on, off, shuffled, random, and reading off what they attend to


def estimate(args: Namespace, run: Run, text: Path, trainings: Mapping[str, Sequence[str]]) -> None:
    """Print how long the recipe will take at most, from the *text* in subwords and short *trainings*.

    These are the commands of the transformer, ``plain``, and of BERT-fused, ``fused``.
    """
    probe, languages = args.out / "probe", (args.source, args.target)
    shutil.rmtree(probe, ignore_errors=True)
    (probe / "bert").mkdir(parents=True)
    for split, number, place in (("train", 2000, text), ("valid", 500, args.out), ("test", 100, text)):
        for language in languages:
            sample(number, place / f"{split}.{language}", probe / f"{split}.{language}")
        if args.bert_text:
            sample(number, text / "bert" / f"{split}.{args.source}", probe / "bert" / f"{split}.{args.source}")
    texts = [f"--{split}pref={probe}/{split}" for split in ("train", "valid", "test")]
    preprocess(args, run, probe / "data-bin", args.out / "data-bin", *texts)
    # a model that has hardly learned translates on to the greatest length: that of the references
    source, target = (count(probe / f"test.{language}")[1] for language in languages)
    longest = {"max_len_a": target / max(1, source), "max_len_b": 1}
    plain, fused = (
        Probe(probe, kind, args.target, _try(args, run, kind, command, longest)) for kind, command in trainings.items()
    )
    settings = [settings_of(command, args.out) for command in trainings.values()]
    batches = int(str(settings[0].get("--update-freq", [1])[0]).split(",")[0])  # of an update; the probe has one
    updates, more = (batches * flags["--max-update"][0] for flags in settings)
    every = batches * settings[0]["--validate-interval-updates"][0]
    seconds = steps(plain, fused, probe, text, args.target, updates, more, every, len(args.seeds))
    if args.start:
        del seconds["transformer"]  # which was downloaded
    if args.mono:
        mono = size(args.out / "mono" / "text" / f"train.{args.target}")
        models = [args.out / FOLDER / "checkpoint.pt"] if args.start else []
        back = plain.start + mono * plain.translation / processes(models)
        reverse = {} if args.reverse else {"reverse": plain.training(updates, every)}
        seconds = {**reverse, "back_translate": back, **seconds}
        seconds["BERT's states"] += fused.states * 1.5 * mono  # the parallel text, which comes several times, is less
    times = ", ".join(f"{step} {minutes(took)}" for step, took in seconds.items())
    say(f"expected time, at most: {minutes(sum(seconds.values()))} ({times})")
    free = shutil.disk_usage(args.out).free / 1e9
    say(f"expected disk, at most: {_gigabytes(args, probe):.1f} GB for checkpoints; {free:,.0f} GB are free")
    shutil.rmtree(probe)


def _gigabytes(args: Namespace, probe: Path) -> float:
    """Return how much the checkpoints of all systems and seeds take."""
    plain, fused = ((probe / kind / "checkpoint_last.pt").stat().st_size / 1e9 for kind in ("plain", "fused"))
    number = 1 + (not args.start) + bool(args.mono and not args.reverse)  # control, transformer, reverse
    return len(args.seeds) * _CHECKPOINTS * (number * plain + fused)


def _try(args: Namespace, run: Run, kind: str, command: Sequence[str], longest: Dict[str, float]) -> float:
    """Train a little, translate, and return the seconds of the training; the last value of a flag counts."""
    probe, began = args.out / "probe", time.monotonic()
    bert_text = ["--bert-text", str(probe / "bert")] if args.bert_text and kind == "fused" else []
    fused = ["--bert-warm-start", f"{probe}/plain/checkpoint_last.pt", *bert_text] if kind == "fused" else []
    if "--bert-cache" in command:
        fused += ["--bert-cache", f"{probe}/cache"]
    limits = ["--update-freq", "1", "--max-update", str(_UPDATES), "--warmup-updates", str(_UPDATES), "--lr", "0.0001"]
    shown = ["--log-format", "json", "--log-interval", "5", "--save-dir", f"{probe}/{kind}"]
    search = ["--eval-bleu-args", json.dumps({"beam": 1, **longest})]
    training = ["fairseq-train", f"{probe}/data-bin", *command[2:], *fused, *limits, *shown, *search]
    for words in (*build_before(training), training):
        run(words, probe / f"{kind}.log")
    seconds = time.monotonic() - began
    task = ["--task", "bert_fused_translation", *bert_text] if kind == "fused" else []
    lengths = ["--max-len-a", str(longest["max_len_a"]), "--max-len-b", "1", "--skip-invalid-size-inputs-valid-test"]
    path = ["--path", f"{probe}/{kind}/checkpoint_last.pt"]
    run(
        ["fairseq-generate", f"{probe}/data-bin", "--user-dir", "bert_fused_plugin", *task, *path, *lengths],
        probe / f"{kind}-test.log",
    )
    return seconds


def size(path: Path) -> int:
    """Return the number of tokens of a text, with the ends of its sentences."""
    return sum(count(path))


class Probe:
    """What was measured of one *kind* of model, ``plain`` or ``fused``, whose training took so many *seconds*.

    Attributes:
        update: seconds of an update; the first updates do not count, in which memory warms up.
        validation: seconds of a validation and of writing its checkpoints.
        translation: seconds in which a target token of the test set is translated.
        start: seconds until a training begins, without BERT's states.

    Raises:
        BertFusedError: a log has no updates or no translations.
    """

    def __init__(self, folder: Path, kind: str, language: str, seconds: float) -> None:
        self._log = (folder / f"{kind}.log").read_text(encoding="utf-8")
        updates, trained = self._figures("train_inner", "ups"), self._figures("valid", "valid_num_updates")
        translated = (folder / f"{kind}-test.log").read_text(encoding="utf-8")
        match = re.search(r"Translated [\d,]+ sentences .* in ([\d.]+)s", translated)
        if not updates or not trained or match is None:
            raise BertFusedError(f"{folder}/{kind}.log or {kind}-test.log has no figures; their last lines say why")
        self.translation = float(match[1]) / size(folder / f"test.{language}")
        self.update = 1 / max(1e-3, statistics.median(updates[1:]))
        writing = re.findall(r"writing took ([\d.]+) seconds", self._log)
        self.validation = self._seconds_between("begin validation", "| valid |") + sum(map(float, writing))
        built = sum(map(float, re.findall(r"BERT cache: [\d,]+ word pieces in (\d+) s", self._log)))
        self.states = built / (size(folder / f"train.{language}") + size(folder / f"valid.{language}"))
        self.start = max(0.0, seconds - trained[-1] * self.update - self.validation - built)

    def _figures(self, stage: str, name: str) -> List[float]:
        return [float(json.loads(line)[name]) for line in re.findall(rf"\| {stage} \| (\{{.*\}})", self._log)]

    def _seconds_between(self, begin: str, end: str) -> float:
        """Return the time from the first line with *begin* to the first one with *end*, or 0 without such lines."""
        lines = [re.search(rf"^(.{{19}}).*{re.escape(text)}", self._log, re.M) for text in (begin, end)]
        times = [datetime.fromisoformat(line[1]) for line in lines if line is not None]
        return (times[1] - times[0]).total_seconds() if len(times) == 2 else 0.0

    def training(self, updates: int, every: int) -> float:
        """Return the seconds of a training, with a validation after *every* so many updates."""
        return self.start + updates * self.update + math.ceil(updates / every) * self.validation


def steps(
    plain: Probe, fused: Probe, probe: Path, text: Path, language: str, updates: int, more: int, every: int, seeds: int
) -> Dict[str, float]:
    """Return the seconds of each step, for all *seeds*: *updates*, *more*, and a validation after *every* so many."""
    train, valid = size(text / f"train.{language}"), size(probe / f"valid.{language}")
    tests = [text / f"test.{language}", *text.glob(f"test-*.{language}")]
    test = sum(map(size, tests))  # the comparison translates all of them
    translations = 2 * plain.translation + _FUSED_TRANSLATIONS * fused.translation
    return {
        "transformer": seeds * plain.training(updates, every),
        "control": seeds * plain.training(more, every),
        "BERT's states": fused.states * (train + valid),
        "bert_fused": seeds * fused.training(more, every),
        # after each seed all are compared
        "compare": seeds * (plain.start + test * translations * (seeds + 1) / 2),
    }
