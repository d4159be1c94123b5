"""Writes the evidence of models on test sets, each file once; a model is loaded only where a file is missing."""

import hashlib
import json
import shutil
from argparse import Namespace
from collections import Counter
from dataclasses import asdict
from glob import escape
from pathlib import Path
from typing import Any, Dict, Iterator, List, Optional, Sequence, Tuple

from fairseq.utils import split_paths
from torch import Tensor

from bert_fused_lab.evidence.attention import attention_maps, attention_statistics, evenness
from bert_fused_lab.evidence.bert_ablations import bert_ablations
from bert_fused_lab.evidence.files import (
    RARE,
    UNKNOWN,
    EvaluationFacts,
    SystemFacts,
    folder_of,
    lines_for,
    read_json,
)
from bert_fused_lab.evidence.runs import Place, Run, RunFiles, find_logs, load_run, read_curves, require_context
from bert_fused_lab.evidence.translating import Decoding, Texts, Translations, batches, hardware, searcher, translate
from bert_fused_lab.evidence.words import PIECES, count_training_words
from bert_fused_lab.output import write_json, write_lines
from bert_fused_plugin.data.data_bin import directory_of_epoch
from bert_fused_plugin.data.subwords import SUBWORDS, bleu_tokenizer, language_name
from bert_fused_plugin.errors import BertFusedError
from bert_fused_plugin.modules.attention_map import learned_alphas
from bert_fused_plugin.progress import Progress, say

_NO_CURVES = "has no curves, since there is no output of fairseq-train"


class Collection:
    """The evidence of *seeds*, the checkpoints of each system, in ``options.evidence``; all are of one pair."""

    def __init__(self, options: Namespace, seeds: Sequence[Sequence[RunFiles]], device: str) -> None:
        self.options, self.seeds, self.folder = options, seeds, Path(options.evidence)
        how = {name: vars(options)[name] for name in asdict(Decoding())}
        self.how = Decoding(**how)
        place = options.bert_text, options.bert_documents, device, options.bf16
        self.place = Place(options.data, options.subset, *place)
        self._digests: Dict[Path, str] = {}
        self._loaded: Dict[RunFiles, Run] = {}

    def prepare(self) -> None:
        """Load the models of which a file is missing, and write the texts of the test sets.

        Raises:
            BertFusedError: a checkpoint or a test set cannot be used.
        """
        systems = [*self._systems()]
        for files, seed, subset in systems:
            folder = folder_of(self.folder / subset, files.name, seed)
            if (folder / "on.txt").exists() and not (folder / "facts.json").exists():
                raise BertFusedError(
                    f"{folder} has translations and no facts.json, so they are of another program, or were "
                    f"interrupted; remove this folder, or give {files} another name"
                )
        missing = [files for files, seed, subset in systems if not self._is_done(files, seed, subset)]
        is_new = len(missing) == len(systems)
        there = [subset for subset in self.options.subset if self._test_set_is_done(subset)]
        missing += [] if there == self.options.subset else [self.seeds[0][0]]
        runs = [self._run(files) for files in dict.fromkeys(missing)]
        languages = {f"{run.files} translates": run.languages for run in runs}
        for subset in there:
            languages[f"{self.folder} is of"] = tuple(read_json(self.folder / subset / "facts.json")["languages"])
        if len({*languages.values()}) > 1:
            said = ", ".join(f"{who} {'-'.join(pair)}" for who, pair in languages.items())
            raise BertFusedError(f"{said}; compare runs of one language pair")
        if is_new:  # otherwise, a run that is done may have read the documents
            require_context(runs, self.options.bert_documents)
        for subset in self.options.subset:
            if subset not in there:
                self._write_test_set(runs[-1], subset)

    def translate(self) -> None:
        """Write what is missing of the translations, and of the facts about each model and its attention."""
        jobs = [(*place, state) for place in self._systems() for state in self._missing(*place)]
        for number, (files, seed, subset, state) in enumerate(jobs, 1):
            title = f"translation {number} of {len(jobs)}: {files.name}"
            title += ("" if state == "on" else f", BERT {state}") + ("" if seed == 1 else f", seed {seed}")
            title += f", {subset}" if len(self.options.subset) > 1 else ""
            run, folder = self._run(files), folder_of(self.folder / subset, files.name, seed)
            with bert_ablations(run, subset)[state]():
                translations = translate(run, subset, self.how, title)
            texts = self._texts(run)
            lines = [texts.target(translations.tokens[i]) for i in range(len(translations.tokens))]
            if state == "on":
                if seed == 1:
                    write_json(folder / "attention.json", self._attention(run, subset, translations))
                write_json(folder / "facts.json", asdict(self._facts(run, subset, translations)))
            write_lines(folder / f"{state}.txt", lines)  # at last: without facts, it is of another program

    def add_maps(self, subset: str, numbers: Sequence[int]) -> None:
        """Write what each system, in its first seed, attends to in the sentences of these *numbers*."""
        for first, *_ in self.seeds:
            file = folder_of(self.folder / subset, first.name, 1) / "attention.json"
            known = read_json(file)
            missing = [i for i in numbers if str(i) not in known["maps"]]
            if not missing:
                continue
            run = self._run(first)
            search, texts = searcher(run, self.how), self._texts(run)
            with Progress(f"attention of {first.name} in the sentences shown", len(missing), "sentences") as progress:
                for number in missing:
                    sample = run.sample(subset, number)
                    [tokens] = search(sample)
                    maps = attention_maps(run.model, run.task, sample, tokens, (texts.source_words, texts.target_words))
                    known["maps"][str(number)] = [attention_map.figures(texts.shown) for attention_map in maps]
                    progress.update(1)
            write_json(file, known)

    def _systems(self) -> Iterator[Tuple[RunFiles, int, str]]:
        for subset in self.options.subset:
            for seeds in self.seeds:
                yield from ((files, seed, subset) for seed, files in enumerate(seeds, 1))

    def _run(self, files: RunFiles) -> Run:
        """Return a run, loaded before or now; the models of others leave the GPU, whose memory may not hold all."""
        for other, run in self._loaded.items():
            run.model.to(self.place.device if other == files else "cpu")
        if files not in self._loaded:
            say(f"loading {files.name} from {files.checkpoint}")
            self._loaded[files] = load_run(files, self.place)
        return self._loaded[files]

    def _texts(self, run: Run) -> Texts:
        return Texts(run.task, self.options.remove_bpe, self.options.detok)

    # --- what there is already

    def _is_done(self, files: RunFiles, seed: int, subset: str) -> bool:
        folder = folder_of(self.folder / subset, files.name, seed)
        facts = read_json(folder / "facts.json")
        if facts.get("key") != self._key(subset, files.checkpoint):
            return False
        return all((folder / f"{state}.txt").exists() for state in self._wanted(seed, facts["states"]))

    def _wanted(self, seed: int, states: Sequence[str]) -> List[str]:
        return [*states] if seed == 1 and not self.options.no_bert_tests else ["on"]

    def _missing(self, files: RunFiles, seed: int, subset: str) -> List[str]:
        """Return the states of BERT in which the test set must still be translated."""
        folder = folder_of(self.folder / subset, files.name, seed)
        if self._is_done(files, seed, subset):
            if curves := read_curves(find_logs(files.checkpoint)):  # the log may have grown, or come, since then
                facts = read_json(folder / "facts.json")
                remarks = [remark for remark in facts["remarks"] if _NO_CURVES not in remark]
                write_json(folder / "facts.json", {**facts, "curves": curves, "remarks": remarks})
            return []
        run = self._run(files)
        if read_json(folder / "facts.json").get("key") != self._key(subset, files.checkpoint):
            shutil.rmtree(folder, ignore_errors=True)  # of another checkpoint, or half of this one
        wanted = self._wanted(seed, [*bert_ablations(run, subset)])
        return [state for state in wanted if not (folder / f"{state}.txt").exists()]

    def _key(self, subset: str, *files: Path) -> str:
        """Return a digest of all that the translations of *subset* by the checkpoint in *files* follow from."""
        options = self.options
        given = {"--bert-text": options.bert_text, "--bert-documents": options.bert_documents}
        folders = [directory_of_epoch(flag, folder, options.data, None) for flag, folder in given.items()]
        texts = [*self._texts_of(subset), *(path for folder in folders if folder for path in _files(folder, subset))]
        return self._hash([asdict(self.how), options.bf16, options.remove_bpe, options.detok], *texts, *files)

    def _form(self, subset: str) -> str:
        """Return a digest of the sentences of *subset* and of how translations are written."""
        return self._hash([self.options.remove_bpe, self.options.detok], *self._texts_of(subset))

    def _texts_of(self, subset: str) -> List[Path]:
        data = split_paths(self.options.data)[0]
        return [*_files(data, subset), *sorted(Path(data).glob("dict.*.txt"))]

    def _hash(self, settings: List[Any], *files: Path) -> str:
        parts = [json.dumps(settings), *map(self._digest, files)]
        return hashlib.blake2b(" ".join(parts).encode(), digest_size=16).hexdigest()

    def _digest(self, path: Path) -> str:
        if path not in self._digests:
            digest = hashlib.blake2b(digest_size=16)
            with path.open("rb") as file:
                for block in iter(lambda: file.read(2**22), b""):
                    digest.update(block)
            self._digests[path] = digest.hexdigest()
        return self._digests[path]

    # --- test sets

    def _reference(self, subset: str) -> Optional[Path]:
        template = self.options.reference
        return template and Path(str(template).replace("{subset}", subset))

    def _test_set_key(self, subset: str) -> str:
        train = [path for folder in split_paths(self.options.data) for path in sorted(Path(folder).glob("train*.idx"))]
        reference = self._reference(subset)
        return self._key(subset, *train, *([reference] if reference and reference.is_file() else []))

    def _test_set_is_done(self, subset: str) -> bool:
        return read_json(self.folder / subset / "facts.json").get("key") == self._test_set_key(subset)

    def _write_test_set(self, run: Run, subset: str) -> None:
        texts, sources, folder = self._texts(run), run.sources[subset], self.folder / subset
        references = self._references(run, subset, texts)
        marks = texts.source_words
        words = [texts.words_of_source(sources[i]) for i in range(len(sources))]
        seen = count_training_words(run.task, self.options.data, marks, words)
        write_lines(folder / "source.txt", (texts.detokenised(texts.source(sources[i])) for i in range(len(sources))))
        write_lines(folder / "reference.txt", references)
        source, target = map(language_name, run.languages)
        facts = EvaluationFacts(
            key=self._test_set_key(subset),
            data=self.options.data,
            languages=run.languages,
            names=(source, target),
            bleu_tokenizer=bleu_tokenizer(run.languages[1]),
            reference=self.options.reference and str(self.options.reference),
            detok=self.options.detok,
            lower_cased=texts.lower_cased,
            escaped=texts.escaped,
            of_subwords=marks == PIECES or SUBWORDS[marks].join is None,
            words=[*map(len, words)],
            rare=None if seen is None else [_rare(sentence, seen) for sentence in words],
            remarks=texts.remarks,
            form=self._form(subset),
        )
        write_json(folder / "facts.json", asdict(facts))

    def _references(self, run: Run, subset: str, texts: Texts) -> List[str]:
        """Return the reference of each sentence, from the file of ``--reference`` or from the data."""
        dataset, path = run.task.dataset(subset), self._reference(subset)
        if path is None:
            if dataset.tgt is None:
                side = f"{self.options.data} has no {run.languages[1]} side of {subset!r}"
                raise BertFusedError(f"{side}; give the references: --reference FILE")
            return [texts.target(dataset.tgt[i], UNKNOWN) for i in range(len(dataset))]
        if not texts.joins_target:
            rule = f"needs translations as text, but {self.options.data} has subwords that the report cannot join"
            raise BertFusedError(f"--reference {path} {rule}; leave it out")
        template, is_only = self.options.reference, len(self.options.subset) == 1
        return lines_for("--reference ", template, subset, is_only, self.options.data, len(dataset))

    # --- what a model is

    def _facts(self, run: Run, subset: str, translations: Translations) -> SystemFacts:
        checkpoint = run.files.checkpoint
        logs = find_logs(checkpoint)
        curves, remarks = read_curves(logs), [*run.remarks]
        if not curves:
            where = ", ".join(map(str, logs)) or f"the folder of {checkpoint} and beside it"
            remarks.append(f"{run.name} {_NO_CURVES} in {where}.")
        return SystemFacts(
            key=self._key(subset, checkpoint),
            **run.facts,
            curves=curves,
            states=[*bert_ablations(run, subset)],
            decoding=asdict(self.how),
            bf16=self.options.bf16,
            hardware=hardware(self.place.device),
            speed=translations.speed(),
            remarks=remarks,
            form=self._form(subset),
        )

    def _attention(self, run: Run, subset: str, translations: Translations) -> Dict[str, Any]:
        def read() -> Iterator[Tuple[Dict[str, Any], List[Tensor]]]:
            with Progress(f"entropy of the attention of {run.name}", len(translations.tokens), "sentences") as progress:
                for sample in batches(run, subset, self.how.max_tokens):
                    tokens = [translations.tokens[i] for i in sample["id"].tolist()]
                    yield sample["net_input"], tokens
                    progress.update(len(tokens))

        entropies = attention_statistics(run.model, read())
        return {
            "entropy": {kind: [layer and layer._asdict() for layer in layers] for kind, layers in entropies.items()},
            "too_even": [too_even for kind, layers in entropies.items() if (too_even := evenness(kind, layers))],
            "alphas": learned_alphas(run.model),
            "maps": {},  # of single sentences, by their numbers
        }


def _files(folder: str, subset: str) -> List[Path]:
    return [path for path in sorted(Path(folder).glob(f"{escape(subset)}.*")) if path.is_file()]


def _rare(sentence: Sequence[Any], seen: "Counter[Any]") -> int:
    return sum(seen[word] <= RARE for word in sentence)
