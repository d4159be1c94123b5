"""The step prepare: from text to OUT/data-bin, and data-bins of other text that are like it."""

import os
import shutil
from argparse import Namespace
from pathlib import Path
from typing import Any, Dict, Optional

from bert_fused_lab.evidence.files import read_json
from bert_fused_lab.output import write_json
from bert_fused_lab.recipe.encoder import bert_path, choose_bert, description
from bert_fused_lab.recipe.raw_text import VALIDATED, make_text
from bert_fused_lab.recipe.running import Run, checksum, locked, need, say
from bert_fused_lab.recipe.settings import KEPT, SPLIT_BEFORE
from bert_fused_lab.recipe.start import FOLDER
from bert_fused_lab.recipe.subwords import count
from bert_fused_lab.recipe.text_checks import check_for_fairseq
from bert_fused_plugin.errors import BertFusedError

RECORD = "made-from.json"  # in data-bin


def prepare(args: Namespace, run: Run) -> None:
    """Make data-bin of the text, unless it is there.

    Raises:
        BertFusedError: the text cannot be used, or OUT holds models of other text.
    """
    out, data_bin = args.out, args.out / "data-bin"
    made_from = {"settings": text_settings(args), "files": checksums(args)}
    before = read_json(data_bin / RECORD)
    if {**before, **made_from} == before:
        say("prepare: done before")
        return
    made = [*out.rglob("checkpoint_*.pt"), *out.glob("mono/translated/parts/*-of-*")]
    made = [path for path in made if path.relative_to(out).parts[0] != "probe"]
    if made and not before:
        raise BertFusedError(f"{out} holds {made[0].relative_to(out)}, but no text of this recipe; give another --out")
    if made:
        prepared(args)
        changed = dict(before["files"].items() ^ made_from["files"].items())
        raise BertFusedError(
            f"{out} holds models or translations of other text (changed: {' '.join(sorted(changed))}); give this data "
            "another --out"
        )
    for lock in filter(Path.is_file, out.rglob("lock")):
        with locked(lock.parent, "used"):  # a training or a translation may run on where this process was killed
            pass
    out.mkdir(parents=True, exist_ok=True)
    write_json(out / KEPT, read_json(out / KEPT))  # from now on, what follows is ours
    shutil.rmtree(data_bin, ignore_errors=True)  # what follows may be interrupted
    shutil.rmtree(out / "mono", ignore_errors=True)  # its subwords are those of before
    bert, why = choose_bert(args.bert, args.source)
    path = bert_path(bert)
    say(f"prepare: BERT is {path} ({why}): {description(path, args.bert_flags)}")
    text = _text(args, path, run)
    new = _binarise(args, text, run)
    pairs, tokens = count(text / f"train.{args.source}")
    sizes = {"pairs": pairs, "tokens": tokens + count(text / f"valid.{args.source}")[1]}
    place = None if text == out / "text" else str(text)  # OUT may move
    write_json(new / RECORD, {**made_from, **sizes, "bert": bert, "text": place})
    new.rename(data_bin)


def prepared(args: Namespace) -> Dict[str, Any]:
    """Return what prepare has recorded.

    Raises:
        BertFusedError: a later call has forgotten a setting of prepare, so that the text that BERT reads would differ.
    """
    need(args.out / "data-bin" / RECORD, "prepare")
    record, now = read_json(args.out / "data-bin" / RECORD), text_settings(args)
    if record["settings"] != now:
        names = [name for name in {**record["settings"], **now} if now.get(name) != record["settings"].get(name)]
        texts = [", ".join(f"{name} {settings.get(name)}" for name in names) for settings in (record["settings"], now)]
        raise BertFusedError(
            f"{args.out}/data-bin was made with other settings (before: {texts[0]}; now: {texts[1]}); give them again, "
            "or another --out; to add seeds, keep the first one at its place: --seeds 1,2"
        )
    return record


def text_settings(args: Namespace) -> Dict[str, Any]:
    """Return the settings that the text in subwords depends on."""
    settings = {"SRC": args.source, "TGT": args.target, "--subwords": args.subwords, "--symbols": args.symbols}
    settings.update({"--start": args.start} if args.start else {})
    return {**settings, "--seeds": args.seeds[0], "--bert-text": args.bert_text is not None}


def text_of(args: Namespace, record: Dict[str, Any]) -> Path:
    """Return the directory of the text in subwords that data-bin is made from, by its *record*.

    Raises:
        BertFusedError: it is the user's, and has changed since then.
    """
    if not record["text"]:
        return Path(args.out / "text")
    text = Path(args.data or record["text"])  # which may have moved
    if checksums(Namespace(**{**vars(args), "data": text})) != record["files"]:
        raise BertFusedError(f"{text} has changed since the step prepare; put the text back, or give another --out")
    return text


def binarise_alike(args: Namespace, run: Run, train: Path, folder: Path, like: Path, name: str = "train") -> None:
    """Make *folder* a data-bin like another one, but with the text in subwords *train* as the split *name*."""
    new = folder.with_suffix(".new")
    preprocess(args, run, new, like, "--trainpref", str(train))
    for file in list(new.glob("train.*")):
        file.rename(new / file.name.replace("train", name, 1))
    for file in like.glob(f"*.{args.source}-{args.target}.*"):
        if not (new / file.name).exists():
            shutil.copy(file, new)
    new.rename(folder)


def preprocess(args: Namespace, run: Run, folder: Path, dictionaries: Optional[Path], *texts: str) -> None:
    """Make the data-bin *folder* of the *texts*, flags of fairseq-preprocess, with given or with joint dictionaries."""
    given = [f"{dictionaries}/dict.{language}.txt" for language in (args.source, args.target)]
    flags = ["--srcdict", given[0], "--tgtdict", given[1]] if dictionaries else ["--joined-dictionary"]
    shutil.rmtree(folder, ignore_errors=True)  # of a call that was interrupted
    run(
        ["fairseq-preprocess", "--source-lang", args.source, "--target-lang", args.target, *flags, *texts,
         "--destdir", str(folder), "--workers", str(len(os.sched_getaffinity(0)))],
        folder.with_suffix(".log"),
    )  # fmt: skip


def sample(number: int, path: Path, output: Path) -> None:
    """Copy so many lines, evenly, since text may be sorted by length."""
    with path.open("rb") as file:
        total = sum(1 for _ in file)
    with path.open("rb") as file:
        chosen = [line for n, line in enumerate(file) if (n + 1) * number // total > n * number // total]
    output.write_bytes(b"".join(line.rstrip(b"\n") + b"\n" for line in chosen))


def checksums(args: Namespace) -> Dict[str, int]:
    """Return checksums of the user's text, wherever it is."""
    found = {}
    for folder, languages in ((args.data, (args.source, args.target)), (args.bert_text, (args.source,))):
        for language in languages if folder else ():
            for pattern in ("train", "valid", "test", "test-*"):
                for path in sorted(folder.glob(f"{pattern}.{language}")):
                    found[f"{'--bert-text ' * (folder == args.bert_text)}{path.name}"] = checksum(path)
    return found


def _text(args: Namespace, bert: str, run: Run) -> Path:
    """Return the directory of the text in subwords, which is made unless it is the user's."""
    text, is_split = args.out / "text", args.subwords == SPLIT_BEFORE
    if args.script and not (args.data and is_split):
        raw = text if is_split else args.out / "raw"
        raw.mkdir(exist_ok=True)
        run([args.script, str(raw), *([str(args.data)] if args.data else [])])
        args = Namespace(**{**vars(args), "data": raw})
    if is_split:
        return Path(args.data)
    make_text(args, run, bert)
    return Path(text)


def _binarise(args: Namespace, text: Path, run: Run) -> Path:
    """Return a new data-bin of {train,valid,test,test-*} in *text*, with joint dictionaries; of valid 500 lines."""
    further = sorted(path.stem for path in text.glob(f"test-*.{args.source}"))
    languages = (args.source, args.target)
    if commas := [split for split in further if "," in split]:
        raise BertFusedError(f"{text}/{commas[0]}.*: fairseq splits names at commas; rename these files")
    for split in ("train", "valid", "test", *further) if args.subwords == SPLIT_BEFORE else ():
        check_for_fairseq([text / f"{split}.{language}" for language in languages])
    for language in languages:
        sample(VALIDATED, text / f"valid.{language}", args.out / f"valid.{language}")
    if (lines := count(text / f"valid.{args.source}")[0]) > VALIDATED:
        say(f"prepare: trainings validate on {VALIDATED} of the {lines:,} pairs of valid, evenly taken")
    if args.bert_text:  # of the same sentences
        read = text / "bert" / f"valid.{args.source}"
        sample(VALIDATED, read, read)
    tests = ",".join(str(text / split) for split in ("test", *further))
    texts = ["--trainpref", f"{text}/train", "--validpref", f"{args.out}/valid", "--testpref", tests]
    new = args.out / "data-bin.new"
    preprocess(args, run, new, args.out / FOLDER if args.start else None, *texts)
    for number, split in enumerate(further, start=1):  # fairseq has called them test1, test2, ...
        for file in new.glob(f"test{number}.*"):
            file.rename(new / file.name.replace(f"test{number}", split, 1))
    return new
