"""Compares systems by files of their translations, in seconds and without models: which is better, does BERT help?

bert-fused-report EVIDENCE --baseline control --run bert_fused --output report.html

EVIDENCE is what bert-fused-evidence has written.  A system of another toolkit takes part by its translations of
the test set: put them, one line a sentence, into EVIDENCE/test/NAME.1/on.txt, where the number after the last dot is
the seed, or give them as --hypotheses NAME=FILE.
"""

import os
import shlex
import sys
from argparse import ArgumentParser, Namespace
from itertools import chain
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional, Sequence

from bert_fused_lab.arguments import given_path, named_paths, number_errors, output_errors, parser_of
from bert_fused_lab.evidence.files import EvidenceError, systems_in
from bert_fused_lab.report import scoring
from bert_fused_lab.report.comparison import Comparison, hardware_remarks
from bert_fused_lab.report.page import render, to_json
from bert_fused_lab.report.systems import EvaluationSet, System, read_system, read_test_set
from bert_fused_lab.report.texts import form_error, given_lines, marks_apart, read_scores, remarks
from bert_fused_lab.report.verdicts import question


def main(arguments: Optional[Sequence[str]] = None) -> None:
    """Run the command.

    Raises:
        EvidenceError: a flag or a file cannot be used; nothing is written then.
    """
    options = parse_args(arguments)
    if problems := errors(options):
        raise EvidenceError(*problems)
    write(options, report(options, comparisons(options)))


def errors(options: Namespace) -> List[str]:
    """Return a sentence for each problem with the flags."""
    problems = number_errors(options, examples=0, samples=scoring.FEWEST_SAMPLES)
    problems += scoring.tokenizer_errors(options.tokenize) + output_errors(output=options.output, json=options.json)
    if options.json is not None and options.json.resolve() == options.output.resolve():
        problems.append("--output and --json must be different files; rename one")
    metrics = [*scoring.SACREBLEU, *(metric for metric, paths in options.scores + options.error_scores for _ in paths)]
    return problems + [
        f"there are two metrics of the name {metric}; give each of --scores and --error-scores its own"
        for metric in sorted({metric for metric in metrics if metrics.count(metric) > 1})
    ]


def comparisons(options: Namespace, seeds: Optional[Mapping[str, int]] = None) -> List[Comparison]:
    """Return the comparison of each test set, with the scores.

    Args:
        options: the settings of the command line.
        seeds: the number of seeds of each system in the folder, the baseline first; None takes those of the flags.
    """
    options.subset = [*dict.fromkeys(options.subset or _test_sets(options.evidence))]
    test_sets = [read_test_set(options.evidence / name) for name in options.subset]
    sentences = [*chain(*(test_set.references for test_set in test_sets))]
    tokenised = is_tokenised(test_sets[0], sentences)
    result = []
    for test_set in test_sets:
        systems = _systems(options, test_set, seeds)
        hypotheses, facts = given_texts(options, test_set), test_set.facts
        systems += [System(name, texts) for name, texts in hypotheses.items()]
        scores = given_scores(options, test_set, {system.name: len(system.texts) for system in systems})
        language = facts.languages[1], facts.bleu_tokenizer
        scorer = scoring.Scorer(test_set.references, tokenised, options.samples, *language, options.tokenize)
        size = f"{len(test_set.references):,} sentences of {test_set.name}"
        print(f"scores of {size}, with {options.samples:,} resamples", file=sys.stderr, flush=True)
        result.append(Comparison(test_set, systems, scorer, scores))
        names = [[system.name for system in comparison.systems] for comparison in (result[0], result[-1])]
        if names[0] != names[1]:
            texts = [f"{test_sets[i].name} has {', '.join(names[i])}" for i in (0, -1)]
            raise EvidenceError(
                f"the test sets differ in their systems: {'; '.join(texts)}; name those that all have: --run NAME"
            )
    return result


def report(options: Namespace, comparisons: Sequence[Comparison]) -> Dict[str, Any]:
    """Return all that the page shows of the comparisons; the first one's test set has all details."""
    first, test_sets = comparisons[0], [comparison.test_set for comparison in comparisons]
    tests = [comparison.verdict() for comparison in comparisons]
    sentences = [*chain(*(test_set.references for test_set in test_sets))]
    facts, tokenised = first.test_set.facts, is_tokenised(first.test_set, sentences)
    runs = [run for comparison in comparisons for run in comparison.runs]
    translations = [line for run in runs for line in run.texts[0]]
    notes = [*chain(*(run.known.remarks for run in runs)), *chain(*(test_set.facts.remarks for test_set in test_sets))]
    notes += [*chain(*(comparison.remarks for comparison in comparisons)), *hardware_remarks(first.runs)]
    notes += remarks(first.test_set, tokenised, sentences, translations, runs)
    details = first.details(options.examples)
    return {
        "question": options.title or question(first.systems, test_sets),
        "command": shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]]),
        "data": facts.data or str(options.evidence),
        "languages": facts.languages,
        "references": facts.reference
        or f"{facts.data or options.evidence}, {'tokenised' if tokenised else 'plain text'}",
        "decoding": first.runs[0].known.decoding if first.runs else {},
        "samples": options.samples,
        "hardware": first.runs[0].known.hardware if first.runs else {},
        **tests[0],
        "tests": tests,
        **details,
        "attention": first.attention([*details["sentence_texts"]]),
        "remarks": [*dict.fromkeys(notes)],
    }


def write(options: Namespace, content: Mapping[str, Any]) -> None:
    """Write the page and the JSON, and print the verdicts."""
    texts = {options.output: render(content), **({options.json: to_json(content)} if options.json else {})}
    new = {path: path.resolve().with_name(f".{path.name}.new") for path in texts}  # beside the file of a link
    try:
        for path, text in texts.items():
            new[path].write_text(text, "utf-8", "replace")
    except OSError as error:
        for file in new.values():
            file.unlink(missing_ok=True)
        raise EvidenceError(f"{path} cannot be written, and nothing was changed ({error})") from error
    for path in texts:
        os.replace(new[path], path.resolve())
    for test in content["tests"]:
        of_bert = [bert_test["verdict"] for bert_test in test["bert_tests"] if bert_test["verdict"]]
        for line in dict.fromkeys([*test["verdicts"], *of_bert]):
            print(line if len(content["tests"]) == 1 else f"{test['subset']}: {line}")
    for path in texts:
        print(f"written: {path}")


def is_tokenised(test_set: EvaluationSet, sentences: Sequence[str]) -> bool:
    """Return whether the references, *sentences*, are tokenised text, by the facts of a *test_set* and their marks."""
    facts = test_set.facts
    is_raw = facts.reference is not None or facts.detok != "none"
    is_raw |= facts.bleu_tokenizer is not None and scoring.is_unspaced(sentences)
    return not is_raw and marks_apart(sentences, 1.0 if facts.key else 0.0) > 0.5


def _test_sets(evidence: Path) -> List[str]:
    names = [file.parent.name for file in evidence.glob("*/reference.txt")]
    if not names:
        raise EvidenceError(f"{evidence} has no TESTSET/reference.txt; bert-fused-evidence writes it")
    return sorted(names, key=lambda name: (len(name), name))


def _systems(options: Namespace, test_set: EvaluationSet, seeds: Optional[Mapping[str, int]]) -> List[System]:
    folder = options.evidence / test_set.name
    there = systems_in(folder)
    others = options.run or [name for name in there if name != options.baseline]
    names = [*seeds] if seeds else [options.baseline, *others]
    problems = [
        f"{folder} has no translations of {name}; it has {', '.join(there)}" for name in names if name not in there
    ]
    named = [*names, *(name for name, _ in options.hypotheses)]
    problems += [f"there are two systems of the name {name}; rename one" for name in {*named} if named.count(name) > 1]
    if problems:
        raise EvidenceError(*problems)
    systems = [read_system(name, there[name][: seeds[name] if seeds else None]) for name in names]
    if wrong := _misfits(folder, systems, test_set):
        raise EvidenceError(*dict.fromkeys(wrong))
    return systems


def _misfits(folder: Path, systems: Sequence[System], test_set: EvaluationSet) -> List[str]:
    """Return a sentence for each problem with the translations of *systems*, in *folder*."""
    size, form, wrong = len(test_set.references), test_set.facts.form, []
    for system in systems:
        wrong += [
            f"{folder}: {system.name} has {len(texts)} translations of {size} sentences"
            for texts in (*system.texts, *system.states.values())
            if len(texts) != size
        ]
        if form and {*system.forms} - {"", form}:
            wrong.append(
                f"{folder}: {system.name} translated other sentences than those of this test set, or its translations "
                "have another form; run bert-fused-evidence for it again, or remove its folder"
            )
        if len({*system.keys}) < len(system.keys):
            wrong.append(f"{folder}: two seeds of {system.name} are of one checkpoint; remove the folder of one")
        if system.facts is None and (error := form_error(system.name, system.texts[0], test_set.references)):
            wrong.append(error)
    return wrong


def given_texts(options: Namespace, test_set: EvaluationSet) -> Dict[str, List[List[str]]]:
    """Return the texts of ``--hypotheses``, by system and seed."""
    texts = {
        name: [given_lines(f"--hypotheses {name}=", path, test_set, len(options.subset) == 1) for path in paths]
        for name, paths in options.hypotheses
    }
    named_texts = [(f"--hypotheses {name}", text) for name, seeds in texts.items() for text in seeds]
    if wrong := [error for flag, text in named_texts if (error := form_error(flag, text, test_set.references))]:
        raise EvidenceError(*wrong)
    return texts


def given_scores(options: Namespace, test_set: EvaluationSet, seeds: Mapping[str, int]) -> List[scoring.GivenScores]:
    """Return the scores of ``--scores`` and ``--error-scores``; *seeds* has the number of seeds of each system."""
    flags = {"--scores": options.scores, "--error-scores": options.error_scores}
    files = [(flag, metric, path) for flag, named in flags.items() for metric, [path] in named]
    return [read_scores(*file, test_set, len(options.subset) == 1, seeds) for file in files]


def add_arguments(parser: ArgumentParser) -> None:
    """Add what the page depends on, beside the systems with evidence."""
    add = parser.add_argument
    named: Dict[str, Any] = {"type": named_paths, "action": "append", "default": []}
    add("--hypotheses", **named, metavar="NAME=FILE[,FILE]", help="name and translations of another system, one "
        "line a sentence, without subwords, and detokenised if the references are; may be repeated")  # fmt: skip
    add("--output", type=given_path, required=True, help="HTML file to write; it needs no other file")
    add("--json", type=given_path, help="JSON file to write, which holds all figures")
    add("--title", help="heading of the page; default: the question that it answers")
    add("--tokenize", choices=scoring.TOKENIZERS, help="sacreBLEU's tokeniser for BLEU; default: by text and language")
    add("--examples", type=int, default=10, help="number of best and worst sentences of a run; default: %(default)s")
    add("--samples", type=int, default=scoring.DEFAULT_SAMPLES,
        help=f"number of resamples and trials, at least {scoring.FEWEST_SAMPLES}; default: %(default)s")  # fmt: skip
    add("--scores", **named, metavar="NAME=FILE", help="name of a metric, and its scores, one a line for each "
        "sentence, with {system} and {seed} where names of files differ; may be repeated")  # fmt: skip
    add("--error-scores", **named, metavar="NAME=FILE", help="the same, of a metric whose lower scores are better")


def parse_args(arguments: Optional[Sequence[str]] = None) -> Namespace:
    """Return the settings of the command line."""
    parser = parser_of(__doc__)
    add = parser.add_argument
    add("evidence", type=given_path, metavar="EVIDENCE", help="directory with a folder for each test set")
    add("--baseline", required=True, metavar="NAME", help="the system to compare with, or the only one")
    add("--run", action="append", metavar="NAME", help="another system; may be repeated; default: all that are there")
    add("--subset", action="append", metavar="NAME", help="name of a test set; may be repeated; default: all")
    add_arguments(parser)
    return parser.parse_args(arguments)
