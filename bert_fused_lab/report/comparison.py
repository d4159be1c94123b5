"""All figures of the report in one dictionary, which the JSON holds and the page shows."""

from contextlib import nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import mean
from typing import Any, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple

from torch import Tensor

from bert_fused_lab.evidence.attention import attention_maps, attention_statistics, evenness
from bert_fused_lab.evidence.bert_ablations import MEANINGS, bert_ablations
from bert_fused_lab.evidence.decoding import UNKNOWN, Decoding, Texts, Translations, batches, translate_once
from bert_fused_lab.evidence.runs import Run, find_logs
from bert_fused_lab.evidence.words import PIECES
from bert_fused_lab.report.buckets import RARE, by_length, by_rare_words, count_training_words, words_of
from bert_fused_lab.report.scoring import GivenScores, Scorer, Scores
from bert_fused_lab.report.text_files import write_texts
from bert_fused_lab.report.training_log import Curves, read_curves
from bert_fused_lab.report.verdicts import answer, bert_verdict, fairness, verdict, with_bert
from bert_fused_plugin.checkpoints.origins import updates_before
from bert_fused_plugin.data.subwords import SUBWORDS
from bert_fused_plugin.modules.attention_map import learned_alphas
from bert_fused_plugin.modules.drop_net import DropNet
from bert_fused_plugin.progress import Progress, say


@dataclass
class Comparison:
    """Translates a test set with all runs, and compares the translations with those of the first run, the baseline.

    For a single run without *others* it reports how good the run is, and whether it uses BERT.  All seeds of a run
    count in its scores; everything else is that of its first seed.
    """

    seeds: Sequence[Sequence[Run]]  # of each run, all of one language pair
    others: Mapping[str, Sequence[Sequence[str]]]  # the translations of the seeds of other systems
    given: Sequence[GivenScores]  # of other metrics
    subset: str  # the name of the test set
    how: Decoding
    texts: Texts
    scorer: Scorer  # which has the reference of each sentence
    with_ablations: bool  # whether to translate with BERT off, shuffled and random too
    folder: Optional[Path]  # that keeps translations for later reports

    def __post_init__(self) -> None:
        self.runs = [first for first, *_ in self.seeds]
        self.baseline = self.runs[0]
        self.sources = self.baseline.sources[self.subset]
        self.size = len(self.sources)
        states = bert_ablations if self.with_ablations else lambda *_: {"on": nullcontext}
        jobs = [(run, *state) for run in self.runs for state in states(run, self.subset).items()]
        jobs += [(run, f"seed {i}", nullcontext) for _, *more in self.seeds for i, run in enumerate(more, 2)]
        # by run, and by the state of BERT or the seed
        self.found: Dict[str, Dict[str, Translations]] = {run.name: {} for run in self.runs}
        titles = {"on": "", **{state: f", BERT {state}" for state in MEANINGS if state != "on"}}
        for number, (run, state, enter) in enumerate(jobs, 1):
            title = f"translation {number} of {len(jobs)}: {run.name}{titles.get(state, f', {state}')}"
            job = run, self.subset, self.how, state if state in MEANINGS else "on", enter
            self.found[run.name][state] = translate_once(*job, self.folder, title)
        own = {
            name: [self._texts_of(each) for state, each in found.items() if state == "on" or state not in MEANINGS]
            for name, found in self.found.items()
        }
        self.hypotheses: Dict[str, Sequence[Sequence[str]]] = {**own, **self.others}
        say(f"scores of {self.size:,} sentences of {self.subset}, with {self.scorer.samples:,} resamples")
        self.signatures, self.scores = self.scorer.compare(list(self.hypotheses.items()), self.given)
        self.remarks = list(self.scorer.remarks)
        unknown = sum(UNKNOWN in reference for reference in self.scorer.references)
        if unknown:
            self.remarks.append(
                f"{unknown} references of {self.subset!r} have words that the dictionary does not know, which no "
                "translation can match. Give the text before fairseq-preprocess with --reference FILE."
            )

    def write_texts(self, folder: Path) -> None:
        """Write source, references and all translations to files in *folder*."""
        sources = [self.texts.detokenised(self.texts.source(self.sources[i])) for i in range(self.size)]
        write_texts(folder, self.subset, sources, self.scorer.references, [*self.hypotheses.items()])

    def verdict(self, data: str) -> Dict[str, Any]:
        """Return the scores and what they say; *data* is for the command that trains a fair control."""
        tests = [self._bert_ablation(run) for run in self.runs if self.with_ablations and run.reads_bert]
        return {
            "subset": self.subset,
            "sentences": self.size,
            "signatures": self.signatures,
            "verdicts": self._verdicts(tests, data),
            "systems": [self._score(name, found) for name, found in self.scores.items()],
            "bert_tests": tests,
        }

    def _verdicts(self, tests: Sequence[Mapping[str, Any]], data: str) -> List[str]:
        """Return the sentences that the page begins with; the first one answers its question."""
        (base, first), *others = self.scores.items()
        if not others:
            return [f"{base} has {', '.join(f'{metric} {own.score:.2f}' for metric, own in first.items())}."]
        said = {name: verdict(name, base, self.scores) for name, _ in others}
        fair = {run.name: fairness(run, self.baseline, self.runs, data) for run in self.runs}
        if main := with_bert(self.runs):
            used = {test["run"]: test["used"] for test in tests}.get(main.name)
            own = answer(main, base, self.scores, used, fair[main.name] is not None)
            said = {main.name: own, **{name: line for name, line in said.items() if name != main.name}}
        if max(of["BLEU"].score for of in self.scores.values()) < 1:
            said = {next(iter(said)): "No system translates yet (BLEU below 1), so this says nothing: train longer."}
        return [" ".join(filter(None, (line, fair.get(name)))) for name, line in said.items()]

    def details(self, data: str, examples: int) -> Dict[str, Any]:
        """Return all else; *data* has the training set, and *examples* best and worst sentences are shown."""
        sentences = {name: self.scorer.sentences(first) for name, (first, *_) in self.hypotheses.items()}
        chosen = self._choose(sentences, examples)
        shown = sorted({i for lists in chosen.values() for numbers in lists.values() for i in numbers})
        return {
            "baseline": self.baseline.name,
            "runs": [{**self._score(run.name, self.scores[run.name]), **self._run(run)} for run in self.runs],
            "buckets": self._buckets(data),
            "curves": self._curves(),
            "examples": chosen,
            "sentence_texts": {i: self._sentence(i, sentences) for i in shown},
            "attention": self._attention(shown),
        }

    def _texts_of(self, found: Translations) -> List[str]:
        return [self.texts.target(found.tokens[i]) for i in range(self.size)]

    def _score(self, name: str, scores: Scores) -> Dict[str, Any]:
        length = mean(self.scorer.bleu(texts, range(self.size)).ratio for texts in self.hypotheses[name])
        return {"name": name, "scores": _as_dicts(scores), "length": length}

    def _run(self, run: Run) -> Dict[str, Any]:
        found, facts = self.found[run.name]["on"], ("selection", "architecture", "updates", "reads_bert", "parameters")

        def read() -> Iterator[Tuple[Dict[str, Any], List[Tensor]]]:
            with Progress(f"entropy of the attention of {run.name}", self.size, "sentences") as progress:
                for sample in batches(run, self.subset, self.how.max_tokens):
                    tokens = [found.tokens[i] for i in sample["id"].tolist()]
                    yield sample["net_input"], tokens
                    progress.update(len(tokens))

        entropies = attention_statistics(run.model, read())
        return {
            **{fact: getattr(run, fact) for fact in facts},
            "checkpoint": str(run.files.checkpoint),
            "seeds": [str(seed.files.checkpoint) for seeds in self.seeds if seeds[0] is run for seed in seeds],
            "began_from": [origin._asdict() for origin in run.origins],
            "speed": found.speed(),
            "entropy": {kind: [layer and layer._asdict() for layer in layers] for kind, layers in entropies.items()},
            "too_even": [too_even for kind, layers in entropies.items() if (too_even := evenness(kind, layers))],
            "alphas": learned_alphas(run.model),
        }

    def _bert_ablation(self, run: Run) -> Dict[str, Any]:
        """Return the scores of *run*, which reads BERT, in each state of BERT, tested against the normal one."""
        found = self.found[run.name]
        _, scores = self.scorer.compare([(name, [self._texts_of(found[name])]) for name in MEANINGS if name in found])
        used, said = bert_verdict(run.name, scores)
        return {
            "run": run.name,
            "used": used,
            "verdict": said,
            "drops_bert": any(isinstance(each, DropNet) and each.p_net > 0 for each in run.model.modules()),
            "states": [
                {"name": name, "meaning": MEANINGS[name], "scores": _as_dicts(each)} for name, each in scores.items()
            ],
        }

    def _buckets(self, data: str) -> Dict[str, Any]:
        task, marks = self.baseline.task, self.texts.source_words
        sentences = [words_of(task.source_dictionary, self.sources[i].tolist(), marks) for i in range(self.size)]
        tables = {"length": by_length(sentences)}
        seen = count_training_words(task, data, marks, sentences)
        if seen is None:
            self.remarks.append(f"{data} holds no training data, so the report does not know which words are rare.")
        else:
            tables["rare"] = by_rare_words(sentences, seen)
        rows = {
            kind: [self._bucket(name, [len(sentences[i]) for i in found], found) for name, found in groups.items()]
            for kind, groups in tables.items()
        }
        return {"rare_at_most": RARE, "of_subwords": marks == PIECES or SUBWORDS[marks].join is None, **rows}

    def _bucket(self, name: str, lengths: List[int], numbers: List[int]) -> Dict[str, Any]:
        scores = {
            system: mean(self.scorer.bleu(texts, numbers).score for texts in seeds)
            for system, seeds in self.hypotheses.items()
        }
        return {"name": name, "sentences": len(numbers), "mean_length": mean(lengths), "BLEU": scores}

    def _curves(self) -> Dict[str, Curves]:
        """Return the curves of each run, after the updates of the checkpoints that it began from."""
        by_run = {}
        for run in self.runs:
            logs = find_logs(run.files.checkpoint)
            before, curves = updates_before(run.origins), read_curves(logs)
            by_run[run.name] = {key: [(x + before, y) for x, y in points] for key, points in curves.items()}
            if not curves:
                where = ", ".join(map(str, logs)) or f"the folder of {run.files.checkpoint} and beside it"
                self.remarks.append(f"{run.name} has no curves, since there is no output of fairseq-train in {where}.")
        return by_run

    def _choose(self, sentences: Dict[str, List[Dict[str, float]]], count: int) -> Dict[str, Dict[str, List[int]]]:
        """Return, for each run, the numbers of the sentences that gain, and lose, most chrF against the baseline.

        A single run is compared with its own mean.
        """
        chrf = {name: [score["chrF"] for score in scores] for name, scores in sentences.items()}
        base, *others = chrf
        against = chrf[base] if others else [mean(chrf[base])] * self.size
        chosen = {}
        for name in others or [base]:
            gains = sorted((own - other, i) for i, (own, other) in enumerate(zip(chrf[name], against)))
            best, worst = [i for gain, i in gains[::-1] if gain > 0], [i for gain, i in gains if gain < 0]
            chosen[name] = {"best": best[:count], "worst": worst[:count]}
        return chosen

    def _sentence(self, number: int, sentences: Dict[str, List[Dict[str, float]]]) -> Dict[str, Any]:
        shown = self.texts.shown
        return {
            "source": shown(self.texts.source(self.sources[number])),
            "reference": shown(self.scorer.references[number]),
            "translations": {
                name: {"text": shown(first[number]), **sentences[name][number]}
                for name, (first, *_) in self.hypotheses.items()
            },
        }

    def _attention(self, numbers: Sequence[int]) -> Dict[int, List[Dict[str, Any]]]:
        """Return what each run attends to in the sentences *numbers*."""
        result: Dict[int, List[Dict[str, Any]]] = {number: [] for number in numbers}
        with Progress("attention of the sentences that the page shows", len(numbers), "sentences") as progress:
            for number in numbers:
                for run in self.runs:
                    sample, tokens = run.sample(self.subset, number), self.found[run.name]["on"].tokens[number]
                    subwords = self.texts.source_words, self.texts.target_words
                    for found in attention_maps(run.model, run.task, sample, tokens, subwords):
                        result[number].append({"run": run.name, **found.figures(self.texts.shown)})
                progress.update(1)
        return result


def _as_dicts(scores: Scores) -> Dict[str, Dict[str, Any]]:
    return {metric: asdict(score) for metric, score in scores.items()}
