"""The warning for containers whose shared memory is small."""

from types import SimpleNamespace

import pytest
from documentation import text_of

from bert_fused_plugin.tasks import bert_cache
from bert_fused_plugin.tasks.bert_cache import small_shared_memory


@pytest.mark.parametrize(("size", "warned"), [(64 * 2**20, True), (2**30 - 1, True), (2**30, False)])
def test_small_shared_memory_is_named_with_the_remedies(monkeypatch, size, warned):
    monkeypatch.setattr(bert_cache.shutil, "disk_usage", lambda path: SimpleNamespace(total=size))
    said = small_shared_memory()
    assert (said is not None) == warned
    if said is not None:
        remedies = ("--shm-size 2g", "--ipc=host", "--num-workers 0")
        assert said.startswith(f"/dev/shm has only {size / 2**20:,.0f} MiB, and worker processes pass batches")
        assert all(remedy in said and f"`{remedy}`" in text_of("docs/workflow.md") for remedy in remedies)


def test_a_system_without_shared_memory(monkeypatch, tmp_path):
    monkeypatch.setattr(bert_cache, "SHARED_MEMORY", tmp_path / "none")
    assert small_shared_memory() is None
