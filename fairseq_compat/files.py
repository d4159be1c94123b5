"""How fairseq copies checkpoints, and reads data in worker processes."""

import contextlib
import io
import os
from typing import Any


def whole_copies(module: Any) -> None:
    """Let fairseq replace checkpoint_best.pt and checkpoint_last.pt, which are copies, whole or not at all."""
    # Not a matter of versions: fairseq writes a checkpoint beside its place and renames it, but copies into place, so
    # that training killed then, or a full disk, left a checkpoint_last.pt that nothing could go on from.
    manager = module.PathManager
    stock = manager.copy

    def copy(src_path: str, dst_path: str, overwrite: bool = False) -> Any:
        if not manager.supports_rename(dst_path):
            return stock(src_path, dst_path, overwrite)
        new = f"{dst_path}.tmp"
        try:
            done = stock(src_path, new, overwrite=True)
            os.replace(new, dst_path)
        except OSError:
            with contextlib.suppress(OSError):
                os.remove(new)
            raise
        return done

    manager.copy = staticmethod(copy)


class FileOfItsOwn(io.FileIO):
    """A file to read, of which each process has a position of its own."""

    def __init__(self, path: str) -> None:
        super().__init__(path, "rb")
        self._position = 0

    def seek(self, offset: int, whence: int = 0) -> int:
        """Read from byte *offset* next; *whence* is always the start of the file."""
        self._position = offset
        return offset

    def readinto(self, buffer: Any) -> int:
        """Fill *buffer*, from where `seek` has been."""
        return os.preadv(self.fileno(), [buffer], self._position)

    def __reduce_ex__(self, protocol: Any) -> Any:
        return FileOfItsOwn, (self.name,)


def files_of_workers(module: Any) -> None:
    """Let --dataset-impl lazy work with worker processes."""

    # Not a matter of versions alone: forked workers shared one file, moved its position under each other, and
    # read wrong sentences.  Since Python 3.14 workers are sent a pickle, which a file is not part of.
    def read_data(self: Any, path: str) -> None:
        self.data_file = FileOfItsOwn(module.data_file_path(path))

    module.IndexedDataset.read_data = read_data
