"""bert-fused-cache on a directory that it has filled itself, for a training on two data directories."""

import os
import re
import shutil

import pytest
import torch
from helpers import SIZES, WORDS
from unreadable_files import unreadable

from bert_fused_plugin.bert.frozen_bert import FrozenBert
from bert_fused_plugin.commands.cache import main, parse_args
from bert_fused_plugin.data import cache_plan, cache_stamps
from bert_fused_plugin.data.cache_descriptions import BERT_NAME, DESCRIPTION, read_description, write_description
from bert_fused_plugin.data.feature_cache import FeatureCache
from bert_fused_plugin.data.feature_segments import open_segment, read_keys
from bert_fused_plugin.data.word_pieces import WordPieces
from bert_fused_plugin.data.work_locks import try_lock
from bert_fused_plugin.errors import BertFusedError
from bert_fused_plugin.tasks.cached_states import CachedStates

SHAPE = [word for name in ("encoder_embed_dim", "encoder_ffn_embed_dim", "encoder_layers", "encoder_attention_heads",
         "decoder_embed_dim", "decoder_ffn_embed_dim", "decoder_layers", "decoder_attention_heads")
         for word in (f"--{name.replace('_', '-')}", str(SIZES.get(name, 2)))]  # fmt: skip


def lines(seed, number):
    return [" ".join(WORDS[(seed + i * k) % 17] for k in range(1 + (i * 7 + seed) % 9)) for i in range(number)]


@pytest.fixture
def data(tmp_path, dictionary):
    """Two data directories, joined by a colon."""
    for seed, name in enumerate("ab"):
        (tmp_path / name).mkdir()
        for lang in ("en", "de"):
            dictionary.save(str(tmp_path / name / f"dict.{lang}.txt"))
            for split, text in (("train", lines(seed, 20)), ("valid", lines(3, 8))):
                (tmp_path / name / f"{split}.en-de.{lang}").write_text("\n".join(text) + "\n", encoding="utf-8")
    return f"{tmp_path / 'a'}:{tmp_path / 'b'}"


@pytest.fixture
def training(data, bert_dir, tmp_path):
    """The command line of a training."""
    return [
        data, "--source-lang", "en", "--target-lang", "de", "--dataset-impl", "raw", "--bert-model", bert_dir, *SHAPE,
        "--bert-cache", str(tmp_path / "cache"), "--bert-cache-dtype", "fp32", "--optimizer", "adam", "--lr", "0.1",
        "--max-tokens", "100", "--max-epoch", "3", "--save-dir", str(tmp_path / "save"), "--arch", "bert_fused",
    ]  # fmt: skip


@pytest.fixture
def loads(monkeypatch):
    """How many times BERT is loaded to compute states."""
    count = []
    load = CachedStates._load_bert
    monkeypatch.setattr(CachedStates, "_load_bert", lambda self: (count.append(1), load(self))[1])
    return count


@pytest.mark.parametrize(("given", "used"), [([], "cuda"), (["--cpu"], "cpu")])
def test_bert_computes_on_a_gpu_unless_the_training_is_on_the_cpu(training, monkeypatch, given, used):
    devices, load = [], CachedStates._load_bert

    def load_beside_a_gpu(states):
        with monkeypatch.context() as patch:
            patch.setattr(torch.cuda, "is_available", lambda: True)
            patch.setattr(FrozenBert, "to", lambda bert, device: devices.append(device.type) or bert)
            load(states)
        return load(states)

    monkeypatch.setattr(CachedStates, "_load_bert", load_beside_a_gpu)
    main(["build", *training, *given])
    assert set(devices) == {used}


def segments(tmp_path):
    return sorted(tmp_path.glob("cache/*/*.safetensors"))


def printed(capsys, *words):
    capsys.readouterr()
    main([*map(str, words)])
    return capsys.readouterr().out


def test_the_cache_of_a_training_is_complete_after_it(training, loads, tmp_path, caplog):
    caplog.set_level("INFO")
    main(["build", *training, "--bert-warm-start", "not-there-yet.pt"])
    assert len(loads) == 3  # for the validation set and for each training set
    assert "is complete for this training" in caplog.text
    before = segments(tmp_path)
    main(["build", *training])
    assert len(loads) == 3
    assert segments(tmp_path) == before
    assert not (tmp_path / "save").exists()


def test_shares_are_disjoint_and_together_complete(training, loads, monkeypatch, tmp_path, caplog):
    caplog.set_level("INFO")
    monkeypatch.setattr(cache_plan, "PART_BYTES", 500)
    main(["build", *training, "--part", "2/2"])
    some = segments(tmp_path)
    main(["build", *training, "--part", "1/2"])
    done = len(loads)
    assert 3 < done <= 6
    assert set(some) < set(segments(tmp_path))
    assert "share 2 of 2 of the BERT cache" in caplog.text
    main(["build", *training])
    assert len(loads) == done
    keys = [tuple(key) for file in segments(tmp_path) for key in read_keys(file, open_segment(file))[0].tolist()]
    assert len(set(keys)) == len(keys)


@pytest.mark.parametrize("share", ["0/3", "4/3", "1", "a/b", "1/0", "-1/2"])
def test_a_share_that_cannot_be_is_refused(training, share, capsys):
    with pytest.raises(SystemExit):
        parse_args(["build", *training, f"--part={share}"])
    assert f"must be K/N with K from 1 to N, such as 1/8, got '{share}'" in capsys.readouterr().err


def test_a_wrong_command_line_gets_a_short_usage(capsys):
    with pytest.raises(SystemExit):
        main(["build", "--arch", "bert_fused"])
    err = capsys.readouterr().err
    assert "usage: bert-fused-cache build DATA --arch ARCH --bert-model BERT --bert-cache DIR [--part K/N]" in err
    assert "the following arguments are required: data" in err
    assert len(err.splitlines()) == 2


def test_a_training_without_a_cache_is_refused(training):
    at = training.index("--bert-cache")
    with pytest.raises(BertFusedError, match="build needs --bert-cache DIR, got none; give the flags of the training"):
        main(["build", *training[:at], *training[at + 4 :]])


@pytest.mark.parametrize("flag", ["--valid-subset", "--train-subset"])
def test_a_data_set_that_is_not_there_is_named(training, flag):
    with pytest.raises(BertFusedError, match="it has no 'nowhere'; give the names"):
        main(["build", *training, flag, "nowhere"])


@pytest.fixture
def filled(tmp_path, monkeypatch):
    """A cache of some segments, as a training leaves it."""
    monkeypatch.setattr(cache_plan, "PART_BYTES", 500)
    cache = FeatureCache(str(tmp_path / "cache"), fingerprint="f" * 64, dim=6, dtype="fp32")
    cache.add(WordPieces.of([[n, *range(n % 7)] for n in range(30)]), lambda: lambda rows: torch.ones(*rows.shape, 6))
    write_description(cache.path, {"model_type": "bert", "layers": [2], "config": {"a": 5}, BERT_NAME: "some-bert"})
    return tmp_path / "cache"


def test_info_shows_what_is_there(filled, capsys):
    [folder] = filled.glob("*-fp32")
    (folder / "7-of-9.unfinished").write_bytes(b"torn")
    out = printed(capsys, "info", filled)
    number = len(list(folder.glob("*.safetensors")))
    assert f"{folder}\n  BERT: some-bert, of the kind bert, layers [2]\n  settings other than the def" in out
    assert re.search(rf" of that kind: a 5\n  30 sentences in {number} segments, 0\.\d\d MiB\n", out)
    assert f"  verified segments: {number} of {number}; index: 1 file\n" in out
    assert "  1 unfinished file, which" in out
    (folder / "bert.json").unlink()
    (folder / cache_stamps.STAMPS).unlink()
    out = printed(capsys, "info", filled)
    assert "the folder does not say which one" in out
    assert f"  verified segments: 0 of {number}; index: 1 file\n" in out


def test_a_description_that_was_cut_is_written_again(tmp_path):
    for text in ("", "{"):
        (tmp_path / DESCRIPTION).write_text(text)
        write_description(tmp_path, {BERT_NAME: "some-bert"})
        assert read_description(tmp_path) == {BERT_NAME: "some-bert"}
    write_description(tmp_path, {BERT_NAME: "other-bert"})
    assert read_description(tmp_path) == {BERT_NAME: "some-bert"}


def test_verify_reads_everything_and_removes_what_is_damaged(filled, capsys):
    [folder] = filled.glob("*-fp32")
    files = sorted(folder.glob("*.safetensors"))
    (folder / cache_stamps.STAMPS).unlink()
    with pytest.raises(SystemExit) as end:
        main(["verify", str(filled)])
    assert end.value.code == 0
    out = capsys.readouterr().out
    assert "100 % of 0.0" in out
    assert re.search(r"^damaged segments: 0; 0\.0\d MiB have been read in 1 folder$", out, re.MULTILINE)
    assert f"verified segments: {len(files)} of {len(files)};" in printed(capsys, "info", filled)
    changed = files[0].stat().st_mtime_ns
    data = bytearray(files[0].read_bytes())
    data[-5] ^= 4
    files[0].write_bytes(data)  # and the disk does not say that it has changed
    os.utime(files[0], ns=(changed, changed))
    with pytest.raises(SystemExit) as end:
        main(["verify", str(filled)])
    assert end.value.code == 1
    out = capsys.readouterr().out
    assert f"{files[0]} is damaged: it is removed, and its sentences are computed anew" in out
    assert "damaged segments: 1; " in out
    assert sorted(folder.glob("*.safetensors")) == files[1:]


@pytest.mark.parametrize("name", ["read_header", "checksum"])
def test_a_segment_that_cannot_be_read_is_named_and_stays(filled, capsys, monkeypatch, name):
    first, *others = sorted(filled.glob("*-fp32/*.safetensors"))
    (first.parent / cache_stamps.STAMPS).unlink()
    unreadable(monkeypatch, name, first)
    with pytest.raises(SystemExit) as end:
        main(["verify", str(filled)])
    assert end.value.code == 1
    out = capsys.readouterr().out
    assert f"{first} cannot be read ([Errno 5] Input/output error) and stays" in out
    assert "damaged segments: 0, and 1 that cannot be read; " in out
    assert sorted(filled.glob("*-fp32/*.safetensors")) == [first, *others]
    number = len(others)
    assert f"verified segments: {number} of {number + 1};" in printed(capsys, "info", filled)
    assert f"would be removed: {first.parent}" in printed(capsys, "prune", filled, "--remove", first.parent.name)


def test_prune_removes_what_it_is_told_to_and_only_with_yes(filled, capsys):
    [folder] = filled.glob("*-fp32")
    other = folder.with_name(f"{'0123' * 8}-fp16")
    shutil.copytree(folder, other)
    left = folder / "7-of-9.unfinished"
    left.write_bytes(b"torn")
    (filled / "word-pieces").mkdir()
    assert f"would be removed: {left}, 0.00 MiB\nnothing has been removed" in printed(capsys, "prune", filled)
    assert f"would be removed: {other}, 0." in printed(capsys, "prune", filled, "--remove", "0123")
    with try_lock(folder, "7-of-9"), try_lock(other, "0-of-2"):  # two processes are at work
        out = printed(capsys, "prune", filled, "--remove", "0123", "--yes")
    assert f"{other} stays, since a process computes states for it now" in out
    assert "there is nothing to remove" in out
    assert left.exists()
    out = printed(capsys, "prune", filled, "--keep", folder.name[:5], "--yes")
    assert f"removed: {left}, " in out
    assert f"removed: {other}, 0." in out
    assert sorted(path.name for path in filled.iterdir()) == sorted([folder.name, "word-pieces"])
    assert not left.exists()


def test_names_that_do_not_fit_are_refused(filled, tmp_path):
    [folder] = filled.glob("*-fp32")
    with pytest.raises(
        BertFusedError, match=f"'zz' must be the name of one folder, .* fits 0; the folders are {folder.name}"
    ):
        main(["prune", str(filled), "--remove", "zz"])
    with pytest.raises(BertFusedError, match="it holds no states of any BERT; give the directory of --bert-cache"):
        main(["info", str(tmp_path)])
    with pytest.raises(BertFusedError, match="it holds no states"):
        main(["verify", str(tmp_path / "nowhere")])


def test_files_of_the_user_are_neither_damaged_segments_nor_pruned(filled, capsys, tmp_path):
    [folder] = filled.glob("*-fp32")
    model = tmp_path / "models" / "1-fp16" / "model.safetensors"  # of a directory that is no cache
    model.parent.mkdir(parents=True)
    model.write_bytes(b"weights")
    for words in (["verify"], ["prune", "--keep", "1", "--yes"]):
        with pytest.raises(BertFusedError, match="it holds no states of any BERT"):
            main([words[0], str(tmp_path / "models"), *words[1:]])
    own = [folder / "model.safetensors", folder / "notes.unfinished", folder / "notes.index", folder / "more" / "text"]
    own[-1].parent.mkdir()
    for file in own:
        file.write_bytes(b"of the user")
    with pytest.raises(SystemExit, match="0"):
        main(["verify", str(filled)])
    assert "there is nothing to remove" in printed(capsys, "prune", filled, "--yes")
    out = printed(capsys, "prune", filled, "--remove", "f", "--yes")
    assert f"{own[0]} stays, since the cache has not written it" in out
    assert all(file.exists() for file in [model, *own])
    assert sorted(folder.iterdir()) == sorted([*own[:3], own[-1].parent])


def test_a_link_to_a_folder_is_neither_followed_nor_a_way_around_keep(filled, capsys):
    [folder] = filled.glob("*-fp32")
    link = folder.with_name(f"{'e' * 32}-fp32")
    link.symlink_to(folder)
    assert "there is nothing to remove" in printed(capsys, "prune", filled, "--keep", "e", "--yes")
    printed(capsys, "prune", filled, "--remove", "e", "--yes")
    assert (link.is_symlink(), len(list(folder.glob("*.safetensors"))) > 1) == (False, True)
    with pytest.raises(BertFusedError, match="'' must be the name of one folder"):
        main(["prune", str(filled), "--remove", "", "--yes"])
    assert folder.exists()
