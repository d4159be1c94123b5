#!/usr/bin/env python
"""Estimates what BERT's states cost in training, from the size of a corpus and a few measured rates.

benchmarks/cost_model.py --bert-rate 3000 --train-rate 4000 --read-rate 0.5e9 --pairs 29e3 --epochs 30 --gpus 1

Without the cache, BERT reads every sentence in every epoch.  With the cache, BERT reads each sentence once, in parts
that the devices share.  Its states take width x 2 bytes for a word piece, and come from the disk, or from memory if
they fit there.  They are read while the model trains, so that the slower of the two decides.
`benchmarks/benchmark.py` measures the rates.
"""

import argparse
from dataclasses import dataclass
from typing import Iterator

HOUR = 3600
BLOCK_BYTES = 64 * 2**20  # of the cache, which one device computes at a time


@dataclass
class Machine:
    """The rates of one device and of one disk."""

    bert_rate: float  # word pieces/s of BERT on one device
    train_rate: float  # target words/s of the model on one device, BERT's states given
    read_rate: float  # bytes/s of the disk of one machine
    memory: float  # bytes of one machine that may hold what was read
    devices: int  # of one machine


@dataclass
class Corpus:
    """The number of sentence pairs, and their mean sizes."""

    pairs: float
    pieces: float  # word pieces of a source sentence, special tokens included
    words: float  # target words of a sentence, end of sentence included
    width: int  # of BERT

    @property
    def cache_bytes(self) -> float:
        """The size of all states, in fp16."""
        return self.pairs * self.pieces * self.width * 2


@dataclass
class Cost:
    """The hours of a training."""

    build: float  # of the cache
    cached: float  # with the cache, its build included
    uncached: float  # without the cache


def cost(corpus: Corpus, machine: Machine, epochs: float, gpus: int) -> Cost:
    """Return the hours of *epochs* epochs on *gpus* devices."""
    machines = -(-gpus // machine.devices)
    train = corpus.pairs * corpus.words / machine.train_rate / gpus
    bert = corpus.pairs * corpus.pieces / machine.bert_rate
    build = bert / min(gpus, 1 + corpus.cache_bytes // BLOCK_BYTES)
    read = corpus.cache_bytes / machines / machine.read_rate
    # sentences are dealt anew in each epoch, so a machine may need any of them
    from_disk = epochs if corpus.cache_bytes > machine.memory else 1
    cached = from_disk * max(train, read) + (epochs - from_disk) * train
    return Cost(build / HOUR, (build + cached) / HOUR, epochs * (train + bert / gpus) / HOUR)


def break_even_rate(width: int, bert_rate: float) -> float:
    """Return the bytes/s for each device below which reading states takes longer than computing them."""
    return bert_rate * width * 2


def table(args: argparse.Namespace) -> Iterator[str]:
    """Yield the lines of a Markdown table."""
    machine = Machine(args.bert_rate, args.train_rate, args.read_rate, args.memory, args.devices)
    rate = break_even_rate(args.width, args.bert_rate)
    yield f"Reading is faster than computing where a device gets more than {rate / 1e9:.3g} GB/s."
    yield ""
    yield "| pairs | devices | cache GB | build, hours | training with cache, hours | without, hours |"
    yield "| --- | --- | --- | --- | --- | --- |"
    for pairs in args.pairs:
        corpus = Corpus(pairs, args.pieces, args.words, args.width)
        for gpus in args.gpus:
            hours = cost(corpus, machine, args.epochs, gpus)
            yield (
                f"| {pairs:,.0f} | {gpus} | {corpus.cache_bytes / 1e9:,.1f} | {hours.build:.3g} | "
                f"{hours.cached:.3g} | {hours.uncached:.3g} |"
            )


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    rate = {"type": float, "required": True}
    parser.add_argument("--bert-rate", help="word pieces/s of BERT on one device", **rate)
    parser.add_argument("--train-rate", help="target words/s of the model on one device, states given", **rate)
    parser.add_argument("--read-rate", help="bytes/s of a machine's disk", **rate)
    parser.add_argument(
        "--memory", type=float, default=64e9, help="bytes of states that stay in the memory of a machine; default: 64e9"
    )
    parser.add_argument("--devices", type=int, default=8, help="number of devices in a machine; default: %(default)s")
    parser.add_argument(
        "--pairs", type=float, nargs="+", default=[30e3, 160e3, 4.5e6, 100e6], help="numbers of sentence pairs"
    )
    parser.add_argument("--gpus", type=int, nargs="+", default=[1, 8, 64], help="numbers of devices")
    parser.add_argument(
        "--pieces", type=float, default=30, help="word pieces of a source sentence; default: %(default)s"
    )
    parser.add_argument("--words", type=float, default=28, help="words of a target sentence; default: %(default)s")
    parser.add_argument("--width", type=int, default=768, help="width of BERT; default: %(default)s")
    parser.add_argument("--epochs", type=int, default=20, help="number of epochs; default: %(default)s")
    args = parser.parse_args()
    wrong = [
        f"--{name.replace('_', '-')} {value}"
        for name, given in vars(args).items()
        for value in (given if isinstance(given, list) else [given])
        if not (0 < value < 1e18 or (name == "memory" and value == 0))
    ]
    if wrong:
        parser.error(f"{', '.join(wrong)}: must be above 0 and below 1e18")
    return args


if __name__ == "__main__":
    print("\n".join(table(parse_args())))
