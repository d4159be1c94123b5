"""fairseq's own command lines, each in a process of its own."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from matplotlib import font_manager
from workspace import ROOT

from bert_fused_lab.evidence.plot_attention import fonts


def test_all_bad_settings_are_reported_together(workspace, tmp_path):
    done = workspace.train(
        "--bert-drop-net", "1.3", "--bert-model", tmp_path / "nowhere", "--encoder-attention-heads", "3",
        "--bert-max-tokens", "2", save_dir=tmp_path / "save", ok=False,
    )  # fmt: skip
    assert done.returncode != 0
    assert "Traceback" not in done.stdout + done.stderr
    for message in (
        "--bert-drop-net must be in [0, 1], got 1.3; ",
        "--encoder-attention-heads must divide --encoder-embed-dim, got 3 and 16",
        "--bert-max-tokens must be at least 3, got 2; ",
        f"--bert-model '{tmp_path}/nowhere': no such directory; give an existing one, or a name on the",
    ):
        assert f"bert_fused_plugin: error: {message}" in done.stderr
    assert not list((tmp_path / "save").glob("*.pt"))


def test_training_logs_what_people_look_for(workspace):
    log = workspace.first_run.stdout + workspace.first_run.stderr
    assert re.search(r"BERT: \S+tiny-bert\S*, 3,\d{3} frozen parameters \(not in checkpoints\), [\d,]+ trained", log)
    assert "drop-net 0.5" in log
    before, _ = log.split("Start iterating over samples", 1)
    last = [line for line in before.splitlines()[:-1] if " | " in line][-1]
    assert re.search(r"\| INFO \| bert_fused_plugin.setup_messages \| said at set-up: BERT: .*drop-net 0.5$", last)
    assert log.count("said at set-up") == 1  # though there are two epochs
    valid = [line for line in log.splitlines() if "| valid |" in line and "epoch 002" in line]
    for meter in ("loss", "nll_loss", "ppl", "accuracy", "bleu"):
        assert re.search(rf"\| {meter} [\d.]+", valid[0]), valid
    assert "train: " in log
    assert "0 sentences reach the limit of 32" in log


def test_validate(workspace):
    done = workspace.run(
        "fairseq-validate", workspace.data, "--user-dir", ROOT / "bert_fused_plugin",
        "--task", "bert_fused_translation", "--path", workspace.checkpoint, "--max-tokens", "200", "--cpu",
    )  # fmt: skip
    trained = re.findall(r"epoch 002 \| valid on 'valid' subset \| loss ([\d.]+)", workspace.first_run.stdout)
    seen = re.findall(r"\| valid on 'valid' subset \| loss ([\d.]+)", done.stdout + done.stderr)
    assert seen
    assert float(seen[-1]) == pytest.approx(float(trained[-1]), abs=2e-3)


def test_attention_is_drawn(workspace, tmp_path):
    done = workspace.run(
        "bert-fused-attention", workspace.data, "--path", workspace.checkpoint,
        "--index", "2", "--beam", "2", "--output", tmp_path / "attention.png",
    )  # fmt: skip
    assert (tmp_path / "attention.png").read_bytes().startswith(b"\x89PNG")
    shown = [line.split(":")[0] for line in done.stdout.splitlines()]
    once = [word for word in shown if word != "too even"]
    assert once == "source translation alignment entropy entropy written".split()
    layers = re.findall(r"^entropy: +(?:source|BERT): (.*)$", done.stdout, re.MULTILINE)
    even = [any(int(share) >= 95 for share in re.findall(r"\((\d+)%\)", line)) for line in layers]
    assert shown.count("too even") == sum(even) == 2  # after two epochs it is
    refused = workspace.run(
        "bert-fused-attention", workspace.data, "--path", workspace.checkpoint,
        "--index", "99", "--output", tmp_path / "x.png", ok=False,
    )  # fmt: skip
    assert "error: --index must be in [0, 29] for 'test', got 99" in refused.stderr


def test_attention_is_drawn_to_the_text_that_bert_read(workspace, tmp_path):
    lines = (workspace.path / "test.en").read_text(encoding="utf-8").replace("@@ ", "").splitlines()
    (tmp_path / "test.en").write_text("\n".join(["eats", *lines[1:], ""]), encoding="utf-8")
    done = workspace.run(
        "bert-fused-attention", workspace.data, "--path", workspace.checkpoint,
        "--bert-text", tmp_path, "--output", tmp_path / "x.svg",
    )  # fmt: skip
    assert "eats" not in done.stdout
    assert "<!-- eats -->" in (tmp_path / "x.svg").read_text()  # which matplotlib writes before the curves of a label


def test_the_clone_beside_is_not_taken_for_the_package(tmp_path):
    (tmp_path / "bert_fused_plugin").mkdir()
    flags = ["--user-dir", "bert_fused_plugin", "--task", "bert_fused_translation", "--arch", "bert_fused_tiny"]
    train = Path(sys.executable).with_name("fairseq-train")  # a new process, which has not imported the package
    done = subprocess.run([train, "nowhere", *flags], cwd=tmp_path, capture_output=True, text=True)
    assert "Must specify batch size" in done.stderr


def test_fonts_are_found_for_what_matplotlibs_own_lacks(monkeypatch):
    own = [font for font in font_manager.fontManager.ttflist if "mpl-data" in font.fname]
    monkeypatch.setattr(font_manager.fontManager, "ttflist", own)
    assert fonts("Haus ,") == (["DejaVu Sans"], "")
    families, missing = fonts("Haus \u1d81 𓀀")
    assert families[0] == "DejaVu Sans"
    assert "STIXGeneral" in families
    assert missing == "𓀀"
