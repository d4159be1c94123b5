"""Runs console scripts in forks of a process that has already imported what takes them seconds to import.

Each run is a process of its own all the same: its own argv, environment, folder, files, random numbers and exit status.
"""

import atexit
import importlib
import importlib.metadata
import json
import logging
import os
import random
import runpy
import signal
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Dict, Optional

ENVIRONMENT = {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "", "PYTHONUTF8": "1"}
# not fairseq_cli.*, which set up logging when they are imported
COSTLY = [
    "fairseq.trainer",
    "fairseq.tasks",
    "fairseq.sequence_generator",
    "sacrebleu",
    "transformers.models.bert.modeling_bert",
]


class ForkServer:
    """Starts at the first run; ends with the tests' process."""

    def __init__(self) -> None:
        self._server: Optional[subprocess.Popen] = None

    def run(
        self, *command: object, text: str = "", cwd: object = ".", timeout: float = 250, **variables: str
    ) -> subprocess.CompletedProcess:
        """Run a script of fairseq, or a Python file, as subprocess.run does, and capture its output.

        The environment is this process' own with ENVIRONMENT and *variables*.  After *timeout* seconds it is killed.
        """
        words = list(map(str, command))
        env = {**os.environ, **ENVIRONMENT, **variables}
        with tempfile.TemporaryDirectory() as folder:
            files = [Path(folder, name) for name in ("stdin", "stdout", "stderr")]
            files[0].write_text(text, encoding="utf-8", errors="surrogateescape")
            job = {"command": words, "cwd": os.path.abspath(cwd), "env": env, "files": list(map(str, files))}
            server = self._running()
            server.stdin.write(json.dumps({**job, "timeout": timeout}) + "\n")
            server.stdin.flush()
            status = int(server.stdout.readline())
            output, errors = (file.read_text(encoding="utf-8", errors="surrogateescape") for file in files[1:])
        return subprocess.CompletedProcess(words, status, output, errors)

    def _running(self) -> subprocess.Popen:
        if self._server is None:
            env = {**os.environ, **ENVIRONMENT}
            self._server = subprocess.Popen(
                [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env
            )
            atexit.register(self._server.stdin.close)
        return self._server


FORK_SERVER = ForkServer()


def serve() -> None:
    """Read jobs, one a line, and answer each with its exit status."""
    packages = map(importlib.metadata.distribution, ("fairseq", "bert_fused_plugin"))
    scripts = {entry.name: entry for package in packages for entry in package.entry_points}
    for line in sys.stdin:
        job = json.loads(line)
        child = os.fork()
        if child == 0:
            _run(job, scripts)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


def _run(job: dict, scripts: Dict[str, importlib.metadata.EntryPoint]) -> None:
    """Become the command, and end."""
    signal.alarm(int(job["timeout"]))
    for number, (file, flags) in enumerate(zip(job["files"], (os.O_RDONLY, *[os.O_WRONLY | os.O_CREAT] * 2))):
        os.dup2(os.open(file, flags), number)
    sys.stdin = os.fdopen(0, encoding="utf-8", errors="surrogateescape", closefd=False)  # as PYTHONUTF8=1 has it
    os.chdir(job["cwd"])
    os.environ.clear()
    os.environ.update(job["env"])
    sys.argv = job["command"]
    sys.path[0] = str(Path(sys.argv[0]).parent)
    random.seed()
    status = 1
    try:
        if sys.argv[0].endswith(".py"):
            runpy.run_path(sys.argv[0], run_name="__main__")
            status = 0
        else:
            sys.exit(scripts[Path(sys.argv[0]).name].load()())
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


if __name__ == "__main__":
    for module in COSTLY:
        importlib.import_module(module)
    logging.root.handlers.clear()  # each command sets up its own
    warnings.filterwarnings("error", module=r"(bert_fused_plugin|fairseq_compat)")  # as in pyproject.toml
    serve()
