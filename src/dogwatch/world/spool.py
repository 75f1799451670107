"""Reads an agent's spool as it grows. The offset is only a cache: a reader that starts anew gets the same answer."""

from __future__ import annotations

import os

from dogwatch.model.sight import Turn
from dogwatch.model.spool import parse
from dogwatch.policy.turns import fold

CHUNK_BYTES = 4 * 1024 * 1024


class SpoolReader:
    """The turn state of one incarnation, from all whole lines written so far."""

    def __init__(self, path: str, incarnation: int) -> None:
        self.path = path
        self.incarnation = incarnation
        self._offset = 0
        self._turn = Turn()

    def turn(self) -> Turn:
        """What the hooks have said until now."""
        try:
            with open(self.path, "rb") as file:
                if os.fstat(file.fileno()).st_size < self._offset:
                    self._offset, self._turn = 0, Turn()
                file.seek(self._offset)
                while data := file.read(CHUNK_BYTES):
                    if not self._take(data):
                        break
                    file.seek(self._offset)
        except FileNotFoundError:
            pass
        return self._turn

    def _take(self, data: bytes) -> bool:
        """Folds the whole lines of a chunk; False where it holds none and the rest of its line is still to come."""
        whole, newline, _ = data.rpartition(b"\n")
        if not newline:
            # No line of ours is this long. What follows its next line break is read again.
            self._offset += len(data) if len(data) == CHUNK_BYTES else 0
            return len(data) == CHUNK_BYTES
        self._offset += len(whole) + 1
        for raw in whole.split(b"\n"):
            line = parse(raw)
            if line is not None and line.incarnation == self.incarnation:
                self._turn = fold(self._turn, line)
        return True
