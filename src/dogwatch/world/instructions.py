"""A role's instructions as the disk has them, and whether an agent's client has read them."""

from __future__ import annotations

import os
import stat
from dataclasses import replace

from dogwatch.model.plan import INSTRUCTIONS_BYTES_MAX
from dogwatch.model.spool import parse
from dogwatch.model.versions import Version
from dogwatch.policy.readings import Reads, TheFile, note
from dogwatch.policy.versions import version_of
from dogwatch.world.clock import SystemClock
from dogwatch.world.growing import GrowingFile

SETTLED_S = 1.0
"""Who has changed it so short a while ago may still be writing."""
BYTES_MAX = 4 * 1024 * 1024
"""So much of a spool is read at one look; the next one goes on."""


class InstructionsFile:
    """One file; its bytes are read again only when it looks different."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._looks: tuple[int, int, int, int] = (0, 0, 0, 0)
        self._version: Version | None = None

    def version(self) -> Version | None:
        """What it is now; None where it is missing, empty, too large or no file."""
        try:
            fd = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except (OSError, ValueError):
            return None
        try:
            facts = os.fstat(fd)
            if not stat.S_ISREG(facts.st_mode) or not 0 < facts.st_size <= INSTRUCTIONS_BYTES_MAX:
                return None
            # Who copies a file may set its time of modification, but nobody that of its change.
            looks = (facts.st_ino, facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns)
            if looks != self._looks or self._version is None:
                self._version = version_of(os.pread(fd, INSTRUCTIONS_BYTES_MAX, 0))
                self._looks = looks
            return replace(self._version, settled=not 0 <= SystemClock().now().wall - facts.st_mtime < SETTLED_S)
        except OSError:
            return None
        finally:
            os.close(fd)


class ReadingReader:
    """When one incarnation's client last read one version of a file, from its spool as it grows."""

    def __init__(self, spool: str, incarnation: int, path: str, lines: int) -> None:
        self.about = (incarnation, path, lines)
        self._file = TheFile(frozenset({os.path.normpath(path), os.path.realpath(path)}), lines)
        self._spool = GrowingFile(spool)
        self._reads = Reads()
        self._restarts = 0

    def at(self) -> float:
        """The beginning of the newest reading that was found so far, on the monotonic clock; 0 for none."""
        lines, _ = self._spool.lines(BYTES_MAX)
        if self._spool.restarts != self._restarts:
            self._reads, self._restarts = Reads(), self._spool.restarts
        for raw in lines:
            line = parse(raw)
            if line is not None and line.incarnation == self.about[0]:
                self._reads = note(self._reads, line, self._file)
        return self._reads.at
