import pickle
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from helpers import assert_close, processes

from bert_fused_plugin.data import cache_building, cache_plan, feature_cache, tensor_files
from bert_fused_plugin.data.collate import BERT_PAD
from bert_fused_plugin.data.feature_cache import FeatureCache
from bert_fused_plugin.data.word_pieces import WordPieces
from bert_fused_plugin.errors import BertFusedError

D = 6
SENTENCES = [torch.tensor(row) for row in ([2, 5, 3], [2, 3], [2, 7, 7, 9, 3], [2, 5, 3], [2, 9, 7, 5, 4, 6, 3])]


class CountingBert:
    """States that say which token they belong to: (i, i + 1, ...) for token i."""

    def __init__(self):
        self.batches = []

    def __call__(self, bert_tokens):
        self.batches.append(bert_tokens)
        return bert_tokens.unsqueeze(-1) + torch.arange(D).float()

    def load(self):
        return self


def expected(row):
    return row.unsqueeze(-1) + torch.arange(D).float()


def open_cache(path, fingerprint="f" * 64, dtype="fp32"):
    return FeatureCache(str(path), fingerprint=fingerprint, dim=D, dtype=dtype)


def check(cache, sentences=SENTENCES):
    for row, place in zip(sentences, cache.locate(WordPieces.of(sentences))):
        assert_close(cache.states(place, len(row)).float(), expected(row))


@pytest.fixture
def filled(tmp_path):
    open_cache(tmp_path).add(WordPieces.of(SENTENCES), CountingBert().load)
    return tmp_path


def segments(path):
    return sorted(path.glob("*/*.safetensors"))


@pytest.mark.parametrize("dtype", ["fp16", "fp32"])
def test_states_come_back_and_each_sentence_is_computed_once(tmp_path, dtype):
    bert = CountingBert()
    cache = open_cache(tmp_path, dtype=dtype)
    cache.add(WordPieces.of(SENTENCES), bert.load)
    check(cache)
    rows = [row[row != BERT_PAD].tolist() for batch in bert.batches for row in batch]
    assert sorted(map(len, rows), reverse=True) == list(map(len, rows)) == [7, 5, 3, 2]
    assert len(cache) == 4
    place = cache.locate(WordPieces.of(SENTENCES))[0]
    assert cache.states(place, 3).dtype == {"fp16": torch.half, "fp32": torch.float}[dtype]


def test_the_folders_above_are_made(tmp_path):
    open_cache(tmp_path / "of" / "many").add(WordPieces.of(SENTENCES), CountingBert().load)
    assert len(open_cache(tmp_path / "of" / "many")) == 4


def test_a_second_run_computes_nothing(filled):
    def never():
        raise AssertionError("BERT was loaded")

    cache = open_cache(filled)
    assert len(cache) == 4
    cache.add(WordPieces.of(SENTENCES), never)
    check(cache)


def test_only_new_sentences_are_computed(filled):
    bert = CountingBert()
    cache = open_cache(filled)
    new = [*SENTENCES, torch.tensor([2, 4, 4, 3])]
    cache.add(WordPieces.of(new), bert.load)
    assert [batch.tolist() for batch in bert.batches] == [[[2, 4, 4, 3]]]
    check(cache, new)
    check(open_cache(filled), new)


def kept(cache, limit, sentences=SENTENCES):
    """Return which sentences have states within *limit*, and the batches that BERT read for them."""
    bert = CountingBert()
    cache.add(WordPieces.of(sentences), bert.load, limit)
    return [place[0] >= 0 for place in cache.locate(WordPieces.of(sentences), limit)], [
        batch.tolist() for batch in bert.batches
    ]


def test_a_limit_keeps_the_longest_sentences_and_counts_what_is_there(tmp_path):
    bytes_of = 4 * D
    found, _ = kept(open_cache(tmp_path), (7 + 5 + 2) * bytes_of)
    assert found == [False, False, True, False, True]
    found, batches = kept(open_cache(tmp_path), (7 + 5 + 3) * bytes_of)  # room for one of three word pieces
    assert (found, batches) == ([True, False, True, True, True], [[[2, 5, 3]]])
    full = open_cache(tmp_path)
    assert kept(full, 1, [torch.tensor([2, 4, 3])]) == ([False], [])
    assert len(full) == 3


def test_neither_what_others_left_nor_what_was_read_before_changes_batches(tmp_path):
    """Within a limit the same sentences have states, so that a resumed run forms the batches that it had."""
    limit = (7 + 5 + 2) * 4 * D
    places = []
    for before in ([], SENTENCES[:1], [torch.tensor([2, 8, 8, 8, 8, 8, 8, 8, 3])]):  # such as the validation set
        cache = open_cache(tmp_path)
        cache.add(WordPieces.of(before), CountingBert().load, 10**6)
        places.append(kept(cache, limit)[0])
        open_cache(tmp_path).add(WordPieces.of(SENTENCES), CountingBert().load)  # another run, without a limit
    assert places == [[False, False, True, False, True]] * 3


def loader(value):
    return lambda: lambda bert_tokens: torch.full((*bert_tokens.shape, D), value)


def test_states_that_half_precision_cannot_hold_are_refused(tmp_path):
    message = (
        r"beyond float16, whose largest number is 65,504; give --bert-cache-dtype fp32, and train with --bf16 or in"
    )
    with pytest.raises(BertFusedError, match=message):
        open_cache(tmp_path, dtype="fp16").add(WordPieces.of(SENTENCES), loader(70_000.0))
    assert not segments(tmp_path)
    open_cache(tmp_path, dtype="fp32").add(WordPieces.of(SENTENCES), loader(70_000.0))
    assert len(segments(tmp_path)) == 1


@pytest.mark.parametrize("dtype", ["fp16", "fp32"])
@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_states_that_are_not_finite_are_refused(tmp_path, dtype, value):
    with pytest.raises(BertFusedError, match="not finite, even in single precision; give another --bert-model"):
        open_cache(tmp_path, dtype=dtype).add(WordPieces.of(SENTENCES), loader(value))
    assert not segments(tmp_path)


def test_another_fingerprint_or_dtype_is_a_miss(filled):
    assert len(open_cache(filled, fingerprint="e" * 64)) == 0
    assert len(open_cache(filled, dtype="fp16")) == 0


def test_batches_are_bounded_in_word_pieces(tmp_path, monkeypatch):
    monkeypatch.setattr(cache_building, "BATCH_PIECES", 10)
    bert = CountingBert()
    cache = open_cache(tmp_path)
    cache.add(WordPieces.of(SENTENCES), bert.load)
    assert [tuple(batch.shape) for batch in bert.batches] == [(1, 7), (2, 5), (1, 2)]
    check(cache)


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: data[: len(data) // 2],
        lambda data: data[:5],
        lambda data: b"",
        lambda data: data[:-1] + bytes([data[-1] ^ 1]),
        lambda data: data[:-200] + bytes([data[-200] ^ 64]) + data[-199:],
        lambda data: b"\xff" * 8 + data[8:],
        lambda data: data[:8] + b"[" * 40 + data[48:],
        lambda data: data + b"0",
    ],
    ids=["half", "torn header", "empty", "last bit", "a bit", "huge header", "broken header", "longer"],
)
def test_a_damaged_segment_is_removed_and_computed_anew(filled, damage, caplog):
    [file] = segments(filled)
    file.write_bytes(damage(file.read_bytes()))
    cache = open_cache(filled)
    assert len(cache) == 0
    assert "is damaged: it is removed" in caplog.text
    cache.add(WordPieces.of(SENTENCES), CountingBert().load)
    check(open_cache(filled))


def test_every_flipped_bit_is_noticed(filled):
    [file] = segments(filled)
    data = file.read_bytes()
    header = int.from_bytes(data[:8], "little") + 8
    for position in range(header, len(data), 7):
        file.write_bytes(data[:position] + bytes([data[position] ^ 4]) + data[position + 1 :])
        assert len(open_cache(filled)) == 0, position
        assert not file.exists()
    file.write_bytes(data)
    assert len(open_cache(filled)) == 4


def test_an_interrupted_build_goes_on(tmp_path, monkeypatch):
    monkeypatch.setattr(cache_plan, "PART_BYTES", 1)
    monkeypatch.setattr(cache_building, "BATCH_PIECES", 7)

    class Dying(CountingBert):
        def __call__(self, bert_tokens):
            if len(self.batches) == 2:
                raise KeyboardInterrupt
            return super().__call__(bert_tokens)

    with pytest.raises(KeyboardInterrupt):
        open_cache(tmp_path).add(WordPieces.of(SENTENCES), Dying().load)
    [folder] = tmp_path.iterdir()
    (folder / "left-by-kill-9.unfinished").write_bytes(b"torn")
    bert = CountingBert()
    cache = open_cache(tmp_path)
    assert len(cache) == 2
    cache.add(WordPieces.of(SENTENCES), bert.load)
    assert sum(len(batch) for batch in bert.batches) == 2
    check(cache)
    assert not list(folder.glob("*.unfinished"))


def _build(path, ready, results):
    bert = CountingBert()
    cache = open_cache(path)
    ready.wait()
    cache.add(WordPieces.of(SENTENCES), bert.load)
    check(cache)
    results.put(sum(len(batch) for batch in bert.batches))


def test_of_two_builders_one_computes_and_the_other_waits(tmp_path):
    context = processes()
    ready, results = context.Barrier(2), context.Queue()
    builders = [context.Process(target=_build, args=(tmp_path, ready, results)) for _ in range(2)]
    for builder in builders:
        builder.start()
    for builder in builders:
        builder.join(60)
        assert builder.exitcode == 0
    assert sorted(results.get() for _ in builders) == [0, 4]
    check(open_cache(tmp_path))


def test_reading_needs_no_copy_and_survives_pickling(filled):
    cache = open_cache(filled)
    place = cache.locate(WordPieces.of(SENTENCES))[2]
    states = cache.states(place, 5)
    [file] = segments(filled)
    assert str(file) in Path("/proc/self/maps").read_text()
    assert states.untyped_storage().data_ptr() == cache.states(place, 1).untyped_storage().data_ptr()
    twin = pickle.loads(pickle.dumps(cache))
    assert pickle.dumps(cache) == pickle.dumps(open_cache(filled))  # without the states that were read
    assert len(twin) == 0
    assert_close(twin.states(place, 5), states)


def test_a_disk_that_is_too_small_is_refused_before_the_work(tmp_path, monkeypatch):
    monkeypatch.setattr(feature_cache.shutil, "disk_usage", lambda path: FakeUsage)
    bert = CountingBert()
    with pytest.raises(
        BertFusedError, match=r"GiB are needed, but 0.00 GiB are free; give a directory on a larger disk"
    ):
        open_cache(tmp_path).add(WordPieces.of(SENTENCES), bert.load)
    assert bert.batches == []


class FakeUsage:
    free = 100


@pytest.mark.parametrize(("free", "fits"), [(498, True), (497, False)])
def test_what_is_needed_is_states_keys_and_sizes_on_98_percent_of_the_disk(tmp_path, monkeypatch, caplog, free, fits):
    """17 word pieces of 6 numbers, 4 sentences of 16 + 4 bytes: 488 bytes."""
    caplog.set_level("INFO")
    monkeypatch.setattr(feature_cache.shutil, "disk_usage", lambda path: SimpleNamespace(free=free))
    bert = CountingBert()
    with nullcontext() if fits else pytest.raises(BertFusedError, match="larger disk"):
        open_cache(tmp_path).add(WordPieces.of(SENTENCES), bert.load)
    assert bool(bert.batches) == fits
    assert "4 new sentences of 17 word pieces, 0.0 MiB to write, 0.0 GiB free" in caplog.text


def test_a_disk_that_fills_up_leaves_no_torn_file(tmp_path, monkeypatch):
    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(tensor_files.os, "fsync", full)
    with pytest.raises(BertFusedError, match=r"--bert-cache .* cannot be used \(.*No space left on device\)"):
        open_cache(tmp_path).add(WordPieces.of(SENTENCES), CountingBert().load)
    [folder] = tmp_path.iterdir()
    assert [file.name for file in folder.iterdir() if not file.name.endswith("lock")] == []


def test_a_path_that_is_no_directory_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(BertFusedError, match=r"--bert-cache .*file cannot be used \(\[Errno"):
        open_cache(tmp_path / "file")
