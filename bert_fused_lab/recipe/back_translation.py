"""Monolingual text of the target language: cleaned, translated back, and filtered (Sennrich et al. 2016).

OUT/mono/text/train.TGT is this text in subwords.  A model of the other direction translates it in parts, as in
`distill`, to OUT/mono/translated.  OUT/mono/synthetic.{SRC,TGT} are the pairs that pass the filter.  Each of their
sources begins with a tag (Caswell et al. 2019): ``<s>``, which is in all of fairseq's dictionaries and in no text, and
which the plug-in does not show to BERT.
"""

import math
import shutil
from argparse import Namespace
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import Callable, Dict, Iterable, Iterator, List, Optional, Sequence

from fairseq.data import Dictionary
from sentencepiece import SentencePieceProcessor
from tqdm import tqdm

from bert_fused_lab.evidence.files import read_json
from bert_fused_lab.output import write_json
from bert_fused_lab.recipe import distill
from bert_fused_lab.recipe.data import binarise_alike
from bert_fused_lab.recipe.raw_text import splits_of_text
from bert_fused_lab.recipe.running import Run, checksum, need, say
from bert_fused_lab.recipe.settings import SPLIT_BEFORE
from bert_fused_lab.recipe.splitting import read_pairs
from bert_fused_lab.recipe.start import imported_settings, splits_of_import, tags_of_start, vocabulary_size
from bert_fused_lab.recipe.subwords import count, split_file
from bert_fused_lab.recipe.text_checks import Findings, check_file
from bert_fused_plugin.errors import BertFusedError
from bert_fused_plugin.files import written_whole

TAG = "<s>"
_RECORD = "text.json"  # in OUT/mono: what prepare_mono has made
# A sentence has at most 1.5 n + 10 and 3 n subwords if its translation has n; what the search has cut has more.
_LONGER, _MORE, _LONGEST = 1.5, 10, 3


def prepare_mono(args: Namespace, text: Path) -> None:
    """Check and clean the monolingual text, and split it into the subwords of the parallel *text*.

    Raises:
        BertFusedError: the text cannot be used.
    """
    mono, folder = args.mono / f"mono.{args.target}", args.out / "mono"
    if (folder / _RECORD).exists():
        return
    findings = Findings()
    total = check_file(mono, findings, args.subwords in ("subword-nmt", SPLIT_BEFORE))
    findings.report()
    split = splits_of_text(args, text)[args.target]
    known = Dictionary.load(f"{args.out}/data-bin/dict.{args.target}.txt")
    leaning = leaning_between(text / f"train.{args.source}", text / f"train.{args.target}", tags_of_start(args))
    parallel = [file for name in ("train", "valid", "test*") for file in text.glob(f"{name}.{args.target}")]
    seen = {hash(" ".join(line.split())) for file in parallel for line in distill.read(file)}
    shutil.rmtree(folder / "text", ignore_errors=True)
    (folder / "text").mkdir(parents=True)
    faults: Counter[str] = Counter()
    files = [folder / "text" / f"{name}.{args.target}" for name in ("train", "raw")]
    with files[0].open("w", encoding="utf-8") as out, files[1].open("w", encoding="utf-8") as raw:
        for (plain,) in tqdm(read_pairs([mono]), desc=f"reading {mono.name}", unit=" lines", disable=None):
            words = split(plain).split()
            line = " ".join(words)
            faults[
                reason := "empty" if not plain
                else "twice or in the parallel text" if hash(line) in seen
                else "with symbols that the parallel text lacks" if not all(word in known for word in words)
                else "in another language" if leaning(line) >= 0
                else ""
            ] += 1  # fmt: skip
            if not reason:
                seen.add(hash(line))
                out.write(f"{line}\n")
                raw.write(f"{plain}\n")
    if args.start and not args.reverse and not tags_of_start(args)[1]:
        say("prepare: reverse will begin with a model of the other direction alone; --reverse names one of its own")
    lines, tokens = count(files[0])
    if not lines:
        raise BertFusedError(f"{mono} has no line that can be translated back; give other sentences of {args.target}")
    say(f"prepare: {lines:,} of {total:,} lines of {mono.name} are translated back; left out: {_listed(faults)}")
    write_json(folder / _RECORD, {"checksum": checksum(mono), "lines": lines, "tokens": tokens})


def prepared_mono(args: Namespace) -> Dict[str, int]:
    """Return how many ``lines`` and ``tokens`` the monolingual text has, if some is given."""
    if not args.mono:
        return {"lines": 0, "tokens": 0}
    need(args.out / "mono" / _RECORD, "prepare")
    return read_json(args.out / "mono" / _RECORD)


def mono_errors(args: Namespace) -> List[str]:
    """Return a sentence for each problem with the settings of the monolingual text."""
    if not args.mono:
        names = [f"the step {step}" for step in args.steps if step in ("reverse", "back_translate")]
        names += ["--reverse"] if args.reverse else []
        return [f"{name} needs --mono; give the directory of the monolingual text" for name in names]
    errors = ["--bert-text has no synthetic text, as --mono needs; leave one of them out"] if args.bert_text else []
    if args.reverse and args.subwords == SPLIT_BEFORE:
        errors.append("--reverse reads raw text, which --subwords none does not have; leave one of them out")
    mono, folder = args.mono / f"mono.{args.target}", args.out / "mono"
    if not mono.is_file():
        errors.append(f"--mono {args.mono} has no {mono.name}; give the directory of this file")
    elif read_json(folder / _RECORD).get("checksum", digest := checksum(mono)) != digest:
        errors.append(f"{folder} was made from another {mono.name}; remove it, or give another --out")
    if args.reverse and "reverse" in args.steps and not (folder / "data-bin").exists():  # before text is read
        try:
            vocabulary_size("--reverse", args.reverse, args.target, args.source)
        except BertFusedError as error:
            errors += error.errors
    return errors


def binarise_mono(args: Namespace, run: Run, imported: Optional[Path]) -> Path:
    """Return the data-bin of the monolingual text for the model that translates it, which is made unless it is there.

    *imported* is the directory of the model of --reverse, which has subwords of its own.
    """
    folder, name, tag = args.out / "mono" / "text", "train", tags_of_start(args)[0]
    data = folder / "data-bin"
    if data.exists():
        return data
    if imported:
        name, tag = "for-reverse", imported_settings(imported)["tags"][1]
        split = splits_of_import(imported, (args.target, args.source))[args.target]
        split_file(folder / f"raw.{args.target}", folder / f"{name}.{args.target}", split)
    # fairseq wants the other side, too, of which only the tag is read
    (folder / f"{name}.{args.source}").write_text(f"{tag or '.'}\n" * prepared_mono(args)["lines"], encoding="utf-8")
    binarise_alike(args, run, folder / name, data, imported or args.out / "data-bin")
    return data


def write_synthetic(args: Namespace, text: Path, imported: Optional[Path]) -> None:
    """Write those pairs of OUT/mono/translated that pass the filter, in the subwords of the parallel *text*.

    Raises:
        BertFusedError: no pair passes it.
    """
    folder, languages, tags = args.out / "mono", (args.source, args.target), tags_of_start(args)
    sources, targets = (distill.read(folder / "translated" / f"train.{language}") for language in languages)
    if imported:
        sources = _rewritten(args, text, imported, sources)
    leaning = leaning_between(text / f"train.{args.source}", text / f"train.{args.target}", tags)
    faults: Counter[str] = Counter()
    with ExitStack() as opened:
        new = [opened.enter_context(written_whole(folder / f"synthetic.{language}")) for language in languages]
        files = [opened.enter_context(path.open("w", encoding="utf-8")) for path in new]
        for lines in zip(sources, targets):
            source, target = (line.removeprefix(tag).lstrip() for line, tag in zip(lines, tags))
            faults[reason := fault(source, target, leaning)] += 1
            if not reason:
                for file, tag, line in zip(files, (f"{TAG} {tags[0]}".rstrip(), tags[1]), (source, target)):
                    file.write(f"{tag} {line}".lstrip() + "\n")
        say(f"back_translate: {faults['']:,} pairs for training; left out: {_listed(faults)}")
        if not faults[""]:
            raise BertFusedError(
                f"{folder}/translated has no usable translation; remove {folder}, and train reverse longer, or give "
                "another --reverse"
            )


def _rewritten(args: Namespace, text: Path, imported: Path, lines: Iterable[str]) -> Iterator[str]:
    """Split what an *imported* model has translated as the *text* is; with unknown symbols, a line becomes empty."""
    join = SentencePieceProcessor(model_file=str(imported / "target.spm")).decode
    tag, split = imported_settings(imported)["tags"][1], splits_of_text(args, text)[args.source]
    known = Dictionary.load(f"{args.out}/data-bin/dict.{args.source}.txt")
    texts = (line.removeprefix(tag).split() for line in lines)
    new = ("" if "<unk>" in pieces else split(join(pieces)) for pieces in texts)
    return (line if all(word in known for word in line.split()) else "" for line in new)


def _listed(faults: "Counter[str]") -> str:
    return ", ".join(f"{count:,} {reason}" for reason, count in sorted(faults.items()) if reason) or "none"


def fault(source: str, target: str, leaning: Callable[[str], float]) -> str:
    """Return why *source* can be no translation of *target*, if there is a reason."""
    shorter, longer = sorted(len(line.split()) for line in (source, target))
    if not shorter or "<unk>" in source.split():
        return "empty or with unknown symbols"
    if source == target:
        return "copied"
    if longer > min(_LONGER * shorter + _MORE, _LONGEST * shorter):
        return "too long or too short"
    return "" if leaning(source) > 0 else "in another language"


def leaning_between(source: Path, target: Path, tags: Sequence[str] = ()) -> Callable[[str], float]:
    """Return the function that says how much more a line looks like the text *source* than like the text *target*.

    It is the logarithm of the ratio of two probabilities, by how often each text has the line's subwords.  *tags* do
    not count.
    """
    first, second = (Counter(word for line in distill.read(path) for word in line.split()) for path in (source, target))
    words = (first.keys() | second.keys()).difference(tags)
    sizes = math.log((sum(first.values()) + len(words)) / (sum(second.values()) + len(words)))
    weights = {word: math.log((first[word] + 1) / (second[word] + 1)) - sizes for word in words}
    return lambda line: sum(weights.get(word, 0.0) for word in line.split())
