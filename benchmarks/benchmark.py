#!/usr/bin/env python
"""Measures the speed of the models, side by side with fairseq's own.

benchmarks/benchmark.py train  --data DIR --bert-model NAME_OR_DIR   training steps: transformer, BERT-fused
benchmarks/benchmark.py decode --data DIR --bert-model NAME_OR_DIR   beam search: the same
benchmarks/benchmark.py rnn    --data DIR                            both: lstm, the GRU models
benchmarks/benchmark.py launches                                     kernels of tiny models, counted on a pretend GPU

DIR holds {train,test}.{en,de} with one sentence a line, tokenised and in subwords.  The systems take turns in one
process, A B C A B C ..., on the same batches.  The report gives median, minimum and maximum over the rounds, also of
the ratios to the first system in the same round.  To compare BERT models, run the benchmark once for each.
"""

import argparse
import json
import logging
import os
import statistics
import sys
import tempfile
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Callable, Dict, List, Optional, Sequence

from benchmark_data import Corpus
from benchmark_report import Result, Turn, environment, report, take_turns, write_json
from benchmark_systems import (
    CRITERION,
    SIZES,
    Decoding,
    System,
    Training,
    batches_of,
    in_bf16,
    load_encoder,
    recurrent_systems,
    set_up,
    transformer_systems,
    with_variants,
)

from bert_fused_plugin.criterions.consistency import CONSISTENCY_KINDS
from bert_fused_plugin.models.bert_fused.encoder import BertFusedEncoder
from bert_fused_plugin.modules.attention_map import ATTENTION_MAPS


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
    options = parse_args(arguments)
    set_up(options)
    if options.command == "launches":
        count_launches(options)
    else:
        measure(options)


def measure(options: argparse.Namespace) -> None:
    load_at_start = os.getloadavg()
    with tempfile.TemporaryDirectory() as directory:
        corpus = Corpus(options, ["train", "test"] if options.command in ("decode", "rnn") else ["train"])
        corpus.write_dictionaries(directory)
        systems = chosen_systems(options)
        encoder = load_encoder(options, directory) if any(s.reads_bert for s in systems.values()) else None
        logging.disable(logging.WARNING)  # each further model would repeat them
        bench = Bench(options, directory, systems, corpus, encoder)
        results = COMMANDS[options.command](bench)
    facts = {
        **environment(options),
        "load average at start and end": f"{load_at_start[0]:.2f}, {os.getloadavg()[0]:.2f}",
        "data": f"{len(corpus.pairs['train']):,} training pairs, {len(corpus.dictionary):,} symbols",
    }
    if encoder is not None:
        bert = encoder.source.bert
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
    for name, training in trainings.items():
        result.facts[name].update(training.facts())
    return [result]


def decode(bench: Bench) -> List[Result]:
    models = {name: Decoding(system, bench.options, bench.directory) for name, system in bench.systems.items()}
    return [decode_one_way(bench, models, batch_size) for batch_size in bench.options.batch_sizes]


def decode_one_way(bench: Bench, models: Dict[str, Decoding], batch_size: int) -> Result:
    """Measure with one batch size."""
    options = bench.options
    batches = bench.corpus.test_batches(bench.encoder, batch_size)
    references = [int(size) for batch in batches for size in batch["target"].ne(bench.corpus.dictionary.pad()).sum(1)]
    written = options.max_len_b or max(1, round(statistics.mean(references)) - 1)  # without eos
    generators = {name: model.generator(written) for name, model in models.items()}

    def turn(name: str) -> Dict[str, float]:
        tokens = sum(
            models[name].translate(generators[name], batch) for batch in batches_of(bench.systems[name], batches)
        )
        return {"sentences": sum(batch["nsentences"] for batch in batches), "tokens": tokens}

    title = f"beam search, {options.sentences} sentences, batch {batch_size}, {written} symbols written"
    return take_turns(title, bench.turns(turn), options, ["sentences/s", "tokens/s"])


def rnn(bench: Bench) -> List[Result]:
    bench.corpus.choose("test", bench.options.sentences)  # what is wrong with that shows before the training
    return [*train(bench), *decode(bench)]


def count_launches(options: argparse.Namespace) -> None:
    """Print how many kernels a GPU would be told to run, which tests/plugin/pretend_gpu/launches.py counts."""
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    tests = Path(__file__).resolve().parent.parent / "tests"
    sys.path[:0] = [str(tests), str(tests / "plugin" / "pretend_gpu")]
    from helpers import WORDS, dictionary_of, write_bert
    from launches import Counts, as_json
    from model_cases import Cases

    logging.disable(logging.WARNING)
    with tempfile.TemporaryDirectory() as bert_dir:
        write_bert(bert_dir)
        dictionary = dictionary_of(*WORDS)
        dictionary.finalize(padding_factor=1)
        figures = as_json(Counts(Cases(dictionary, bert_dir), with_lines=options.lines))
    print("| launches | ours | fairseq's | ratio | aim |\n| --- | --- | --- | --- | --- |")
    for name, row in figures.items():
        print(f"| {name} | {row['ours']:,.0f} | {row['fairseq']:,.0f} | {row['ratio']:.3g} | {row['aim']:.2f} |")
    for name, row in figures.items() if options.lines else ():
        for side, lines in row["lines"].items():
            print(f"\n{name}: {side}", *(f"{count:9,.1f}  {line}" for line, count in lines.items()), sep="\n")
    if options.json:
        Path(options.json).write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")


def chosen_systems(options: argparse.Namespace) -> Dict[str, System]:
    """Return the systems of the command, or those of --systems."""
    if options.command == "rnn":
        systems = recurrent_systems()
    else:
        rates = ["1.0"] if options.command == "decode" else ["1.0", "0.5", "0"]
        systems = transformer_systems(options.sizes, options.bert_model, rates)
    systems = with_variants(systems, options.maps, "--attention-map", own=True)
    systems = with_variants(systems, options.consistency, *CRITERION, "--consistency", own=False)
    if options.command == "decode":
        systems.update(in_bf16(systems))
    unknown = sorted(set(options.systems or []) - set(systems))
    if unknown:
        raise SystemExit(f"error: --systems must be among {', '.join(systems)}, got {', '.join(unknown)}")
    return {name: systems[name] for name in options.systems or systems}


def parse_args(arguments: Optional[Sequence[str]]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("command", choices=[*COMMANDS, "launches"])
    add("--data", default=os.environ.get("DATA"), metavar="DIR", help="directory of the text; default: $DATA")
    add("--source-lang", default="en", metavar="LANG", help="source language; default: %(default)s")
    add("--target-lang", default="de", metavar="LANG", help="target language; default: %(default)s")
    add("--bert-model", metavar="NAME_OR_DIR", help="BERT; required if a system reads BERT")
    add("--systems", nargs="+", metavar="NAME", help="systems; all others are compared with the first; default: all")
    maps = [name for name in ATTENTION_MAPS if name != "softmax"]
    add("--maps", nargs="+", default=[], choices=maps, help="measure NAME-MAP beside each system NAME, too")
    kinds = list(CONSISTENCY_KINDS)
    add("--consistency", nargs="+", default=[], choices=kinds, help="measure NAME-KIND, with this package's criterion")
    add("--sizes", default="iwslt", choices=SIZES, help="size of the transformers; default: %(default)s")
    add("--rounds", type=int, default=5, metavar="N", help="measured rounds; default: %(default)s")
    add("--warmup", type=int, default=1, metavar="N", help="rounds before them; default: %(default)s")
    add("--batches", type=int, default=4, metavar="N", help="training batches in a round; default: %(default)s")
    add("--max-tokens", type=int, default=4096, metavar="N", help="tokens in a batch; default: %(default)s")
    add("--sentences", type=int, default=64, metavar="N", help="test sentences; default: %(default)s")
    add("--batch-sizes", type=numbers, metavar="N,N", help="sentences in a batch; default: 64, and 1,64 for decode")
    add("--max-len-b", type=int, metavar="N", help="symbols to write; default: the references' mean")
    add("--device", choices=("cpu", "cuda"), default="cpu", help="device of the models; default: %(default)s")
    add("--fp16", action="store_true", help="use half precision, on a GPU")
    add("--threads", type=int, metavar="N", help="threads of torch; default: torch's own")
    add("--seed", type=int, default=1, metavar="N", help="random seed; default: %(default)s")
    add("--json", metavar="FILE", help="file for the figures, of each round")
    add("--lines", action="store_true", help="launches: also print those of each line of code")
    options = parser.parse_args(arguments)
    needs_bert = options.command in ("train", "decode")
    if options.command != "launches" and (not options.data or (needs_bert and not options.bert_model)):
        parser.error("--data DIR, or the environment variable DATA, and --bert-model are required; rnn needs no BERT")
    options.batch_sizes = options.batch_sizes or ([1, 64] if options.command == "decode" else [64])
    return options


def numbers(text: str) -> List[int]:
    return [int(number) for number in text.split(",")]


COMMANDS = {"train": train, "decode": decode, "rnn": rnn}

_TRAINING = (
    "A step is a step of fairseq's Trainer without the loading of the batch.  fairseq's models have its criterion, and "
    "ours have ours; p is the drop-net rate; systems with -cache read BERT's states in fp16 from memory.  Trained "
    "parameters are those that get a gradient.  The checkpoint is the model without the state of the optimizer."
)
_DECODING = (
    "The models are untrained: all systems write hypotheses of the length that the title says, and eos is counted.  "
    "Systems with -cache read BERT's states in fp16 from memory, and those with -bf16 compute in bfloat16."
)
NOTES = {"train": [_TRAINING], "decode": [_DECODING], "rnn": [_TRAINING, _DECODING]}


if __name__ == "__main__":
    main()
