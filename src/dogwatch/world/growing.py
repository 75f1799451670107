"""A file that others append lines to, read as it grows. The offset is only a cache: it may begin anew at any time."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence

CHUNK_BYTES = 4 * 1024 * 1024
"""A longer line is passed over in pieces: no line that matters is this long."""
MARK_BYTES = 64


class GrowingFile:
    """The whole lines that were not read before. A file that was cut, rotated or written anew is read from its
    beginning."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._offset = 0
        self._inode = 0
        self._mark = b""
        self.restarts = 0
        """How often it began anew: what was read before may come again."""

    def lines(self, bytes_max: int = CHUNK_BYTES) -> tuple[Sequence[bytes], bool]:
        """The next lines, from about that many bytes, and whether there is more to read. A pipe is not waited for."""
        try:
            fd = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except (OSError, ValueError):
            return (), False
        try:
            facts = os.fstat(fd)
            if not stat.S_ISREG(facts.st_mode):
                return (), False
            if self._offset and not self._is_same(fd, facts):
                self._offset, self._mark = 0, b""
                self.restarts += 1
            self._inode = facts.st_ino
            if facts.st_size <= self._offset:
                return (), False
            return self._next(fd, facts.st_size, max(1, min(bytes_max, CHUNK_BYTES)))
        except OSError:
            return (), False
        finally:
            os.close(fd)

    def _is_same(self, fd: int, facts: os.stat_result) -> bool:
        if facts.st_ino != self._inode or facts.st_size < self._offset:
            return False
        return os.pread(fd, len(self._mark), self._offset - len(self._mark)) == self._mark

    def _next(self, fd: int, size: int, bytes_max: int) -> tuple[Sequence[bytes], bool]:
        data = os.pread(fd, bytes_max, self._offset)
        whole, newline, _ = data.rpartition(b"\n")
        while not newline and len(data) == bytes_max < CHUNK_BYTES:
            bytes_max = min(4 * bytes_max, CHUNK_BYTES)
            data = os.pread(fd, bytes_max, self._offset)
            whole, newline, _ = data.rpartition(b"\n")
        if not newline and len(data) < CHUNK_BYTES:
            return (), False  # the rest of the line is still to come
        taken = whole + newline if newline else data
        self._offset += len(taken)
        self._mark = taken[-MARK_BYTES:]
        return whole.split(b"\n") if newline else (), self._offset < size
