"""The recurrent models through the real commands."""

import json
import re

import torch
from workspace import REPORT_QUICK, hypotheses


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
