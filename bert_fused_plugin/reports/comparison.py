"""All figures of the report in one dictionary, which the JSON holds and the page shows."""

from dataclasses import asdict
from typing import Any, Dict, List, Mapping, Sequence

from bert_fused_plugin.checkpoints.origins import updates_before
from bert_fused_plugin.data.dictionary_bridge import looks_like_moses
from bert_fused_plugin.modules.attention_map import learned_alphas
from bert_fused_plugin.progress import Progress, say
from bert_fused_plugin.reports.attention_maps import attention_maps
from bert_fused_plugin.reports.attention_statistics import AttentionStatistics, evenness
from bert_fused_plugin.reports.bert_ablations import MEANINGS, bert_ablations
from bert_fused_plugin.reports.buckets import (
    RARE,
    Bucket,
    by_length,
    by_rare_words,
    count_training_words,
    rare_word_counts,
    words_of,
)
from bert_fused_plugin.reports.charts import line_chart
from bert_fused_plugin.reports.decoding import Decoding, Texts, Translations, batches, translate
from bert_fused_plugin.reports.runs import Run
from bert_fused_plugin.reports.scoring import Scorer, Scores
from bert_fused_plugin.reports.training_log import Points, read_curves
from bert_fused_plugin.reports.verdicts import bert_verdict, fairness, verdict
from bert_fused_plugin.reports.words import PIECES, merged_words

_CHARTS = {
    "valid nll_loss": "validation nll_loss (bits)",
    "train nll_loss": "training nll_loss (bits)",
    "valid bleu": "validation BLEU",
    "valid loss": "validation loss",
    "train loss": "training loss",
}


class Comparison:
    """Translates a test set with all runs, and compares the translations with those of the first run, the baseline.

    For a single run it reports how good the run is, and whether it uses BERT.

    Args:
        runs: runs of one language pair.
        subset: name of the test set.
        how: settings of the search.
        texts: the maker of texts from ids.
        scorer: the scorer, which has the reference of each sentence.
        seed: seed of the shuffling and of the random BERT.
        with_ablations: whether to translate with BERT off, shuffled and random too.
    """

    def __init__(
        self,
        runs: Sequence[Run],
        subset: str,
        how: Decoding,
        texts: Texts,
        scorer: Scorer,
        seed: int,
        with_ablations: bool,
    ) -> None:
        self.runs, self.subset, self.how, self.texts = runs, subset, how, texts
        self.scorer = scorer
        self.size = len(runs[0].sources)
        sources = [runs[0].sources[i] for i in range(self.size)]
        self.sources = [texts.source(source) for source in sources]
        dictionary = runs[0].task.source_dictionary
        self.words = [words_of(dictionary, source.tolist(), texts.source_words) for source in sources]
        self.ablations = {
            run.name: bert_ablations(run, subset, seed) for run in runs if with_ablations and run.reads_bert
        }
        self._translated, self._to_translate = 0, len(runs) + sum(len(states) - 1 for states in self.ablations.values())
        self.found = {run.name: self._translate(run, run.name) for run in runs}
        self.hypotheses = {name: self._texts_of(found) for name, found in self.found.items()}
        self.remarks = [remark for run in runs for remark in run.remarks] + texts.remarks + scorer.remarks
        unknown = sum("<<unk>>" in reference for reference in scorer.references)
        if unknown:
            self.remarks.append(
                f"{unknown} references have words that the dictionary does not know, which no translation can match. "
                "Give the text before fairseq-preprocess with --reference FILE."
            )

    def report(self, data: str, examples: int) -> Dict[str, Any]:
        """Return the figures.

        Args:
            data: directory with the training data, whose words are counted.
            examples: number of best and of worst sentences that the page shows for each run.
        """
        say(f"scores of {self.size:,} sentences, with {self.scorer.samples:,} bootstrap resamples")
        signatures, scores = self.scorer.compare(list(self.hypotheses.items()))
        sentences = {name: self.scorer.sentences(texts) for name, texts in self.hypotheses.items()}
        chosen = self._choose(sentences, examples)
        shown = sorted({i for lists in chosen.values() for numbers in lists.values() for i in numbers})
        return {
            "baseline": self.runs[0].name,
            "signatures": signatures,
            "verdicts": [self._verdict(run, scores, data) for run in self.runs[1:]],
            "runs": [self._run(run, scores[run.name]) for run in self.runs],
            "bert_tests": self._bert_ablations(),
            "buckets": self._buckets(data),
            "curves": self._curves(),
            "examples": chosen,
            "sentence_texts": {i: self._sentence(i, sentences) for i in shown},
            "attention": self._attention_of(shown),
            "remarks": self.remarks,
            "moses_escapes": any(map(looks_like_moses, (self.texts.source_dictionary, self.texts.target_dictionary))),
        }

    def _translate(self, run: Run, title: str) -> Translations:
        self._translated += 1
        return translate(run, self.subset, self.how, f"translation {self._translated} of {self._to_translate}: {title}")

    def _verdict(self, run: Run, scores: Dict[str, Scores], data: str) -> str:
        baseline = self.runs[0]
        said = [verdict(run.name, baseline.name, scores), fairness(run, baseline, self.runs, data)]
        return " ".join(filter(None, said))

    def _texts_of(self, found: Translations) -> List[str]:
        return [self.texts.hypothesis(found.tokens[i]) for i in range(self.size)]

    def _run(self, run: Run, scores: Scores) -> Dict[str, Any]:
        statistics = AttentionStatistics()
        with Progress(f"entropy of the attention of {run.name}", self.size, "sentences") as progress:
            for sample in batches(run, self.subset, self.how.max_tokens):
                tokens = [self.found[run.name].tokens[i] for i in sample["id"].tolist()]
                dictionary, marks = run.task.source_dictionary, self.texts.source_words
                sources = [merged_words(dictionary, line, marks) for line in sample["net_input"]["src_tokens"]]
                statistics.add(run.model, sample["net_input"], tokens, sources)
                progress.update(len(tokens))
        entropies = statistics.entropies()
        return {
            "name": run.name,
            "checkpoint": str(run.files.checkpoint),
            "architecture": run.architecture,
            "updates": run.updates,
            "began_from": [origin._asdict() for origin in run.origins],
            "reads_bert": run.reads_bert,
            "parameters": run.parameters,
            "speed": self.found[run.name].speed(),
            "scores": {metric: asdict(score) for metric, score in scores.items()},
            "length": self.scorer.length(self.hypotheses[run.name]),
            "entropy": _as_dicts(entropies),
            "too_even": [too_even for kind, layers in entropies.items() if (too_even := evenness(kind, layers))],
            "sparsity": _as_dicts(statistics.sparsity()),
            "attended_words": statistics.attended_words(),
            "alphas": learned_alphas(run.model),
            "gates": statistics.gates(),
        }

    def _bert_ablations(self) -> List[Dict[str, Any]]:
        """Return, for each run that reads BERT, its scores in each state of BERT, tested against the normal one."""
        results = []
        for run in self.runs:
            if run.name not in self.ablations:
                continue
            systems = [("on", self.hypotheses[run.name])]
            for name, state in self.ablations[run.name].items():
                if name != "on":
                    with state():
                        found = self._translate(run, f"{run.name}, BERT {name}")
                    systems.append((name, self._texts_of(found)))
            _, scores = self.scorer.compare(systems)
            states = [
                {"name": name, "meaning": MEANINGS[name], "scores": {k: asdict(s) for k, s in scores[name].items()}}
                for name, _ in systems
            ]
            said = bert_verdict(run.name, scores)
            results.append({"run": run.name, "verdict": said, "states": states, "drops_bert": run.drops_bert})
        return results

    def _buckets(self, data: str) -> Dict[str, Any]:
        lengths = [len(words) for words in self.words]
        tables = {"length": by_length(lengths)}
        task = self.runs[0].task
        seen = count_training_words(task, data, self.texts.source_words, self.words)
        if seen is None:
            self.remarks.append(f"{data} holds no training data, so the report does not know which words are rare.")
        else:
            tables["rare"] = by_rare_words(rare_word_counts(self.words, seen), lengths)
        rows = {kind: self._bucket_rows(buckets) for kind, buckets in tables.items()}
        return {"rare_at_most": RARE, "of_subwords": self.texts.source_words == PIECES, **rows}

    def _bucket_rows(self, buckets: Sequence[Bucket]) -> List[Dict[str, Any]]:
        return [
            {
                "name": bucket.name,
                "sentences": len(bucket.numbers),
                "mean_length": bucket.mean_length,
                "BLEU": {name: self.scorer.bleu(texts, bucket.numbers) for name, texts in self.hypotheses.items()},
            }
            for bucket in buckets
        ]

    def _curves(self) -> Dict[str, Any]:
        by_run = {run.name: _shifted(read_curves(run.files.logs), updates_before(run.origins)) for run in self.runs}
        for run in self.runs:
            if not by_run[run.name]:
                logs = ", ".join(map(str, run.files.logs))
                no_log = f"there is no log beside {run.files.checkpoint}"
                why = f"{logs} is not a log of fairseq-train" if logs else no_log
                self.remarks.append(f"{run.name} has no curves, since {why}; give --log {run.name}=FILE.")
        charts = [
            line_chart(title, {name: curves.get(key, []) for name, curves in by_run.items()})
            for key, title in _CHARTS.items()
        ]
        return {"points": by_run, "charts": [chart for chart in charts if chart is not None]}

    def _choose(self, sentences: Dict[str, List[Dict[str, float]]], count: int) -> Dict[str, Dict[str, List[int]]]:
        """Return, for each run, the numbers of the sentences that gain, and lose, most chrF against the baseline.

        A single run is compared with its own mean.
        """
        chrf = {name: [score["chrF"] for score in scores] for name, scores in sentences.items()}
        base, *others = chrf
        against = chrf[base] if others else [sum(chrf[base]) / self.size] * self.size
        chosen = {}
        for name in others or [base]:
            gains = [own - other for own, other in zip(chrf[name], against)]
            order = sorted(range(self.size), key=lambda i: gains[i])
            chosen[name] = {
                "best": [i for i in reversed(order) if gains[i] > 0][:count],
                "worst": [i for i in order if gains[i] < 0][:count],
            }
        return chosen

    def _sentence(self, number: int, sentences: Dict[str, List[Dict[str, float]]]) -> Dict[str, Any]:
        return {
            "source": self.sources[number],
            "reference": self.scorer.references[number],
            "translations": {
                name: {"text": texts[number], **sentences[name][number]} for name, texts in self.hypotheses.items()
            },
        }

    def _attention_of(self, numbers: Sequence[int]) -> Dict[int, List[Dict[str, Any]]]:
        result = {}
        with Progress("attention of the sentences that the page shows", len(numbers), "sentences") as progress:
            for number in numbers:
                result[number] = self._attention(number)
                progress.update(1)
        return result

    def _attention(self, number: int) -> List[Dict[str, Any]]:
        result = []
        for run in self.runs:
            tokens = self.found[run.name].tokens[number]
            subwords = self.texts.source_words, self.texts.target_words
            for found in attention_maps(run.model, run.task, run.sample(self.subset, number), tokens, subwords):
                result.append(
                    {
                        "run": run.name,
                        "kind": found.kind,
                        "rows": found.rows,
                        "columns": found.columns,
                        "percent": [
                            None if layer is None else (100 * layer).round().int().tolist() for layer in found.layers
                        ],
                        "too_even": [evenness(found.kind, [layer]) for layer in found.entropies],
                        "alignment": found.pharaoh(found.last()) if found.kind == "source" else None,
                    }
                )
        return result


def _as_dicts(by_kind: Mapping[str, Sequence[Any]]) -> Dict[str, List[Any]]:
    """Return the figures of each layer, by kind of attention, as dictionaries."""
    return {kind: [None if layer is None else layer._asdict() for layer in layers] for kind, layers in by_kind.items()}


def _shifted(curves: Dict[str, Points], updates: int) -> Dict[str, Points]:
    """Return *curves* after the *updates* that the parameters had seen when the training began."""
    return {name: [(x + updates, y) for x, y in points] for name, points in curves.items()}
