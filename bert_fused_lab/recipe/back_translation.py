"""Monolingual text of the target language: cleaned, translated back, and filtered (Sennrich et al. 2016).

    python -m bert_fused_lab.recipe.back_translation TEXT MONO SRC TGT DATA_BIN --path CHECKPOINT [further flags]

MONO/text/train.TGT is this text in subwords.  With the flags of fairseq-generate, a model of the other direction
translates it in parts, as in `distill`.  MONO/synthetic.{SRC,TGT} are the pairs that pass the filter.  Each of their
sources begins with a tag (Caswell et al. 2019): ``<s>``, which is in all of fairseq's dictionaries and in no text, and
which the plug-in does not show to BERT.
"""

import math
import shutil
import sys
from argparse import Namespace
from collections import Counter
from pathlib import Path
from typing import Callable, Dict, List, Optional, Sequence

from fairseq.data import Dictionary
from sentencepiece import SentencePieceProcessor
from tqdm import tqdm

from bert_fused_lab.importing.import_hf import SETTINGS
from bert_fused_lab.recipe import distill
from bert_fused_lab.recipe.data import MONO_RECORD, binarise_alike
from bert_fused_lab.recipe.running import Run, checksum, need, read_json, say, write_json
from bert_fused_lab.recipe.settings import SPLIT_BEFORE
from bert_fused_lab.recipe.splitting import read_pairs
from bert_fused_lab.recipe.start import FOLDER, imported_settings, splits_of_import
from bert_fused_lab.recipe.subwords import Split, learned, split_file
from bert_fused_lab.recipe.text_checks import Findings, check_file
from bert_fused_plugin.errors import BertFusedError, raise_all
from bert_fused_plugin.files import written_whole

TAG = "<s>"
# A sentence has at most 1.5 n + 10 and 3 n subwords if its translation has n; what the search has cut has more.
_LONGER, _MORE, _LONGEST = 1.5, 10, 3


def prepare_mono(args: Namespace, text: Path) -> None:
    """Check and clean the monolingual text, and split it into the subwords of the parallel *text*.

    Raises:
        BertFusedError: the text cannot be used, or it has changed.
    """
    mono, folder = args.mono / f"mono.{args.target}", args.out / "mono"
    digest, before = checksum(mono), read_json(folder / MONO_RECORD)
    if before.get("checksum", digest) != digest:
        raise BertFusedError(f"{folder} was made from another {mono.name}; remove it, or give another --out")
    if before:
        return
    findings = Findings()
    check_file(mono, findings, args.subwords == "subword-nmt")
    for warning in findings.warnings:
        print(f"warning: {warning}", file=sys.stderr)
    raise_all(findings.errors)
    tags = imported_settings(args.out / FOLDER)["tags"] if args.start else ["", ""]
    subwords = FOLDER if args.start else args.subwords
    split = _splits(subwords, args.out, text, (args.source, args.target))[args.target]
    known = Dictionary.load(f"{args.out}/data-bin/dict.{args.target}.txt")
    parallel = [file for name in ("train", "valid", "test*") for file in text.glob(f"{name}.{args.target}")]
    leaning = leaning_between(text / f"train.{args.source}", text / f"train.{args.target}", tags)
    seen, total, lines, tokens = {hash(line) for file in parallel for line in distill.read(file)}, 0, 0, 0
    shutil.rmtree(folder / "text", ignore_errors=True)
    (folder / "text").mkdir(parents=True)
    files = [folder / "text" / f"{name}.{args.target}" for name in ("train", "raw")]
    with files[0].open("w", encoding="utf-8") as out, files[1].open("w", encoding="utf-8") as raw:
        for (plain,) in tqdm(read_pairs([mono]), desc=f"reading {mono.name}", unit=" lines", disable=None):
            total, words = total + 1, split(plain).split()
            line = " ".join(words)
            if leaning(line) < 0 and hash(line) not in seen and all(word in known for word in words):
                seen.add(hash(line))
                lines, tokens = lines + 1, tokens + len(words)
                out.write(f"{line}\n")
                raw.write(f"{plain}\n")
    if not lines:
        raise BertFusedError(f"{mono} has no line that can be translated back; give other sentences of {args.target}")
    say(
        f"prepare: {lines:,} of {total:,} lines of {mono.name} are translated back; the others are empty, come twice, "
        "are in the parallel text, look like another language, or have symbols that its training text has not"
    )
    record = {"checksum": digest, "lines": lines, "tokens": tokens, "tags": tags, "subwords": subwords}
    write_json(folder / MONO_RECORD, record)


def prepared_mono(args: Namespace) -> Dict[str, int]:
    """Return how many ``lines`` and ``tokens`` the monolingual text has, if some is given."""
    if not args.mono:
        return {"lines": 0, "tokens": 0}
    need(args.out / "mono" / MONO_RECORD, "prepare")
    return read_json(args.out / "mono" / MONO_RECORD)


def mono_errors(args: Namespace) -> List[str]:
    """Return a sentence for each problem with the settings of the monolingual text."""
    if not args.mono:
        names = [f"the step {step}" for step in args.steps if step in ("reverse", "back_translate")]
        names += ["--reverse"] if args.reverse else []
        return [f"{name} needs --mono; give the directory of the monolingual text" for name in names]
    errors = ["--bert-text has no synthetic text, as --mono needs; leave one of them out"] if args.bert_text else []
    if args.reverse and args.subwords == SPLIT_BEFORE:
        errors.append("--reverse reads raw text, which --subwords none does not have; leave one of them out")
    if not (args.mono / f"mono.{args.target}").is_file():
        errors.append(f"--mono {args.mono} has no mono.{args.target}; give the directory of this file")
    return errors


def back_translate(args: Namespace, run: Run, text: Path, flags: Sequence[str], imported: Optional[Path]) -> None:
    """Translate the monolingual text with the *flags* of fairseq-generate, and make OUT/mono/data-bin.

    There, ``train`` is the parallel text and ``train1`` the synthetic pairs, which fairseq joins to one training set.
    *imported* is the directory of the model of --reverse, which has subwords of its own.
    """
    folder, sets = args.out / "mono", (args.out / "valid", text / "test")
    data, new = folder / "text" / "data-bin", folder / "data-bin.new"
    if not data.exists():
        train = folder / "text" / "train"
        if imported:
            train = _split_for(imported, folder / "text", args.source, args.target)
        else:  # fairseq wants the other side, too, which nothing reads
            shutil.copy(f"{train}.{args.target}", f"{train}.{args.source}")
        binarise_alike(args, run, train, *sets, data.with_suffix(".new"), imported)
        data.with_suffix(".new").rename(data)
    words = ["python", "-m", "bert_fused_lab.recipe.back_translation", str(text), str(folder), args.source, args.target]
    run([*words, str(data), "--source-lang", args.target, "--target-lang", args.source, *flags])
    binarise_alike(args, run, folder / "synthetic", *sets, new)
    for file in sorted(new.glob("train.*")):
        file.rename(new / file.name.replace("train", "train1", 1))
    for file in (args.out / "data-bin").glob("train.*"):
        shutil.copy(file, new)
    new.rename(folder / "data-bin")


def main(text: Path, folder: Path, source: str, target: str, command: Sequence[str]) -> None:
    """Translate, filter, and write the pairs; *text* is the directory of the parallel text.

    Raises:
        BertFusedError: no pair passes the filter.
    """
    translated, record = folder / "translated", read_json(folder / MONO_RECORD)
    tags, reverse = record["tags"], Path(command[command.index("--path") + 1]).parent
    distill.main(folder / "text", translated, target, source, command)
    both = [distill.read(translated / f"train.{language}") for language in (source, target)]
    if (reverse / SETTINGS).exists():
        split = _splits(record["subwords"], folder.parent, text, (source, target))[source]
        known = Dictionary.load(f"{folder.parent}/data-bin/dict.{source}.txt")
        both[0] = _rewritten(both[0], reverse, split, known)
    texts = zip(both, tags)
    sources, targets = ([line.removeprefix(tag).lstrip() for line in lines] for lines, tag in texts)
    leaning = leaning_between(text / f"train.{source}", text / f"train.{target}", tags)
    faults = [fault(*pair, leaning) for pair in zip(sources, targets)]
    kept = [pair for *pair, reason in zip(sources, targets, faults) if not reason]
    counts = ", ".join(f"{count:,} {reason}" for reason, count in sorted(Counter(filter(None, faults)).items()))
    say(f"back_translate: {len(kept):,} pairs for training; left out: {counts or 'none'}")
    if not kept:
        raise BertFusedError(f"{translated} has no usable translation; train reverse longer, or give another --reverse")
    for language, tag, lines in zip((source, target), (f"{TAG} {tags[0]}".rstrip(), tags[1]), zip(*kept)):
        with written_whole(folder / f"synthetic.{language}") as new:
            new.write_text("".join(f"{tag} {line}".lstrip() + "\n" for line in lines), encoding="utf-8")


def _splits(kind: str, out: Path, text: Path, languages: Sequence[str]) -> Dict[str, Split]:
    """Return for each language the function that splits a line as the parallel text is split."""
    if kind == FOLDER:
        return splits_of_import(out / FOLDER, languages)
    return dict.fromkeys(languages, str if kind == SPLIT_BEFORE else learned(kind, text))


def _split_for(imported: Path, text: Path, source: str, target: str) -> Path:
    """Split the raw text for an *imported* model, and return the place of the files without their languages."""
    train, tag = text / "for-reverse", imported_settings(imported)["tags"][1]
    split_file(text / f"raw.{target}", Path(f"{train}.{target}"), splits_of_import(imported, (target, source))[target])
    other = f"{tag or '.'}\n" * len(distill.read(text / f"raw.{target}"))  # of it, only the tag is read
    Path(f"{train}.{source}").write_text(other, encoding="utf-8")
    return train


def _rewritten(lines: Sequence[str], imported: Path, split: Split, known: Dictionary) -> List[str]:
    """Join what an *imported* model has translated, and *split* it; with unknown symbols, a line becomes empty."""
    join = SentencePieceProcessor(model_file=str(imported / "target.spm")).decode
    tag = imported_settings(imported)["tags"][1]
    texts = (line.removeprefix(tag).split() for line in lines)
    new = ("" if "<unk>" in pieces else split(join(pieces)) for pieces in texts)
    return [line if all(word in known for word in line.split()) else "" for line in new]


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


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], sys.argv[4], sys.argv[5:])
