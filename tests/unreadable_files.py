"""Files of the cache that cannot be read."""

import errno

from bert_fused_plugin.data import tensor_files


def unreadable(monkeypatch, name, file):
    """Let the function *name* of data/tensor_files.py fail for *file*, as where a block of the disk cannot be read."""
    real = getattr(tensor_files, name)

    def read(path, *arguments):
        if path == file:
            raise OSError(errno.EIO, "Input/output error")
        return real(path, *arguments)

    monkeypatch.setattr(tensor_files, name, read)
