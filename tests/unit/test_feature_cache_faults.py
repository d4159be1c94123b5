"""What happens to the cache while it is written and read: kill -9, a full disk, a disk that cannot be written."""

import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

import pytest
import torch
from helpers import processes

from bert_fused_plugin.data import cache_building, cache_plan, feature_cache, work_locks
from bert_fused_plugin.data.feature_cache import FeatureCache
from bert_fused_plugin.data.word_pieces import WordPieces
from bert_fused_plugin.errors import BertFusedError

D = 6
SENTENCES = [torch.tensor([2, *range(10, 10 + n), 3]) for n in range(40)]


def states(bert_tokens):
    return bert_tokens.unsqueeze(-1) + torch.arange(D).float()


class Reader:
    """Counts the sentences that BERT reads."""

    def __init__(self, seconds: float = 0) -> None:
        self.seconds, self.count = seconds, 0

    def load(self):
        return self

    def __call__(self, bert_tokens):
        time.sleep(self.seconds)
        self.count += len(bert_tokens)
        return states(bert_tokens)


def open_cache(path):
    return FeatureCache(str(path), fingerprint="f" * 64, dim=D, dtype="fp32")


def check(cache):
    for row, place in zip(SENTENCES, cache.locate(WordPieces.of(SENTENCES))):
        assert torch.equal(cache.states(place, len(row)), states(row.unsqueeze(0))[0])


@pytest.fixture
def disk(small_disk):
    return small_disk("40k")


def _build_slowly(path):
    cache_plan.PART_BYTES = 1
    cache_building.BATCH_PIECES = 50
    open_cache(path).add(WordPieces.of(SENTENCES), Reader(0.02).load)


@pytest.mark.parametrize("segments", [1, 5, 12])
def test_a_killed_build_loses_at_most_its_last_segment(tmp_path, segments):
    builder = processes().Process(target=_build_slowly, args=(tmp_path,))
    builder.start()
    while len(list(tmp_path.glob("*/*.safetensors"))) < segments:
        assert builder.is_alive()
        time.sleep(0.001)
    builder.kill()
    builder.join()
    cache, reader = open_cache(tmp_path), Reader()
    done = len(cache)
    assert 0 < done < len(SENTENCES)
    cache.add(WordPieces.of(SENTENCES), reader.load)
    assert reader.count == len(SENTENCES) - done
    check(open_cache(tmp_path))
    assert not list(tmp_path.glob("*/*.unfinished"))


def _share(path, ready, seconds, results):
    cache_plan.PART_BYTES = cache_plan.LARGEST_PART = 1  # a part for each sentence
    reader, cache = Reader(seconds), open_cache(path)
    ready.wait()
    cache.add(WordPieces.of(SENTENCES), reader.load)
    check(cache)
    results.put(reader.count)


def start_two(path, *seconds):
    context = processes()
    ready, results = context.Barrier(3), context.Queue()
    builders = [context.Process(target=_share, args=(path, ready, pause, results)) for pause in seconds]
    for builder in builders:
        builder.start()
    ready.wait()
    return builders, results


def test_processes_share_the_work(tmp_path):
    builders, results = start_two(tmp_path, 0.05, 0.05)
    for builder in builders:
        builder.join(60)
        assert builder.exitcode == 0
    done = [results.get() for _ in builders]
    assert sum(done) == len(SENTENCES)
    assert min(done) > len(SENTENCES) // 4


def test_the_part_of_a_killed_process_is_done_by_another(tmp_path):
    (stuck, other), results = start_two(tmp_path, 1000, 0.01)
    while len(list(tmp_path.glob("*/*.safetensors"))) < len(SENTENCES) - 1:
        assert other.is_alive()
        time.sleep(0.01)
    time.sleep(0.2)
    assert other.is_alive()  # and waits
    stuck.kill()
    other.join(60)
    assert other.exitcode == 0
    assert results.get() == len(SENTENCES)
    check(open_cache(tmp_path))


def test_what_another_process_is_writing_is_not_removed(tmp_path):
    cache = open_cache(tmp_path)
    writing, left = cache.path / "0-of-2.unfinished", cache.path / "1-of-2.unfinished"
    for file in writing, left:
        file.write_bytes(b"torn")
    with work_locks.try_lock(cache.path, "0-of-2") as locked:
        assert locked
        open_cache(tmp_path)
        assert writing.exists()
        assert not left.exists()
    open_cache(tmp_path)
    assert not writing.exists()


def test_a_disk_that_fills_up_in_the_middle_keeps_what_was_whole(disk, monkeypatch):
    monkeypatch.setattr(cache_plan, "PART_BYTES", 4000)
    monkeypatch.setattr(cache_building, "BATCH_PIECES", 50)
    (disk / "other").write_bytes(b"0" * 12_000)
    monkeypatch.setattr(feature_cache.FeatureCache, "_check_space", lambda *_: None)  # space that others take later
    with pytest.raises(BertFusedError, match=r"--bert-cache .* cannot be used \(.*No space left on device"):
        open_cache(disk).add(WordPieces.of(SENTENCES), Reader().load)
    whole = len(open_cache(disk))
    assert 0 < whole < len(SENTENCES)
    (disk / "other").unlink()
    reader = Reader()
    open_cache(disk).add(WordPieces.of(SENTENCES), reader.load)
    assert reader.count == len(SENTENCES) - whole
    check(open_cache(disk))


def test_a_full_disk_is_refused_before_the_work(disk):
    (disk / "other").write_bytes(b"0" * 30_000)
    reader = Reader()
    with pytest.raises(BertFusedError, match="give a directory on a larger disk"):
        open_cache(disk).add(WordPieces.of(SENTENCES), reader.load)
    assert reader.count == 0


def test_a_complete_cache_is_read_where_nothing_can_be_written(disk):
    open_cache(disk).add(WordPieces.of(SENTENCES[:20]), Reader().load)
    subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
    assert not os.access(disk, os.W_OK)
    reader = Reader()
    cache = open_cache(disk)
    cache.add(WordPieces.of(SENTENCES[:20]), reader.load)
    assert reader.count == 0
    assert (cache.locate(WordPieces.of(SENTENCES[:20])) >= 0).all()
    with pytest.raises(BertFusedError, match=r"--bert-cache .* cannot be used \(.*Read-only file system"):
        cache.add(WordPieces.of(SENTENCES), reader.load)
    assert reader.count == 0


@pytest.fixture
def shared():
    """A folder that all users may write, also where pytest's folder is closed to them."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o777)
    yield folder
    shutil.rmtree(folder)


def _read_as_another_user(path, results):
    open_cache(path)  # as root, so that all modules are imported
    os.setgid(65534)
    os.setuid(65534)
    reader, cache = Reader(), open_cache(path)
    try:
        cache.add(WordPieces.of(SENTENCES[:20]), reader.load)
        check_some(cache)
        cache.add(WordPieces.of(SENTENCES), reader.load)
    except BertFusedError as error:
        results.put((reader.count, str(error)))


def check_some(cache):
    assert all(
        torch.equal(cache.states(place, len(row)), states(row.unsqueeze(0))[0])
        for row, place in zip(SENTENCES[:20], cache.locate(WordPieces.of(SENTENCES[:20])))
    )


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
def test_a_complete_cache_of_another_user_is_read_although_its_lock_cannot_be_taken(shared):
    cache = open_cache(shared)
    cache.add(WordPieces.of(SENTENCES[:20]), Reader().load)
    cache.path.chmod(0o777)  # as in a directory of a group
    (cache.path / "lock").chmod(0o644)
    context = processes()
    results = context.SimpleQueue()
    user = context.Process(target=_read_as_another_user, args=(shared, results))
    user.start()
    user.join(60)
    assert user.exitcode == 0
    count, message = results.get()
    assert count == 0
    assert "[Errno 13] Permission denied" in message
    assert f"it lacks sentences of this run, and {cache.path} cannot be written; give a directory" in message
