"""Reads an agent's spool as it grows. The offset is only a cache: a reader that starts anew gets the same answer."""

from __future__ import annotations

import os

from dogwatch.model.spool import parse
from dogwatch.model.view import Turn
from dogwatch.policy.turns import fold

CHUNK_BYTES_MAX = 8 * 1024 * 1024


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
                data = file.read(CHUNK_BYTES_MAX)
        except FileNotFoundError:
            return self._turn
        whole, newline, _ = data.rpartition(b"\n")
        if newline:
            self._offset += len(whole) + 1
            for raw in whole.split(b"\n"):
                line = parse(raw)
                if line is not None and line.incarnation == self.incarnation:
                    self._turn = fold(self._turn, line)
        return self._turn
