"""fairseq's commands in the process of the tests: their own entry points, without the seconds of a start."""

import importlib
import io
import math
import sys
from collections import defaultdict
from contextlib import redirect_stdout
from functools import cached_property
from unittest.mock import patch

import torch
from fairseq import checkpoint_utils
from fairseq.logging import progress_bar
from helpers import write_corpus


def command(name: str, *args: object, text: str = "") -> str:
    """Run ``fairseq-{name}`` on *args*, with *text* as its standard input, and return what it printed.

    Without workers, whose end the next command in the process would wait five seconds for.
    """
    module = importlib.import_module(f"fairseq_cli.{name}")
    vars(checkpoint_utils.save_checkpoint).clear()  # the best score of an earlier training in this process
    progress_bar._close_writers()  # the curves of an earlier training
    progress_bar._tensorboard_writers.clear()
    out = io.StringIO()
    argv = [f"fairseq-{name}", *map(str, args), *(["--num-workers", "0"] if name in ("generate", "train") else [])]
    with patch.object(sys, "argv", argv), patch.object(sys, "stdin", io.StringIO(text)), redirect_stdout(out):
        module.cli_main()
    return out.getvalue()


def binarised(path, **sizes: int) -> str:
    """Write a small corpus with splits of these *sizes* into the folder *path*; return its data-bin."""
    write_corpus(path, **sizes)
    prefixes = [word for split in sizes for word in (f"--{split}pref", path / split)]
    command("preprocess", "-s", "en", "-t", "de", "--joined-dictionary", *prefixes, "--destdir", path / "data-bin")
    return str(path / "data-bin")


class Printed:
    """What fairseq-generate printed: ``out.all("H")[7]`` holds the fields of each H line of sentence 7, best first."""

    def __init__(self, text: str) -> None:
        self.text = text

    def all(self, kind: str):
        rows = defaultdict(list)
        for line in self.text.split("\n"):
            if line.startswith(f"{kind}-"):
                number, *fields = line.split("\t")
                rows[int(number[2:])].append(fields)
        return dict(sorted(rows.items()))

    def tokens(self, kind: str = "H"):
        """The words of each sentence's best line."""
        return {number: text.split() for number, text in self.best(kind).items()}

    def scores(self):
        return {number: float(lines[0][0]) for number, lines in self.all("H").items()}

    def positional(self):
        """The log-probability, base 2, of each token of the best hypothesis, eos too."""
        return {number: [float(x) for x in lines[0][0].split()] for number, lines in self.all("P").items()}

    def best(self, kind: str):
        """The last field of each sentence's best line: its text, its alignment."""
        return {number: lines[0][-1] for number, lines in self.all(kind).items()}


class Model:
    """A trained model, or several with colons between their paths, and the commands that translate with it."""

    def __init__(self, data: object, checkpoint: object) -> None:
        self.data, self.checkpoint = str(data), str(checkpoint)

    @cached_property
    def default(self):
        return self.generate()

    @cached_property
    def greedy(self):
        """The words of each sentence with a beam of one."""
        return self.generate("--beam", "1").tokens()

    def generate(self, *args: object, data=None, task="bert_fused_translation") -> Printed:
        return self._run("generate", data or self.data, "--task", task, *args)

    def interactive(self, text: str, *args: object) -> Printed:
        return self._run("interactive", self.data, "--task", "bert_fused_translation", *args, text=text)

    def _run(self, name: str, *args: object, text="") -> Printed:
        options = ["--path", self.checkpoint, "--beam", "3", "--min-len", "2", "--max-len-b", "10", "--cpu"]
        return Printed(command(name, args[0], *options, *args[1:], text=text))


def train(data, save_dir, *args):
    return command(
        "train", data, "--task", "bert_fused_translation", "--criterion", "bert_fused_label_smoothed_cross_entropy",
        "--optimizer", "adam", "--lr", "0.01", "--max-tokens", "120", "--save-dir", save_dir, "--cpu", "--seed", "3",
        "--no-epoch-checkpoints", "--max-epoch", "4", *args,
    )  # fmt: skip


def mean_log_probabilities(members, source, words):
    """The base-2 logarithm of the mean of the members' probabilities of each of the *words*, and of eos.

    Each member is a model with its task; one sentence at a time, of which the encoder finds BERT's input by itself.
    """
    probabilities = []
    for model, task in members:
        encode = [dictionary.encode_line for dictionary in (task.source_dictionary, task.target_dictionary)]
        source_ids, target = (f(" ".join(w), add_if_not_exist=False).long() for f, w in zip(encode, (source, words)))
        previous = torch.cat([target[-1:], target[:-1]])
        with torch.no_grad():
            logits = model(source_ids[None], torch.tensor([len(source_ids)]), previous[None])[0][0]
        probabilities.append(logits.softmax(-1)[torch.arange(len(target)), target])
    return (torch.stack(probabilities).mean(dim=0).log() / math.log(2)).tolist()
