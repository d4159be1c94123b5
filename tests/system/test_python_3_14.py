"""The commands under what Python 3.14 changes, as far as an older Python can be made to behave like it."""

import sys

import pytest
from conftest import Workspace

pytestmark = [
    pytest.mark.system,
    pytest.mark.skipif(sys.version_info >= (3, 14), reason="the real thing"),
    pytest.mark.skipif(sys.version_info < (3, 10), reason="transformers 4 itself reads the texts of types"),
]

# Optional[int] reads "int | None"; a help text is checked when it is added; worker processes are sent a pickle
LIKE_3_14 = """
import argparse, importlib, multiprocessing, sys, typing

def text(union):
    return " | ".join("None" if kind is type(None) else getattr(kind, "__name__", str(kind)) for kind in union.__args__)

def check_help(self, action):
    if action.help and hasattr(self, "_get_formatter"):
        "%" in action.help
        self._get_formatter()._expand_help(action)

def add_argument(self, *args, **options):
    action = stock(self, *args, **options)
    self._check_help(action)
    return action

typing._UnionGenericAlias.__repr__ = text
stock = argparse._ActionsContainer.add_argument
argparse._ActionsContainer._check_help = check_help
argparse._ActionsContainer.add_argument = add_argument

if __name__ == "__main__":
    multiprocessing.set_start_method("forkserver")
    multiprocessing.set_forkserver_preload(["bert_fused_plugin"])
    assert str(typing.Optional[int]) == "int | None"
    importlib.import_module(f"fairseq_cli.{sys.argv.pop(1)}").cli_main()
"""


class Like314(Workspace):
    """Runs the commands by such a script."""

    def __init__(self, workspace, folder):
        super().__init__(workspace.path, workspace.bert_dir)
        self.script = folder / "like_3_14.py"
        self.script.write_text(LIKE_3_14)

    def run(self, command, *args, **options):
        name = command.replace("fairseq-", "").replace("-", "_")
        return super().run("python", self.script, name, *args, fresh=True, **options)


@pytest.fixture
def like(workspace, tmp_path):
    return Like314(workspace, tmp_path)


def test_preparing_training_and_translating(like, tmp_path):
    """With the kind of data whose file is open when the workers start, and with a cache, whose files are mapped."""
    dictionary = ["--joined-dictionary", "--srcdict", f"{like.data}/dict.en.txt"]
    splits = ["--trainpref", "train", "--validpref", "valid", "--testpref", "test"]
    lazy, workers = ["--dataset-impl", "lazy"], ["--num-workers", "2"]
    data = str(tmp_path / "data-bin")
    like.run(
        "fairseq-preprocess", "-s", "en", "-t", "de", *dictionary, *splits, *lazy, "--destdir", data, "--workers", 2
    )
    like.data, cache = data, ["--bert-cache", tmp_path / "cache"]
    like.train(*lazy, *workers, *cache, "--max-epoch", "1", save_dir=tmp_path / "save")
    like.checkpoint = tmp_path / "save" / "checkpoint_last.pt"
    assert "H-0\t" in like.generate(*lazy, *workers).stdout


def test_fairseq_hydra_train_reads_its_command_line(like):
    assert "--shell-completion" in like.run("fairseq-hydra-train", "--hydra-help").stdout
