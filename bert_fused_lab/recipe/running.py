"""Runs the commands of a recipe, and its trainings so that they can be interrupted, and go on."""

import fcntl
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
import zlib
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence

import torch

from bert_fused_lab.evidence.files import read_json
from bert_fused_lab.output import write_json
from bert_fused_lab.recipe.progress import follow
from bert_fused_plugin.errors import BertFusedError

Run = Callable[..., None]  # as run_command
RECORD = "recipe.json"  # of a system: settings, what it began from, and whether it is finished


def say(text: str) -> None:
    """Print a line about a step."""
    print(text, flush=True)


def need(path: Path, step: str) -> None:
    """Raise an error that names the *step* that makes *path*, unless it is there."""
    if not path.exists():
        raise BertFusedError(f"there is no {path}; run the step {step} first")


def run_command(
    words: Sequence[str], log: Optional[Path] = None, training: Optional[int] = None, held: Sequence[int] = ()
) -> None:
    """Print a command, and run it; fairseq's commands and ours are those of this environment.

    Args:
        words: the command.
        log: what it prints is appended to this file, by itself, so it goes on if this process is killed.
        training: the number of updates of a training, whose progress is shown from its log.
        held: descriptors of files that the command keeps open.

    Raises:
        BertFusedError: the command fails.
    """
    say(f"$ {shlex.join(words)}")
    ours = Path(sys.executable).parent / words[0]  # a path stays as it is
    command = [str(ours) if ours.exists() else words[0], *words[1:]]
    if log is None:
        process = subprocess.Popen(command)
        status = process.wait()
    else:
        with log.open("ab") as output, log.open(encoding="utf-8", errors="replace") as lines:
            lines.seek(0, os.SEEK_END)
            process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, pass_fds=held)
            if training is not None:
                follow(_lines_of(process, lines), log.stem, training)
            status = process.wait()
            if status and training is None:
                lines.seek(0)
                print("".join(lines.readlines()[-20:]), file=sys.stderr)
    if status:
        hint = " (killed, perhaps because the memory was full)" if status == -signal.SIGKILL else ""
        hint += f"; all that it said is in {log}" if log else ""
        raise BertFusedError(f"{words[0]} ended with status {status}{hint}")


def _lines_of(process: Any, lines: Any) -> Iterator[str]:
    """Yield the *lines* that a *process* writes, until it ends."""
    line = ""
    while True:
        is_running = process.poll() is None
        line += lines.readline()
        if line.endswith("\n") or not is_running:
            if not line:
                return
            yield line.rstrip("\n")
            line = ""
        elif is_running:
            time.sleep(0.1)


def checksum(path: Path) -> int:
    """Return a checksum of the content of a file."""
    value = 0
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            value = zlib.crc32(block, value)
    return value


def settings_of(command: Sequence[str], out: Path) -> Dict[str, Any]:
    """Return the flags of a training's *command* with their values, the last one of each.

    Settings are the same if *out* is spelled in another way, if BERT's states are not kept, or if the default encoder
    is in another environment.
    """
    settings: Dict[str, List[Any]] = {}
    values: List[Any] = settings.setdefault("", [])  # those before the first flag
    for word in command[1:]:
        flag, equals, value = word.partition("=")
        if flag.startswith("--"):
            values = settings[flag] = []
            word = value
            if not equals:
                continue
        word = word.replace(f"{out.resolve()}/random-", f"{out / 'random-'}")  # the directory of random_bert
        text = portable(f"OUT/{word[len(f'{out}/') :]}" if word.startswith(f"{out}/") else word)
        try:
            values.append(json.loads(text))  # numbers are compared by their values
        except ValueError:
            values.append(text)
    settings.pop("--bert-cache", None)
    return settings


def build_before(command: Sequence[str]) -> List[List[str]]:
    """Return what must run before a training's *command*: on several GPUs, its processes only read BERT's input."""
    is_needed = "--bert-model" in command and torch.cuda.device_count() > 1
    return [["bert-fused-cache", "build", *command[1:]]] if is_needed else []


def portable(path: str) -> str:
    """Return a path in a Python environment without the place of the environment."""
    return re.sub(r"^.*/site-packages/", "", path)


def train(run: Run, folder: Path, command: Sequence[str], out: Path, origin: Any) -> bool:
    """Train a system in its *folder*, unless it is finished, and return whether it was trained.

    *origin* is what the system depends on beside its settings, such as what the transformer was trained with.

    Raises:
        BertFusedError: the training began with other settings, or another process trains this system.
    """
    settings, name, log = settings_of(command, out), folder.name, folder.with_suffix(".log")
    record = {"settings": settings, "origin": origin, "finished": True}
    before = read_json(folder / RECORD)
    if before == record and (folder / "checkpoint_best.pt").exists():
        say(f"{name}: done before")
        return False
    if before and (folder / "checkpoint_last.pt").exists():
        _check_same(folder, before, record)
    [updates] = settings["--max-update"]
    folder.mkdir(parents=True, exist_ok=True)
    with locked(folder, "trained") as lock:
        if not (folder / "checkpoint_last.pt").exists():
            log.unlink(missing_ok=True)  # of a training that was removed
        write_json(folder / RECORD, {**record, "finished": False})
        say(f"{name}: {updates:,} updates (log: {log})")
        if updates <= settings["--warmup-updates"][0]:
            say(f"{name} will end within its warm-up, before it learns much; give more updates, or a shorter --warmup")
        for build in build_before(command):
            run(build)
        run(command, log, updates, [lock])
        write_json(folder / RECORD, record)
    return True


@contextmanager
def locked(folder: Path, used: str) -> Iterator[int]:
    """Yield the descriptor of a lock; a command that holds it, too, keeps it if this process is killed.

    Raises:
        BertFusedError: another process has it.
    """
    with (folder / "lock").open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BertFusedError(f"{folder} is being {used} by another process; wait for it, or end it") from None
        except OSError:
            pass  # this disk has no locks
        yield file.fileno()


def _check_same(folder: Path, before: Dict[str, Any], now: Dict[str, Any]) -> None:
    """Raise an error if a training does not go on as it began; its updates may become more.

    Raises:
        BertFusedError: it began from another system, or with other settings.
    """
    if before["origin"] != now["origin"]:
        is_taught = before["origin"].get("taught by") != now["origin"].get("taught by")
        what = "learned from other translations" if is_taught else "began from another transformer"
        raise BertFusedError(f"{folder} {what}; remove it to train it again")
    old, new = dict(before["settings"]), dict(now["settings"])
    if new["--max-update"] >= old["--max-update"]:
        old["--max-update"] = new["--max-update"]
    if old != new:
        flags = sorted(flag for flag in {*old, *new} if old.get(flag) != new.get(flag))
        texts = [
            " ".join(shlex.join([flag, *map(str, side[flag])]) for flag in flags if flag in side) for side in (old, new)
        ]
        raise BertFusedError(
            f"{folder} began with other settings (before: {texts[0]}; now: {texts[1]}); give another --out, remove "
            f"{folder} to train it anew, or remove {folder / RECORD} to train it on with the new settings"
        )
