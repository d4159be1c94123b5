"""fairseq-hydra-train with the files of examples/hydra."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from conftest import ROOT, hypotheses

pytestmark = pytest.mark.system

MODELS = sorted(path.stem for path in (ROOT / "examples" / "hydra" / "model").glob("*.yaml"))


@pytest.fixture(scope="module")
def trained(workspace, tmp_path_factory):
    """A folder with a training of each model, and what was printed, by model."""
    folder = tmp_path_factory.mktemp("hydra")
    done = subprocess.run(
        [sys.executable, Path(__file__).with_name("hydra_trainings.py"), workspace.data, workspace.bert_dir],
        cwd=folder,
        env={**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=250,
    )
    assert done.returncode == 0, done.stdout[-4000:]
    _, *parts = re.split(r"^MODEL (\w+)$", done.stdout, flags=re.MULTILINE)
    return folder, dict(zip(parts[::2], parts[1::2]))


@pytest.mark.parametrize("model", MODELS)
def test_each_file_trains_resumes_and_translates(trained, model):
    folder, printed = trained
    assert re.search(rf"Loaded checkpoint {model}/checkpoint_last.pt \(epoch 1 @ 2 updates\)", printed[model])
    state = torch.load(folder / model / "checkpoint_last.pt", weights_only=False)
    assert state["optimizer_history"][-1]["num_updates"] == 4
    assert state["cfg"]["model"]["_name"] == model
    assert len(hypotheses(printed[model])) == 30
