"""The recurrent models through the real commands."""

import json
import re

import pytest
import torch
from conftest import REPORT_QUICK, hypotheses

pytestmark = pytest.mark.system


@pytest.fixture(scope="module")
def checkpoint(workspace, tmp_path_factory):
    save_dir = tmp_path_factory.mktemp("gru")
    done = workspace.train_gru(save_dir, "--dropout", "0.1")
    assert "The recurrent model has additive attention and" in done.stdout + done.stderr
    return str(save_dir / "checkpoint_last.pt")


def test_interactive_gives_the_translations_of_generate(workspace, checkpoint):
    lines = (workspace.path / "test.en").read_text(encoding="utf-8")
    for task in ("bert_fused_translation", "translation"):
        generated = hypotheses(workspace.generate("--path", checkpoint, task=task).stdout)
        assert sorted(generated) == list(range(30))
        typed = hypotheses(
            workspace.interactive(
                lines, "--path", checkpoint, "--buffer-size", "7", "--max-sentences", "3", task=task
            ).stdout
        )
        assert {n: tokens for n, (_, tokens) in typed.items()} == {n: tokens for n, (_, tokens) in generated.items()}
        assert [typed[n][0] for n in generated] == pytest.approx([score for score, _ in generated.values()], abs=1e-4)


def test_attention_is_drawn(workspace, checkpoint, tmp_path):
    command = ["bert-fused-attention", workspace.data, "--path", checkpoint, "--output"]
    done = workspace.run(*command, tmp_path / "attention.png", "--index", "2")
    assert (tmp_path / "attention.png").read_bytes().startswith(b"\x89PNG")
    shown = [line.split(":")[0] for line in done.stdout.splitlines()]
    assert shown == ["source", "translation", "alignment", "entropy", "too even", "written"]  # after two epochs it is
    refused = workspace.run(*command, tmp_path / "x.png", "--layer", "1", ok=False)
    assert "error: --layer must be in [-1, 0], got 1" in refused.stderr


def test_with_bert_and_its_cache(workspace, tmp_path):
    flags = ["--bert-model", workspace.bert_dir, "--bert-drop-net", "0.5"]
    cache = ["--bert-cache", tmp_path / "cache", "--bert-cache-dtype", "fp32"]
    done = workspace.train_gru(tmp_path / "save", *flags, *cache)
    assert re.search(r"frozen parameters \(not in checkpoints\).*; drop-net 0.5", done.stdout + done.stderr)
    path = tmp_path / "save" / "checkpoint_last.pt"
    assert not any(".bert.model" in name for name in torch.load(path, weights_only=False)["model"])
    plain, cached = (hypotheses(workspace.generate("--path", path, *extra).stdout) for extra in ([], cache))
    assert [cached[n][0] for n in plain] == pytest.approx([score for score, _ in plain.values()], abs=1e-4)


def test_what_has_no_use_is_said(workspace, tmp_path):
    done = workspace.train_gru(
        tmp_path / "save", "--attention", "none", "--bert-cache", tmp_path / "cache", "--max-epoch", "1"
    )
    assert "GruModel does not read BERT and so does not use --bert-cache" in done.stdout + done.stderr
    path = tmp_path / "save" / "checkpoint_last.pt"
    done = workspace.generate("--path", path, "--print-alignment", ok=False)
    assert "error: --print-alignment needs attention, but a model with --attention none has none" in done.stderr


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
    drawn = workspace.run("bert-fused-attention", workspace.data, "--path", path, "--output", tmp_path / "x.svg")
    report = ["--output", tmp_path / "x.html", "--json", tmp_path / "x.json", *REPORT_QUICK]
    workspace.run("bert-fused-compare", workspace.data, "--baseline", f"a={path}", *report)
    assert json.loads((tmp_path / "x.json").read_text())["runs"][0]["alphas"].keys() == {"decoder.attention"}
    assert "The alpha that each head of a has learned." in (tmp_path / "x.html").read_text(encoding="utf-8")
    assert re.search(r"^alpha: +decoder\.attention: 1\.\d\d$", drawn.stdout, re.MULTILINE)
