"""How long a recipe will take, from what its step estimate has measured, and what it shows of a training."""

import os
from argparse import Namespace

import pytest

from bert_fused_lab.recipe import estimate
from bert_fused_lab.recipe.data import sample
from bert_fused_lab.recipe.estimate import Probe, steps
from bert_fused_lab.recipe.progress import shown
from bert_fused_plugin.errors import BertFusedError

LOG = "2026-01-02 03:04:05 | INFO | "


def write(path, lines):
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def write_probe(folder, kind, ups, states=0):
    """Write what the recipe's step estimate leaves of 25 updates and the translation of 10 sentences."""
    inner = 'train_inner | {{"epoch": 1, "ups": "{}", "wpb": "400"}}'
    lines = ["x | BERT cache: 9 word pieces in 40 s", "x | BERT cache: 1,002 word pieces in 20 s"] if states else []
    lines += [inner.format(value) for value in (0.1, ups, ups, 2 * ups)]
    lines.append('begin validation on "valid" subset')
    lines.append('x | valid | {"epoch": 1, "valid_num_updates": "25"}')
    lines.append("x | Saved checkpoint a.pt (epoch 1 @ 25 updates, score 9.1) (writing took 0.25 seconds)")
    lines.append("x | Saved checkpoint b.pt (epoch 1 @ 25 updates, score 9.1) (writing took 0.75 seconds)")
    lines = [LOG + line for line in lines]
    lines[-3] = lines[-3].replace(":05", ":07")  # the end of the validation
    write(folder / f"{kind}.log", lines)
    write(folder / f"{kind}-test.log", [f"{LOG}x | Translated 10 sentences (40 tokens) in 4.0s (2.5 sentences/s)"])


def tried(probe, kind):
    """What was measured of a kind of model, of whose states the fused one computes a minute's."""
    return Probe(probe, kind, "fr", 25 / 2 + 3 + 8 if kind == "plain" else 25 + 3 + 60 + 8)


def seconds_of(probe, *numbers):
    return steps(tried(probe, "plain"), tried(probe, "fused"), probe, probe.parent / "text", "fr", *numbers)


@pytest.fixture
def probe(tmp_path):
    """Ten pairs of a text of 100 pairs were tried; the test set of 100 is tried with ten, too."""
    for folder, pairs in (("probe", 10), ("text", 100)):
        (tmp_path / folder).mkdir()
        for split, count in (("train", pairs), ("valid", 10), ("test", pairs)):
            write(tmp_path / folder / f"{split}.fr", ["a b c"] * count)
    write_probe(tmp_path / "probe", "plain", ups=2)
    write_probe(tmp_path / "probe", "fused", ups=1, states=1)
    return tmp_path / "probe"


@pytest.mark.parametrize(
    ("given", "transformers"),
    [({}, 2), ({"start": "x"}, 1), ({"mono": "x"}, 3), ({"mono": "x", "reverse": "y"}, 2)],
)
def test_the_disk_is_that_of_the_checkpoints_of_all_systems_and_seeds(tmp_path, given, transformers):
    for kind, megabytes in (("plain", 10), ("fused", 30)):
        (tmp_path / kind).mkdir()
        (tmp_path / kind / "checkpoint_last.pt").touch()
        os.truncate(tmp_path / kind / "checkpoint_last.pt", megabytes * 10**6)
    args = Namespace(**{"seeds": [1, 2], "start": None, "mono": None, "reverse": None, **given})
    assert estimate._gigabytes(args, tmp_path) == pytest.approx(2 * 8 * (transformers * 0.01 + 0.03))


def test_the_estimate_adds_updates_validations_checkpoints_and_starts(probe, tmp_path):
    plain = tried(probe, "plain")
    assert plain.update == 0.5
    assert plain.validation == 2 + 1  # seconds of the log, and two checkpoints
    assert plain.start == pytest.approx(8, abs=1)
    assert plain.translation == 0.1
    assert plain.training(110, every=50) == pytest.approx(plain.start + 55 + 3 * 3)
    seconds, three = (seconds_of(probe, 1000, 500, 100, seeds) for seeds in (1, 3))
    assert seconds["transformer"] == plain.start + 500 + 10 * 3
    assert seconds["control"] == plain.start + 250 + 5 * 3
    several = {"BERT's states": 1, "compare": pytest.approx(6, rel=0.1)}  # once; after each seed all are compared
    assert {step: three[step] / seconds[step] for step in seconds} == {
        **dict.fromkeys(("transformer", "control", "bert_fused"), 3), **several
    }  # fmt: skip


def test_each_test_set_counts(probe, tmp_path):
    one = seconds_of(probe, 1000, 500, 100, 1)["compare"]
    for name in ("test-news.fr", "reference.test-news.fr", "test-news.en", "test2016.fr"):
        write(tmp_path / "text" / name, ["a b c"] * 100)
    two = seconds_of(probe, 1000, 500, 100, 1)["compare"]
    start = tried(probe, "plain").start
    assert two - start == pytest.approx(2 * (one - start))


def test_the_estimate_of_berts_states_follows_the_amount_of_text(probe, tmp_path):
    fused = tried(probe, "fused")
    assert fused.states == 60 / 80  # a minute for 20 sentences of four tokens
    assert fused.start == pytest.approx(8, abs=1)
    assert seconds_of(probe, 1000, 500, 100, 1)["BERT's states"] == 0.75 * 110 * 4  # of 110 sentences


@pytest.mark.parametrize("name", ["plain.log", "fused-test.log"])
def test_an_estimate_without_figures_says_where_to_look(probe, name):
    write(probe / name, ["killed"])
    with pytest.raises(BertFusedError, match=rf"probe/{name[:5]}.log or {name[:5]}-test.log has no figures"):
        tried(probe, name[:5])


def test_progress_shows_updates_validation_and_what_went_wrong(monkeypatch):
    clock = iter([0.0, 100.0])
    monkeypatch.setattr("time.monotonic", lambda: next(clock))
    update = (
        "train_inner | epoch 001:    {0} / 80 loss=9.1, nll_loss=8.5, ppl=3, wps=1234.6, ups=2, num_updates={0}, lr=1"
    )
    log = [
        f"{LOG}fairseq_cli.train | {{'_name': None}}",
        f"{LOG}fairseq_cli.train | Model(",
        "  (encoder): Encoder(",
        ")",
        f"{LOG}{update.format(50)}",
        f"{LOG}{update.format(100).replace('8.5', 'nan')}",
        f"{LOG}valid | epoch 001 | valid on 'valid' subset | loss 7 | nll_loss 6.25 | bleu 3.5 | num_updates 100",
        f"{LOG}valid | epoch 001 | valid on 'valid' subset | loss nan | nll_loss nan | bleu 0 | num_updates 200",
        f"{LOG}bert_fused_plugin.bert.from_flags | BERT: x",
        "copied   4 tensors",
        f"{LOG}bert_fused_plugin.setup_messages | said at set-up: BERT: x",
        "2026-01-02 03:04:05 | WARNING | bert_fused_plugin.setup_messages | said at set-up: take care",
        "Traceback (most recent call last):",
        "  File x",
        "2026-01-02 03:04:05 | WARNING | fairseq.x | take care",
        "bert_fused_plugin: error: --bert-model must be there",
    ]
    assert [text for _, text in shown(log, "gru", 250)] == [
        "gru: 50 of 250 updates, nll_loss 8.5, 1,235 tokens a second",
        "gru: 100 of 250 updates, nll_loss nan, 1,235 tokens a second, about 5 minutes left",
        "gru: after 100 updates BLEU 3.5, nll_loss 6.25 in validation",
        "gru: after 200 updates BLEU 0, nll_loss nan in validation",
        "gru: BERT: x",
        "Traceback (most recent call last):",
        "  File x",
        "gru: take care",
        "bert_fused_plugin: error: --bert-model must be there",
    ]


@pytest.mark.parametrize(
    "line", ["usage: fairseq-train: error: unrecognized arguments: --x", "Traceback (most recent):"]
)
def test_a_log_may_begin_with_an_error(line):
    assert list(shown([line], "gru", 250)) == [(None, line)]


def test_a_sample_has_the_same_lines_of_both_sides(tmp_path):
    lines = "\n".join(map(str, range(1000)))
    for name, end in (("a", ""), ("b", "\n")):
        (tmp_path / name).write_text(lines + end)
        sample(300, tmp_path / name, tmp_path / f"{name}.sample")
    assert (tmp_path / "a.sample").read_text() == (tmp_path / "b.sample").read_text()
    assert len((tmp_path / "b.sample").read_text().splitlines()) == 300
