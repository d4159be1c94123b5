"""BERT's states on disk: in the order of the word pieces, whole or not there."""

import contextlib
import os
import shutil
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from bert_fused_plugin.data import cached_states
from bert_fused_plugin.data.cached_states import NUMBER_FORMATS, CachedStates
from bert_fused_plugin.data.dictionary_bridge import BERT_PAD
from bert_fused_plugin.data.word_pieces import WordPieces
from bert_fused_plugin.errors import BertFusedError

D = 6
SENTENCES = [[2, 5, 3], [2, 3], [2, 7, 7, 9, 3], [2, 5, 3], [2, 9, 7, 5, 4, 6, 3]]


class CountingBert:
    """States that say which token they belong to: (i, i + 1, ...) for token i."""

    def __init__(self, seconds=0.0):
        self.batches, self.seconds = [], seconds

    def __call__(self, bert_tokens):
        time.sleep(self.seconds)
        self.batches.append(bert_tokens)
        return bert_tokens.unsqueeze(-1) + torch.arange(D).float()

    def load(self):
        return self

    def sentences(self):
        return [row[row != BERT_PAD].tolist() for batch in self.batches for row in batch]


def never():
    raise AssertionError("BERT was loaded")


def expected(row):
    return torch.tensor(row).unsqueeze(-1) + torch.arange(D).float()


def states_in(folder, sentences=SENTENCES, dtype="fp32"):
    offsets = np.cumsum([0, *map(len, sentences)], dtype=np.int64)
    pieces = WordPieces(np.array([*chain(*sentences)], dtype=np.int32), offsets)
    return CachedStates(Path(folder), pieces, D, dtype)


def check(states, sentences=SENTENCES):
    for index, row in enumerate(sentences):
        assert torch.equal(states[index].float(), expected(row))


@pytest.fixture
def small_blocks(monkeypatch):
    """Blocks of at least 4 word pieces in fp32, and two blocks even in a format of one byte."""
    monkeypatch.setattr(cached_states, "_BLOCK_BYTES", 4 * D * 4)


@pytest.fixture
def built(tmp_path, small_blocks):
    states_in(tmp_path / "built").add_missing(CountingBert().load)
    return tmp_path / "built"


def blocks(folder):
    return sorted(file.name for file in folder.iterdir())


@pytest.mark.parametrize("dtype", NUMBER_FORMATS)
def test_row_r_of_the_states_belongs_to_word_piece_r(tmp_path, small_blocks, dtype):
    """Whoever has the word pieces can read the states by safetensors alone, in files of consecutive sentences."""
    states_in(tmp_path, dtype=dtype).add_missing(CountingBert().load)
    number = len(blocks(tmp_path))
    assert 2 <= number <= len(SENTENCES)
    assert blocks(tmp_path) == [f"0000{i}.safetensors" for i in range(number)]
    states = torch.cat([load_file(tmp_path / name)["states"] for name in blocks(tmp_path)])
    assert states.dtype == NUMBER_FORMATS[dtype]
    assert torch.equal(states.float(), expected([piece for row in SENTENCES for piece in row]))
    with safe_open(tmp_path / "00001.safetensors", "pt") as file:
        assert file.metadata() == {"blocks": str(number)}
    (tmp_path / "other").touch()
    assert len({file.stat().st_mode for file in tmp_path.iterdir()}) == 1
    check(states_in(tmp_path, dtype=dtype))


@given(st.lists(st.integers(1, 50), max_size=60), st.integers(1, 100))
def test_the_blocks_of_any_sentences_are_whole_sentences_of_about_equal_size(sizes, bytes_of_piece):
    offsets = np.cumsum([0, *sizes])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cached_states, "_BLOCK_BYTES", 500)
        patch.setattr(cached_states, "_MOST_BLOCKS", 7)
        starts = cached_states._block_starts(offsets, bytes_of_piece).tolist()
    assert (starts[0], starts[-1]) == (0, len(sizes))
    assert starts == sorted(set(starts))
    wanted = min(7, -(-sum(sizes) * bytes_of_piece // 500))
    assert len(starts) - 1 <= wanted
    pieces = np.diff(offsets[starts])
    assert all(pieces <= (sum(sizes) / wanted if wanted else 0) + 50)


def test_a_second_start_computes_nothing_wherever_the_folder_is(built, small_disk):
    states_in(built / "none", []).add_missing(never)
    assert not (built / "none").exists()  # an empty data set needs no file
    disk = small_disk("1m")
    shutil.copytree(built, disk / "copy")  # with other times and inodes
    subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
    for folder in (built, disk / "copy"):
        states = states_in(folder)
        states.add_missing(never)
        check(states)


def test_bert_reads_the_longest_sentences_first(tmp_path, monkeypatch):
    monkeypatch.setattr(cached_states, "BATCH_PIECES", 10)
    bert = CountingBert()
    states_in(tmp_path).add_missing(bert.load)
    assert [tuple(batch.shape) for batch in bert.batches] == [(1, 7), (2, 5), (2, 3)]
    assert bert.sentences() == [SENTENCES[i] for i in (4, 2, 0, 3, 1)]


@pytest.mark.parametrize(
    ("value", "dtype", "message"),
    [
        (70_000.0, "fp16", "fp16 cannot hold some of BERT's states; give --bert-cache-dtype bf16, and train with"),
        (70_000.0, "bf16", None),
        *((value, dtype, "cannot hold some") for value in (float("nan"), float("inf")) for dtype in NUMBER_FORMATS),
    ],
)  # fmt: skip
def test_states_that_the_number_format_cannot_hold_are_refused(tmp_path, value, dtype, message):
    states = states_in(tmp_path, dtype=dtype)
    refused = contextlib.nullcontext() if message is None else pytest.raises(BertFusedError, match=message)
    with refused:
        states.add_missing(lambda: lambda bert_tokens: torch.full((*bert_tokens.shape, D), value))
    assert bool(states.missing()) == (message is not None)


def cut(file):
    os.truncate(file, file.stat().st_size - 1)


def be_a_folder(file):
    file.unlink()
    file.mkdir()


def lose_the_header(file):
    file.write_bytes(b"\xff" * file.stat().st_size)


def be_a_pickle(file):
    torch.save([1], file)


@pytest.mark.parametrize(
    "damage", [Path.unlink, cut, be_a_folder, lambda file: os.truncate(file, 0), be_a_pickle, lose_the_header]
)
def test_a_block_that_cannot_be_read_is_an_error_with_a_remedy(built, damage):
    states = states_in(built)
    damage(built / "00001.safetensors")
    assert torch.equal(states[0], expected(SENTENCES[0]))
    with pytest.raises(BertFusedError, match=r"00001.safetensors cannot be read .*; remove this file if it is damaged"):
        states[2]


def test_a_disk_that_gives_only_a_part_is_an_error(built, monkeypatch):
    states = states_in(built)  # before numpy itself needs the function
    monkeypatch.setattr(cached_states.np, "empty", lambda size, dtype: np.zeros(size + 10**6, dtype))
    with pytest.raises(BertFusedError, match=r"cannot be read \(the disk gives only a part\); remove this file"):
        states[0]


def test_a_disk_that_is_too_small_is_refused_before_the_work(tmp_path, monkeypatch, caplog):
    """20 word pieces of 6 numbers are 480 bytes, and 2 % of the disk stay free."""
    monkeypatch.setattr(cached_states.shutil, "disk_usage", lambda path: SimpleNamespace(free=489))
    with pytest.raises(BertFusedError, match=r"0.00 MiB are needed in .*, but 0.00 MiB are free; give a directory"):
        states_in(tmp_path).add_missing(never)
    assert "1 of 1 blocks are missing, 20 word pieces; 0.00 MiB to write, 0.00 MiB free" in caplog.text
    monkeypatch.setattr(cached_states.shutil, "disk_usage", lambda path: SimpleNamespace(free=490))
    states_in(tmp_path).add_missing(CountingBert().load)


def test_a_disk_that_fills_up_keeps_what_was_whole(small_disk, monkeypatch):
    sentences = [[n] * 40 for n in range(2000)]  # 1.9 MB in blocks of 96 kB
    monkeypatch.setattr(cached_states, "_BLOCK_BYTES", 100_000)
    disk = small_disk("1m")
    monkeypatch.setattr(cached_states.shutil, "disk_usage", lambda path: SimpleNamespace(free=10**9))
    states = states_in(disk / "of-a-split", sentences)
    with pytest.raises(Exception, match="No space left on device"):
        states.add_missing(CountingBert().load)
    there = 20 - len(states.missing())
    assert 5 < there < 11
    subprocess.run(["mount", "-o", "remount,size=4m", disk], check=True)
    states.add_missing(CountingBert().load)
    check(states, sentences)
    assert len(blocks(disk / "of-a-split")) == 20  # and nothing else


# --- several jobs

MANY = [[n % 50, *range(n % 9)] for n in range(400)]


@pytest.fixture
def many_blocks(monkeypatch):
    monkeypatch.setattr(cached_states, "_BLOCK_BYTES", 100 * D * 4)


def build(folder, seconds=0.005, part=(1, 1)):
    """Build the cache of the sentences MANY, and return the number of blocks that this job has computed."""
    bert, states = CountingBert(seconds), states_in(folder, MANY)
    states.add_missing(bert.load, part)
    return len(bert.batches)


def test_two_jobs_at_once_both_end_with_all_states(tmp_path, many_blocks):
    with ThreadPoolExecutor() as pool:
        computed = sum(pool.map(build, [tmp_path] * 2, [0.02, 0.02]))
    number = len(blocks(tmp_path))
    assert number <= computed < 2 * number  # they begin with other blocks
    check(states_in(tmp_path, MANY), MANY)


def test_a_block_that_another_job_writes_first_is_no_error(tmp_path, monkeypatch):
    def overtaken(*arguments):
        monkeypatch.setattr(cached_states, "save_file", save_file)
        states_in(tmp_path).add_missing(CountingBert().load)  # which also removes what the first job has begun
        save_file(*arguments)

    monkeypatch.setattr(cached_states, "save_file", overtaken)
    (tmp_path / ".00000.safetensors.x").mkdir()  # of a job that was killed
    states_in(tmp_path).add_missing(CountingBert().load)
    check(states_in(tmp_path))
    assert blocks(tmp_path) == ["00000.safetensors"]
