"""From parallel text to an answer: does BERT help?

    bert-fused-recipe en fr my-text                                   the steps without brackets below
    bert-fused-recipe en fr my-text distill student deploy            these steps alone

Each command is printed before it runs.  A training that was interrupted goes on where it was; a finished one is
skipped; one with other settings is an error.  Later calls keep what the last training was given for --bert-flags,
--size, --updates, --more, --warmup, --lr, --consistency and --train-flags.  A variable of the environment, such as
UPDATES for --updates, sets the default of its option.
"""

import logging
import os
import re
import shlex
import sys
from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from dataclasses import fields
from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence, cast

from omegaconf import OmegaConf

from bert_fused_lab.arguments import given_path
from bert_fused_lab.evidence.files import read_json
from bert_fused_lab.recipe.back_translation import mono_errors
from bert_fused_lab.recipe.data import RECORD
from bert_fused_lab.recipe.running import Run, run_command
from bert_fused_lab.recipe.settings import KEPT, MORE, OPTIONS, SPLIT_BEFORE, Size
from bert_fused_lab.recipe.start import start_errors
from bert_fused_lab.recipe.steps import MONO_STEPS, STEPS, Recipe
from bert_fused_lab.recipe.systems import SYSTEMS, TRANSFORMER
from bert_fused_plugin.errors import BertFusedError, raise_all


def main(argv: Optional[Sequence[str]] = None, run: Run = run_command) -> None:
    """Do the steps of the command line; *run* runs the commands."""
    logging.getLogger().setLevel(logging.WARNING)  # fairseq sets INFO when it is imported
    args = parse_args(argv)
    raise_all(_errors(args))
    os.environ["PYTHONUTF8"] = "1"
    if "--cpu" in args.train_flags:
        os.environ["CUDA_VISIBLE_DEVICES"] = ""  # for all that is not fairseq-train, too
    try:
        Recipe(args, run).do(args.steps)
    except OSError as error:
        if isinstance(error, BrokenPipeError):  # nobody reads what this prints
            raise
        raise BertFusedError(f"{error.filename or args.out} cannot be used ({error.strerror or error})") from error


def parse_args(argv: Optional[Sequence[str]] = None) -> Namespace:
    """Return the settings: those of the command line, the environment, the file --settings, earlier calls, defaults."""
    steps = "\n".join(f"  {name if step.default else f'[{name}]':22}{step.help}" for name, step in STEPS.items())
    epilog = f"steps, in their order:\n{steps}"
    form: Any = {"formatter_class": RawDescriptionHelpFormatter, "allow_abbrev": False}
    parser = ArgumentParser(prog="bert-fused-recipe", description=__doc__, epilog=epilog, **form)
    parser.add_argument("source", metavar="SRC", help="source language, such as en or pt_BR")
    parser.add_argument("target", metavar="TGT", help="target language")
    parser.add_argument("data", metavar="DATA", help="directory with train.SRC and train.TGT, one sentence a line, and "
        "perhaps valid, test, and test-NAME for further test sets")  # fmt: skip
    parser.add_argument("steps", metavar="STEP", nargs="*", help="what to do; default: the steps without brackets")
    first = ArgumentParser(add_help=False, allow_abbrev=False)
    for p in (parser, first):
        p.add_argument("--settings", type=given_path, metavar="FILE", help="YAML file of defaults for these options")
    for name, kind, default, metavar, text in OPTIONS:
        parser.add_argument(f"--{name}", type=kind, default=default, metavar=metavar, help=text)
    words = list(sys.argv[1:] if argv is None else argv)
    of_flags = [f"--{name}" for name, kind, *_ in OPTIONS if kind is shlex.split]
    for i in range(len(words) - 1, 0, -1):
        if words[i - 1] in of_flags:  # argparse would take a value such as --cpu for another option
            words[i - 1 : i + 1] = ["=".join(words[i - 1 : i + 1])]
    file = first.parse_known_args(words)[0].settings
    parser.set_defaults(of_size={}, **dict.fromkeys(MORE, ""))
    given = {**(_of_file(file) if file else {}), **_of_environment()}
    parser.set_defaults(**given)
    kept = read_json(parser.parse_intermixed_args(words).out / KEPT)
    parser.set_defaults(**{**kept, **given})
    args = parser.parse_intermixed_args(words)
    default_steps = args.default_steps.split() or [name for name, step in STEPS.items() if step.default]
    default_steps = [step for step in STEPS if step in (*default_steps, *(MONO_STEPS if args.mono else ()))]
    args.steps = [step.replace("continued", "control") for step in args.steps] or default_steps
    args.baseline = "transformer" if args.baseline == "as_downloaded" else args.baseline  # as the report calls it
    if args.mono:  # the report's names; what teaches or is deployed is in OUT/mono
        args.teacher = [name.removesuffix("_mono") for name in args.teacher]
        args.deploy = args.deploy.removesuffix("_mono")
    args.data = Path(args.data).resolve() if args.data else None
    return args


def _of_environment() -> Dict[str, str]:
    """Return the settings in variables, such as UPDATES for --updates; empty ones do not count."""
    names = {"SEED": "seeds", **{name.upper().replace("-", "_"): name.replace("-", "_") for name, *_ in OPTIONS}}
    return {name: os.environ[variable] for variable, name in names.items() if os.environ.get(variable)}


def _of_file(file: Path) -> Dict[str, Any]:
    """Return the settings in a YAML *file*.

    Raises:
        BertFusedError: it cannot be read, or has others.
    """
    try:
        settings: Any = OmegaConf.to_container(OmegaConf.load(file))
        given = {field: settings.pop(field.name, None) for field in fields(Size)}
        of_size = {field.name: cast(type, field.type)(value) for field, value in given.items() if value is not None}
    except Exception as error:  # of the disk, YAML, or a value of another type
        raise BertFusedError(f"--settings {file} cannot be read: {error}") from None
    known = [*(name.replace("-", "_") for name, *_ in OPTIONS), *MORE]
    if unknown := sorted(set(settings) - {*known}):
        names = [*known, *(field.name for field in fields(Size))]
        raise BertFusedError(f"--settings {file} has {', '.join(unknown)}; it may have {', '.join(names)}")
    if settings.get("script"):
        settings["script"] = file.resolve().parent / settings["script"]
    return {"of_size": of_size, **{name: str(value) for name, value in settings.items() if value is not None}}


def _errors(args: Namespace) -> List[str]:
    """Return a sentence for each setting that cannot be."""
    named = [*args.steps, *args.default_steps.split()]
    errors = [f"there is no step {step}; the steps are {' '.join(STEPS)}" for step in named if step not in STEPS]
    baseline = (args.baseline or "control").removesuffix("_mono" if args.mono else "")
    for system in (*args.teacher, args.deploy, baseline):
        if system not in SYSTEMS:
            errors.append(f"--teacher, --deploy and --baseline name systems, such as bert_fused, got {system}")
    if "deploy" in args.steps and args.deploy in SYSTEMS and SYSTEMS[args.deploy].arch != TRANSFORMER:
        errors.append(f"--deploy {args.deploy} is no plain transformer, which deploy needs; name one, such as control")
    if not all(re.fullmatch("[A-Za-z_]+", language) for language in (args.source, args.target)):
        # fairseq takes a hyphen for the one between the two
        errors.append(f"SRC {args.source!r} and TGT {args.target!r} must be names of languages, such as en and pt_BR")
    errors += start_errors(args) if args.start else []
    if args.source == args.target:
        errors.append(f"SRC and TGT must differ, got {args.source} twice")
    return errors + _path_errors(args) + mono_errors(args)


def _path_errors(args: Namespace) -> List[str]:
    """Return a sentence for each directory that cannot be."""
    errors = []
    if re.search("[:,]", f"{args.out}"):
        errors.append(f"--out {args.out} must have no colon and no comma: they end the name of a directory or a file")
    is_fetched = args.script and args.subwords == SPLIT_BEFORE
    if not (args.data.is_dir() if args.data else is_fetched):
        errors.append(f"DATA {args.data} is no directory; give the directory of the text")
    if args.bert_text and args.subwords == SPLIT_BEFORE:
        errors.append("--bert-text goes with raw text, and not with --subwords none; leave one of them out")
    if args.bert_text and not args.bert_text.is_dir():
        errors.append(f"--bert-text {args.bert_text} is no directory; give the directory of the text")
    if "," in f"{args.data}":
        errors.append(f"DATA {args.data} must have no comma: it ends the name of a file")
    ours = ["data-bin", "data-bin.new", "deploy", "evidence", "mono", "probe", "raw", "report.html", "start", "text"]
    ours += ["both.html", "report.json", *(f"valid.{language}" for language in (args.source, args.target))]
    ours += [f"{name}.log" for name in SYSTEMS]
    written = {args.out.resolve(), *((args.out / name).resolve() for name in ours)}
    for name, folder in (("DATA", args.data), ("--bert-text", args.bert_text), ("--mono", args.mono)):
        if folder and written & {folder, *(place for place in folder.parents if place != args.out.resolve())}:
            errors.append(f"{name} {folder} lies where --out {args.out} is written; move it, or give another --out")
    foreign = [name for name in ours if (args.out / name).exists()]
    signs = (KEPT, f"data-bin/{RECORD}", f"text/reference.test.{args.target}")
    if foreign and not any((args.out / sign).exists() for sign in signs):
        errors.append(
            f"--out {args.out} has {', '.join(foreign)}, not made by this recipe, which would write over it; give "
            "another --out"
        )
    return errors
