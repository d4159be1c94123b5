"""All figures of the report in one dictionary, which the JSON holds and the page shows."""

from bisect import bisect_left
from dataclasses import asdict, dataclass
from statistics import mean
from typing import Any, Dict, List, Mapping, Sequence

from bert_fused_lab.evidence.files import RARE, STATES, UNKNOWN
from bert_fused_lab.report.scoring import GivenScores, Scorer, Scores
from bert_fused_lab.report.systems import EvaluationSet, System
from bert_fused_lab.report.verdicts import answer, bert_verdict, fairness, unfinished, verdict, with_bert

_LENGTHS = (10, 15, 20, 25, 30)
_LENGTH_NAMES = [*(f"{start + 1}-{end}" for start, end in zip((0, *_LENGTHS), _LENGTHS)), f"over {_LENGTHS[-1]}"]
_RARE_NAMES = ["none", "1", "2", "3 or more"]
Groups = Dict[str, List[int]]  # the numbers of the sentences of each group, by its name


@dataclass
class Comparison:
    """The translations of a test set by *systems*, compared with those of the first one, the baseline.

    Of a single system it says how good the system is and, if that is a model with BERT, whether it uses BERT.
    """

    test_set: EvaluationSet
    systems: Sequence[System]
    scorer: Scorer  # which has the references
    given_scores: Sequence[GivenScores] = ()  # of other metrics

    def __post_init__(self) -> None:
        self.texts = {system.name: system.texts for system in self.systems}
        self.runs = [system for system in self.systems if system.facts is not None]
        self.signatures, self.scores = self.scorer.compare(list(self.texts.items()), self.given_scores)
        self.remarks = [*self.scorer.remarks]
        unknown = sum(UNKNOWN in reference for reference in self.test_set.references)
        if unknown:
            self.remarks.append(
                f"{unknown} references of {self.test_set.name!r} have words that the dictionary does not know, which "
                "no translation can match. Give the text before fairseq-preprocess with --reference FILE."
            )
        if self.test_set.facts.words is not None and self.test_set.facts.rare is None:
            data = self.test_set.facts.data
            self.remarks.append(f"{data} holds no training data, so the report does not know which words are rare.")

    def verdict(self) -> Dict[str, Any]:
        """Return the scores and what they say."""
        tests = [self._test_of_bert(run) for run in self.runs if run.reads_bert and len(run.states) > 1]
        return {
            "subset": self.test_set.name,
            "sentences": len(self.test_set.references),
            "signatures": self.signatures,
            "verdicts": self._verdicts(tests),
            "systems": [self._score(name, scores) for name, scores in self.scores.items()],
            "bert_tests": tests,
        }

    def _verdicts(self, tests: Sequence[Mapping[str, Any]]) -> List[str]:
        """Return the sentences that the page begins with; the first one answers its question."""
        (base, first), *others = self.scores.items()
        if not others:
            return [f"{base} has {', '.join(f'{metric} {score.score:.2f}' for metric, score in first.items())}."]
        lines = {name: verdict(name, base, self.scores) for name, _ in others}
        baseline, data = self.systems[0], self.test_set.facts.data
        compared = self.runs if baseline.facts else []
        fair = {run.name: fairness(run, baseline, self.runs, data) for run in compared}
        if main := with_bert(self.systems):
            used = {test["run"]: test["used"] for test in tests}.get(main.name)
            main_line = answer(main, base, self.scores, used, fair.get(main.name) is not None)
            lines = {main.name: main_line, **{name: line for name, line in lines.items() if name != main.name}}
        if max(of["BLEU"].score for of in self.scores.values()) < 1:
            lines = {next(iter(lines)): "No system translates yet (BLEU below 1), so this says nothing: train longer."}
        start, *rest = (" ".join(filter(None, (line, fair.get(name)))) for name, line in lines.items())
        return [" ".join(filter(None, (start, unfinished(compared)))), *rest]

    def details(self, examples: int) -> Dict[str, Any]:
        """Return all else; *examples* is the number of best and of worst sentences that are shown."""
        sentences = {name: self.scorer.sentences(first) for name, (first, *_) in self.texts.items()}
        chosen = self._choose(sentences, examples)
        shown = sorted({i for lists in chosen.values() for numbers in lists.values() for i in numbers})
        return {
            "baseline": self.systems[0].name,
            "runs": [{**self._score(run.name, self.scores[run.name]), **_facts(run)} for run in self.runs],
            "buckets": self._buckets(),
            "curves": {run.name: _curves(run) for run in self.runs},
            "examples": chosen,
            "sentence_texts": {i: self._sentence(i, sentences) for i in shown},
        }

    def attention(self, numbers: Sequence[int]) -> Dict[int, List[Dict[str, Any]]]:
        """Return what each model attends to in the sentences of these *numbers*, as far as the evidence has it."""
        runs = {run.name: run.attention["maps"] for run in self.runs}
        return {i: [{"run": run, **one} for run, maps in runs.items() for one in maps.get(str(i), ())] for i in numbers}

    def _score(self, name: str, scores: Scores) -> Dict[str, Any]:
        everything = range(len(self.test_set.references))
        length = mean(self.scorer.bleu(texts, everything).ratio for texts in self.texts[name])
        return {"name": name, "scores": _as_dicts(scores), "length": length}

    def _test_of_bert(self, run: System) -> Dict[str, Any]:
        """Return the scores of *run*, which reads BERT, in each state of BERT, tested against the normal one."""
        _, rows = self.scorer.compare([(state, [texts]) for state, texts in run.states.items()])
        used, sentence = bert_verdict(run.name, rows)
        states = [{"name": name, "meaning": STATES[name], "scores": _as_dicts(scores)} for name, scores in rows.items()]
        return {
            "run": run.name,
            "used": used,
            "verdict": sentence,
            "drops_bert": run.known.drops_bert,
            "states": states,
        }

    def _buckets(self) -> Dict[str, Any]:
        facts = self.test_set.facts
        words = facts.words or [len(source.split()) for source in self.test_set.sources]
        tables = {"length": by_length(words)}
        if facts.rare is not None:
            tables["rare"] = by_rare_words(facts.rare)
        rows = {
            kind: [self._bucket(name, [words[i] for i in numbers], numbers) for name, numbers in groups.items()]
            for kind, groups in tables.items()
        }
        return {"rare_at_most": RARE, "of_subwords": facts.of_subwords, **rows}

    def _bucket(self, name: str, lengths: List[int], numbers: List[int]) -> Dict[str, Any]:
        scores = {
            system: mean(self.scorer.bleu(texts, numbers).score for texts in seeds)
            for system, seeds in self.texts.items()
        }
        return {"name": name, "sentences": len(numbers), "mean_length": mean(lengths), "BLEU": scores}

    def _choose(self, sentences: Dict[str, List[Dict[str, float]]], count: int) -> Dict[str, Dict[str, List[int]]]:
        """Return, for each system, the numbers of the sentences that gain, and lose, most chrF against the baseline.

        A single system is compared with its own mean.
        """
        chrf = {name: [score["chrF"] for score in scores] for name, scores in sentences.items()}
        base, *others = chrf
        against = chrf[base] if others else [mean(chrf[base])] * len(chrf[base])
        chosen = {}
        for name in others or [base]:
            gains = sorted((score - other, i) for i, (score, other) in enumerate(zip(chrf[name], against)))
            best, worst = [i for gain, i in gains[::-1] if gain > 0], [i for gain, i in gains if gain < 0]
            chosen[name] = {"best": best[:count], "worst": worst[:count]}
        return chosen

    def _sentence(self, number: int, sentences: Dict[str, List[Dict[str, float]]]) -> Dict[str, Any]:
        test_set, shown = self.test_set, self.test_set.shown
        return {
            "source": shown(test_set.sources[number] if test_set.sources else f"sentence {number + 1}"),
            "reference": shown(test_set.references[number]),
            "translations": {
                name: {"text": shown(first[number]), **sentences[name][number]}
                for name, (first, *_) in self.texts.items()
            },
        }


def _facts(run: System) -> Dict[str, Any]:
    names = ("selection", "architecture", "updates", "reads_bert", "parameters", "checkpoint", "began_from", "speed")
    attention = {name: value for name, value in run.attention.items() if name != "maps"}
    return {**{name: getattr(run.known, name) for name in names}, "seeds": run.checkpoints, **attention}


def _curves(run: System) -> Dict[str, Any]:
    """Return the curves of *run*, after the updates of the checkpoints that it began from."""
    before = sum(origin.updates or 0 for origin in run.origins)
    return {key: [(x + before, y) for x, y in points] for key, points in run.known.curves.items()}


def _as_dicts(scores: Scores) -> Dict[str, Dict[str, Any]]:
    return {metric: asdict(score) for metric, score in scores.items()}


def hardware_remarks(runs: Sequence[System]) -> List[str]:
    """Return a remark if the speeds of *runs* were measured on different machines, or under different settings."""
    places = {str((run.known.hardware, run.known.decoding, run.known.bf16)): run for run in runs}
    if len(places) < 2:
        return []
    names = ", ".join(f"{run.name} on {run.known.hardware['device']}" for run in places.values())
    return [f"The systems were not translated alike, so their speeds are not comparable: {names}."]


def by_length(words: Sequence[int]) -> Groups:
    """Return groups of sentences by their numbers of *words*."""
    return _group([bisect_left(_LENGTHS, count) for count in words], _LENGTH_NAMES)


def by_rare_words(rare: Sequence[int]) -> Groups:
    """Return groups of sentences by their numbers of *rare* words."""
    return _group([min(count, 3) for count in rare], _RARE_NAMES)


def _group(places: Sequence[int], names: Sequence[str]) -> Groups:
    groups = {name: [i for i, place in enumerate(places) if place == index] for index, name in enumerate(names)}
    return {name: numbers for name, numbers in groups.items() if numbers}
