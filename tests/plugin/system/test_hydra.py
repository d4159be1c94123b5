"""fairseq-hydra-train with the files of examples/hydra."""

import re
import shlex
from argparse import Namespace

import pytest
import torch
from documentation import blocks, typed
from ranks import parameters
from workspace import ROOT, hypotheses

from bert_fused_lab.evidence.runs import read_curves

UPDATES = 5
# what may differ: the folder of the checkpoints, and how Hydra prints its log; the model's settings are compared apart
_MAY_DIFFER = re.compile(r"checkpoint\.save_dir|job_logging_cfg\..*|model(\..*)?")


# by architecture: the settings that the text adds to the documented command
ADDED = {"bert_fused_tiny": [], "gru_bahdanau_tiny": ["++model.bert_layer=1", "++model.bert_drop_net=0"]}


def differences(expected, actual):
    """The settings that differ, as (of fairseq-train, of fairseq-hydra-train), by name."""
    ours, theirs = flat(expected), flat(actual)
    sides = {name: (ours.get(name), theirs.get(name)) for name in {*ours, *theirs} if not _MAY_DIFFER.fullmatch(name)}
    # the command line keeps all flags as those of the model, and Hydra the model's alone, with their defaults
    flags, model = vars(expected["model"]), actual["model"]
    assert isinstance(expected["model"], Namespace)
    sides.update({f"model.{name}": (flags[name], model[name]) for name in {*flags} & {*model}})
    return {name: values for name, values in sides.items() if values[0] != values[1]}


def flat(settings, prefix=""):
    """The settings by their names with dots."""
    if not isinstance(settings, dict):
        return {prefix[:-1]: settings}
    return {name: value for key in settings for name, value in flat(settings[key], f"{prefix}{key}.").items()}


class Folder:
    """A folder with the data-bin, in which somebody types documented commands; they train for some updates."""

    def __init__(self, path, workspace):
        self.path, self._workspace = path, workspace
        (path / "data-bin").symlink_to(workspace.data)
        (path / "examples").symlink_to(ROOT / "examples")

    def run(self, words, *more, **options):
        return self._workspace.run(*words, *more, cwd=self.path, **options)

    def documented(self, page, *wanted):
        """The first command of *page* in which all words of *wanted* stand, as words."""
        code = typed("\n".join(block.code for block in blocks(page))).replace("\\\n", " ")
        for line in code.splitlines():
            line = line.replace("$BERT", self._workspace.bert_dir).replace("$LAYER", "1").partition("2>&1")[0]
            if all(word in line.split() for word in wanted):
                return shlex.split(line)
        raise AssertionError(f"{page} has no command with {' '.join(wanted)}")

    def hydra(self, *wanted):
        words = self.documented("docs/workflow.md", "fairseq-hydra-train", *wanted)
        small = "common.cpu=true dataset.max_tokens=120 dataset.max_tokens_valid=120".split()
        return [*words, *small, "dataset.num_workers=0"]

    def files(self):
        return {path.name for path in self.path.iterdir()} - {"data-bin", "examples", "bert-cache"}

    def state(self, save_dir):
        return torch.load(self.path / save_dir / "checkpoint_last.pt", weights_only=False)


@pytest.fixture
def folder(tmp_path, workspace):
    return Folder(tmp_path, workspace)


@pytest.mark.parametrize("arch", ADDED)
def test_the_documented_command_is_the_training_of_the_documented_command_line(workspace, folder, arch):
    words = folder.documented("docs/workflow.md", "fairseq-train", arch, "800")
    small = ["--cpu", "--max-tokens", "120", "--max-tokens-valid", "120", "--num-workers", "0"]
    folder.run(words, *small, "--max-update", UPDATES, "--save-dir", "line")
    words = [word.replace("bert_fused_tiny", arch) for word in folder.hydra("model=bert_fused_tiny")] + ADDED[arch]
    folder.run(words, f"optimization.max_update={UPDATES}", "checkpoint.save_dir=hydra", "common.log_interval=2")
    expected, actual = folder.state("line"), folder.state("hydra")
    same = {"optimizer.adam_betas": ("(0.9,0.98)", "(0.9, 0.98)")}  # a space would end a word of $TRAIN
    assert differences(expected["cfg"], actual["cfg"]) == {**same, "common.log_interval": (100, 2)}
    assert expected["optimizer_history"] == actual["optimizer_history"]
    assert expected["optimizer_history"][-1]["num_updates"] == UPDATES
    torch.testing.assert_close(actual["last_optimizer_state"], expected["last_optimizer_state"], atol=0, rtol=0)
    ours, theirs = (parameters(folder.path / name / "checkpoint_last.pt") for name in ("hydra", "line"))
    torch.testing.assert_close(ours, theirs, atol=0, rtol=0)

    # Hydra's own files
    assert folder.files() == {"line", "hydra"}
    assert {".hydra", "hydra_train.log"} <= {path.name for path in (folder.path / "hydra").iterdir()}
    curves = read_curves([folder.path / "hydra" / "hydra_train.log"])
    assert [updates for updates, _ in curves["train loss"]] == [2, 4]
    assert [updates for updates, _ in curves["valid loss"]] == [UPDATES]

    resumed = folder.run(words, f"optimization.max_update={UPDATES + 2}", "checkpoint.save_dir=hydra")
    said = f"Loaded checkpoint hydra/checkpoint_last.pt (epoch 1 @ {UPDATES} updates)"
    assert said in resumed.stdout + resumed.stderr
    assert folder.state("hydra")["optimizer_history"][-1]["num_updates"] == UPDATES + 2
    found = workspace.generate("--path", folder.path / "hydra" / "checkpoint_last.pt").stdout
    assert len(hypotheses(found)) == 30


def test_each_job_of_a_multirun_trains_as_if_alone(folder):
    """The second job is worse than the first one, and writes a best checkpoint all the same."""
    words = folder.hydra("--multirun", "model=bert_fused_tiny")
    words = [word for word in words if not word.startswith(("common.seed=", "checkpoint.save_dir="))]
    # no file names the layer, which is swept, too
    words += ["optimization.max_update=6,1", "++model.bert_layer=choice(1)", "lr_scheduler.warmup_updates=1"]
    curves = "common.tensorboard_logdir=curves/${optimization.max_update}"
    folder.run(words, "checkpoint.save_dir=jobs/${model.bert_layer}-${optimization.max_update}", curves)
    first, second = (torch.load(folder.path / f"jobs/1-{n}/checkpoint_best.pt", weights_only=False) for n in (6, 1))
    assert first["extra_state"]["val_loss"] < second["extra_state"]["val_loss"] == second["extra_state"]["best"]
    assert folder.files() == {"jobs", "curves", "multirun.yaml"}
    assert {path.name for path in (folder.path / "jobs").iterdir()} == {"1-1", "1-6"}
    for job in ("1", "6"):
        assert (folder.path / "jobs" / f"1-{job}" / ".hydra" / "overrides.yaml").exists()
        assert [*(folder.path / "curves" / job / "valid").iterdir()]


def test_two_jobs_of_a_multirun_may_not_share_a_folder(folder):
    words = folder.hydra("--multirun", "model=bert_fused_tiny")
    done = folder.run(words, "optimization.max_update=1", "checkpoint.save_dir=jobs", ok=False)
    assert done.returncode != 0
    assert "checkpoint.save_dir=jobs is the folder of an earlier job of this multirun" in done.stderr
    assert folder.state("jobs")["cfg"]["common"]["seed"] == 1
