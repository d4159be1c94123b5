#!/usr/bin/env python
"""Measures what the bookkeeping of a large corpus costs: word pieces, and the cache of BERT's states.

benchmarks/scale.py --text DATA/train.en-de.en --lang en --bert-model DIR --pairs 1e5 1e6 --ranks 1 8

A corpus of each number of pairs is made of the given text in a process of its own.  BERT is a stand-in of width 8 that
computes nothing, so that only the bookkeeping costs.  The steps of --what come one after the other, each in new
processes, one for each rank, all of them on this machine:

  pieces  the word pieces are made, as at the first start with this corpus
  map     the word pieces are mapped, as at each later start
  build   the cache is opened and built
  open    the complete cache is opened

A row of the result has the seconds from the first to the last rank, the seconds of CPU of all ranks together, and the
largest figures of a rank: the private memory that a rank holds in the end, its peak, and its share of everything that
is in memory (PSS).  Private memory is what no file backs.  The system takes the pages of mapped files back when it
needs them, so they count in the PSS only.  What the rank held before the step is not counted.  Files and bytes are
those of the step.
"""

import argparse
import ctypes
import gc
import json
import multiprocessing
import os
import shutil
import struct
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, Tuple

import numpy as np
from fairseq.data import Dictionary, LanguagePairDataset, data_utils
from numpy.typing import NDArray

_MAGIC = b"MMIDIDX\x00\x00"  # of fairseq's format "mmap"
_INT32 = 4  # its code of the number format
_CHANGED = 0.1  # share of the symbols that another symbol of the text replaces
STEPS = ("pieces", "map", "build", "open")
WIDTH = 8  # of the stand-in for BERT
_WAIT = 24 * 3600  # seconds that a rank may take

Row = Dict[str, Any]


def make_corpus(text: str, lang: str, pairs: int, folder: Path) -> str:
    """Write *pairs* sentences in the format of fairseq-preprocess; return the beginning of the names of their files.

    The sentences are those of *text* again and again, each time with other symbols changed, so that nearly all of
    them differ.

    Args:
        text: a data-bin, up to the ending of its files: ``DATA/train.en-de.en``.
        lang: source language of the data-bin.
        pairs: number of sentences.
        folder: folder for the files, with the dictionary beside them.
    """
    folder.mkdir(parents=True, exist_ok=True)
    dictionary = Dictionary.load(str(Path(text).parent / f"dict.{lang}.txt"))
    dictionary.save(str(folder / f"dict.{lang}.txt"))
    prefix = folder / "train"
    dataset = data_utils.load_indexed_dataset(text, dictionary)
    sizes = np.array(dataset.sizes, dtype=np.int32)
    flat = np.concatenate([dataset[i].numpy() for i in range(len(dataset))]).astype(np.int32)
    starts = np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])
    random = np.random.default_rng(0)
    with open(f"{prefix}.bin", "wb") as target:
        for first in range(0, pairs, len(sizes)):
            changed = _changed(flat, dictionary.nspecial, random) if first else flat
            target.write(changed[: starts[min(len(sizes), pairs - first)]].data)
    with open(f"{prefix}.idx", "wb") as target:
        target.write(_MAGIC + struct.pack("<QBQ", 1, _INT32, pairs))
        for first in range(0, pairs, len(sizes)):
            target.write(sizes[: pairs - first].data)
        for first in range(0, pairs, len(sizes)):
            begin = first // len(sizes) * int(starts[-1])
            target.write((4 * (starts[:-1][: pairs - first] + begin)).data)
    return str(prefix)


def _changed(flat: NDArray[np.int32], special: int, random: np.random.Generator) -> NDArray[np.int32]:
    """Return the symbols *flat*, some of them replaced by others of the same text; the first *special* ones stay."""
    places = random.random(len(flat), dtype=np.float32) < _CHANGED
    others = flat[random.integers(len(flat), size=int(places.sum()))]
    result = flat.copy()
    result[places] = np.where((flat[places] < special) | (others < special), flat[places], others)
    return result


def private_memory() -> int:
    """Return the bytes of memory of this process that no file backs."""
    sizes = _sizes("/proc/self/status")
    return sizes["RssAnon:"] + sizes["VmSwap:"]


def share_of_memory() -> int:
    """Return the share of this process of everything that is in memory (PSS), in bytes."""
    return _sizes("/proc/self/smaps_rollup")["Pss:"]


def give_back() -> None:
    """Give the memory back to the system that is free, which would hide what is needed next."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)


def _sizes(file: str) -> Dict[str, int]:
    sizes = {}
    with open(file, encoding="ascii") as lines:
        for line in lines:
            name, *numbers = line.split()
            if numbers[1:] == ["kB"]:
                sizes[name] = 1024 * int(numbers[0])
    return sizes


class PeakOfMemory:
    """Looks at the private memory of this process fifty times a second."""

    def __init__(self) -> None:
        self.bytes = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> "PeakOfMemory":
        self._thread.start()
        return self

    def __exit__(self, *_: Any) -> None:
        self._stop.set()
        self._thread.join()
        self.bytes = max(self.bytes, private_memory())

    def _watch(self) -> None:
        while True:
            self.bytes = max(self.bytes, private_memory())
            if self._stop.wait(0.02):
                return


def load_pieces(options: argparse.Namespace, folder: Path) -> Callable[[], Any]:
    """Return a function that gives the word pieces of the corpus in *folder*, as the task does."""
    from bert_fused_plugin.bert.pretrained_bert import load_tokenizer
    from bert_fused_plugin.data.bert_pair_dataset import BertPairDataset
    from bert_fused_plugin.data.data_bin import piece_folders
    from bert_fused_plugin.data.dictionary_bridge import DictionaryBridge

    dictionary = Dictionary.load(str(folder / f"dict.{options.lang}.txt"))
    bridge = DictionaryBridge(dictionary, load_tokenizer(options.bert_model), max_tokens=512)
    source = data_utils.load_indexed_dataset(str(folder / "train"), dictionary)
    pairs = LanguagePairDataset(source, source.sizes, dictionary)
    folders = piece_folders(str(folder), None, None)
    return lambda: BertPairDataset(pairs, bridge, folders=folders, name=f"train.{options.lang}").word_pieces


def use_cache(pieces: Any, folder: Path) -> Any:
    """Open the states of the corpus in *folder*, add what is missing, and return them."""
    from bert_fused_plugin.data.cached_states import CachedStates
    from bert_fused_plugin.data.shared_work import rank_in

    states = CachedStates(folder / "cache" / f"train-{pieces.digest}", pieces, WIDTH, "fp16")
    rank, ranks = rank_in(folder)
    states.add_missing(lambda: lambda tokens: tokens.unsqueeze(-1).expand(-1, -1, WIDTH).float() % 1000, rank, ranks)
    return states


def rank(options: argparse.Namespace, step: str, folder: Path, meet: Any, results: Any, number: int = 0) -> None:
    """Do *step* as rank *number* of those that *meet*, and put what it cost into *results*."""
    import torch.distributed as dist

    if meet.parties > 1:
        dist.init_process_group("gloo", f"file://{folder}/group-{step}", rank=number, world_size=meet.parties)
    load = load_pieces(options, folder)
    pieces = load() if step in ("build", "open") else None
    give_back()
    private, share = private_memory(), share_of_memory()
    meet.wait(_WAIT)
    begin, cpu = time.monotonic(), time.process_time()
    with PeakOfMemory() as peak:
        held = load() if pieces is None else use_cache(pieces, folder)
        end, cpu_end = time.monotonic(), time.process_time()
    meet.wait(_WAIT)
    give_back()
    now, share_now = private_memory(), share_of_memory()
    meet.wait(_WAIT)
    del held
    memory = {"private": now - private, "peak": peak.bytes - private, "pss": share_now - share}
    results.put({"begin": begin, "end": end, "cpu": cpu_end - cpu, **memory})


def files_of(folder: Path) -> Tuple[int, int]:
    """Return the number of files in *folder*, at any depth, and their bytes."""
    sizes = [path.stat().st_size for path in folder.rglob("*") if path.is_file()]
    return len(sizes), sum(sizes)


def measure(options: argparse.Namespace, step: str, ranks: int, folder: Path) -> Row:
    """Return the row of *step* with so many *ranks*."""
    made = folder / ("bert-pieces" if step in ("pieces", "map") else "cache")
    if step in ("pieces", "build"):
        shutil.rmtree(made, ignore_errors=True)
    (folder / f"group-{step}").unlink(missing_ok=True)
    context = multiprocessing.get_context("spawn")
    meet, results = context.Barrier(ranks), context.Queue()
    processes = [context.Process(target=rank, args=(options, step, folder, meet, results, i)) for i in range(ranks)]
    for process in processes:
        process.start()
    found = [results.get(timeout=_WAIT) for _ in processes]
    for process in processes:
        process.join()
    files, size = files_of(made)
    return {
        "seconds": max(row["end"] for row in found) - min(row["begin"] for row in found),
        "cpu": sum(row["cpu"] for row in found),
        **{name: max(row[name] for row in found) for name in ("private", "peak", "pss")},
        "files": files,
        "bytes": size,
    }


def rows(options: argparse.Namespace) -> Iterator[Row]:
    """Yield a row for each number of pairs, step and number of ranks."""
    context = multiprocessing.get_context("spawn")
    for pairs in map(int, options.pairs):
        folder = Path(options.dir) / str(pairs)
        maker = context.Process(target=make_corpus, args=(options.text, options.lang, pairs, folder))
        maker.start()
        maker.join()
        if maker.exitcode:
            sys.exit(f"the corpus of {pairs} pairs could not be made")
        for ranks in options.ranks:
            for step in options.what:
                yield {"pairs": pairs, "ranks": ranks, "what": step, **measure(options, step, ranks, folder)}
        shutil.rmtree(folder)


def table(found: List[Row]) -> Iterator[str]:
    """Yield the lines of a Markdown table of the rows that were *found*."""
    yield "| pairs | ranks | step | seconds | CPU seconds | private MB | peak MB | PSS MB | files | MB on disk |"
    yield "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |"
    for row in found:
        sizes = " | ".join(f"{row[name] / 1e6:,.1f}" for name in ("private", "peak", "pss"))
        yield (
            f"| {row['pairs']:,} | {row['ranks']} | {row['what']} | {row['seconds']:,.2f} | {row['cpu']:,.2f} "
            f"| {sizes} | {row['files']:,} | {row['bytes'] / 1e6:,.1f} |"
        )


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--text", required=True, help="source side of a data-bin: DATA/train.en-de.en")
    parser.add_argument("--lang", required=True, help="source language")
    parser.add_argument("--bert-model", required=True, help="directory of a BERT, for its tokenizer")
    parser.add_argument("--pairs", type=float, nargs="+", default=[1e5, 1e6], help="numbers of pairs")
    parser.add_argument("--ranks", type=int, nargs="+", default=[1, 8], help="numbers of processes")
    parser.add_argument("--what", nargs="+", choices=STEPS, default=STEPS, help="steps; default: all")
    parser.add_argument("--dir", help="directory for corpora, word pieces and caches; default: a temporary one")
    parser.add_argument("--json", help="file for the rows")
    return parser.parse_args()


def main() -> None:
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")  # one core for each rank
    options = parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        options.dir = options.dir or temporary
        found = []
        for row in rows(options):
            found.append(row)
            print(list(table([row]))[-1], file=sys.stderr, flush=True)
            if options.json:
                Path(options.json).write_text(json.dumps(found, indent=1), encoding="utf-8")
    print("\n".join(table(found)))


if __name__ == "__main__":
    main()
