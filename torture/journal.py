"""What outlives a SIGKILL: files of lines for what each worker tried and was told, and a board in shared memory."""

from __future__ import annotations

import mmap
import os
from collections.abc import Sequence
from pathlib import Path

TAIL_BYTES = 64 * 1024


class Journal:
    """A file to which whole lines are added. The kernel has them once `write` is back, whatever becomes of the writer.

    A kill can cut a write between two pages of memory: the half line is dropped by whoever opens the journal next.
    """

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        size = os.fstat(self._file).st_size
        end = os.pread(self._file, TAIL_BYTES, max(0, size - TAIL_BYTES))
        whole = end[: end.rfind(b"\n") + 1]
        os.ftruncate(self._file, size - (len(end) - len(whole)))
        self.tail: Sequence[str] = whole.decode().splitlines()
        """The last lines of those who wrote here before; the first of them may lack its beginning."""

    def write(self, *lines: str) -> None:
        """Adds all the lines in one write."""
        text = "".join(line.replace("\n", " ") + "\n" for line in lines).encode()
        while text:
            text = text[os.write(self._file, text) :]


def read_lines(path: Path) -> list[str]:
    """All whole lines of a journal."""
    text = path.read_bytes()
    return text[: text.rfind(b"\n") + 1].decode().splitlines()


CHAOS, DRAIN, LAST_LOOK = range(3)


class Board:
    """What the orchestrator and its workers share while they run: the phase, and how much each seat has done.

    The counts are for the eye only; the journals are what is checked.
    """

    def __init__(self, seats: int) -> None:
        self._cells = memoryview(mmap.mmap(-1, 8 * (seats + 1))).cast("Q")

    @property
    def phase(self) -> int:
        """CHAOS while there is killing, DRAIN when all work is to be finished, LAST_LOOK for the followers then."""
        return self._cells[0]

    @phase.setter
    def phase(self, phase: int) -> None:
        self._cells[0] = phase

    def add(self, seat: int) -> None:
        """One more operation of this seat was acknowledged."""
        self._cells[seat + 1] += 1

    def total(self) -> int:
        """The operations of all seats."""
        return sum(self._cells[1:])
