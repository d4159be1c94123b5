"""A tiny trained model, and fairseq's commands on it in this process."""

import math
from functools import cached_property
from pathlib import Path

import torch
from in_process import Printed, command


class Model:
    """A trained model, and the commands that translate with it."""

    def __init__(self, data: str, checkpoint: Path) -> None:
        self.data, self.checkpoint = data, str(checkpoint)
        self.default = self.generate()

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
