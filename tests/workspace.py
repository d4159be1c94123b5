"""A small parallel corpus, binarised and trained on once, by the real command lines."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from bert_nmt_formulas import hypotheses  # noqa: F401  for the tests
from documentation import ROOT
from dry_recipes import Dry
from fork_server import ENVIRONMENT, run_forked
from helpers import write_corpus
from subword_nmt.learn_bpe import learn_bpe

from bert_fused_lab.compare import compare, parse_args

TINY = (
    "--encoder-embed-dim 16 --encoder-ffn-embed-dim 24 --encoder-layers 2 --decoder-layers 2 "
    "--encoder-attention-heads 2 --decoder-attention-heads 2 --share-all-embeddings"
).split()
GRU_SIZES = (
    "--encoder-embed-dim 16 --encoder-hidden-size 12 --decoder-embed-dim 16 --decoder-hidden-size 20 "
    "--decoder-out-embed-dim 16"
).split()


def load(path):
    return torch.load(path, weights_only=False)


def updates(state):
    """Return the number of updates of the training that saved *state*."""
    return state["optimizer_history"][-1]["num_updates"]


class Workspace:
    """A directory with a data-bin and a trained model, and a way to run fairseq's commands on them."""

    def __init__(self, path: Path, bert_dir: str) -> None:
        self.path, self.bert_dir = path, bert_dir
        self.data, self.save_dir = str(path / "data-bin"), str(path / "save")
        self.checkpoint = str(path / "save" / "checkpoint_last.pt")

    def run(
        self, command: str, *args: str, text: str = "", ok: bool = True, cwd=None, fresh: bool = False, timeout=250
    ) -> subprocess.CompletedProcess:
        """Run a *command* in a process of its own, with *text* as its standard input.

        fairseq's commands, ours, and Python files are forked from a process that has imported fairseq, unless *fresh*.
        """
        words = [str(Path(sys.executable).with_name(command)), *map(str, args)]
        is_file = command == "python" and words[1].endswith(".py")
        if (is_file or command.startswith(("fairseq-", "bert-fused-"))) and not fresh:
            done = run_forked(*words[is_file:], text=text, cwd=cwd or self.path, timeout=timeout)
        else:
            options = {"timeout": timeout, "cwd": cwd or self.path, "env": {**os.environ, **ENVIRONMENT}}
            done = subprocess.run(words, input=text, capture_output=True, text=True, encoding="utf-8", **options)
        assert not ok or done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
        return done

    def training(self, *args: str, save_dir=None, task="bert_fused_translation"):
        """The words after fairseq-train that train a tiny model for two epochs."""
        return [
            self.data, "--user-dir", ROOT / "bert_fused_plugin", "--task", task,
            "--arch", "bert_fused", *TINY, "--bert-model", self.bert_dir,
            "--criterion", "bert_fused_label_smoothed_cross_entropy", "--optimizer", "adam", "--lr", "0.01",
            "--max-tokens", "120", "--max-epoch", "2", "--save-dir", save_dir or self.save_dir,
            "--log-format", "simple", "--log-interval", "5", "--cpu", *args,
        ]  # fmt: skip

    def train(self, *args: str, save_dir=None, task="bert_fused_translation", **options):
        return self.run("fairseq-train", *self.training(*args, save_dir=save_dir, task=task), **options)

    def train_gru(self, save_dir, *args: str, arch="gru_bahdanau", task="bert_fused_translation", **options):
        """Run fairseq-train for two epochs on a tiny recurrent model."""
        return self.run(
            "fairseq-train", self.data, "--user-dir", ROOT / "bert_fused_plugin", "--task", task, "--arch", arch,
            *GRU_SIZES, "--criterion", "bert_fused_label_smoothed_cross_entropy", "--optimizer", "adam",
            "--lr", "0.01", "--max-tokens", "120", "--max-epoch", "2", "--save-dir", save_dir,
            "--log-format", "simple", "--cpu", *args, **options,
        )  # fmt: skip

    def generate(self, *args: str, data=None, task="bert_fused_translation", **options):
        """Run fairseq-generate on the test set."""
        return self.run(
            "fairseq-generate", data or self.data, "--user-dir", ROOT / "bert_fused_plugin", "--task", task,
            "--path", self.checkpoint, "--beam", "3", "--max-len-b", "10", "--cpu", *args, **options,
        )  # fmt: skip

    def interactive(self, text: str, *args: str, task="bert_fused_translation", **options):
        return self.run(
            "fairseq-interactive", self.data, "--user-dir", ROOT / "bert_fused_plugin", "--task", task,
            "--path", self.checkpoint, "--beam", "3", "--max-len-b", "10", "--cpu", *args, text=text, **options,
        )  # fmt: skip


@pytest.fixture(scope="session")
def workspace(tmp_path_factory, bert_dir):
    path = tmp_path_factory.mktemp("workspace")
    result = Workspace(path, bert_dir)
    write_corpus(path, train=150, valid=20, test=30)
    result.run(
        "fairseq-preprocess", "--source-lang", "en", "--target-lang", "de", "--joined-dictionary",
        "--trainpref", "train", "--validpref", "valid", "--testpref", "test", "--destdir", result.data,
    )  # fmt: skip
    flags = "--eval-bleu --eval-bleu-remove-bpe --bert-drop-net 0.5".split()
    result.first_run = result.train(*flags, "--eval-bleu-args", '{"beam": 2, "max_len_b": 10}', fresh=True)
    return result


@pytest.fixture(scope="session")
def codes(workspace):
    """The file of subword-nmt's codes that the workspace's words come from."""
    path = workspace.path / "codes"
    text = (workspace.path / "train.en").read_text(encoding="utf-8").replace("@@", "")
    with open(path, "w", encoding="utf-8") as out:
        learn_bpe(text.splitlines(), out, 60, total_symbols=False)
    return path


@pytest.fixture
def dry(tmp_path, monkeypatch):
    return Dry(tmp_path, monkeypatch)


@pytest.fixture
def out(dry):
    """The folder of the recipe multi30k, whose text is prepared."""
    return dry.prepared("multi30k")


# --- reports

REPORT_HOW = ["--beam", "3", "--lenpen", "0.5", "--max-len-a", "0.5", "--max-len-b", "5", "--cpu"]
REPORT_QUICK = [*REPORT_HOW, "--no-bert-tests", "--samples", "100", "--examples", "2"]
TRANSFORMER = (
    "--task translation --arch transformer --encoder-embed-dim 16 --encoder-ffn-embed-dim 24 --encoder-layers 2 "
    "--decoder-layers 2 --encoder-attention-heads 2 --decoder-attention-heads 2 --share-all-embeddings "
    "--criterion label_smoothed_cross_entropy --optimizer adam "
    "--lr 0.01 --max-tokens 120 --max-epoch 2 --cpu --log-format json --log-interval 5"
).split()


@pytest.fixture(scope="session")
def plain(workspace, tmp_path_factory):
    """The --save-dir of fairseq's own transformer, with its log."""
    save_dir = tmp_path_factory.mktemp("plain")
    done = workspace.run("fairseq-train", workspace.data, *TRANSFORMER, "--save-dir", save_dir)
    (save_dir / "train.log").write_text(done.stdout, encoding="utf-8")
    return save_dir


def reported(data, baseline, *runs, how=REPORT_QUICK, more=()):
    """Return the figures of a report, made in this process, on NAME=PATHs, with *more* flags."""
    given = [data, "--baseline", baseline, *(word for run in runs for word in ("--run", run)), "--output", "x"]
    return compare(parse_args([str(word) for word in (*given, *how, *more)]))


@pytest.fixture(scope="session")
def report(workspace, plain):
    """The figures of a report on fairseq's transformer and the workspace's model."""
    return reported(workspace.data, f"plain={plain}", f"fused={workspace.save_dir}")
