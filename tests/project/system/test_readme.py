"""The commands of README and docs/ run, one after the other, in one folder."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from documentation import blocks, definitions
from fork_server import ENVIRONMENT
from subword_nmt.learn_bpe import learn_bpe
from workspace import ROOT, write_corpus

# The workflow comes first: the other pages go on with what its commands have made.
PAGES = [
    f"docs/{name}.md" for name in ("workflow", "report", "install", "performance", "from_other_code", "python_api")
]
BLOCKS = [block for page in PAGES for block in blocks(page) if block.mark == "test"]

# What makes the commands small.  The last value of a flag wins.
SMALL = """
fairseq-train() { command fairseq-train "$@" --max-epoch 1 --cpu; }
fairseq-generate() { command fairseq-generate "$@" --beam 2 --max-len-b 9 --cpu; }
fairseq-interactive() { command fairseq-interactive "$@" --beam 2 --max-len-b 9 --cpu; }
bert-fused-compare() { command bert-fused-compare "$@" --beam 2 --max-len-b 9 --samples 100 --cpu; }
bert-fused-attention() { command bert-fused-attention "$@" --beam 2; }
bert-fused-average() { command bert-fused-average "$@" --num-update-checkpoints 1; }
tensorboard() { command tensorboard "$@" --inspect; }  # which shows what it has found, and ends
tail() { cat "${@: -1}"; }  # of a file that does not grow any more
"""


class Reader:
    """Somebody who types in all commands, in their order, in a folder of their own."""

    def __init__(self, path: Path, bert_dir: str) -> None:
        self.path, self.bert_dir = path, bert_dir
        self._outputs = []
        write_corpus(path, train=150, valid=20, test=30)
        shutil.copytree(ROOT / "examples", path / "examples")
        shutil.copy(path / "valid.en", path / "text.en")
        # so many merges that each word of the data is one piece
        text = "".join((path / f"train.{lang}").read_text(encoding="utf-8") for lang in ("en", "de"))
        with open(path / "codes", "w", encoding="utf-8") as out:
            learn_bpe(text.splitlines(), out, 1000)

    def output_of(self, number: int) -> str:
        """Run the blocks up to *number* that have not been run, and return what this one printed."""
        while len(self._outputs) <= number:
            self._outputs.append(self._run(BLOCKS[len(self._outputs)]))
        return self._outputs[number]

    def _run(self, block):
        code = block.code.replace("--save-interval-updates 200", "--save-interval-updates 1 --max-tokens 500")
        shell = ["bash", "-euo", "pipefail", "-c", SMALL + definitions() + code]
        command = {"bash": shell, "python": [sys.executable, "-c", block.code]}[block.language]
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        variables = {**ENVIRONMENT, "PATH": path, "BERT": self.bert_dir, "LAYER": "1", "PYTHONPATH": str(ROOT)}
        done = subprocess.run(
            command, cwd=self.path, env={**os.environ, **variables}, capture_output=True, text=True, timeout=250
        )
        assert done.returncode == 0, f"{block}\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
        return done.stdout


@pytest.fixture(scope="module")
def reader(tmp_path_factory, bert_dir):
    return Reader(tmp_path_factory.mktemp("reader"), bert_dir)


@pytest.mark.parametrize("number", range(len(BLOCKS)), ids=list(map(str, BLOCKS)))
def test_the_commands_run(reader, number):
    reader.output_of(number)


def after(reader, word):
    """Return what the first block with *word* printed."""
    return reader.output_of(next(number for number, block in enumerate(BLOCKS) if word in block.code))


def test_the_commands_translate_and_score(reader):
    printed = after(reader, "sacrebleu")
    assert len((reader.path / "test.hyp").read_text(encoding="utf-8").splitlines()) == 30
    assert '"name": "BLEU"' in printed


def test_the_report_compares_both_models(reader):
    after(reader, "bert-fused-compare")
    report = json.loads((reader.path / "report.json").read_text(encoding="utf-8"))
    assert [(run["name"], run["reads_bert"]) for run in report["runs"]] == [("control", False), ("fused", True)]
    assert (reader.path / "report.html").exists()


def test_the_curves_have_bleu(reader):
    printed = after(reader, "tensorboard --logdir ")
    assert "curves/fused/valid" in printed
    for line in (r" +bleu", r"\| valid \| epoch 001 \| .*\| bleu [\d.]+ \|.*"):
        assert re.search(f"^{line}$", printed, re.MULTILINE)
