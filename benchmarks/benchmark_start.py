"""Start-up for benchmark.py: what the first translation costs, from the start of a process to its end."""

import argparse
import os
import random
import resource
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Dict, List, Optional

from benchmark_data import Corpus
from benchmark_systems import System, transformer_systems

import bert_fused_plugin
from bert_fused_plugin.errors import BertFusedError

PAIRS = 1000  # of the training set, from which the checkpoints are made
SHOWN_LINES = 20  # of the output of a command that failed
BEAM = 5

_HUB = """
from {module} import {name}
hub = {name}.from_pretrained({folder!r}, {checkpoint!r}, {data!r})
print("H-0", *hub.translate([{sentence!r}], beam={beam}, min_len={length}, max_len_b={length}), sep="\\t")
"""


@dataclass(frozen=True)
class StartSystem(System):
    """A model and a way to translate with it.

    Args:
        user_dir: whether ``fairseq-interactive`` gets ``--user-dir bert_fused_plugin``.
        hub: module and name of the class whose ``from_pretrained`` a Python program calls; None means that
            ``fairseq-interactive`` translates.
    """

    user_dir: bool = False
    hub: Optional[str] = None


def start_systems(bert_model: Optional[str]) -> Dict[str, StartSystem]:
    """Return the ways to translate that are compared, by name."""
    tiny = transformer_systems("tiny", bert_model, ["1.0"])
    plain, fused = (tiny[name].flags for name in ("transformer", "bert_fused"))
    return {
        "transformer": StartSystem(plain),
        "transformer-user-dir": StartSystem(plain, user_dir=True),
        "bert_fused": StartSystem(fused, reads_bert=True, user_dir=True),
        "transformer-hub": StartSystem(plain, hub="fairseq.models.transformer TransformerModel"),
        "bert_fused-hub": StartSystem(fused, reads_bert=True, hub="bert_fused_plugin.models.bert_fused BertFusedModel"),
    }


class Starts:
    """Processes that translate one sentence, with checkpoints of one update on a sample of *corpus*.

    The sentence is the one of median length in the sample, and each translation has the length of its reference.
    """

    def __init__(self, corpus: Corpus, options: argparse.Namespace, directory: str) -> None:
        self.options, self.directory = options, directory
        self.environment = {**os.environ, "PYTHONUTF8": "1"}
        if options.threads:
            self.environment.update(OMP_NUM_THREADS=str(options.threads), MKL_NUM_THREADS=str(options.threads))
        pairs = corpus.pairs["train"]
        sample = random.Random(options.seed).sample(pairs, min(PAIRS, len(pairs)))
        corpus.write_split(directory, "train", sample)
        self.source, target = sorted(sample, key=lambda pair: len(pair[0].split()))[len(sample) // 2]
        self.written = max(1, len(target.split()))

    def prepare(self, system: StartSystem) -> None:
        """Make the checkpoint of *system*, unless another system with the same model has made it."""
        if not (Path(self.directory) / self._checkpoint(system)).exists():
            self._run([
                *self._command("fairseq-train", *system.flags), *_user_dir(system.reads_bert), "--optimizer", "adam",
                "--lr", "0.0001", "--max-tokens", str(self.options.max_tokens), "--seed", str(self.options.seed),
                "--max-update", "1", "--valid-subset", "train", "--disable-validation", "--no-epoch-checkpoints",
                "--save-dir", str(Path(self.directory) / self._checkpoint(system).parent),
            ])  # fmt: skip

    def start(self, system: StartSystem) -> Dict[str, float]:
        """Translate the sentence in a new process; return what it wrote, and its CPU seconds, user and system."""
        command = self._interactive(system) if system.hub is None else self._hub(system)
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        output = self._run(command)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        hypotheses = [line.split("\t")[-1] for line in output if line.startswith("H-0\t")]
        if not hypotheses:
            raise BertFusedError(_failure(command, "translated nothing", output))
        return {
            "sentences": len(hypotheses),
            "symbols": len(hypotheses[0].split()),
            "CPU seconds": after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
        }

    def _checkpoint(self, system: StartSystem) -> Path:
        return Path("bert_fused" if system.reads_bert else "transformer", "checkpoint_last.pt")

    def _interactive(self, system: StartSystem) -> List[str]:
        task = system.flags[system.flags.index("--task") + 1]
        return [
            *self._command("fairseq-interactive", "--task", task), *_user_dir(system.user_dir),
            "--path", str(Path(self.directory) / self._checkpoint(system)),
            "--beam", str(BEAM), "--min-len", str(self.written), "--max-len-b", str(self.written),
        ]  # fmt: skip

    def _hub(self, system: StartSystem) -> List[str]:
        module, name = system.hub.split()
        checkpoint = Path(self.directory) / self._checkpoint(system)
        program = _HUB.format(
            module=module, name=name, folder=str(checkpoint.parent), checkpoint=checkpoint.name, data=self.directory,
            sentence=self.source, beam=BEAM, length=self.written,
        )  # fmt: skip
        return [sys.executable, "-c", program]

    def _command(self, name: str, *flags: str) -> List[str]:
        langs = ["--source-lang", self.options.source_lang, "--target-lang", self.options.target_lang]
        return [str(Path(sys.executable).with_name(name)), self.directory, *langs, "--cpu", *flags]

    def _run(self, command: List[str]) -> List[str]:
        return run(command, self.source + "\n", self.environment)


def run(command: List[str], text: str, environment: Dict[str, str]) -> List[str]:
    """Run *command* with *text* as its standard input; return the lines that it wrote.

    Raises:
        BertFusedError: the command cannot be started or fails; the message has the last lines that it wrote.
    """
    try:
        done = subprocess.run(
            command, input=text, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment,
            encoding="utf-8", errors="replace",
        )  # fmt: skip
    except OSError as error:
        raise BertFusedError(
            f"{command[0]} cannot be started ({error}); run the benchmark with the Python that fairseq is installed for"
        ) from error
    output = done.stdout.removesuffix("\n").split("\n")
    if done.returncode:
        raise BertFusedError(_failure(command, f"ended with the exit status {done.returncode}", output))
    return output


def _failure(command: List[str], what: str, output: List[str]) -> str:
    last = "\n".join(f"    {line}" for line in output[-SHOWN_LINES:]) if any(output) else "    (nothing)"
    return (
        f"a command that the benchmark runs {what}; correct what the last lines of its output name\n"
        f"  the command: {shlex.join(command)}\n  the last lines of its output:\n{last}"
    )


def _user_dir(wanted: bool) -> List[str]:
    return ["--user-dir", str(Path(bert_fused_plugin.__file__).parent)] if wanted else []
