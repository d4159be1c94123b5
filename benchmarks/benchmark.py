#!/usr/bin/env python
"""Measures speed, memory and start-up of the models, side by side with fairseq's own.

scripts/benchmark.py train  --data DIR --bert-model NAME_OR_DIR   training steps: transformer, BERT-fused
scripts/benchmark.py decode --data DIR --bert-model NAME_OR_DIR   beam search: the same
scripts/benchmark.py rnn    --data DIR                            both, and memory: lstm, the GRU models
scripts/benchmark.py cache  --data DIR --bert-model NAME_OR_DIR   BERT's states: computed, written, read
scripts/benchmark.py memory --data DIR --bert-model NAME_OR_DIR   the peak of training, each in its own process
scripts/benchmark.py start  --data DIR --bert-model NAME_OR_DIR   a process from its start to its first translation

DIR holds {train,test}.{en,de} with one sentence a line, tokenised and in subwords.  The systems take turns in one
process, A B C A B C ..., on the same batches; for start, each turn is a new process.  The report gives median, minimum
and maximum over the rounds, also of the ratios to the first system in the same round.  To compare BERT models, run the
benchmark once for each.
"""

import argparse
import logging
import multiprocessing
import os
import statistics
import tempfile
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Callable, Dict, List, Optional, Sequence

import torch
from benchmark_data import Corpus
from benchmark_options import chosen_systems, parse_args, reads_bert, splits_of
from benchmark_report import Result, Turn, environment, report, take_turns, write_json
from benchmark_start import BEAM, Starts
from benchmark_systems import (
    Decoding,
    StatesOnDisk,
    System,
    Training,
    batches_of,
    load_encoder,
    peak_memory,
    set_up,
)
from tqdm import tqdm

from bert_fused_plugin.models.bert_fused.encoder import BertFusedEncoder


@dataclass
class Bench:
    """What the subcommands need.

    Args:
        options: flags.
        directory: directory for files, and data-bin.
        systems: systems that are measured, by name.
        corpus: sentence pairs.
        encoder: encoder with BERT, if a system reads BERT.
    """

    options: argparse.Namespace
    directory: str
    systems: Dict[str, System]
    corpus: Corpus
    encoder: Optional[BertFusedEncoder]

    def turns(self, turn: Callable[[str], Dict[str, float]]) -> Dict[str, Turn]:
        return {name: partial(turn, name) for name in self.systems}


def main(arguments: Optional[Sequence[str]] = None) -> None:
    options = parse_args(arguments, list(COMMANDS), __doc__)
    set_up(options)
    load_at_start = os.getloadavg()
    with tempfile.TemporaryDirectory() as directory:
        corpus = Corpus(options, splits_of(options.command))
        corpus.write_dictionaries(directory)
        encoder = load_encoder(options, directory) if reads_bert(options) else None
        logging.disable(logging.WARNING)  # each further model would repeat them
        bench = Bench(options, directory, chosen_systems(options), corpus, encoder)
        results = COMMANDS[options.command](bench)
    facts = {
        **environment(options),
        "load average at start": "{:.2f} {:.2f} {:.2f}".format(*load_at_start),
        "load average at end": "{:.2f} {:.2f} {:.2f}".format(*os.getloadavg()),
        "data": f"{len(corpus.pairs['train']):,} training pairs, {len(corpus.dictionary):,} symbols",
    }
    if encoder is not None:
        bert = encoder.bert
        facts["BERT"] = f"{bert.depth} layers, width {bert.dim}, {bert.num_parameters:,} parameters"
    print(report(options.command, facts, results, NOTES[options.command]))
    if options.json:
        write_json(options.json, facts, results, NOTES[options.command])


def train(bench: Bench) -> List[Result]:
    batches = bench.corpus.training_batches(bench.encoder)
    trainings = {name: Training(system, bench.options, bench.directory) for name, system in bench.systems.items()}

    def turn(name: str) -> Dict[str, float]:
        for batch in batches_of(bench.systems[name], batches):
            trainings[name].step(batch)
        return {
            "step": len(batches),
            "sentences": sum(batch["nsentences"] for batch in batches),
            "target words": sum(batch["ntokens"] for batch in batches),
        }

    title = f"training, {len(batches)} batches of at most {bench.options.max_tokens} tokens"
    result = take_turns(title, bench.turns(turn), bench.options, ["ms/step", "target words/s"])
    result.facts = {name: training.facts() for name, training in trainings.items()}
    return [result]


def decode(bench: Bench) -> List[Result]:
    models = {name: Decoding(system, bench.options, bench.directory) for name, system in bench.systems.items()}
    return [
        decode_one_way(bench, models, batch_size, length)
        for length in bench.options.lengths
        for batch_size in bench.options.batch_sizes
    ]


def decode_one_way(bench: Bench, models: Dict[str, Decoding], batch_size: int, length: int) -> Result:
    """Measure with one batch size and one source length; length 0 leaves the sentences as they are."""
    options = bench.options
    batches = bench.corpus.test_batches(bench.encoder, batch_size, length)
    references = [int(size) for batch in batches for size in batch["target"].ne(bench.corpus.dictionary.pad()).sum(1)]
    written = options.max_len_b or length or max(1, round(statistics.mean(references)) - 1)  # without eos
    generators = {name: model.generator(written) for name, model in models.items()}

    def turn(name: str) -> Dict[str, float]:
        tokens = sum(
            models[name].translate(generators[name], batch) for batch in batches_of(bench.systems[name], batches)
        )
        return {"sentences": sum(batch["nsentences"] for batch in batches), "tokens": tokens}

    source = f"{length} source symbols" if length else "sources as they are"
    title = f"beam search, {options.sentences} sentences, batch {batch_size}, {source}, {written} symbols written"
    return take_turns(title, bench.turns(turn), options, ["sentences/s", "tokens/s"])


def rnn(bench: Bench) -> List[Result]:
    bench.corpus.choose("test", bench.options.sentences)  # what is wrong with that shows before the training
    return [*train(bench), *memory(bench), *decode(bench)]


def cache(bench: Bench) -> List[Result]:
    pairs = bench.corpus.choose("train", bench.options.sentences)
    states = StatesOnDisk(
        bench.corpus.dataset(pairs, bench.encoder), bench.encoder.bert, bench.options, bench.directory
    )
    turns = {"forward": states.forward, "build": states.build, "open": states.open, "read": states.read}
    title = f"BERT's states of {len(pairs)} sentences"
    result = take_turns(title, turns, bench.options, ["seconds", "sentences/s", "word pieces/s"])
    result.facts = {"build": {"bytes/sentence": states.bytes_per_sentence()}}
    return [result]


def memory(bench: Bench) -> List[Result]:
    """Measure each training in a process of its own, which gets its batches from a file."""
    options, files = bench.options, {}
    batches = bench.corpus.training_batches(bench.encoder)
    for name, system in bench.systems.items():
        files[name] = str(Path(bench.directory) / f"{name}.pt")
        torch.save(batches_of(system, batches), files[name])
    samples: Dict[str, Dict[str, List[float]]] = {name: {} for name in files}
    spawn = multiprocessing.get_context("spawn")
    with tqdm(total=options.rounds * len(files), desc="memory", unit=" processes", disable=None) as bar:
        for _ in range(options.rounds):
            for name, system in bench.systems.items():
                with ProcessPoolExecutor(1, mp_context=spawn) as process:
                    peak = process.submit(peak_memory, system, options, bench.directory, files[name]).result()
                for metric, value in peak.items():
                    samples[name].setdefault(metric, []).append(value)
                bar.update()
    title = f"memory of training, {len(batches)} batches of at most {options.max_tokens} tokens"
    return [Result(title, samples, "difference MiB", ["before MiB", "peak MiB", "difference MiB"])]


def start(bench: Bench) -> List[Result]:
    starts = Starts(bench.corpus, bench.options, bench.directory)
    for system in tqdm(bench.systems.values(), desc="checkpoints", unit=" systems", disable=None):
        starts.prepare(system)

    def turn(name: str) -> Dict[str, float]:
        return starts.start(bench.systems[name])

    source = f"one sentence of {len(starts.source.split())} symbols"
    title = f"start-up, {source}, beam {BEAM}, {starts.written} symbols written"
    return [take_turns(title, bench.turns(turn), bench.options, ["seconds", "CPU seconds"], ratio_of="CPU seconds")]


COMMANDS = {"train": train, "decode": decode, "rnn": rnn, "cache": cache, "memory": memory, "start": start}

_TRAINING = (
    "A step is a step of fairseq's Trainer: forward, loss, backward, clipping, Adam; it does not load the batch."
)
_FUSED_TRAINING = (
    "transformer has fairseq's criterion, and bert_fused has ours; p is the drop-net rate; systems with -cache read "
    "BERT's states in fp16 from memory."
)
_SIZE = (
    "Trained parameters are those that get a gradient; fairseq's transformer has others too, which are in its "
    "checkpoint all the same.  The checkpoint is the model alone, without the state of the optimizer."
)
_LSTM = (
    "lstm has fairseq's criterion, and the recurrent models have ours; all have the sizes of lstm_wiseman_iwslt_de_en."
)
_MEMORY = (
    "The memory before the steps is that of model and batches, without gradients and optimizer.  On the CPU it has all "
    "that Python has loaded, but not BERT's weights if they are mapped from their file, since BERT has not run yet."
)
_DECODING = (
    "The models are untrained: all systems write hypotheses of the length that the title says, and eos is counted."
)
_START = (
    "Each turn is a process from its start to its end, which translates the sentence on the CPU.  CPU seconds are its "
    "user and system time.  Systems with -hub are Python programs that call from_pretrained and translate; the others "
    "are fairseq-interactive.  transformer and transformer-hub do not import bert_fused_plugin; "
    "transformer-user-dir is transformer with --user-dir.  The files are in the page cache, because the checkpoints "
    "have just been made with them."
)
NOTES = {
    "train": [_TRAINING, _FUSED_TRAINING, _SIZE],
    "decode": [
        _DECODING,
        "Systems with -cache read BERT's states in fp16 from memory.",
        "Those with -bf16 compute in bfloat16.",
    ],
    "rnn": [_TRAINING, _LSTM, _SIZE, _MEMORY, _DECODING],
    "cache": [
        "forward runs BERT on batches of --max-tokens; build runs BERT on batches of its own and writes the states; "
        "read makes batches of states in the page cache, as a build leaves them there."
    ],
    "memory": [_FUSED_TRAINING, _MEMORY],
    "start": [_START],
}


if __name__ == "__main__":
    main()
