"""Ranks share work that is made of files, wherever their folders are."""

from datetime import timedelta
from time import sleep

import pytest
import torch.distributed as dist
from helpers import processes

from bert_fused_plugin.data import shared_work
from bert_fused_plugin.data.shared_work import make_together, ranks_in


def _join(rank, ranks, folder, places, results):
    """Be a rank of a training, whose folder is places[rank]."""
    dist.init_process_group("gloo", init_method=f"file://{folder}/group", rank=rank, world_size=ranks)
    soon = dist.new_group(timeout=timedelta(seconds=2))
    with ranks_in(places[rank]) as own:
        sleep(4 if rank == 2 and own[1] < 3 else 0)
    dist.barrier(soon)
    with ranks_in(folder) as all_together:
        results.put((rank, own, all_together))
    dist.destroy_process_group()


@pytest.mark.parametrize(
    ("places", "expected"),
    [
        ("aaa", [(0, 3), (1, 3), (2, 3)]),
        ("abb", [(0, 1), (0, 2), (1, 2)]),  # two machines
        ("a-a", [(0, 2), (0, 1), (1, 2)]),  # one rank has nothing to do there
    ],
)
def test_ranks_know_with_whom_they_share_a_folder_and_wait_for_those_of_others(tmp_path, places, expected):
    with ranks_in(tmp_path) as here, ranks_in(None) as nowhere:
        assert here == nowhere == (0, 1)  # one process does all
    folders = {name: tmp_path / name for name in "ab"}
    for folder in folders.values():
        folder.mkdir()
    context = processes()
    results = context.Queue()
    ranks = [
        context.Process(target=_join, args=(rank, 3, tmp_path, [folders.get(name) for name in places], results))
        for rank in range(3)
    ]
    for rank in ranks:
        rank.start()
    found = sorted(results.get(timeout=250) for _ in ranks)
    assert [share for _, share, _ in found] == expected
    assert [share for _, _, share in found] == [(0, 3), (1, 3), (2, 3)]


def test_a_rank_makes_its_parts_and_says_what_it_waits_for(monkeypatch, caplog):
    monkeypatch.setattr(shared_work, "_SAID_AFTER", 0.1)
    missing, waits = {0, 1, 2, 3, 5}, []
    monkeypatch.setattr(shared_work.time, "sleep", waits.append)
    monkeypatch.setattr(shared_work.time, "monotonic", lambda: float(len(waits)))

    def left():
        if len(waits) == 3:
            missing.clear()  # what the other rank has made
        return sorted(missing)

    made = []
    make_together(left, lambda number: (made.append(number), missing.remove(number)), 1, 2, "the folder")
    assert sorted(made) == [1, 3, 5]
    assert caplog.messages == ["the folder: waiting for other processes, which make 2 parts, such as number 0"] * 2
    assert waits == sorted(waits)


def test_what_a_dead_rank_has_not_made_is_made_by_those_that_wait(monkeypatch, caplog):
    missing, waits, made = {0, 1, 2, 4, 6}, [], []
    monkeypatch.setattr(shared_work.time, "sleep", waits.append)
    monkeypatch.setattr(shared_work.time, "monotonic", lambda: 100.0 * len(waits))

    def left():
        if len(waits) == 5:
            missing.discard(0)  # the last part that the other rank makes
        return sorted(missing)

    make_together(left, lambda number: (made.append(number), missing.remove(number)), 1, 2, "the folder")
    assert (made[0], sorted(made[1:])) == (1, [2, 4, 6])
    assert "the folder: no new part for ten minutes, so this process makes the 3 missing ones" in caplog.messages
    assert len(waits) == 5 + 7  # ten minutes after the last part of the other rank
