"""The commands print no warning: what a user can do nothing about is hidden, and a normal run has no other."""

import re

import pytest
import tokenizers
from workspace import ROOT

noisy_forks = pytest.mark.skipif(
    tuple(map(int, tokenizers.__version__.split(".")[:2])) < (0, 22), reason="tokenizers before 0.22 warn in each fork"
)

LOG_LINE = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d \| INFO \| ")
PROGRESS = re.compile(r"^ *\d+it \[|\d+%\|| \| \d+/\d+ |^epoch \d+: |^ *$")
COMPLAINT = re.compile(r"\| (WARNING|ERROR|CRITICAL) \||Warning: |warnings\.warn|deprecated|[Pp]lease install")


def complaints(done):
    """The lines of *done* that complain, and those on stderr that are no progress and no log line of level INFO."""
    out, err = (re.split(r"[\r\n]+", text) for text in (done.stdout, done.stderr))
    found = [line for line in out + err if COMPLAINT.search(line)]
    return found + [line for line in err if not LOG_LINE.match(line) and not PROGRESS.search(line)]


@noisy_forks
def test_preparing_and_training(workspace, tmp_path):
    assert complaints(workspace.first_run) == []
    command = "fairseq-preprocess -s en -t de --trainpref train --workers 2 --destdir".split()
    done = workspace.run(*command, tmp_path, fresh=True)
    assert complaints(done) == []
    cache = ["--bert-cache", tmp_path / "cache", "--max-epoch", "1"]
    done = workspace.train(*cache, "--memory-efficient-fp16", "--num-workers", "1", save_dir=tmp_path / "save")
    assert complaints(done) == []


@noisy_forks
def test_translating_and_scoring(workspace):
    options = ["--print-alignment", "--nbest", "2", "--no-repeat-ngram-size", "2", "--max-tokens", "100"]
    done = workspace.generate("--path", f"{workspace.checkpoint}:{workspace.checkpoint}", *options)
    assert complaints(done) == []
    done = workspace.generate("--fp16", "--remove-bpe", "--scoring", "sacrebleu", task="translation")
    assert complaints(done) == []
    assert complaints(workspace.interactive("the dog\n\nthe old man\n", "--buffer-size", "2")) == []
    [unknown] = set(complaints(workspace.interactive("the dog\nno such words\nnor these\n")))
    assert "3 of the 3 symbols of a line (100%) are unknown to the source dictionary: 'no', 'such', 'words'" in unknown
    done = workspace.run(
        "fairseq-validate", workspace.data, "--user-dir", ROOT / "bert_fused_plugin",
        "--task", "bert_fused_translation", "--path", workspace.checkpoint, "--max-tokens", "200", "--cpu",
    )  # fmt: skip
    assert complaints(done) == []
    assert complaints(workspace.run("fairseq-score", "--sys", "test.de", "--ref", "test.de", fresh=True)) == []


def test_a_script_with_the_hub_interface(workspace):
    code = (
        "from bert_fused_plugin.models.bert_fused import BertFusedModel\n"
        f"hub = BertFusedModel.from_pretrained({workspace.save_dir!r}, 'checkpoint_last.pt', {workspace.data!r})\n"
        "print(hub.translate(['the dog', 'a man'], beam=2, max_len_b=5))"
    )
    assert complaints(workspace.run("python", "-c", code)) == []
