"""A line that is too long for the model, or for a batch, is translated, and no other line is lost with it."""

import pytest
from conftest import TINY
from in_process import command
from random_checkpoints import save_model
from translating import Model, train

from bert_fused_plugin.exporting.model_directory import export_model
from bert_fused_plugin.models.bert_fused import BertFusedModel

pytestmark = pytest.mark.system


@pytest.fixture(scope="module")
def fused(workspace, tmp_path_factory):
    path = tmp_path_factory.mktemp("fused")
    train(workspace.data, path, "--arch", "bert_fused", *TINY, "--bert-model", workspace.bert_dir, "--max-epoch", "1")
    return Model(workspace.data, path / "checkpoint_last.pt")


def test_a_training_set_is_translated_whole(fused, workspace, tmp_path):
    """Whatever its lines are: too long for the model, or for a batch, or of a reference that is too long."""
    lines = ["the old man sees a small red dog", "a dog", "the " * 40, "a man"]
    for lang, text in (("en", lines), ("de", lines[::-1])):
        (tmp_path / f"train.{lang}").write_text("\n".join(text) + "\n", encoding="utf-8")
    command(
        "preprocess", "-s", "en", "-t", "de", "--trainpref", tmp_path / "train", "--destdir", tmp_path,
        "--srcdict", f"{workspace.data}/dict.en.txt", "--tgtdict", f"{workspace.data}/dict.de.txt",
    )  # fmt: skip
    limits = ["--max-source-positions", "5", "--max-target-positions", "5", "--max-tokens", "7"]
    seen = fused.generate("--gen-subset", "train", *limits, data=tmp_path).tokens("S")
    assert seen == {n: line.split()[:4] for n, line in enumerate(lines)}


@pytest.mark.parametrize("task", ["bert_fused_translation", "translation"])
def test_a_line_that_is_too_long_takes_no_other_with_it(workspace, tmp_path, task):
    """It is longer than the batches of the training, and longer than the model reads."""
    flags = {
        "task": task,
        "max_tokens": 6,
        "batch_size": 2,
        "max_source_positions": 8,
        "bert_model": workspace.bert_dir,
    }
    checkpoint = save_model(workspace, tmp_path / "old.pt", "bert_fused", **flags)
    export_model(checkpoint, workspace.data, tmp_path / "new")
    hub = BertFusedModel.from_pretrained(str(tmp_path / "new"))
    lines = ["the dog", "the " * 40, "a man sees the dog", "a dog"]
    together = hub.translate(lines, beam=2, max_len_b=8)
    assert together == [hub.translate(line, beam=2, max_len_b=8) for line in lines]
    assert together[1] == hub.translate("the " * 7, beam=2, max_len_b=8)
    assert len(list(hub._build_batches([hub.encode(line) for line in lines[::2]], False))) == 1
