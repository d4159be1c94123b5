"""The pre-trained translation model that --start names: its import in OUT/start, its subwords, and its fine-tuning."""

import json
import shutil
from argparse import Namespace
from dataclasses import replace
from pathlib import Path
from typing import Any, Dict, List, Sequence

from sentencepiece import SentencePieceProcessor
from transformers import AutoConfig

from bert_fused_lab.importing.import_hf import SETTINGS
from bert_fused_lab.recipe.running import Run
from bert_fused_lab.recipe.settings import Size
from bert_fused_lab.recipe.subwords import KINDS, Split
from bert_fused_lab.recipe.systems import SYSTEMS
from bert_fused_plugin.errors import BertFusedError

FOLDER = "start"  # in OUT
_MANY = 100_000  # symbols; M2M100, NLLB and mBART-50 have more, OPUS-MT has fewer
# mBART is fine-tuned with this rate for at most 40,000 updates (Liu et al. 2020, TACL 8); its warm-up of 2,500 is for
# 600,000 pairs, and the recipe's text is mostly less.  Dropout is theirs, too: 0.3.
_FINE_TUNING = Size("", "", "", 0, 0, 0.0, 0.0, 40_000, 500, 3e-5, 3e-5, 250)


def import_model(args: Namespace, text: Path, run: Run) -> None:
    """Import the model to OUT/start; of a large vocabulary, only the symbols of the files in *text*, and of --mono.

    Raises:
        BertFusedError: it cannot be loaded, or is an import of other languages.
    """
    size, folder = vocabulary_size("--start", args.start, args.source, args.target), args.out / FOLDER
    if folder.is_symlink():
        folder.unlink()
    shutil.rmtree(folder, ignore_errors=True)
    if size == 0:
        folder.symlink_to(args.start)
        return
    files = [*sorted(text.iterdir()), *([args.mono / f"mono.{args.target}"] if args.mono else [])]
    part = ["--vocabulary-of", *map(str, files)] if size > _MANY else []
    run(["bert-fused-import", "hf", args.start, str(folder), "-s", args.source, "-t", args.target, *part])


def vocabulary_size(flag: str, model: str, source: str, target: str) -> int:
    """Return the number of symbols of the *model* of transformers that *flag* names; 0 if it is imported already.

    Raises:
        BertFusedError: it cannot be loaded, or is an import for other languages than from *source* to *target*.
    """
    if (Path(model) / SETTINGS).exists():
        if not (Path(model) / f"README.{source}-{target}.md").exists():
            raise BertFusedError(f"{flag} {model} is of other languages; import it with -s {source} -t {target}")
        return 0
    try:
        return int(AutoConfig.from_pretrained(model, trust_remote_code=False).vocab_size)
    except (OSError, ValueError, AttributeError) as error:
        raise BertFusedError(f"{flag} {model} cannot be loaded: {' '.join(str(error).split())}") from None


def imported_settings(folder: Path) -> Dict[str, Any]:
    """Return the flags of the imported model's architecture, and its tags of source and target.

    Raises:
        BertFusedError: the import has gone; OUT/start may be a link to it.
    """
    path = folder / SETTINGS
    if not path.exists():
        raise BertFusedError(f"there is no {path} of an imported model; put it back, or give another --out")
    settings: Dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return settings


def tags_of_start(args: Namespace) -> List[str]:
    """Return the symbols that begin source and target sentences of the text in subwords, or empty texts."""
    return list(imported_settings(args.out / FOLDER)["tags"]) if args.start else ["", ""]


def splits_of_import(folder: Path, languages: Sequence[str]) -> Dict[str, Split]:
    """Return for each language the function that splits a line, and begins it with a tag where the model has tags."""

    def split_by(side: str, tag: str) -> Split:
        model = SentencePieceProcessor(model_file=str(folder / f"{side}.spm"))
        return lambda line: " ".join([tag, *model.encode(line, out_type=str)]).strip()

    tags = imported_settings(folder)["tags"]
    return {lang: split_by(side, tag) for lang, side, tag in zip(languages, ("source", "target"), tags)}


def size_of_start(out: Path) -> Size:
    """Return the imported model's architecture, for the transformer and for BERT-fused, and how it is fine-tuned."""
    # the recipe has a dropout of its own
    flags = " ".join(flag for flag in imported_settings(out / FOLDER)["flags"] if not flag.startswith("--dropout "))
    return replace(_FINE_TUNING, transformer=f"--arch transformer {flags}", fused_arch=f"bert_fused {flags}")


def start_errors(args: Namespace) -> List[str]:
    """Return a sentence for each setting that --start leaves no choice of."""
    defaults = {"symbols": None, "updates": None, "warmup": None, "lr": None, "size": "auto", "subwords": KINDS[0]}
    names = [name for name, default in defaults.items() if vars(args)[name] != default]
    errors = [f"--{name} is the model's with --start; leave it out" for name in names]
    random = [step for step in args.steps if step in SYSTEMS and not SYSTEMS[step].begins and step != "transformer"]
    errors += [f"{step} begins with random parameters, and not with the model of --start" for step in random]
    if "transformer" in (*args.teacher, args.deploy):
        errors.append("--teacher, --deploy: transformer is the model of --start as it is; name control, for example")
    if Path(args.start) == args.out.resolve() / FOLDER:
        errors.append(f"--start {args.start} is made anew by each preparation; name another directory")
    if args.student != "transformer":
        errors.append(f"--student {args.student} begins with random parameters; with --start, give transformer")
    if not (args.out / "data-bin").exists():  # later, nothing needs the model where it is
        try:
            vocabulary_size("--start", args.start, args.source, args.target)
        except BertFusedError as error:
            errors += error.errors
    return errors
