"""bert-fused-compare and its kin on runs and data of many kinds: whatever the training was given, no text suffers."""

import re
import shutil
from pathlib import Path

import pytest
from random_checkpoints import save_model
from test_compare import edited
from workspace import reported

from bert_fused_lab.evidence.files import read_lines
from bert_fused_lab.evidence.runs import Place, RunFiles, load_run
from bert_fused_lab.evidence.words import count_training_words, words_of


def loaded(workspace, checkpoint, data=None, **place):
    """Return the run of *checkpoint*."""
    return load_run(RunFiles("--baseline", "a", Path(checkpoint)), Place(data or workspace.data, ["test"], **place))


def words(workspace, lang):
    text = (workspace.path / f"test.{lang}").read_text(encoding="utf-8")
    return text.replace("@@ ", "").splitlines()


@pytest.mark.parametrize(
    "flags",
    [
        {"num_batch_buckets": 2},
        {"required_seq_len_multiple": 5},
        {"bert_cache": "cache"},
        {"train_subset": "test", "upsample_primary": 3, "load_alignments": True},
        {"truncate_source": True, "max_source_positions": 4, "eval_bleu": True, "eval_bleu_args": "broken"},
    ],
)
def test_flags_of_the_training_change_no_text(workspace, tmp_path, flags):
    checkpoint = edited(workspace.checkpoint, tmp_path / "x.pt", **flags)
    reported(workspace.data, f"a={checkpoint}", more=["--evidence", tmp_path])
    assert read_lines(tmp_path / "test" / "source.txt") == words(workspace, "en")
    assert read_lines(tmp_path / "test" / "reference.txt") == words(workspace, "de")
    assert not (tmp_path / "cache").exists()


def test_no_sentence_is_too_long(workspace, tmp_path):
    """Sources are cut to what a model takes, and told of; references are what they are."""
    limits = {"max_source_positions": 6, "max_target_positions": 4}
    plain = save_model(workspace, tmp_path / "plain.pt", "transformer", task="translation", **limits)
    fused = save_model(workspace, tmp_path / "fused.pt", "bert_fused", bert_model=workspace.bert_dir)
    report = reported(workspace.data, f"a={plain}", f"b={fused}", more=["--max-len-b", "3", "--examples", "30"])
    sources, references = words(workspace, "en"), words(workspace, "de")
    too_long = sum(
        len(line.split()) > 5 for line in (workspace.path / "test.en").read_text(encoding="utf-8").splitlines()
    )
    assert 0 < too_long < 30
    [remark] = [remark for remark in report["remarks"] if "only the beginning" in remark]
    assert remark == (
        f"a reads only the beginning of {too_long} of the 30 sources of 'test', since it takes at most 6 tokens "
        "(--max-source-positions)."
    )
    assert report["sentences"] == 30 == sum(row["sentences"] for row in report["buckets"]["length"])
    assert report["sentence_texts"]
    for number, sentence in report["sentence_texts"].items():
        assert (sentence["source"], sentence["reference"]) == (sources[number], references[number])
    mean = sum(len(line.split()) for line in sources) / 30
    assert report["buckets"]["length"][0]["mean_length"] == pytest.approx(mean)


def test_data_of_the_cached_kind(workspace, tmp_path):
    data = tmp_path / "data"
    workspace.run(
        "fairseq-preprocess", "-s", "en", "-t", "de", "--joined-dictionary", "--dataset-impl", "cached",
        "--srcdict", f"{workspace.data}/dict.en.txt", "--trainpref", "train", "--testpref", "test", "--destdir", data,
    )  # fmt: skip
    plain = save_model(workspace, tmp_path / "plain.pt", "transformer", task="translation")
    runs = f"a={plain}", f"b={workspace.checkpoint}"
    cached, mapped = (reported(place, *runs) for place in (data, workspace.data))
    assert [run["scores"] for run in cached["runs"]] == [run["scores"] for run in mapped["runs"]]
    assert cached["buckets"] == mapped["buckets"]
    assert cached["sentence_texts"] == mapped["sentence_texts"]


def test_several_data_directories(workspace, tmp_path):
    """The test set is that of the first, words are counted in all."""
    second = shutil.copytree(workspace.data, tmp_path / "second")
    for file in second.glob("test.*"):
        file.unlink()
    both = f"{workspace.data}:{second}"
    first, other = (reported(data, f"a={workspace.checkpoint}") for data in (both, workspace.data))
    assert first["runs"][0]["scores"] == other["runs"][0]["scores"]
    task = loaded(workspace, workspace.checkpoint).task
    wanted = [words_of(task.source_dictionary, task.dataset("test").src[i].tolist(), "subword_nmt") for i in range(30)]
    once, twice = (count_training_words(task, data, "subword_nmt", wanted) for data in (workspace.data, both))
    assert sum(once.values()) > 0
    assert twice == {word: 2 * count for word, count in once.items()}


def test_a_target_language_without_spaces(workspace, plain, tmp_path):
    """The command tells the scorer the language, and the tokeniser of the flag."""
    data = shutil.copytree(workspace.data, tmp_path / "data")
    for file in data.glob("*.de.*"):
        file.rename(data / re.sub(r"\bde\b", "zh", file.name))
    for file in data.glob("*.en-de.en.*"):
        file.rename(data / file.name.replace("en-de", "en-zh"))
    checkpoint = edited(plain / "checkpoint_best.pt", tmp_path / "x.pt", target_lang="zh", data=str(data))
    lines = words(workspace, "de")
    (tmp_path / "ref").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    report = reported(data, f"a={checkpoint}", more=["--reference", tmp_path / "ref"])
    assert "tok:zh" in report["signatures"]["BLEU"]
    assert [remark for remark in report["remarks"] if remark.startswith("zh is written without spaces")]
    report = reported(data, f"a={checkpoint}", more=["--tokenize", "char"])
    assert "tok:char" in report["signatures"]["BLEU"]


def test_layers_that_do_not_attend_to_bert(workspace, tmp_path):
    checkpoint = save_model(
        workspace, tmp_path / "x.pt", "bert_fused", bert_model=workspace.bert_dir, bert_gates="0,1,0", decoder_layers=3,
        encoder_layers=3,
    )  # fmt: skip
    entropy = reported(workspace.data, f"a={checkpoint}")["runs"][0]["entropy"]
    assert {kind: [layer is not None for layer in layers] for kind, layers in entropy.items()} == {
        "source": [True, True, True],
        "BERT": [False, True, False],
    }
    command = ["bert-fused-attention", workspace.data, "--path", checkpoint, "--beam", "1"]
    for layer in ([], ["--layer", "0"], ["--layer", "1"], ["--layer", "-1"]):
        out = workspace.run(*command, "--output", tmp_path / "x.svg", *layer).stdout
        assert re.findall(r"^entropy: +(\w+): (.*)$", out, re.MULTILINE)[1][1].split(", ")[::2] == ["-", "-"]
        drawn = (tmp_path / "x.svg").read_text(encoding="utf-8")
        titles = re.findall(r"attention to ([\w ]+), layer (\d)", drawn)
        expected = {(): "32", ("0",): "1", ("1",): "22", ("-1",): "3"}[tuple(layer[1:])]
        assert titles == list(zip(["the source", "BERT"], expected))
        assert drawn.count("largest weight among a word's subwords") == len(titles)  # the colour bars
