"""Locks on the parts of a work."""

import threading

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
