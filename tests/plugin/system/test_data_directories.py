"""Several data directories, of which each epoch takes the next, and several training sets in one."""

import shutil

import pytest
from fairseq import checkpoint_utils
from in_process import command


@pytest.fixture(scope="module")
def places(workspace, tmp_path_factory):
    """Data directories: the usual one, one with the sentences in reverse, one with both; and their raw texts."""
    path = tmp_path_factory.mktemp("directories")
    for lang in ("en", "de"):
        lines = (workspace.path / f"train.{lang}").read_text(encoding="utf-8").splitlines(keepends=True)
        (path / f"reverse.{lang}").write_text("".join(lines[::-1]), encoding="utf-8")
    dictionary = ["-s", "en", "-t", "de", "--joined-dictionary", "--srcdict", f"{workspace.data}/dict.en.txt"]
    usual, reverse = workspace.path / "train", path / "reverse"
    command("preprocess", *dictionary, "--trainpref", reverse, "--destdir", path / "data-reverse")
    shutil.copytree(workspace.data, path / "data-both")
    for file in (path / "data-reverse").glob("train.*"):
        shutil.copy(file, path / "data-both" / file.name.replace("train", "train1"))
    for name, texts in (("usual", [usual]), ("reverse", [reverse]), ("both", [usual, reverse])):
        (path / f"text-{name}").mkdir()
        for split, text in zip(("train", "train1"), texts):
            raw = text.with_suffix(".en").read_text(encoding="utf-8").replace("@@ ", "")
            (path / f"text-{name}" / f"{split}.en").write_text(raw, encoding="utf-8")
    return path


@pytest.fixture
def task(workspace):
    def task(**settings):
        _, _, task = checkpoint_utils.load_model_ensemble_and_task([workspace.checkpoint], settings)
        return task

    return task


def bert_tokens(task, **how):
    task.load_dataset("train", **how)
    dataset = task.dataset("train")
    return [dataset.bert_tokens(i).tolist() for i in range(len(dataset))]


def test_berts_text_follows_the_data_from_epoch_to_epoch(workspace, places, task):
    data = f"{workspace.data}:{places / 'data-reverse'}"
    derived = task(data=data)
    given = task(data=data, bert_text=f"{places / 'text-usual'}:{places / 'text-reverse'}")
    usual = bert_tokens(given, epoch=1)
    assert usual == bert_tokens(derived, epoch=1)
    assert bert_tokens(given, epoch=2) == bert_tokens(derived, epoch=2) == usual[::-1] != usual
    assert bert_tokens(given, epoch=3) == usual


@pytest.mark.parametrize(("upsampled", "lines"), [({}, 300), ({"upsample_primary": 2}, 450)])
def test_training_sets_that_fairseq_combines(places, task, upsampled, lines):
    settings = {"data": str(places / "data-both"), **upsampled}
    derived, given = task(**settings), task(**settings, bert_text=str(places / "text-both"))
    tokens = bert_tokens(derived, combine=True)
    assert len(tokens) == lines
    assert bert_tokens(given, combine=True) == tokens


@pytest.mark.parametrize("copies", [1, 2])
def test_no_context_comes_from_another_training_set(workspace, places, task, tmp_path, copies):
    for split, starts in (("train", (0, 5)), ("train1", (0, 1, 7))):
        (tmp_path / f"{split}.docs").write_text("".join(f"{start}\n" for start in starts), encoding="utf-8")
    (tmp_path / "reverse").mkdir()
    shutil.copy(tmp_path / "train1.docs", tmp_path / "reverse" / "train.docs")

    def read(data, documents=None, **how):
        made = task(data=str(data), upsample_primary=copies)
        made.bridge.context, made.cfg.bert_documents = 1, documents
        return bert_tokens(made, **how)

    for both, reverse in ((None, None), (str(tmp_path), str(tmp_path / "reverse"))):
        expected = copies * read(workspace.data, both) + read(places / "data-reverse", reverse)
        assert read(places / "data-both", both, combine=True) == expected
