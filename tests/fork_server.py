"""Runs console scripts in forks of a process that has already imported what takes them seconds to import.

Each run is a process of its own all the same: its own argv, environment, folder, files, random numbers and exit status.
"""

import atexit
import importlib.metadata
import logging
import multiprocessing
import os
import random
import runpy
import subprocess
import sys
import tempfile
import warnings
from multiprocessing import forkserver
from pathlib import Path
from typing import Dict, List
from unittest.mock import patch

ENVIRONMENT = {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "", "PYTHONUTF8": "1"}
# The tests' own process has threads, of the tokenizers, and a fork of it could deadlock.
SERVER = multiprocessing.get_context("forkserver")
# without fairseq_cli.*, which set up logging when they are imported, and without the plug-in, which --user-dir imports
SERVER.set_forkserver_preload(
    ["fairseq.trainer", "fairseq.tasks", "fairseq.sequence_generator", "sacrebleu",
     "transformers.models.bert.modeling_bert", "pytest"]
)  # fmt: skip


def run_forked(
    *command: object, text: str = "", cwd: object = ".", timeout: float = 250, **variables: str
) -> subprocess.CompletedProcess:
    """Run a script of fairseq, or a Python file, as subprocess.run does, and capture its output.

    The environment is this process' own with ENVIRONMENT and *variables*.  After *timeout* seconds it is killed.
    """
    words = list(map(str, command))
    env = {**os.environ, **ENVIRONMENT, **variables}
    with patch.dict(os.environ, ENVIRONMENT):  # which the server reads as it starts
        forkserver.ensure_running()
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder, name) for name in ("stdin", "stdout", "stderr")]
        files[0].write_text(text, encoding="utf-8", errors="surrogateescape")
        process = SERVER.Process(target=_become, args=(words, os.path.abspath(cwd), env, files))
        process.start()
        process.join(timeout)
        process.kill()
        process.join()
        output, errors = (file.read_text(encoding="utf-8", errors="surrogateescape") for file in files[1:])
    return subprocess.CompletedProcess(words, process.exitcode, output, errors)


def _become(words: List[str], cwd: str, env: Dict[str, str], files: List[Path]) -> None:
    """Become the command, and end."""
    for number, (file, flags) in enumerate(zip(files, (os.O_RDONLY, *[os.O_WRONLY | os.O_CREAT] * 2))):
        os.dup2(os.open(file, flags), number)
    sys.stdin = os.fdopen(0, encoding="utf-8", errors="surrogateescape", closefd=False)  # as PYTHONUTF8=1 has it
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(env)
    sys.argv = words
    sys.path[0] = str(Path(words[0]).parent)
    random.seed()
    logging.root.handlers.clear()  # the command sets up its own
    warnings.filterwarnings("error", module=r"(bert_fused_plugin|fairseq_compat)")  # as in pyproject.toml
    status = 1
    try:
        if words[0].endswith(".py"):
            runpy.run_path(words[0], run_name="__main__")
            status = 0
        else:
            packages = map(importlib.metadata.distribution, ("fairseq", "bert_fused_plugin"))
            scripts = {entry.name: entry for package in packages for entry in package.entry_points}
            sys.exit(scripts[Path(words[0]).name].load()())
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
    except BaseException:
        sys.excepthook(*sys.exc_info())
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)
