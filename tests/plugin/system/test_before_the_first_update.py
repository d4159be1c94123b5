"""What a training would meet after hours is said before its first update; long lines and constraints are tried, too."""

import re

import pytest


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (
            "--best-checkpoint-metric blue",
            "--best-checkpoint-metric blue must be what validation computes; give one of",
        ),
        (
            "--max-tokens-valid 3",
            "--valid-subset valid has sentences that no batch takes (Sentences lengths should not",
        ),
        (
            '--eval-bleu --eval-bleu-args {"beam":5,"max_len_b":3,"diverse_beam_groups":3}',
            '--eval-bleu-args {"beam":5,"max_len_b":3,"diverse_beam_groups":3}: the search of the validation fails',
        ),
    ],
)
def test_a_validation_is_tried(workspace, tmp_path, flags, said):
    done = workspace.train(*flags.split(), save_dir=tmp_path / "save", ok=False)
    assert done.returncode == 1
    assert f"error: {said}" in done.stderr
    assert not list((tmp_path / "save").iterdir())
    assert "Traceback" not in done.stderr


def test_any_metric_of_a_validation_can_choose_the_best_checkpoint(workspace, tmp_path):
    metric = ["--best-checkpoint-metric", "accuracy", "--maximize-best-checkpoint-metric", "--max-epoch", "1"]
    workspace.train(*metric, save_dir=tmp_path)
    assert (tmp_path / "checkpoint_best.pt").exists()


def test_a_training_is_the_same_with_and_without_its_trial(workspace, tmp_path):
    sampled = ["--eval-bleu", "--eval-bleu-args", '{"sampling": true, "beam": 1, "max_len_b": 3}']
    once = workspace.train("--max-update", "3", *sampled, save_dir=tmp_path / "tried")
    never = workspace.train("--max-update", "3", "--disable-validation", save_dir=tmp_path / "untried")
    losses = [re.findall(r"train \| .*? \| loss (\S+)", done.stdout) for done in (once, never)]
    assert losses[0] == losses[1] != []


def test_a_typed_line_that_is_longer_than_a_batch(workspace):
    lines = ["the man sees", "the dog " * 40, "the dog eats"]
    output = workspace.interactive("\n".join(lines) + "\n", "--max-tokens", "20", "--buffer-size", "3").stdout
    assert re.findall(r"^H-(\d)", output, re.MULTILINE) == ["0", "1", "2"]


def test_constraints_of_unknown_words_are_left_out(workspace):
    done = workspace.interactive("the man sees\tqqqq\n", "--constraints")
    assert "1 constraints have symbols that the target dictionary lacks, and are left out" in done.stdout + done.stderr
    assert "<unk>" not in re.search(r"^H-0.*", done.stdout, re.MULTILINE)[0]


def test_fairseq_generate_takes_no_constraints(workspace):
    done = workspace.generate("--constraints", ok=False)
    assert "error: --constraints has no effect on fairseq-generate" in done.stderr
