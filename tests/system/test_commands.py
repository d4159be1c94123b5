"""fairseq's own command lines, each in a process of its own."""

import re
from pathlib import Path

import pytest
import torch
from conftest import ROOT, TINY, Workspace, hypotheses

pytestmark = pytest.mark.system

NASTY = [
    "the old man sees a dog",
    "",
    "    ",
    "xyz",
    "👩‍👩‍👧 dog 🙂",
    "שלום הזקן dog",
    "dog \x07\x1b[31m\x00 man",
    "[SEP] </s> <pad> [CLS] dog",
    "@@ ▁ play@@",
    "e\u0301 \u00a0 dog",
    "the dog",
]


def load(path):
    return torch.load(path, weights_only=False)


def assert_same_parameters(actual, expected):
    assert actual.keys() == expected.keys()
    for key in expected:
        # fairseq's position embeddings save one number of uninitialised memory; a record is no parameter
        if not key.endswith(("._float_tensor", "_record.text")):
            assert torch.equal(actual[key], expected[key]), key


def test_text_that_moses_tokenised_is_noticed_once(workspace, tmp_path):
    for lang in ("en", "de"):
        (tmp_path / f"text.{lang}").write_text("it &apos;s two dogs\n" * 6, encoding="utf-8")
    other = Workspace(tmp_path, workspace.bert_dir)
    other.run(
        "fairseq-preprocess", "-s", "en", "-t", "de", "--joined-dictionary", "--trainpref", "text",
        "--validpref", "text", "--destdir", other.data,
    )  # fmt: skip
    counts = []
    for flags in ([], ["--bert-detok", "moses", "--restore-file", "none"]):
        done = other.train("--max-update", "1", *flags)
        counts.append((done.stdout + done.stderr).count("consider --bert-detok moses"))
    assert counts == [2, 0]  # where it is noticed, and just before training begins


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
    assert "0 sentences cut to 32" in log


def test_the_checkpoint_holds_no_bert(workspace):
    state = load(workspace.checkpoint)["model"]
    assert any(".bert_attn." in key for key in state)
    assert not [key for key in state if "embeddings" in key or ".model." in key]
    assert sum(value.numel() for value in state.values()) < 40_000


def test_training_that_was_interrupted_ends_as_one_that_was_not(workspace, tmp_path):
    """Dropout and drop-net are on; the first run stops in the middle of an epoch."""
    options = ["--dropout", "0.2", "--bert-drop-net", "0.8", "--disable-validation"]
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    workspace.train(*options, save_dir=whole)
    first = workspace.train(*options, "--save-interval-updates", "4", "--max-update", "4", save_dir=parts)
    assert "num_updates: 4 >= max_update: 4" in first.stdout + first.stderr
    second = workspace.train(*options, save_dir=parts)
    assert re.search(r"Loaded checkpoint .*parts.* \(epoch 1 @ 4 updates\)", second.stdout + second.stderr)
    expected, actual = (load(path / "checkpoint_last.pt") for path in (whole, parts))
    assert actual["optimizer_history"][-1]["num_updates"] == expected["optimizer_history"][-1]["num_updates"]
    assert_same_parameters(actual["model"], expected["model"])


def test_validate(workspace):
    done = workspace.run(
        "fairseq-validate", workspace.data, "--user-dir", ROOT / "bert_fused_plugin",
        "--task", "bert_fused_translation", "--path", workspace.checkpoint, "--max-tokens", "200", "--cpu",
    )  # fmt: skip
    trained = re.findall(r"epoch 002 \| valid on 'valid' subset \| loss ([\d.]+)", workspace.first_run.stdout)
    seen = re.findall(r"\| valid on 'valid' subset \| loss ([\d.]+)", done.stdout + done.stderr)
    assert seen
    assert float(seen[-1]) == pytest.approx(float(trained[-1]), abs=2e-3)


def test_the_plugins_task_and_fairseqs_give_the_same_translations(workspace):
    """Under the stock task the encoder derives BERT's input by itself."""
    own = hypotheses(workspace.generate().stdout)
    stock = hypotheses(workspace.generate(task="translation").stdout)
    assert len(own) == 30
    assert {n: tokens for n, (_, tokens) in own.items()} == {n: tokens for n, (_, tokens) in stock.items()}
    assert [score for score, _ in own.values()] == pytest.approx([stock[n][0] for n in own], abs=1e-4)


def test_the_neighbours_in_the_batch_change_nothing(workspace):
    alone = hypotheses(workspace.generate("--batch-size", "1").stdout)
    together = hypotheses(workspace.generate("--batch-size", "30").stdout)
    assert {n: tokens for n, (_, tokens) in alone.items()} == {n: tokens for n, (_, tokens) in together.items()}
    assert [alone[n][0] for n in alone] == pytest.approx([together[n][0] for n in alone], abs=1e-4)


def test_generate_prints_a_score(workspace):
    assert re.search(r"Generate test with beam=3: BLEU4? = [\d.]+", workspace.generate("--remove-bpe").stdout)


def test_interactive_translates_as_generate_does(workspace):
    source = (workspace.path / "test.en").read_text(encoding="utf-8")
    generated = hypotheses(workspace.generate().stdout)
    typed = hypotheses(workspace.interactive(source, "--buffer-size", "7", "--batch-size", "3").stdout)
    assert {n: tokens for n, (_, tokens) in typed.items()} == {n: tokens for n, (_, tokens) in generated.items()}


@pytest.mark.parametrize("task", ["bert_fused_translation", "translation"])
def test_interactive_loses_no_line_and_shifts_none(workspace, task):
    lines = NASTY if task == "translation" else [*NASTY, "dog " * 2000, "the dog"]
    output = workspace.interactive("\n".join(lines) + "\n", "--buffer-size", "4", task=task).stdout
    seen = hypotheses(output)
    assert sorted(seen) == list(range(len(lines)))
    same = [i for i, line in enumerate(lines) if line == "the dog"]
    assert len({seen[i] for i in same}) == 1
    [alone] = hypotheses(workspace.interactive("the dog\n", task=task).stdout).values()
    assert seen[same[0]][1] == alone[1]


def test_generate_loses_no_line_and_shifts_none(workspace, tmp_path):
    lines = [*NASTY, "dog " * 2000, "the dog"]
    (tmp_path / "test.en").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (tmp_path / "test.de").write_text("dog\n" * len(lines), encoding="utf-8")
    workspace.run(
        "fairseq-preprocess", "--source-lang", "en", "--target-lang", "de", "--testpref", tmp_path / "test",
        "--srcdict", Path(workspace.data) / "dict.en.txt", "--tgtdict", Path(workspace.data) / "dict.de.txt",
        "--destdir", tmp_path / "data",
    )  # fmt: skip
    seen = hypotheses(workspace.generate(data=tmp_path / "data").stdout)
    assert sorted(seen) == list(range(len(lines)))
    assert seen[len(lines) - 1][1] == seen[NASTY.index("the dog")][1]


def test_raw_text_for_bert(workspace, tmp_path):
    for split in ("train", "valid"):
        source = (workspace.path / f"{split}.en").read_text(encoding="utf-8")
        (tmp_path / f"{split}.en").write_text(source.replace("@@ ", "").upper(), encoding="utf-8")
    workspace.train("--bert-text", tmp_path, "--max-epoch", "1", save_dir=tmp_path / "raw")
    workspace.train("--max-epoch", "1", save_dir=tmp_path / "derived")
    raw, derived = (load(tmp_path / run / "checkpoint_last.pt")["model"] for run in ("raw", "derived"))
    # the tiny BERT is uncased: upper-case raw text and derived text are the same to it
    assert_same_parameters(raw, derived)


def test_a_model_of_short_sentences_cuts_longer_ones(workspace, tmp_path):
    """The limit of training is in the checkpoint; it need not be given again."""
    workspace.train("--max-source-positions", "5", "--max-epoch", "1", save_dir=tmp_path / "save")
    path = ["--path", tmp_path / "save" / "checkpoint_last.pt"]
    assert sorted(hypotheses(workspace.generate(*path).stdout)) == list(range(30))
    lines = ["a dog", "the old man sees a small red dog", "the man"]
    assert sorted(hypotheses(workspace.interactive("\n".join(lines), *path, "--buffer-size", "3").stdout)) == [0, 1, 2]


def test_a_very_long_reference_stops_nothing(workspace, tmp_path):
    (tmp_path / "test.en").write_text("the dog\na man\n", encoding="utf-8")
    (tmp_path / "test.de").write_text("dog " * 3000 + "\nman a\n", encoding="utf-8")
    workspace.run(
        "fairseq-preprocess", "--source-lang", "en", "--target-lang", "de", "--testpref", tmp_path / "test",
        "--srcdict", Path(workspace.data) / "dict.en.txt", "--tgtdict", Path(workspace.data) / "dict.de.txt",
        "--destdir", tmp_path / "data",
    )  # fmt: skip
    assert sorted(hypotheses(workspace.generate(data=tmp_path / "data").stdout)) == [0, 1]


def test_ensembles_with_themselves_and_with_fairseqs_transformer(workspace, tmp_path):
    alone = hypotheses(workspace.generate().stdout)
    twice = hypotheses(workspace.generate("--path", f"{workspace.checkpoint}:{workspace.checkpoint}").stdout)
    assert {n: tokens for n, (_, tokens) in twice.items()} == {n: tokens for n, (_, tokens) in alone.items()}
    workspace.run(
        "fairseq-train", workspace.data, "--arch", "transformer", *TINY, "--optimizer", "adam", "--lr", "0.01",
        "--max-tokens", "120", "--max-epoch", "1", "--save-dir", tmp_path, "--cpu",
    )  # fmt: skip
    for task in ("bert_fused_translation", "translation"):
        both = workspace.generate("--path", f"{workspace.checkpoint}:{tmp_path}/checkpoint_last.pt", task=task)
        assert sorted(hypotheses(both.stdout)) == list(range(30))


def test_resuming_with_another_bert_is_an_error_that_says_so(workspace, tmp_path):
    from transformers import AutoTokenizer, BertConfig, BertModel

    config = BertConfig.from_pretrained(workspace.bert_dir)
    config.hidden_size = 16
    BertModel(config).save_pretrained(tmp_path)
    AutoTokenizer.from_pretrained(workspace.bert_dir).save_pretrained(tmp_path)
    done = workspace.train("--bert-model", tmp_path, "--max-epoch", "3", ok=False)
    assert done.returncode != 0
    assert "error: the checkpoint was trained with a BERT of width 12, and --bert-model" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_hub_interface_needs_nothing_that_only_training_had(workspace, tmp_path):
    """The model was trained with a cache and raw text that are gone."""
    import shutil

    (tmp_path / "text").mkdir()
    for split in ("train", "valid"):
        shutil.copy(workspace.path / f"{split}.en", tmp_path / "text")
    cache = ["--bert-text", tmp_path / "text", "--bert-cache", tmp_path / "cache", "--max-epoch", "1"]
    workspace.train(*cache, save_dir=tmp_path / "save")
    shutil.rmtree(tmp_path / "text")
    shutil.rmtree(tmp_path / "cache")
    code = (
        "from bert_fused_plugin.models.bert_fused import BertFusedModel\n"
        f"hub = BertFusedModel.from_pretrained({str(tmp_path / 'save')!r}, 'checkpoint_last.pt', {workspace.data!r})\n"
        "print(len(hub.translate(['the dog', 'a man', ''], beam=2, max_len_b=5)))"
    )
    assert workspace.run("python", "-c", code, cwd=tmp_path).stdout.splitlines()[-1] == "3"
    assert not (tmp_path / "cache").exists()


def test_attention_is_drawn(workspace, tmp_path):
    done = workspace.run(
        "bert-fused-attention", workspace.data, "--path", workspace.checkpoint,
        "--index", "2", "--beam", "2", "--output", tmp_path / "attention.png",
    )  # fmt: skip
    assert (tmp_path / "attention.png").read_bytes().startswith(b"\x89PNG")
    shown = [line.split(":")[0] for line in done.stdout.splitlines()]
    assert [word for word in shown if word != "too even"] == [
        "source",
        "translation",
        "alignment",
        "entropy",
        "entropy",
        "written",
    ]
    layers = re.findall(r"^entropy: +(?:source|BERT): (.*)$", done.stdout, re.MULTILINE)
    even = [any(int(share) >= 95 for share in re.findall(r"\((\d+)%\)", line)) for line in layers]
    assert shown.count("too even") == sum(even) == 2  # after two epochs it is
    refused = workspace.run(
        "bert-fused-attention", workspace.data, "--path", workspace.checkpoint,
        "--index", "99", "--output", tmp_path / "x.png", ok=False,
    )  # fmt: skip
    assert "error: --index must be in [0, 29] for 'test', got 99" in refused.stderr


def test_bucketed_batches(workspace, tmp_path):
    """--num-batch-buckets needs parts of numpy that are gone; fairseq_compat gives them back."""
    done = workspace.train("--num-batch-buckets", "3", "--max-epoch", "1", save_dir=tmp_path)
    assert "bucketing source lengths" in done.stdout + done.stderr
