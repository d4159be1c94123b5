"""Compares runs on a test set, to show whether BERT helps.  Of a single run it shows whether the run uses BERT.

bert-fused-compare DATA_BIN --baseline plain=checkpoints/plain --run fused=checkpoints/fused --output report.html
"""

import logging
import math
import re
import shlex
import sys
from argparse import ArgumentParser, ArgumentTypeError, Namespace, RawDescriptionHelpFormatter
from contextlib import ExitStack
from dataclasses import asdict
from itertools import chain
from pathlib import Path
from statistics import mean
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

import torch
from fairseq.utils import split_paths

from bert_fused_lab.commands import output_errors, user_module
from bert_fused_lab.evidence.decoding import UNKNOWN, Decoding, Texts, hardware
from bert_fused_lab.evidence.runs import NamedPaths, Place, Run, find_runs, load_run, require_context
from bert_fused_lab.report import scoring
from bert_fused_lab.report.comparison import Comparison
from bert_fused_lab.report.page import render, to_json
from bert_fused_lab.report.text_files import read_scores
from bert_fused_lab.report.verdicts import question
from bert_fused_plugin.data.dictionary_bridge import DETOKENIZERS
from bert_fused_plugin.data.raw_text import TextFile
from bert_fused_plugin.data.subwords import JOINABLE, bleu_tokenizer
from bert_fused_plugin.errors import BertFusedError, flag_name, raise_all
from bert_fused_plugin.files import given_path, written_output
from bert_fused_plugin.progress import say

_NO_TEXT = re.compile(r"[SHTDP]-\d+\t|.*(@@( |$)|▁)")  # the beginning of a line with columns, or marks, of fairseq


def main(arguments: Optional[Sequence[str]] = None) -> None:
    """Run the command.

    Raises:
        BertFusedError: a flag or a file cannot be used; nothing is written then.
    """
    logging.getLogger().setLevel(logging.WARNING)  # fairseq sets INFO when it is imported
    options = parse_args(arguments)
    raise_all(errors(options))
    report = compare(options)
    texts = [("--output", options.output, render(report))]
    texts += [("--json", options.json, to_json(report))] if options.json else []
    with ExitStack() as files:
        for flag, path, text in texts:
            files.enter_context(written_output(path, flag)).write_text(text, "utf-8", "replace")
    for test in report["tests"]:
        of_bert = [found["verdict"] for found in test["bert_tests"] if found["verdict"]]
        for line in dict.fromkeys([*test["verdicts"], *of_bert]):
            print(line if len(report["tests"]) == 1 else f"{test['subset']}: {line}")
    for _, path, _ in texts:
        print(f"written: {path}")


def errors(options: Namespace) -> List[str]:
    """Return a sentence for each problem with the flags."""
    least = {"beam": 1, "lenpen": -math.inf, "max_len_a": 0, "max_len_b": 1, "max_tokens": 1, "examples": 0}
    found = [
        f"{flag_name(name)} must be a finite number{f' of at least {bound}' if bound > -math.inf else ''}, got {value}"
        for name, bound in {**least, "samples": scoring.FEWEST_SAMPLES}.items()
        if not (math.isfinite(value := vars(options)[name]) and value >= bound)
    ]
    found += scoring.tokenizer_errors(options.tokenize) + output_errors(
        output=options.output, json=options.json, write_text=options.write_text and options.write_text / "test.source"
    )
    if options.json is not None and options.json.resolve() == options.output.resolve():
        found.append("--output and --json must be different files; rename one")
    metrics = [*scoring.SACREBLEU, *(metric for metric, paths in options.scores + options.error_scores for _ in paths)]
    return found + [
        f"there are two metrics of the name {metric}; give each of --scores and --error-scores its own"
        for metric in sorted({metric for metric in metrics if metrics.count(metric) > 1})
    ]


def compare(options: Namespace) -> Dict[str, Any]:
    """Return all that the report shows, for the settings *options* of the command line."""
    device = "cuda" if torch.cuda.is_available() and not options.cpu else "cpu"
    options.subset = [*dict.fromkeys(options.subset or test_sets(options.data))]
    seeds = load_runs(options, device)
    runs = [*chain(*seeds)]
    how = Decoding(options.beam, options.lenpen, options.max_len_a, options.max_len_b, options.max_tokens)
    texts = Texts(runs[0].task, options.remove_bpe, options.detok)
    references = {subset: read_references(options, subset, runs[0], texts) for subset in options.subset}
    sentences = [*chain(*references.values())]
    is_raw = (
        options.reference is not None or options.detok != "none" or scoring.is_unspaced(sentences, runs[0].languages[1])
    )
    tokenised = not is_raw and marks_apart(sentences, 1.0) > 0.5
    number = {each[0].name: len(each) for each in seeds}
    given = {subset: read_given(options, subset, number, lines) for subset, lines in references.items()}
    found: List[Comparison] = []
    for subset, lines in references.items():
        scorer = scoring.Scorer(lines, tokenised, options.samples, runs[0].languages[1], options.tokenize)
        with_ablations = not options.no_bert_tests
        found.append(Comparison(seeds, *given[subset], subset, how, texts, scorer, with_ablations, options.keep))
        if options.write_text is not None:
            found[-1].write_texts(options.write_text)
    tests = [comparison.verdict(options.data) for comparison in found]
    report = {
        "question": question([run for run, *_ in seeds], len(tests[0]["systems"]), options.subset),
        "command": shlex.join(["bert-fused-compare", *(sys.argv[1:])]),
        "data": options.data,
        "languages": runs[0].languages,
        "references": str(options.reference or "") or f"{options.data}, {'tokenised' if tokenised else 'plain text'}",
        "decoding": asdict(how),
        "samples": options.samples,
        "hardware": hardware(device),
        **tests[0],
        "tests": tests,
        **found[0].details(options.data, options.examples),
    }
    speakers: Sequence[Any] = (*runs, texts, *found)
    said = [*chain(*(speaker.remarks for speaker in speakers))]
    own = [line for each in found for run in each.runs for line in each.hypotheses[run.name][0]]
    report["remarks"] = [*dict.fromkeys(said + remarks(options, texts, tokenised, sentences, own))]
    return report


def load_runs(options: Namespace, device: str) -> List[List[Run]]:
    """Return the seeds of each system that has checkpoints."""
    place = Place(options.data, options.subset, options.bert_text, options.bert_documents, device, options.bf16)
    seeds: List[List[Run]] = []
    for each in find_runs(options.baseline, options.run, options.hypotheses):
        say(f"loading {each[0].name} from {', '.join(str(files.checkpoint) for files in each)}")
        seeds.append([load_run(files, place) for files in each])
    runs = [*chain(*seeds)]
    if len({run.languages for run in runs}) > 1:
        translated = ", ".join(f"{run.files} translates {'-'.join(run.languages)}" for run in runs)
        raise BertFusedError(f"{translated}; compare runs of one language pair")
    require_context(runs, options.bert_documents)
    return seeds


def test_sets(data: str) -> List[str]:
    """Return the names of the test sets in *data*, which begin with ``test``."""
    files = Path(split_paths(data)[0]).glob("test*.*-*.*")
    names = {re.sub(r"\.[^.-]+-[^.]+\.[^.]+(\.bin|\.idx)?$", "", file.name) for file in files}
    names = {name for name in names if not name.endswith(".bert")}  # what bert-nmt's BERT reads
    return sorted(names, key=lambda name: (len(name), name)) or ["test"]


def read_references(options: Namespace, subset: str, run: Run, texts: Texts) -> List[str]:
    """Return the reference of each sentence, from the file of ``--reference`` or from the data."""
    dataset = run.task.dataset(subset)
    if options.reference is None:
        if dataset.tgt is None:
            side = f"{options.data} has no {run.languages[1]} side of {subset!r}"
            raise BertFusedError(f"{side}; give the references: --reference FILE")
        return [texts.target(dataset.tgt[i], UNKNOWN) for i in range(len(dataset))]
    if not texts.joins_target:
        rule = f"needs translations as text, but {options.data} has subwords that the report cannot join"
        raise BertFusedError(f"--reference {options.reference} {rule}; leave it out")
    return read_lines("--reference ", options.reference, options, subset, len(dataset))


def read_lines(flag: str, given: Path, options: Namespace, subset: str, size: int) -> List[str]:
    """Return the lines of a *given* file, one for each of the sentences of *subset*; *flag* is for messages.

    Raises:
        BertFusedError: the file cannot be read, or has another number of lines.
    """
    path = Path(str(given).replace("{subset}", subset))
    if path == given and len(options.subset) > 1:
        rule = f"must be a file for each of {' and '.join(options.subset)}"
        raise BertFusedError(f"{flag}{given} {rule}; write {{subset}} where their names differ, or choose one --subset")
    try:
        lines = list(iter(TextFile(path)))
    except (OSError, UnicodeDecodeError) as error:
        raise BertFusedError(f"{flag}{path} cannot be read as UTF-8 text ({error})") from error
    if len(lines) != size:
        raise BertFusedError(
            f"{flag}{path} has {len(lines)} lines, but {subset!r} of {options.data} has {size} "
            "sentences; give a file with one line for each of these sentences, in their order"
        )
    return lines


def read_given(
    options: Namespace, subset: str, seeds: Mapping[str, int], references: Sequence[str]
) -> Tuple[Dict[str, List[List[str]]], List[scoring.GivenScores]]:
    """Return the texts of ``--hypotheses`` and the scores of ``--scores``; *seeds* has the number of seeds of each."""

    def read(flag: str, path: Path) -> List[str]:
        return read_lines(flag, path, options, subset, len(references))

    others = {name: [read(f"--hypotheses {name}=", path) for path in paths] for name, paths in options.hypotheses}
    found = (form_error(name, text, references) for name, each in others.items() for text in each)
    raise_all([*filter(None, found)])
    number = {**seeds, **{name: len(each) for name, each in others.items()}}
    flags = {"--scores": options.scores, "--error-scores": options.error_scores}
    scores = [read_scores(flag, name, path, number, read) for flag, given in flags.items() for name, [path] in given]
    return others, scores


def form_error(name: str, lines: Sequence[str], references: Sequence[str]) -> Optional[str]:
    """Return a sentence if the translations *name* are not plain text, or not in the form of the *references*."""
    wrong = [line for line in lines if _NO_TEXT.match(line)]
    if len(wrong) > len(lines) / 20:
        has = f"has subword marks or columns of fairseq-generate in {len(wrong):,} of {len(lines):,} lines"
        return f"--hypotheses {name} {has}, such as {wrong[0]!r}; give translations alone, joined to words"
    apart = marks_apart(lines, math.nan) - marks_apart(references, math.nan)
    if not abs(apart) >= 0.5:  # nor if a share is unknown
        return None
    own, other = ("tokenised", "detokenised") if apart > 0 else ("detokenised", "tokenised")
    remedy = f"give the translations {other}, or {own} references: --reference FILE"
    return f"--hypotheses {name} is {own}, and the references are {other}; {remedy}"


def marks_apart(lines: Sequence[str], unknown: float) -> float:
    """Return the share of sentences with a space before their final mark, as in tokenised text.

    If few sentences have such a mark, the share is *unknown*.
    """
    ends = [line[-2] == " " for line in lines if line[1:].endswith(tuple(".?!।۔؟。！？．։።"))]
    return mean(ends) if len(ends) > len(lines) / 10 else unknown


def remarks(
    options: Namespace, texts: Texts, tokenised: bool, references: Sequence[str], translations: Sequence[str]
) -> List[str]:
    """Return what the reader of the scores must know about the texts, which are *tokenised* or not."""
    raw = options.reference is not None
    apart = marks_apart(translations, 0.0) - marks_apart(references, 1.0)
    separate = sum(line.endswith(" .") for line in references)  # sacreBLEU's sign of tokenised text
    cased = raw and texts.lower_cased and any(line != line.lower() for line in references)
    said = {
        "The models translated in bfloat16, with numbers of 8 significant bits (--bf16).": options.bf16,
        "The scores are those of tokenised text, as it is in the data. They are good for comparing these runs with "
        "each other, but not with published figures; for those, and for COMET, give detokenised "
        "references with --reference FILE.": tokenised,
        "The translations are tokenised as the data is, and the references of --reference are not, so the scores are "
        "too low. If Moses tokenised the data, give --detok moses.": raw
        and apart >= 0.5
        and bleu_tokenizer(texts.languages[1]) is None,  # whose tokeniser and chrF read no spaces
        "The references of --reference have capitals, and the data has none, so the scores are too low. Lower-case the "
        "references.": cased,
        f"The references of --reference look tokenised: {separate:,} of {len(references):,} end in a full stop "
        "that stands alone. Scores of tokenised text are not comparable with published figures.": raw
        and separate >= len(references) / 10,
    }
    return [sentence for sentence, holds in said.items() if holds]


def named_paths(text: str) -> NamedPaths:
    """Return the name and the paths of ``NAME=PATH,PATH,...``."""
    name, _, paths = text.partition("=")
    if not (name and all(paths.split(","))) or "/" in name:  # which names files
        raise ArgumentTypeError(f"must be NAME=PATH, or NAME=PATH,PATH for two seeds, with no / in NAME, got {text!r}")
    return name, [given_path(path) for path in paths.split(",")]


def _add_metrics(parser: ArgumentParser) -> None:
    group = parser.add_argument_group("metrics of other programs")
    group.add_argument("--write-text", type=given_path, metavar="DIR",
        help="write source, references and translations to files in DIR")  # fmt: skip
    named: Dict[str, Any] = {"type": named_paths, "metavar": "NAME=FILE", "action": "append", "default": []}
    group.add_argument("--scores", **named, help="name of a metric, and its scores, one a line for each sentence, with "
        "{system} and {seed} where names of files differ; may be repeated")  # fmt: skip
    group.add_argument("--error-scores", **named, help="the same, of a metric whose lower scores are better")


def parse_args(arguments: Optional[Sequence[str]] = None) -> Namespace:
    """Return the settings of the command line."""
    description, _, example = (__doc__ or "").partition("\n\n")
    parser = ArgumentParser(description=description, epilog=example, formatter_class=RawDescriptionHelpFormatter)
    add = parser.add_argument
    how = Decoding()
    named: Dict[str, Any] = {"type": named_paths, "metavar": "NAME=PATH[,PATH]"}
    more = {**named, "action": "append", "default": []}
    run = "name, and --save-dir or checkpoint of each seed, of"
    add("data", metavar="DATA_BIN", help="directory of fairseq-preprocess; all runs must have its dictionaries")
    add("--baseline", required=True, **named, help=f"{run} the run to compare with, or of the only run")
    add("--run", **more, help=f"{run} another run; may be repeated")
    add("--hypotheses", **{**more, "metavar": "NAME=FILE[,FILE]"}, help="name and translations of another system, one "
        "line a sentence, without subwords, and detokenised if the references are; may be repeated")  # fmt: skip
    add("--output", type=given_path, required=True, help="HTML file to write; it needs no other file")
    add("--json", type=given_path, help="JSON file to write, which holds all figures")
    add("--keep", type=given_path, metavar="DIR", help="directory that keeps translations, so that a later report "
        "translates only what is new")  # fmt: skip
    _add_metrics(parser)
    add("--subset", action="append", metavar="NAME", help="name of a test set; may be repeated, with {subset} in the "
        "names of files that each set has; default: all whose name begins with test")  # fmt: skip
    add("--reference", type=given_path, help="file of detokenised references; default: those of the data")
    add("--remove-bpe", nargs="?", default="auto", const="auto", choices=["auto", *JOINABLE],
        help="subword marks to undo; default: those that the dictionaries have")  # fmt: skip
    add("--detok", default="none", choices=DETOKENIZERS, help="detokenisation; default: %(default)s")
    add("--tokenize", choices=scoring.TOKENIZERS, help="sacreBLEU's tokeniser for BLEU; default: by text and language")
    add("--beam", type=int, default=how.beam, help="beam size; default: %(default)s")
    add("--lenpen", type=float, default=how.lenpen, help="exponent of the length penalty; default: %(default)s")
    add("--max-len-a", type=float, default=how.max_len_a, help="a of ax + b, the length limit for x source tokens")
    add("--max-len-b", type=int, default=how.max_len_b, help="b of this limit; defaults: 0 and %(default)s")
    add("--max-tokens", type=int, default=how.max_tokens, help="most tokens in a batch; default: %(default)s")
    add("--bert-text", metavar="DIR", help="directory with the raw source text for BERT, as for the task")
    add("--bert-documents", metavar="DIR", help="directory with document boundaries, as for the task")
    add("--no-bert-tests", action="store_true", help="leave out the translations with BERT off, shuffled and random")
    add("--examples", type=int, default=10, help="number of best and worst sentences of a run; default: %(default)s")
    add("--samples", type=int, default=scoring.DEFAULT_SAMPLES,
        help=f"number of resamples and trials, at least {scoring.FEWEST_SAMPLES}; default: %(default)s")  # fmt: skip
    add("--user-dir", type=user_module, metavar="DIR", help="plug-in that has the architecture of a model")
    add("--cpu", action="store_true", help="use no GPU")
    add("--bf16", action="store_true", help="translate in bfloat16")
    return parser.parse_args(arguments)
