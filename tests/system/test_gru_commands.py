"""The recurrent models through the real commands."""

import json
import re

import torch
from conftest import REPORT_QUICK, hypotheses


def test_what_has_no_use_is_said(workspace, tmp_path):
    done = workspace.train_gru(
        tmp_path / "save", "--attention", "none", "--bert-cache", tmp_path / "cache", "--max-epoch", "1"
    )
    assert "GruModel does not read BERT and so does not use --bert-cache" in done.stdout + done.stderr
    path = tmp_path / "save" / "checkpoint_last.pt"
    done = workspace.generate("--path", path, "--print-alignment", ok=False)
    assert "error: --print-alignment needs attention to source tokens, and a model with" in done.stderr


ENTMAX = ["--attention-map", "entmax"]


def test_a_learned_map_is_logged_translates_beside_softmax_and_is_not_exchanged(workspace, tmp_path):
    done = workspace.train_gru(tmp_path, *ENTMAX, "--max-epoch", "1")
    log = done.stdout + done.stderr
    path = tmp_path / "checkpoint_last.pt"
    raw = torch.load(path, weights_only=False)["model"]["decoder.attention.attention_map.raw_alpha"]
    assert raw.item() != 0
    assert f"alpha of decoder.attention: {1 + torch.sigmoid(raw).item():.3f}\n" in log
    assert re.search(r"valid on 'valid' subset \| loss .* \| alpha 1\.\d+\b", log)
    out = workspace.generate("--path", f"{path}:{workspace.checkpoint}", "--print-alignment").stdout
    assert sorted(hypotheses(out)) == list(range(30))
    assert len(re.findall(r"^A-\d+\t", out, re.MULTILINE)) == 30
    resumed = workspace.train_gru(tmp_path, "--attention-map", "entmax15", ok=False)
    assert "the checkpoint was trained with --attention-map entmax, and this model is built with" in resumed.stderr
    other = ["--model-overrides", "{'attention_map': 'sparsemax'}"]
    refused = workspace.generate("--path", path, *other, ok=False)
    assert "with --attention-map sparsemax; give --attention-map entmax, or load" in refused.stderr
    drawing = ["bert-fused-attention", workspace.data, "--path", path, "--output", tmp_path / "x.svg"]
    drawn = workspace.run(*drawing)
    refused = workspace.run(*drawing, "--layer", "1", ok=False)
    assert "error: --layer must be in [-1, 0], got 1" in refused.stderr
    report = ["--output", tmp_path / "x.html", "--json", tmp_path / "x.json", *REPORT_QUICK]
    workspace.run("bert-fused-compare", workspace.data, "--baseline", f"a={path}", *report)
    assert json.loads((tmp_path / "x.json").read_text())["runs"][0]["alphas"].keys() == {"decoder.attention"}
    assert "The alpha that each head of a has learned." in (tmp_path / "x.html").read_text(encoding="utf-8")
    assert re.search(r"^alpha: +decoder\.attention: 1\.\d\d$", drawn.stdout, re.MULTILINE)
