"""Let trained models translate text: what a student learns from (Kim and Rush 2016), or back-translation.

    python -m bert_fused_lab.recipe.distill TEXT OUT SRC TGT DATA_BIN --path CHECKPOINT [flags of fairseq-generate]

TEXT/train.SRC is the text of DATA_BIN.  It is translated in parts, by a process on each GPU, or on each core that has
enough memory.  OUT/parts keeps the parts, so that a run that was interrupted goes on.  OUT/train.{SRC,TGT} are written
when all parts are there.
"""

import logging
import math
import os
import re
import sys
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import suppress
from multiprocessing import active_children, current_process, get_context, parent_process
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread
from typing import Dict, Iterable, Iterator, Sequence

import torch
from fairseq import options
from fairseq_cli import generate

from bert_fused_lab.evidence.files import read_json
from bert_fused_lab.output import write_json
from bert_fused_lab.recipe.running import checksum, locked
from bert_fused_plugin.errors import BertFusedError
from bert_fused_plugin.files import written_whole
from bert_fused_plugin.progress import Progress

_RECORD = "made-from.json"  # in OUT
# sentences of a part on a core and on a GPU: the models are loaded for each part, which takes seconds
_PART, _PART_OF_GPU, _MOST_PARTS = 1000, 10_000, 400


def main(text: Path, out: Path, source: str, target: str, command: Sequence[str]) -> None:
    """Translate, and write the pairs."""
    lines = [*read(text / f"train.{source}")]
    size = _PART_OF_GPU if torch.cuda.is_available() else _PART
    count = min(math.ceil(len(lines) / size), _MOST_PARTS)
    parts = [out / "parts" / f"{number}-of-{count}" for number in range(count)]
    files = {"text": text / f"train.{source}", **models_of(command)}
    made_from = {name: checksum(file) for name, file in files.items()}
    if read_json(out / _RECORD) not in ({}, made_from):
        raise BertFusedError(f"{out} is of another text or another model; remove it to begin anew")
    missing = [part for part in parts if not part.exists()]
    if missing:
        out.mkdir(parents=True, exist_ok=True)
        with locked(out, "made"):
            write_json(out / _RECORD, made_from)
            translate_all(missing, out / "log", [*command, "--source-lang", source, "--target-lang", target])
    translations: Dict[int, str] = {}
    for part in parts:
        translations.update((int(number), line) for number, line in (row.split("\t") for row in read(part)))
    if len(translations) < len(lines):
        print(f"{len(lines) - len(translations):,} sentences are too long for the model, and are left out")
    for language, text_of in ((source, lines), (target, translations)):
        with written_whole(out / f"train.{language}") as new:
            new.write_text("".join(f"{text_of[number]}\n" for number in sorted(translations)), encoding="utf-8")


def translate_all(parts: Sequence[Path], log: Path, command: Sequence[str]) -> None:
    """Make the files *parts* in processes side by side, and show the progress."""
    parts[0].parent.mkdir(exist_ok=True)
    gpus = torch.cuda.device_count()
    workers = min(processes(models_of(command).values()), len(parts))
    context = get_context("spawn")  # no threads of tokenizers, and no GPU, pass a fork
    title = f"translation on {workers} {'GPU' if gpus else 'core'}{'s' * (workers > 1)}"
    with ProcessPoolExecutor(workers, context, begin, (gpus, log)) as pool:
        try:
            with Progress(title, len(parts), "parts", parts=workers) as progress:
                for done in as_completed([pool.submit(translate, part, command) for part in parts]):
                    done.result()
                    progress.update(1)
        except BaseException as error:  # also a keyboard interrupt
            for worker in active_children():  # otherwise the pool would do all parts first
                worker.terminate()
            if not isinstance(error, Exception):
                raise
            raise BertFusedError(f"{error}; all that was said is in {log}") from None


def models_of(command: Sequence[str]) -> Dict[str, Path]:
    """Return the checkpoints of the *command*'s ``--path``, by their numbers in it."""
    paths = command[command.index("--path") + 1].split(":")
    return {f"model {number}": Path(path) for number, path in enumerate(paths, 1)}


def processes(models: Iterable[Path]) -> int:
    """Return the number of GPUs or, without one, of cores that have memory for a bert-base, 2 GB, and for *models*.

    A process reads and holds the files *models*.
    """
    if gpus := torch.cuda.device_count():
        return gpus
    needed = 2e6 + 2 * sum(path.stat().st_size for path in models) / 1000
    [available] = re.findall(r"^MemAvailable: *(\d+) kB", Path("/proc/meminfo").read_text(), re.M)
    return max(1, min(len(os.sched_getaffinity(0)), int(int(available) / needed)))


def begin(gpus: int, log: Path) -> None:
    """Let this process use one core, or a GPU of its own, and write what fairseq says to *log*."""
    form = "%(asctime)s | %(levelname)s | %(name)s | %(message)s"
    logging.basicConfig(filename=log, level=logging.INFO, format=form, force=True)
    Thread(target=end_with_parent, daemon=True).start()
    torch.set_num_threads(1)
    if gpus:
        torch.cuda.set_device(int(current_process().name.rpartition("-")[2]) % gpus)  # processes are numbered


def end_with_parent() -> None:
    """End this process when its parent is killed; the pool would let it wait for work for ever."""
    parent = parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def translate(part: Path, command: Sequence[str]) -> None:
    """Write a *part*, whose name is ``NUMBER-of-COUNT``; each line is the number of a sentence and its translation."""
    rank, _, count = part.name.split("-")
    with TemporaryDirectory() as folder:
        shard = ["--gen-subset", "train", "--distributed-world-size", count, "--distributed-rank", rank]
        flags = [*command, *shard, "--results-path", folder, "--log-format", "none", "--num-workers", "0"]
        with suppress(ZeroDivisionError):  # at the end, by fairseq's speed of a part that gets no batch
            generate.main(options.parse_args_and_arch(options.get_generation_parser(), flags))
        [file] = Path(folder).iterdir()
        rows = re.findall(r"^H-(\d+\t)[^\t\n]*\t(.*\n)", file.read_bytes().decode(), re.M)
    with written_whole(part) as new:
        new.write_bytes("".join(number + text for number, text in rows).encode())


def read(path: Path) -> Iterator[str]:
    """Yield the lines of a file, which only newlines separate, as in fairseq."""
    with path.open(encoding="utf-8", newline="\n") as file:
        for line in file:
            yield line.rstrip("\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], sys.argv[4], sys.argv[5:])
