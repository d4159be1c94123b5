"""What is pinned under tests/pinned: interfaces, and files that later versions must read as this one does.

To pin anew, on purpose, after what users rely on has changed: python -m pytest tests/pinning.py
"""

import argparse
import json
import shutil
from pathlib import Path

import fairseq.models
import torch
from fairseq import criterions, tasks
from workspace import ROOT

import bert_fused_plugin  # noqa: F401
from bert_fused_plugin.models.bert_fused import BertFusedModel
from bert_fused_plugin.models.gru_bahdanau import GruModel

PINNED = ROOT / "tests" / "pinned"
LINES = ["the old man sees a dog", "a small play@@ hou@@ se", "red zzz"]
MODELS = {"fused": BertFusedModel, "gru": GruModel}
REGISTERED = {
    "bert_fused": fairseq.models.MODEL_REGISTRY,
    "gru_bahdanau": fairseq.models.MODEL_REGISTRY,
    "bert_fused_translation": tasks.TASK_REGISTRY,
    "bert_fused_label_smoothed_cross_entropy": criterions.CRITERION_REGISTRY,
}


def flags(name: str):
    """The flags of a model, task or criterion that are ours, with their defaults."""
    parser = argparse.ArgumentParser(allow_abbrev=False)
    REGISTERED[name][name].add_args(parser)
    options = (action for action in parser._actions if action.option_strings)
    return {action.option_strings[0]: repr(action.default) for action in options if _is_ours(name, action.dest)}


def _is_ours(name: str, dest: str) -> bool:
    return dest.startswith("bert_") or (dest != "help" and not name.startswith("bert_fused"))


def preset(architecture: str):
    """What a preset sets where nothing is given."""
    args = argparse.Namespace()
    fairseq.models.ARCH_CONFIG_REGISTRY[architecture](args)
    return {name: repr(value) for name, value in sorted(vars(args).items())}


def parameters(checkpoint: Path):
    state = torch.load(checkpoint, weights_only=False)["model"]
    return {name: "x".join(map(str, value.shape)) for name, value in state.items()}


def translations(name: str, folder: Path):
    hub = MODELS[name].from_pretrained(str(folder))
    found = [hypotheses[0] for hypotheses in hub.generate([hub.encode(line) for line in LINES], beam=2, max_len_b=8)]
    return [[hub.decode(hypothesis["tokens"]), hypothesis["score"].item()] for hypothesis in found]


def interface(folder: Path):
    ours = [name for name, kind in fairseq.models.ARCH_MODEL_REGISTRY.items() if kind in MODELS.values()]
    return {
        "presets": {name: preset(name) for name in sorted(ours)},
        "flags": {name: flags(name) for name in REGISTERED},
        "parameters": {name: parameters(folder / name / "model.pt") for name in MODELS},
    }


def without_paths(value, *places: str):
    """*value* without the folders that it was made in."""
    if isinstance(value, dict):
        return {key: without_paths(part, *places) for key, part in value.items()}
    if isinstance(value, argparse.Namespace):
        return argparse.Namespace(**without_paths(vars(value), *places))
    if isinstance(value, str):
        for place in places:
            value = value.replace(f"{place}/", "")
    return value


def test_write(workspace, tmp_path):
    gru = tmp_path / "gru"
    workspace.train_gru(gru)
    shutil.rmtree(PINNED, ignore_errors=True)
    PINNED.mkdir()
    for name, checkpoint in (("fused", workspace.checkpoint), ("gru", gru / "checkpoint_last.pt")):
        workspace.run(
            "bert-fused-export", checkpoint, workspace.data, "--output", PINNED / name,
            *(["--with-bert"] if name == "fused" else []),
        )  # fmt: skip
    state = torch.load(workspace.checkpoint, weights_only=False)
    state["cfg"] = without_paths(state["cfg"], str(workspace.path), str(Path(workspace.bert_dir).parent), str(ROOT))
    name = "encoder.bert_record.text"
    record = json.loads(bytes(state["model"][name].byte().tolist()))
    text = json.dumps(without_paths(record, str(Path(workspace.bert_dir).parent)))
    state["model"][name] = torch.tensor(list(text.encode()), dtype=state["model"][name].dtype)
    torch.save(state, PINNED / "checkpoint_last.pt")
    expected = {**interface(PINNED), "translations": {name: translations(name, PINNED / name) for name in MODELS}}
    text = json.dumps(expected, indent=1, ensure_ascii=False)
    (PINNED / "expected.json").write_text(text + "\n", encoding="utf-8")
