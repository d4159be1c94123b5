"""BERT's states on disk: in the order of the word pieces, whole or not there, and read without a copy."""

import os
import pickle
import random
import re
import resource
import shutil
import subprocess
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from helpers import processes
from hypothesis import given
from hypothesis import strategies as st
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from bert_fused_plugin.data import cached_states
from bert_fused_plugin.data.cached_states import NUMBER_FORMATS, CachedStates
from bert_fused_plugin.data.collate import BERT_PAD
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
    return CachedStates(Path(folder), WordPieces.of(sentences), D, dtype)


def check(states, sentences=SENTENCES):
    for index, row in enumerate(sentences):
        assert torch.equal(states[index].float(), expected(row))


@pytest.fixture
def small_blocks(monkeypatch):
    """Blocks of at least 6 word pieces in fp32."""
    monkeypatch.setattr(cached_states, "_BLOCK_BYTES", 6 * D * 4)


@pytest.fixture
def built(tmp_path, small_blocks):
    states_in(tmp_path).add_missing(CountingBert().load, 0, 1)
    return tmp_path


def blocks(folder):
    return sorted(file.name for file in folder.iterdir())


@pytest.mark.parametrize("dtype", NUMBER_FORMATS)
def test_row_r_of_the_states_belongs_to_word_piece_r(tmp_path, dtype):
    """Whoever has the word pieces can read the states by safetensors alone."""
    states_in(tmp_path, dtype=dtype).add_missing(CountingBert().load, 0, 1)
    assert blocks(tmp_path) == ["00000.safetensors"]
    file = load_file(tmp_path / "00000.safetensors")
    flat = [piece for row in SENTENCES for piece in row]
    assert torch.equal(file["states"].float(), expected(flat))
    assert file["states"].dtype == NUMBER_FORMATS[dtype]
    check(states_in(tmp_path, dtype=dtype))


def test_blocks_are_files_of_consecutive_sentences(built):
    assert blocks(built) == ["00000.safetensors", "00001.safetensors", "00002.safetensors"]
    parts = [load_file(built / name)["states"] for name in blocks(built)]
    assert torch.equal(torch.cat(parts), expected([piece for row in SENTENCES for piece in row]))
    with safe_open(built / "00001.safetensors", "pt") as file:
        assert file.metadata() == {"blocks": "3"}
    check(states_in(built))


@given(st.lists(st.integers(1, 50), max_size=60), st.integers(1, 100))
def test_the_blocks_of_any_sentences_are_whole_sentences_of_about_equal_size(sizes, bytes_of_piece):
    offsets = np.cumsum([0, *sizes])
    monkey = pytest.MonkeyPatch()
    with monkey.context() as patch:
        patch.setattr(cached_states, "_BLOCK_BYTES", 500)
        patch.setattr(cached_states, "_MOST_BLOCKS", 7)
        starts = cached_states._block_starts(offsets, bytes_of_piece).tolist()
    assert starts[-1] == len(sizes)
    assert starts == sorted(set(starts))
    assert starts[0] == 0
    wanted = min(7, -(-sum(sizes) * bytes_of_piece // 500))
    assert len(starts) - 1 <= wanted
    pieces = np.diff(offsets[starts])
    assert all(pieces <= (sum(sizes) / wanted if wanted else 0) + 50)


def test_an_empty_data_set_needs_no_file(tmp_path):
    states = states_in(tmp_path / "none", [])
    assert states.missing() == []
    states.add_missing(never, 0, 1)
    assert not (tmp_path / "none").exists()


def test_a_second_start_computes_nothing_wherever_the_folder_is(built, tmp_path):
    moved = tmp_path / "of" / "another" / "name"
    shutil.copytree(built, moved)  # a copy, with other times and inodes
    for folder in (built, moved):
        states = states_in(folder)
        states.remove_damaged()
        states.add_missing(never, 0, 1)
        check(states)


def test_bert_reads_the_longest_sentences_first_and_equal_ones_of_a_block_once(tmp_path, monkeypatch):
    monkeypatch.setattr(cached_states, "BATCH_PIECES", 10)
    bert = CountingBert()
    states_in(tmp_path).add_missing(bert.load, 0, 1)
    assert [tuple(batch.shape) for batch in bert.batches] == [(1, 7), (2, 5), (1, 2)]
    assert bert.sentences() == [SENTENCES[i] for i in (4, 2, 0, 1)]


def loader(value):
    return lambda: lambda bert_tokens: torch.full((*bert_tokens.shape, D), value)


def test_states_that_half_precision_cannot_hold_are_refused(tmp_path):
    message = r"beyond fp16, whose largest number is 65,504; give --bert-cache-dtype bf16, and train with --bf16 or in"
    with pytest.raises(BertFusedError, match=message):
        states_in(tmp_path, dtype="fp16").add_missing(loader(70_000.0), 0, 1)
    assert blocks(tmp_path) == []
    states_in(tmp_path, dtype="bf16").add_missing(loader(70_000.0), 0, 1)


@pytest.mark.parametrize("dtype", NUMBER_FORMATS)
@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_states_that_are_not_finite_are_refused(tmp_path, dtype, value):
    with pytest.raises(BertFusedError, match="not finite, even in single precision; give another --bert-model"):
        states_in(tmp_path, dtype=dtype).add_missing(loader(value), 0, 1)
    assert blocks(tmp_path) == []


def cut(file):
    os.truncate(file, file.stat().st_size - 1)


def be_a_folder(file):
    file.unlink()
    file.mkdir()


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (cut, "metadata"),
        (lambda file: file.write_bytes(b""), "header"),
        (lambda file: file.write_bytes(b"\xff" * 100), "header"),
        (lambda file: save_file({"other": torch.zeros(8, D)}, file), "'states'"),
        (lambda file: save_file({"states": torch.zeros(7, D)}, file), r"torch.float32 of the shape \(7, 6\) instead"),
        (lambda file: save_file({"states": torch.zeros(5, D).half()}, file), r"torch.float16 of the shape \(5, 6\)"),
    ],
    ids=["cut", "empty", "no safetensors", "another tensor", "another shape", "another format"],
)
def test_a_block_that_cannot_be_used_is_named_and_computed_anew(built, caplog, damage, reason):
    file = built / "00001.safetensors"
    damage(file)
    states, bert = states_in(built), CountingBert()
    states.remove_damaged()
    [warning] = caplog.messages
    assert warning.startswith(f"BERT cache: {file} cannot be used (")
    assert re.search(reason, warning)
    assert states.missing() == [1]
    states.add_missing(bert.load, 0, 1)
    assert len(bert.sentences()) < len(SENTENCES)
    check(states_in(built))


def test_a_block_that_cannot_be_read_just_now_stays(built, monkeypatch):
    def stale(file):
        raise OSError(116, "Stale file handle", str(file))

    monkeypatch.setattr(cached_states, "load_file", stale)
    with pytest.raises(OSError, match=r"00000.safetensors: .*Stale.*; if this does not pass, remove the file"):
        states_in(built).remove_damaged()
    assert len(blocks(built)) == 3


def test_blocks_have_the_mode_of_other_new_files(built):
    (built / "other").touch()
    assert {file.stat().st_mode for file in built.iterdir()} == {(built / "other").stat().st_mode}


@pytest.mark.parametrize("change", [Path.unlink, cut, be_a_folder])
def test_a_block_that_is_gone_in_mid_training_is_an_error_with_a_remedy(built, change):
    states = states_in(built)
    states.remove_damaged()
    change(built / "00001.safetensors")
    assert torch.equal(states[0], expected(SENTENCES[0]))
    with pytest.raises(BertFusedError, match=r"00001.safetensors cannot be read .*; start the run again, which comp"):
        states[2]


def test_reading_needs_no_copy_and_another_process_maps_the_files_by_itself(built):
    states = states_in(built)
    first, second = states[0], states[0]
    assert first.data_ptr() == second.data_ptr()
    assert str(built / "00000.safetensors") in Path("/proc/self/maps").read_text()
    assert pickle.dumps(states) == pickle.dumps(states_in(built))  # without what was read
    check(pickle.loads(pickle.dumps(states)))


def _read_with_few_files(folder, sentences, results):
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
    states = states_in(folder, sentences)
    states.remove_damaged()
    check(states, sentences)
    results.put(len(states._blocks))


def test_500_blocks_are_read_with_64_open_files(tmp_path, monkeypatch):
    sentences = [[n, n % 7] for n in range(500)]
    monkeypatch.setattr(cached_states, "_BLOCK_BYTES", 2 * D * 4)
    states_in(tmp_path, sentences).add_missing(CountingBert().load, 0, 1)
    context = processes()
    results = context.Queue()
    reader = context.Process(target=_with_blocks, args=(2, _read_with_few_files, tmp_path, sentences, results))
    reader.start()
    assert results.get(timeout=60) == 500


def _with_blocks(pieces, function, *arguments):
    """Call *function* in another process, with blocks of so many word pieces."""
    cached_states._BLOCK_BYTES = pieces * D * 4
    function(*arguments)


@pytest.mark.parametrize(("free", "fits"), [(490, True), (489, False)])
def test_a_disk_that_is_too_small_is_refused_before_the_work(tmp_path, monkeypatch, caplog, free, fits):
    """20 word pieces of 6 numbers are 480 bytes, and 2 % of the disk stay free."""
    caplog.set_level("INFO")
    monkeypatch.setattr(cached_states.shutil, "disk_usage", lambda path: SimpleNamespace(free=free))
    bert = CountingBert()
    states = states_in(tmp_path)
    if fits:
        states.add_missing(bert.load, 0, 1)
    else:
        with pytest.raises(BertFusedError, match=r"0.00 GiB are needed in .*, but 0.00 GiB are free; give a directory"):
            states.add_missing(never, 0, 1)
    assert "1 of 1 blocks are missing, 20 word pieces; 0.0 MiB to write, 0.0 GiB free" in caplog.text


def test_a_disk_that_fills_up_keeps_what_was_whole(small_disk, monkeypatch):
    sentences = [[n] * 40 for n in range(2000)]  # 1.9 MB in blocks of 96 kB
    monkeypatch.setattr(cached_states, "_BLOCK_BYTES", 100_000)
    disk = small_disk("1m")
    monkeypatch.setattr(cached_states.shutil, "disk_usage", lambda path: SimpleNamespace(free=10**9))
    states = states_in(disk / "of-a-split", sentences)
    with pytest.raises(Exception, match="No space left on device"):
        states.add_missing(CountingBert().load, 0, 1)
    there = 20 - len(states.missing())
    assert 5 < there < 11
    subprocess.run(["mount", "-o", "remount,size=4m", disk], check=True)
    states.remove_damaged()
    states.add_missing(CountingBert().load, 0, 1)
    check(states, sentences)
    assert len(blocks(disk / "of-a-split")) == 20  # and nothing else


def test_a_complete_cache_is_read_where_nothing_can_be_written(small_disk):
    disk = small_disk("1m")
    states_in(disk / "split").add_missing(CountingBert().load, 0, 1)
    subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
    states = states_in(disk / "split")
    states.remove_damaged()
    states.add_missing(never, 0, 1)
    check(states)


# --- several processes

MANY = [[n % 50, *range(n % 9)] for n in range(400)]


def _build(folder, rank, ranks, seconds, results):
    bert = CountingBert(seconds)
    states = states_in(folder, MANY)
    states.add_missing(bert.load, rank, ranks)
    check(states, MANY)
    results.put((rank, len(bert.batches)))


def start(context, folder, results, rank, ranks, seconds=0.005):
    cached_states._BLOCK_BYTES, before = 100 * D * 4, cached_states._BLOCK_BYTES
    process = context.Process(target=_with_blocks, args=(100, _build, folder, rank, ranks, seconds, results))
    process.start()
    cached_states._BLOCK_BYTES = before
    return process


@pytest.mark.parametrize("ranks", [2, 3])
def test_each_rank_computes_its_blocks_and_waits_for_the_others(tmp_path, ranks):
    context = processes()
    results = context.Queue()
    started = [start(context, tmp_path, results, rank, ranks) for rank in range(ranks)]
    found = dict(results.get(timeout=60) for _ in started)
    number = len(blocks(tmp_path))
    assert found == {rank: len(range(rank, number, ranks)) for rank in range(ranks)}


def test_two_jobs_at_once_both_end_with_all_states(tmp_path):
    context = processes()
    results = context.Queue()
    jobs = [start(context, tmp_path, results, 0, 1, 0.02) for _ in range(2)]
    computed = sum(results.get(timeout=60)[1] for _ in jobs)
    number = len(blocks(tmp_path))
    assert number <= computed < 2 * number  # they begin with other blocks
    for job in jobs:
        job.join(30)
        assert job.exitcode == 0


def test_ten_kills_of_two_ranks_lose_a_block_each_at_most(tmp_path):
    context = processes()
    results = context.Queue()
    unbroken, folder = tmp_path / "unbroken", tmp_path / "killed"
    start(context, unbroken, results, 0, 1)
    results.get(timeout=60)
    chance, kills, made = random.Random(3), 0, set()
    while kills < 20:  # ten of both
        ranks = [start(context, folder, results, rank, 2, 0.05) for rank in range(2)]
        time.sleep(chance.uniform(0.05, 0.3))
        for process in ranks:
            process.kill()
            process.join()
            kills += 1
        now = {file.name for file in folder.glob("*.safetensors")}
        assert made <= now  # nothing that was whole is lost
        made = now
        if len(made) == len(blocks(unbroken)):
            shutil.rmtree(folder)
            made = set()
    ranks = [start(context, folder, results, rank, 2) for rank in range(2)]
    for _ in ranks:
        results.get(timeout=60)
    assert blocks(folder) == blocks(unbroken)  # and no leftovers
    for name in blocks(unbroken):
        assert (folder / name).read_bytes() == (unbroken / name).read_bytes()
