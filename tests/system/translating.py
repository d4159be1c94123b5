"""A tiny trained model, and fairseq's commands on it in this process."""

from functools import cached_property
from pathlib import Path

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


def train_language_model(workspace, dictionary, path):
    """Train a tiny language model of the target language, with its data-bin in the same folder."""
    command(
        "preprocess", "--only-source", "--srcdict", dictionary, "--trainpref", workspace.path / "train.de",
        "--validpref", workspace.path / "valid.de", "--destdir", path,
    )  # fmt: skip
    command(
        "train", path, "--task", "language_modeling", "--arch", "transformer_lm", "--decoder-layers", "1",
        "--decoder-embed-dim", "8", "--decoder-ffn-embed-dim", "8", "--decoder-attention-heads", "2",
        "--share-decoder-input-output-embed", "--optimizer", "adam", "--lr", "0.01", "--max-tokens", "120",
        "--tokens-per-sample", "20", "--sample-break-mode", "eos", "--max-update", "5", "--cpu",
        "--no-epoch-checkpoints", "--save-dir", path, "--disable-validation",
    )  # fmt: skip
