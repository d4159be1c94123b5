"""bert-fused-cache on a directory that it has filled itself, for a training on two data directories."""

import json
import re
import shlex
import shutil
import sys

import pytest
import torch
from helpers import SIZES, WORDS
from transformers import BertModel

from bert_fused_plugin.bert.frozen_bert import FrozenBert
from bert_fused_plugin.cache_command import main, parse_args
from bert_fused_plugin.data import cached_states
from bert_fused_plugin.errors import BertFusedError
from bert_fused_plugin.tasks import bert_cache
from bert_fused_plugin.tasks.bert_cache import BertCache

SHAPE = [word for name, value in SIZES.items() for word in (f"--{name.replace('_', '-')}", str(value))]


def lines(seed, number):
    return [" ".join(WORDS[(seed + i * k) % 17] for k in range(1 + (i * 7 + seed) % 9)) for i in range(number)]


@pytest.fixture
def training(dictionary, bert_dir, tmp_path):
    """The command line of a training on two data directories."""
    for seed, name in enumerate("ab"):
        (tmp_path / name).mkdir()
        for lang in ("en", "de"):
            dictionary.save(str(tmp_path / name / f"dict.{lang}.txt"))
            for split, text in (("train", lines(seed, 20)), ("valid", lines(3, 8))):
                (tmp_path / name / f"{split}.en-de.{lang}").write_text("\n".join(text) + "\n", encoding="utf-8")
    return [
        f"{tmp_path / 'a'}:{tmp_path / 'b'}", "--source-lang", "en", "--target-lang", "de", "--dataset-impl", "raw",
        "--bert-model", bert_dir, *SHAPE,
        "--bert-cache", str(tmp_path / "cache"), "--bert-cache-dtype", "fp32", "--optimizer", "adam", "--lr", "0.1",
        "--max-tokens", "100", "--max-epoch", "3", "--save-dir", str(tmp_path / "save"), "--arch", "bert_fused",
    ]  # fmt: skip


@pytest.fixture
def loads(monkeypatch):
    """How many times BERT is loaded to compute states."""
    count = []
    load = BertCache._load_bert
    monkeypatch.setattr(BertCache, "_load_bert", lambda self: (count.append(1), load(self))[1])
    return count


@pytest.mark.parametrize(("given", "used"), [([], "cuda"), (["--cpu"], "cpu")])
def test_bert_computes_on_a_gpu_unless_the_training_is_on_the_cpu(training, monkeypatch, given, used):
    devices, load = [], BertCache._load_bert

    def load_beside_a_gpu(states):
        with monkeypatch.context() as patch:
            patch.setattr(torch.cuda, "is_available", lambda: True)
            patch.setattr(FrozenBert, "to", lambda bert, device: devices.append(device.type) or bert)
            load(states)
        return load(states)

    monkeypatch.setattr(BertCache, "_load_bert", load_beside_a_gpu)
    main(["build", *training, *given])
    assert set(devices) == {used}


def test_a_bert_that_changes_meanwhile_is_refused(training, bert_dir, tmp_path, monkeypatch):
    own = str(shutil.copytree(bert_dir, tmp_path / "bert"))
    load = BertCache._load_bert

    def load_changed(cache):
        model = BertModel.from_pretrained(own)
        model.embeddings.word_embeddings.weight.data += 1
        model.save_pretrained(own)
        return load(cache)

    monkeypatch.setattr(BertCache, "_load_bert", load_changed)
    with pytest.raises(BertFusedError, match="/bert has changed since this run began; start it again"):
        main(["build", *(own if word == bert_dir else word for word in training)])
    assert blocks(tmp_path) == []


def blocks(tmp_path):
    return sorted(tmp_path.glob("cache/*/*/*.safetensors"))


def info(capsys, directory):
    capsys.readouterr()
    main(["info", str(directory)])
    return capsys.readouterr().out


def test_the_cache_of_a_training_is_complete_after_it(training, loads, tmp_path, caplog):
    main(["build", *training, "--bert-warm-start", "not-there-yet.pt"])
    assert len(loads) == 3  # for the validation set and for each training set
    assert "the data of this training is prepared: word pieces of large data sets, states in" in caplog.text
    before = blocks(tmp_path)
    main(["build", *training, "--restore-file", "not-there-yet.pt"])
    assert len(loads) == 3
    assert blocks(tmp_path) == before
    assert not (tmp_path / "save").exists()


def test_shares_are_disjoint_and_together_complete(training, loads, monkeypatch, tmp_path, caplog):
    monkeypatch.setattr(cached_states, "_BLOCK_BYTES", 500)
    main(["build", *training, "--part", "2/2"])
    some = {file: file.stat().st_mtime_ns for file in blocks(tmp_path)}
    assert {int(file.stem) % 2 for file in some} == {1}
    assert "(share 2 of 2)" in caplog.text
    main(["build", *training, "--part", "1/2"])
    done = len(loads)
    assert done == 6
    assert {file: file.stat().st_mtime_ns for file in blocks(tmp_path) if int(file.stem) % 2} == some
    main(["build", *training])
    assert len(loads) == done


def test_processes_that_train_together_only_read_and_name_the_command_that_writes(training, loads, monkeypatch):
    def command_named_by(*started_by):
        monkeypatch.setattr(sys, "argv", started_by)
        with pytest.raises(BertFusedError, match=r"must have all states of valid\.en before several proces") as error:
            main(["build", *training])
        return str(error.value).partition("; run, once: ")[2]

    monkeypatch.setattr(bert_cache, "get_global_world_size", lambda: 2)
    assert shlex.split(command_named_by("fairseq-train", *training)) == ["bert-fused-cache", "build", *training]
    command, _ = command_named_by("fairseq-hydra-train", "model=bert_fused").split(" (and the other settings")
    assert not loads
    monkeypatch.setattr(bert_cache, "get_global_world_size", lambda: 1)
    main([*shlex.split(command)[1:], "--dataset-impl", "raw"])
    assert len(loads) == 3
    monkeypatch.setattr(bert_cache, "get_global_world_size", lambda: 2)
    main(["build", *training])


def test_a_wrong_command_line_gets_a_short_usage(capsys):
    wrong = {f"--part={share}": f"such as 1/8, got '{share}'" for share in ("0/3", "4/3", "1", "a/b", "1/0", "-1/2")}
    for word, message in {**wrong, "--arch=bert_fused": "the following arguments are required: data"}.items():
        with pytest.raises(SystemExit):
            parse_args(["build", word])
        usage, error = capsys.readouterr().err.splitlines()
        assert "usage: bert-fused-cache build DATA --bert-model BERT [--bert-cache DIR] [--part K/N]" in usage
        assert message in error


def test_what_cannot_be_built_or_shown_is_refused(training, tmp_path):
    at = training.index("--bert-cache")
    for words, message in (
        (
            ["build", str(tmp_path), "--arch", "gru_bahdanau"],
            "build needs --bert-model, got none; give the flags of the",
        ),
        (["build", *training[: at + 1], __file__, *training[at + 2 :]], r"cannot be used .*, or leave the flag out"),
        (["info", str(tmp_path)], "has no states of any BERT; give the directory of --bert-cache"),
    ):
        with pytest.raises(BertFusedError, match=message):
            main(words)


def test_info_shows_berts_and_data_sets_complete_or_not(training, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(cached_states, "_BLOCK_BYTES", 500)
    main(["build", *training])
    main(["build", *training, "--bert-layer", "mix", "--train-subset", "valid", "--bert-cache-dtype", "bf16"])
    files = blocks(tmp_path)
    out = info(capsys, tmp_path / "cache")
    berts = sorted({file.parent.parent for file in files})
    assert [line for line in out.splitlines() if not line.startswith(" ")] == [str(folder) for folder in berts]
    assert sorted(re.findall(r"\n  BERT: \S+, layers (.*)", out)) == ["[0, 1, 2]", "[2]"]
    assert len(re.findall(r"  (?:train|valid)\.en-[0-9a-f]{32}: complete, (\d+) of \1 blocks, 0\.\d\d MiB", out)) == 4
    split = files[0].parent
    number = len(list(split.iterdir()))
    files[0].unlink()
    out = info(capsys, tmp_path / "cache")
    assert f"  {split.name}: not complete, {number - 1} of {number} blocks" in out
    for file in split.iterdir():
        file.write_bytes(b"")
    assert f"  {split.name}: not complete, {number - 1} of ? blocks" in info(capsys, tmp_path / "cache")


def test_each_bert_and_layer_and_format_has_states_of_its_own(training, bert_dir, tmp_path):
    others = []
    for name, changed in (("weights", {}), ("configuration", {"hidden_act": "relu"})):
        bert = BertModel.from_pretrained(bert_dir, **changed)
        if not changed:
            bert.encoder.layer[0].output.dense.bias.data[0] += 1
        shutil.copytree(bert_dir, tmp_path / name)
        bert.save_pretrained(tmp_path / name)
        others.append(["--bert-model", str(tmp_path / name)])
    folders = set()
    for flags in ([], *others, ["--bert-layer", "1"], ["--bert-cache-dtype", "fp16"]):
        main(["build", *training, *flags])
        found = {file.parent.parent for file in blocks(tmp_path)}
        assert len(found - folders) == 1
        folders = found


@pytest.mark.parametrize("known", [True, False])
def test_states_that_bert_computes_no_more_are_never_read(training, tmp_path, known):
    """As after a change of a setting that no list has, or of transformers, or of an old cache without a probe."""
    main(["build", *training])
    first = {file.parent.parent for file in blocks(tmp_path)}
    [description] = (tmp_path / "cache").glob("*/bert.json")
    content = json.loads(description.read_text())
    content["states"] = [[number + 1 for number in layer] for layer in content["states"]]
    description.write_text(json.dumps(content if known else {**content, "states": None}))
    main(["build", *training])
    [second] = {file.parent.parent for file in blocks(tmp_path)} - first
    main(["build", *training])
    assert {file.parent.parent for file in blocks(tmp_path)} == {*first, second}
    (second / "bert.json").write_text("damaged")
    with pytest.raises(BertFusedError, match=r"^--bert-cache .* cannot be used"):
        main(["build", *training])


def test_a_data_set_that_has_changed_is_computed_anew_and_info_names_both(training, loads, tmp_path, capsys):
    main(["build", *training])
    before = {file.parent for file in blocks(tmp_path)}
    text = tmp_path / "a" / "train.en-de.en"
    text.write_text(text.read_text(encoding="utf-8").replace("\n", " dog\n", 1), encoding="utf-8")
    main(["build", *training])
    assert len(loads) == 4
    [new] = {file.parent for file in blocks(tmp_path)} - before
    out = info(capsys, tmp_path / "cache")
    assert all(folder.name in out for folder in (*before, new))
    assert len(re.findall("train.en-", out)) == 3
