"""The sentences of the report."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from bert_fused_plugin.checkpoints.origins import Origin
from bert_fused_plugin.commands.compare import main, remarks
from bert_fused_plugin.errors import BertFusedError
from bert_fused_plugin.reports.runs import RunFiles
from bert_fused_plugin.reports.scoring import Score
from bert_fused_plugin.reports.verdicts import bert_verdict, fairness


@pytest.mark.parametrize(
    ("better", "said"),
    [
        (-1, "fused uses what BERT says: it changes by -2.00 BLEU"),
        (0, "This test set does not show that fused uses"),
        (1, "This test set does not show"),
    ],
)
def test_what_is_said_of_bert(better, said):
    on, shuffled = Score(30.0, 30.0, 1.0), Score(28.0, 28.0, 1.0, 0.5, better)
    verdict = bert_verdict("fused", {"on": {"BLEU": on}, "shuffled": {"BLEU": shuffled}})
    assert verdict is not None
    assert verdict.startswith(said)
    assert verdict.endswith("by -2.00 BLEU (from 30.00 to 28.00, p = 0.500) when BERT reads another sentence.")
    assert bert_verdict("fused", {"on": {"BLEU": on}}) is None


def test_numbers_that_are_too_small_are_named_together():
    lengths = ["--max-len-a", "-1", "--max-len-b", "0", "--max-tokens", "0"]
    with pytest.raises(BertFusedError) as caught:
        main(["data", "--baseline", "a=b", "--output", "c", *lengths, "--samples", "19", "--examples", "-1"])
    assert caught.value.errors == (
        "--max-len-a must be at least 0, got -1.0; give a larger number",
        "--max-len-b must be at least 1, got 0; give a larger number",
        "--max-tokens must be at least 1, got 0; give a larger number",
        "--examples must be at least 0, got -1; give a larger number",
        "--samples must be at least 20, got 19; give a larger number",
    )


@pytest.mark.parametrize(
    ("flag", "value", "rule"),
    [
        *(("--lenpen", value, "a finite number") for value in ("nan", "inf", "-inf")),
        *(("--max-len-a", value, "a finite number") for value in ("nan", "inf")),
        ("--max-len-a", "-0.5", "at least 0"),
        ("--max-len-b", "0", "at least 1"),
        ("--beam", "0", "at least 1"),
        ("--seed", "-1", "at least 0"),
    ],
)
def test_a_number_of_the_search_out_of_its_range(flag, value, rule):
    with pytest.raises(BertFusedError) as caught:
        main(["data", "--baseline", "a=b", "--output", "c", f"{flag}={value}"])
    [error] = caught.value.errors
    assert error.startswith(f"{flag} must be {rule}, got {value}; ")


def run(name, checkpoint, *origins, reads_bert=False):
    model = SimpleNamespace(files=RunFiles("--run", name, Path(checkpoint)), name=name, reads_bert=reads_bert)
    return SimpleNamespace(**vars(model), updates=2000, origins=list(origins))


PLAIN = run("plain", "/runs/plain/checkpoint_best.pt")
BEGUN = Origin("/runs/plain/checkpoint_best.pt", 1240)


def test_a_run_that_began_from_the_baseline_needs_a_fair_control():
    fused = run("fused", "/runs/fused/checkpoint_best.pt", BEGUN, reads_bert=True)
    assert fairness(fused, PLAIN, [PLAIN, fused], "my data") == (
        "fused began from plain and was trained on for 2,000 updates, with a new optimizer and learning rate, so the "
        "difference may come from that training and not from BERT. The fair control is plain trained on for as long, "
        "with the flags of its own training: fairseq-train 'my data' ... --finetune-from-model "
        "/runs/plain/checkpoint_best.pt --max-update 2000"
    )


def test_a_control_that_is_there_is_named():
    fused = run("fused", "/runs/fused/checkpoint_best.pt", BEGUN, reads_bert=True)
    control = run("continued", "/runs/continued/checkpoint_best.pt", BEGUN)
    said = fairness(fused, PLAIN, [PLAIN, fused, control], "data")
    assert said.endswith("and continued is plain trained on: give continued as --baseline.")
    assert fairness(control, PLAIN, [PLAIN, fused, control], "data") == (
        "continued began from plain and was trained on for 2,000 updates, with a new optimizer and learning rate."
    )
    assert fairness(fused, control, [control, fused], "data") is None


@pytest.mark.parametrize(
    ("path", "began"),
    [
        ("/runs/plain/checkpoint_best.pt", True),
        ("/runs/plain/../plain/checkpoint_best.pt", True),
        ("/runs/plain/average.pt", True),
        ("/runs/plain/checkpoint7.pt", True),
        ("/runs/other/checkpoint_best.pt", False),
        (None, False),
    ],
)
def test_checkpoints_of_one_training(path, began):
    fused = run("fused", "/runs/fused/checkpoint_best.pt", Origin("/x.pt", 1), Origin(path, 2), reads_bert=True)
    assert (fairness(fused, PLAIN, [PLAIN, fused], "data") is not None) is began


def test_files_of_one_folder_with_names_of_their_own_are_other_trainings():
    plain = run("plain", "/runs/plain.pt")
    fused = run("fused", "/runs/fused.pt", Origin("/runs/gru.pt", 5), reads_bert=True)
    assert fairness(fused, plain, [plain, fused], "data") is None


@pytest.mark.parametrize(("separate", "said"), [(0, 0), (1, 0), (3, 1)])
def test_references_that_look_tokenised_get_one_remark(separate, said):
    references = ["A dog ."] * separate + ["A dog."] * (20 - separate)
    texts = SimpleNamespace(target_subwords="sentencepiece")
    options = SimpleNamespace(reference="test.de", detok="none", bf16=False, hypotheses=[])
    found = remarks(options, texts, False, references)
    assert len(found) == said
    assert not said or f"{separate} of 20 end in a full stop that stands alone" in found[0]
    options = SimpleNamespace(reference=None, detok="none", bf16=False, hypotheses=[("other", "file")])
    own, other = remarks(options, texts, True, references)
    assert "must be tokenised" in other
    assert own.startswith("The scores are those of tokenised text")
