"""fairseq's own command lines, each in a process of its own."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from matplotlib import font_manager
from ranks import parameters
from workspace import REPORT_QUICK, ROOT, hypotheses

from bert_fused_lab.evidence import plot_attention
from bert_fused_lab.evidence.plot_attention import fonts
from bert_fused_plugin.errors import BertFusedError


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
    with pytest.raises(BertFusedError, match="--beam must be a finite number of at least 1, got 0"):
        plot_attention.main(["data-bin", "--path=x.pt", "--beam=0", f"--output={tmp_path}/x.png"])


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


# --- BERT's states from the disk


def losses(done):
    """Return the losses of all updates and of validation."""
    return [float(value) for value in re.findall(r"\b(?:nll_)?loss[ =]([\d.]+)", done.stdout)]


def test_training_with_and_without_the_cache_is_the_same(workspace, tmp_path):
    options = ["--bert-drop-net", "0.5", "--dropout", "0.1", "--log-interval", "1"]
    without = workspace.train(*options, save_dir=tmp_path / "without")
    cache = ["--bert-cache", tmp_path / "cache", "--bert-cache-dtype", "fp32"]
    first = workspace.train(*options, *cache, save_dir=tmp_path / "first")
    wanted = r"BERT cache \S+: 1 of 1 blocks are missing, [\d,]+ word pieces; [\d.,]+ MiB to write, [\d.,]+ GiB free"
    assert len(re.findall(wanted, first.stdout)) == 2  # for train and for valid
    second = workspace.train(*options, *cache, "--num-workers", "2", save_dir=tmp_path / "second")
    assert "are missing" not in second.stdout
    assert len(losses(without)) > 20
    # the log shows three decimals
    assert losses(first) == pytest.approx(losses(without), abs=0.0015)
    states = [torch.load(tmp_path / name / "checkpoint_last.pt", weights_only=False) for name in ("without", "first")]
    assert [state["extra_state"]["val_loss"] for state in states[:1]] == pytest.approx(
        [state["extra_state"]["val_loss"] for state in states[1:]], abs=1e-6
    )
    assert losses(second) == losses(first)


# --- the recurrent models


def test_a_learned_map_is_logged_translates_beside_softmax_and_is_reported(workspace, tmp_path):
    done = workspace.train_gru(tmp_path, "--attention-map", "entmax", "--max-epoch", "1")
    log = done.stdout + done.stderr
    path = tmp_path / "checkpoint_last.pt"
    raw = torch.load(path, weights_only=False)["model"]["decoder.attention.attention_map.raw_alpha"]
    assert raw.item() != 0
    assert f"alpha of decoder.attention: {1 + torch.sigmoid(raw).item():.3f}\n" in log
    assert re.search(r"valid on 'valid' subset \| loss .* \| alpha 1\.\d+\b", log)
    out = workspace.generate("--path", f"{path}:{workspace.checkpoint}", "--print-alignment").stdout
    assert sorted(hypotheses(out)) == list(range(30))
    assert len(re.findall(r"^A-\d+\t", out, re.MULTILINE)) == 30
    drawing = ["bert-fused-attention", workspace.data, "--path", path, "--output", tmp_path / "x.svg"]
    drawn = workspace.run(*drawing)
    refused = workspace.run(*drawing, "--layer", "1", ok=False)
    assert "error: --layer must be in [-1, 0], got 1" in refused.stderr
    report = ["--output", tmp_path / "x.html", "--json", tmp_path / "x.json", *REPORT_QUICK]
    workspace.run("bert-fused-compare", workspace.data, "--baseline", f"a={path}", *report)
    assert json.loads((tmp_path / "x.json").read_text())["runs"][0]["alphas"].keys() == {"decoder.attention"}
    assert "The alpha that each head of a has learned." in (tmp_path / "x.html").read_text(encoding="utf-8")
    assert re.search(r"^alpha: +decoder\.attention: 1\.\d\d$", drawn.stdout, re.MULTILINE)


# --- consistency training


def test_it_logs_the_divergence_and_a_training_goes_on_in_mid_epoch_as_if_unbroken(workspace, tmp_path):
    flags = ["--consistency", "simcut", "--bert-cache", tmp_path / "cache", "--dropout", "0.2", "--update-freq", "2"]
    flags += ["--max-tokens", "60", "--no-epoch-checkpoints", "--save-interval-updates", "3", "--max-update", "7"]
    done = workspace.train(*flags, save_dir=tmp_path / "whole")
    log = done.stdout + done.stderr
    assert re.search(r"train \| epoch 001 \| .* \| divergence \d\.\d+ \|", log)
    assert "divergence" not in re.search(r"valid on 'valid' subset .*", log)[0]
    (tmp_path / "parts").mkdir()
    shutil.copy(tmp_path / "whole" / "checkpoint_1_3.pt", tmp_path / "parts" / "checkpoint_last.pt")
    done = workspace.train(*flags, save_dir=tmp_path / "parts")
    assert "(epoch 1 @ 3 updates)" in done.stdout + done.stderr
    whole, parts = (parameters(tmp_path / name / "checkpoint_last.pt") for name in ("whole", "parts"))
    assert all(torch.equal(value, parts[name]) for name, value in whole.items())
