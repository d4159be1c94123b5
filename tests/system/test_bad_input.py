"""Bad settings and files: a message with flag, rule, value and remedy, and no stack trace."""

from pathlib import Path

import pytest

pytestmark = pytest.mark.system


def errors(done):
    """Return the messages of a command that must have failed without a stack trace."""
    assert done.returncode != 0
    assert "Traceback" not in done.stdout + done.stderr
    return [line for line in done.stderr.splitlines() if line.startswith("bert_fused_plugin: error: ")]


def test_all_bad_settings_are_reported_together(workspace, tmp_path):
    done = workspace.train(
        "--bert-drop-net", "1.3", "--bert-model", tmp_path / "nowhere", "--encoder-attention-heads", "3",
        "--bert-max-tokens", "2", "--quant-noise-pq", "0.1", save_dir=tmp_path / "save", ok=False,
    )  # fmt: skip
    messages = "\n".join(errors(done))
    assert "--bert-drop-net must be in [0, 1], got 1.3; " in messages
    assert "--encoder-attention-heads must divide --encoder-embed-dim, got 3 and 16" in messages
    assert "--bert-max-tokens must be at least 3, got 2; " in messages
    assert "--quant-noise-pq is not supported" in messages
    assert "nowhere': no such directory; give an existing one, or a name on the" in messages
    assert not list((tmp_path / "save").glob("*.pt"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--bert-model", "{empty}"], "the directory must hold config.json"),
        (["--bert-max-tokens", "33"], "--bert-max-tokens must be at most 32, the positions of --bert-model"),
        (["-s", "fr", "-t", "de"], "--source-lang fr: {data} has no dict.fr.txt, only dict.de.txt, dict.en.txt"),
        (["--bert-text", "{empty}"], "{empty}/valid.en cannot be read as UTF-8 text"),
        (["--label-smoothing", "1.5"], "--label-smoothing must be in [0, 1), got 1.5"),
    ],
)  # fmt: skip
def test_one_bad_setting(workspace, tmp_path, options, message):
    names = {"empty": tmp_path / "empty", "data": workspace.data}
    names["empty"].mkdir()
    done = workspace.train(*(o.format(**names) for o in options), save_dir=tmp_path / "save", ok=False)
    assert message.format(**names) in "\n".join(errors(done))


def test_raw_text_of_another_length(workspace, tmp_path):
    (tmp_path / "valid.en").write_text("a dog\n" * 19, encoding="utf-8")
    done = workspace.train("--bert-text", tmp_path, save_dir=tmp_path / "save", ok=False)
    assert "valid.en has 19 lines, but the binarised 'valid' has 20 sentences" in "\n".join(errors(done))


def test_separate_dictionaries_for_shared_embeddings(workspace, tmp_path):
    workspace.run(
        "fairseq-preprocess", "--source-lang", "en", "--target-lang", "de", "--trainpref", "train",
        "--validpref", "valid", "--destdir", tmp_path / "data", "--nwordstgt", "9",
    )  # fmt: skip
    done = workspace.run(
        "fairseq-train", tmp_path / "data", "--user-dir", "bert_fused_plugin", "--arch", "bert_fused_tiny",
        "--bert-model", workspace.bert_dir, "--max-tokens", "100", "--cpu", "--save-dir", tmp_path / "save",
        cwd=Path(__file__).resolve().parents[2], ok=False,
    )  # fmt: skip
    assert "run fairseq-preprocess with --joined-dictionary" in "\n".join(errors(done))


def test_dictionary_that_does_not_fit_the_checkpoint(workspace, tmp_path):
    workspace.run(
        "fairseq-preprocess", "--source-lang", "en", "--target-lang", "de", "--joined-dictionary",
        "--testpref", "test", "--trainpref", "valid", "--nwordssrc", "12", "--destdir", tmp_path / "data",
    )  # fmt: skip
    done = workspace.generate(data=tmp_path / "data", ok=False)
    messages = errors(done)
    assert any(
        "the checkpoint has" in m and "use the dict.*.txt that the model was trained with" in m for m in messages
    )


def test_missing_data_directory(workspace):
    done = workspace.generate(data="no-such-dir", ok=False)
    assert "data directory 'no-such-dir' does not exist" in "\n".join(errors(done))
