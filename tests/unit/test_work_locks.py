"""Locks on the parts of a work."""

import errno
import fcntl
import threading

import pytest

from bert_fused_plugin.data import work_locks
from bert_fused_plugin.data.work_locks import each_part_locked, try_lock


def test_a_part_has_one_holder_at_a_time(tmp_path):
    with try_lock(tmp_path, "a") as first, try_lock(tmp_path, "a") as second, try_lock(tmp_path, "b") as other:
        assert (first, second, other) == (True, False, True)
    with try_lock(tmp_path, "a") as again:
        assert again


def test_a_lock_ends_with_an_error(tmp_path):
    try:
        with try_lock(tmp_path, "a"):
            raise KeyboardInterrupt
    except KeyboardInterrupt:
        pass
    with try_lock(tmp_path, "a") as locked:
        assert locked


@pytest.fixture
def no_locks(monkeypatch):
    def flock(descriptor, operation):
        raise OSError(errno.ENOSYS, "Function not implemented")

    monkeypatch.setattr(fcntl, "flock", flock)


def test_a_file_system_without_locks_is_an_error_of_the_system(tmp_path, no_locks):
    for _ in range(2):  # nothing is left that a later process would take for the lock of another one
        with pytest.raises(OSError, match=r"not implemented|has no locks"), try_lock(tmp_path, "a"):
            pass
    with pytest.raises(OSError, match=r"not implemented|has no locks"):
        list(each_part_locked(tmp_path, ["a", "b"]))


@pytest.mark.filterwarnings("ignore:flock not supported")
def test_versions_of_filelock_that_have_another_kind_of_lock_for_such_file_systems(tmp_path, no_locks, monkeypatch):
    """They cannot be told not to use it, and it stays when a process is killed."""
    monkeypatch.setattr(work_locks, "_NO_SOFT_LOCKS", {})
    (tmp_path / "a.lock").write_text("1\nanother-machine\n")  # of a killed process
    for part in ("a", "b", "b"):
        with pytest.raises(OSError, match="has no locks"), try_lock(tmp_path, part):
            pass


def test_free_parts_come_first_and_the_others_once_they_are_free(tmp_path, caplog):
    caplog.set_level("INFO")
    holder = try_lock(tmp_path, "b")
    assert holder.__enter__()
    done = []

    def work():
        for part in each_part_locked(tmp_path, ["a", "b", "c"]):
            done.append(part)

    waiting = threading.Thread(target=work)
    waiting.start()
    waiting.join(0.5)
    assert waiting.is_alive()
    assert done == ["a", "c"]
    assert caplog.messages == [f"{tmp_path}: waiting for other processes, which are at work on it"]
    holder.__exit__(None, None, None)
    waiting.join(30)
    assert done == ["a", "c", "b"]


def test_a_part_is_locked_while_it_is_worked_on(tmp_path):
    for part in each_part_locked(tmp_path, ["a", "b"]):
        with try_lock(tmp_path, part) as locked:
            assert not locked
    assert list(each_part_locked(tmp_path, [])) == []


def test_who_waits_says_how_far_the_work_is_again_and_again(tmp_path, caplog, monkeypatch):
    caplog.set_level("INFO")
    monkeypatch.setattr(work_locks, "_SAID_AFTER", 0.1)
    holder = try_lock(tmp_path, "a")
    holder.__enter__()
    percent = iter(range(34, 1000))
    waiting = threading.Thread(
        target=lambda: list(each_part_locked(tmp_path, ["a"], lambda: f": {next(percent)} %")), daemon=True
    )
    waiting.start()
    waiting.join(0.5)
    holder.__exit__(None, None, None)
    waiting.join(30)
    assert caplog.messages[:2] == [
        f"{tmp_path}: waiting for other processes, which are at work on it: {number} %" for number in (34, 35)
    ]
