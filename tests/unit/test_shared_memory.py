"""The warning for containers whose shared memory is small."""

from types import SimpleNamespace

import pytest
from documentation import text_of

from bert_fused_plugin.tasks import bert_cache
from bert_fused_plugin.tasks.bert_cache import warn_of_small_shared_memory


@pytest.mark.parametrize(("size", "warned"), [(64 * 2**20, True), (2**30 - 1, True), (2**30, False)])
def test_small_shared_memory_is_named_with_the_remedies(monkeypatch, caplog, size, warned):
    monkeypatch.setattr(bert_cache.shutil, "disk_usage", lambda path: SimpleNamespace(total=size))
    warn_of_small_shared_memory()
    assert len(caplog.messages) == warned
    for said in caplog.messages:
        remedies = ("--shm-size 2g", "--ipc=host", "--num-workers 0")
        assert said.startswith(f"/dev/shm has only {size / 2**20:,.0f} MiB, and worker processes pass batches")
        assert all(remedy in said and f"`{remedy}`" in text_of("docs/workflow.md") for remedy in remedies)


def test_a_system_without_shared_memory(monkeypatch, caplog, tmp_path):
    monkeypatch.setattr(bert_cache, "SHARED_MEMORY", tmp_path / "none")
    warn_of_small_shared_memory()
    assert caplog.messages == []
