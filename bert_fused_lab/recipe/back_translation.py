"""Monolingual text of the target language: cleaned, translated back, and filtered (Sennrich et al. 2016).

    python -m bert_fused_lab.recipe.back_translation TEXT MONO SRC TGT DATA_BIN --path CHECKPOINT [further flags]

The step prepare writes the text in subwords to MONO/text/train.TGT.  The command above, with flags of fairseq-generate,
lets a model of the opposite direction translate it, in parts as `distill` does.  MONO/synthetic.{SRC,TGT} are the pairs
that pass the filter.  Each of their sources begins with a tag (Caswell et al. 2019): ``<s>``, which is in each of
fairseq's dictionaries and in no text, and which the plug-in does not show to BERT.
"""

import math
import shutil
import sys
from argparse import Namespace
from collections import Counter
from pathlib import Path
from typing import Callable, Dict, Iterable, Iterator, List, Sequence, Tuple

from fairseq.data import Dictionary
from tqdm import tqdm

from bert_fused_lab.recipe import distill
from bert_fused_lab.recipe.data import binarise_alike
from bert_fused_lab.recipe.running import Run, checksum, need, read_json, say, write_json
from bert_fused_lab.recipe.settings import SPLIT_BEFORE
from bert_fused_lab.recipe.splitting import read_pairs
from bert_fused_lab.recipe.subwords import learned
from bert_fused_lab.recipe.text_checks import Findings, check_file
from bert_fused_plugin.errors import BertFusedError, raise_all
from bert_fused_plugin.files import written_whole

TAG = "<s>"
_TEXT = "text.json"  # in OUT/mono: what was prepared
_LONGER, _MORE, _LONGEST = 1.5, 10, 3  # a sentence has at most 1.5 n + 10 and 3 n subwords if its translation has n
_SAMPLED_FROM = 10  # times the parallel text


def prepare_mono(args: Namespace, text: Path) -> None:
    """Check and clean the monolingual text, and split it into the subwords of the parallel *text*.

    Raises:
        BertFusedError: the text cannot be used, or it has changed.
    """
    given, folder = args.mono / f"mono.{args.target}", args.out / "mono"
    found, before = checksum(given), read_json(folder / _TEXT)
    if before.get("checksum", found) != found:
        raise BertFusedError(f"{folder} was made from another {given.name}; remove it, or give another --out")
    if before:
        say("prepare: the monolingual text was done before")
        return
    findings = Findings()
    check_file(given, findings, args.subwords == "subword-nmt")
    for warning in findings.warnings:
        print(f"warning: {warning}", file=sys.stderr)
    raise_all(findings.errors)
    split = str if args.subwords == SPLIT_BEFORE else learned(args.subwords, text)
    known = Dictionary.load(f"{args.out}/data-bin/dict.{args.target}.txt")
    parallel = [file for name in ("train", "valid", "test*") for file in text.glob(f"{name}.{args.target}")]
    seen, total, lines, tokens = {hash(line) for file in parallel for line in distill.read(file)}, 0, 0, 0
    (folder / "text").mkdir(parents=True, exist_ok=True)
    with written_whole(folder / "text" / f"train.{args.target}") as new, new.open("w", encoding="utf-8") as out:
        for (plain,) in tqdm(read_pairs([given]), desc=f"reading {given.name}", unit=" lines", disable=None):
            total, words = total + 1, split(plain).split()
            line = " ".join(words)
            if line and hash(line) not in seen and all(word in known for word in words):
                seen.add(hash(line))
                lines, tokens = lines + 1, tokens + len(words)
                out.write(f"{line}\n")
    say(
        f"prepare: {lines:,} of {total:,} lines of {given.name} are translated back; the others are empty, come twice, "
        "are in the parallel text, or have symbols that its training text has not"
    )
    if not lines:
        raise BertFusedError(f"{given} has no line that can be translated back; give other sentences")
    write_json(folder / _TEXT, {"checksum": found, "lines": lines, "tokens": tokens})


def prepared_mono(args: Namespace) -> Dict[str, int]:
    """Return how many ``lines`` and ``tokens`` the monolingual text has, if some is given."""
    if args.mono:
        need(args.out / "mono" / _TEXT, "prepare")
        return read_json(args.out / "mono" / _TEXT)
    return {"lines": 0, "tokens": 0}


def mono_errors(args: Namespace) -> List[str]:
    """Return a sentence for each problem with the settings of the monolingual text."""
    if not args.mono:
        steps = [step for step in args.steps if step in ("reverse", "back_translate")]
        return [f"the step {step} needs --mono; give the directory of the monolingual text" for step in steps]
    errors = []
    if not (args.mono / f"mono.{args.target}").is_file():
        errors.append(f"--mono {args.mono} has no mono.{args.target}; give the directory of this file")
    if args.bert_text:
        errors.append("--bert-text has no text for what is translated back from --mono; leave one of them out")
    return errors


def search_flags(lines: int, pairs: int, beam: Sequence[str]) -> Sequence[str]:
    """Return the flags of the search for so many *lines* of monolingual text; *beam* are those of beam search.

    Sampling gives the stronger signal, but with little parallel text beam search does (Edunov et al. 2018).
    """
    sampled = lines > _SAMPLED_FROM * pairs
    return [
        *(["--sampling", "--beam", "1"] if sampled else beam),
        "--max-len-a",
        str(_LONGER),
        "--max-len-b",
        str(_MORE),
    ]


def upsampling(lines: int, pairs: int) -> int:
    """Return how often an epoch has the parallel text: so often that it is at least a third of all, about."""
    return max(1, round(lines / (2 * pairs)))


def back_translate(args: Namespace, run: Run, text: Path, flags: Sequence[str]) -> None:
    """Translate the monolingual text with the *flags* of fairseq-generate, and make OUT/mono/data-bin.

    There, ``train`` is the parallel text and ``train1`` the synthetic pairs, which fairseq joins to one training set.
    """
    folder, languages = args.out / "mono", (args.target, args.source)
    given = folder / "text" / "data-bin"
    if not given.exists():
        run(
            ["fairseq-preprocess", "--source-lang", args.target, "--target-lang", args.source, "--only-source",
             "--srcdict", f"{args.out}/data-bin/dict.{args.target}.txt", "--trainpref", f"{folder}/text/train",
             "--destdir", f"{given}.new", "--workers", "2"], folder / "text" / "data-bin.log",
        )  # fmt: skip
        for dictionary in (args.out / "data-bin").glob("dict.*.txt"):
            shutil.copy(dictionary, f"{given}.new")
        given.with_suffix(".new").rename(given)
    ways = [word for side, language in zip(("source", "target"), languages) for word in (f"--{side}-lang", language)]
    module = ["python", "-m", "bert_fused_lab.recipe.back_translation"]
    run([*module, str(text), str(folder), args.source, args.target, str(given), *ways, *flags])
    new = folder / "data-bin.new"
    binarise_alike(args, run, folder / "synthetic", args.out / "valid", text / "test", new)
    for file in sorted(new.glob("train.*")):
        file.rename(new / f"train1{file.name[len('train') :]}")
    for file in (args.out / "data-bin").glob("train.*"):
        shutil.copy(file, new)
    new.rename(folder / "data-bin")


def main(text: Path, folder: Path, source: str, target: str, command: Sequence[str]) -> None:
    """Translate, filter, and write the pairs; *text* is the directory of the parallel text.

    Raises:
        BertFusedError: no pair passes the filter.
    """
    translated, left_out, kept = folder / "translated", Counter[str](), 0
    translated.mkdir(exist_ok=True)
    distill.main(folder / "text", translated, target, source, command)
    files = [folder / f"synthetic.{language}" for language in (source, target)]
    pairs = zip(*(distill.read(translated / f"train.{language}") for language in (source, target)))
    leaning = leaning_between(text / f"train.{source}", text / f"train.{target}")
    with written_whole(files[0]) as new_source, written_whole(files[1]) as new_target:
        with new_source.open("w", encoding="utf-8") as sources, new_target.open("w", encoding="utf-8") as targets:
            for pair in filtered(pairs, leaning, left_out):
                sources.write(f"{TAG} {pair[0]}\n")
                targets.write(f"{pair[1]}\n")
                kept += 1
        said = ", ".join(f"{count:,} {reason}" for reason, count in sorted(left_out.items())) or "none"
        say(f"back_translate: {kept:,} pairs for training; left out: {said}")
        if not kept:
            raise BertFusedError(
                f"no translation in {translated} can be used; is mono.{target} in that language, and was the model in "
                "OUT/reverse trained long enough?"
            )


def filtered(
    pairs: Iterable[Tuple[str, str]], leaning: Callable[[str], float], left_out: "Counter[str]"
) -> Iterator[Tuple[str, str]]:
    """Yield the pairs that may be translations of each other; *left_out* counts the others by their reasons.

    A translation that was cut at the greatest length of the search is longer than this length check allows.
    """
    for source, target in pairs:
        shorter, longer = sorted(len(line.split()) for line in (source, target))
        if not shorter or "<unk>" in source.split():
            left_out["empty or with unknown symbols"] += 1
        elif source == target:
            left_out["copied"] += 1
        elif longer > min(_LONGER * shorter + _MORE, _LONGEST * shorter):
            left_out["too long or too short"] += 1
        elif leaning(source) <= 0 or leaning(target) >= 0:
            left_out["in another language"] += 1
        else:
            yield source, target


def leaning_between(source: Path, target: Path) -> Callable[[str], float]:
    """Return the function that says how much more a line looks like the text *source* than like the text *target*.

    It is the logarithm of the ratio of two probabilities, by how often each text has the line's subwords.
    """
    first, second = (Counter(word for line in distill.read(path) for word in line.split()) for path in (source, target))
    words = first.keys() | second.keys()
    sizes = math.log((sum(first.values()) + len(words)) / (sum(second.values()) + len(words)))
    weights = {word: math.log((first[word] + 1) / (second[word] + 1)) - sizes for word in words}
    return lambda line: sum(weights.get(word, 0.0) for word in line.split())


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], sys.argv[4], sys.argv[5:])
