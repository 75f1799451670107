"""Reads an agent's spool as it grows. The offset is only a cache: a reader that starts anew gets the same answer."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from dogwatch.model.redact import Redactor
from dogwatch.model.sight import Turn
from dogwatch.model.spool import SpoolLine, parse
from dogwatch.model.tally import Failure
from dogwatch.policy.diagnosis import CONTEXT_FULL
from dogwatch.policy.turns import fold

CHUNK_BYTES = 4 * 1024 * 1024

Names = Callable[[str, Mapping[str, Any]], Failure | None]
"""Says what a client's error is: a harness's `failure`."""


class SpoolReader:
    """The turn state of one incarnation, from all whole lines written so far."""

    def __init__(
        self, path: str, incarnation: int, redactor: Redactor | None = None, *, names: Names | None = None
    ) -> None:
        self.path = path
        self.incarnation = incarnation
        self._offset = 0
        self._redactor = redactor or Redactor()
        self._names = names
        self._turn = Turn()

    def turn(self) -> Turn:
        """What the hooks have said until now."""
        try:
            # The agent can write it: what it makes of it must not stop whoever reads.
            with open(os.open(self.path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
                if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                    return self._turn
                if os.fstat(file.fileno()).st_size < self._offset:
                    self._offset, self._turn = 0, Turn()
                file.seek(self._offset)
                while data := file.read(CHUNK_BYTES):
                    if not self._take(data):
                        break
                    file.seek(self._offset)
        except OSError:
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
                self._turn = self._named(fold(self._turn, self._without_tokens(line)), line)
        return True

    def _without_tokens(self, line: SpoolLine) -> SpoolLine:
        """What is kept of a line is cut; half a token would not be found any more."""
        text = line.raw.decode(errors="replace")
        if not self._redactor.suspects(text):
            return line
        payload = line.payload()
        told = json.dumps(self._redactor.value(payload)) if payload else self._redactor.text(text)
        return replace(line, raw=told.encode())

    def _named(self, turn: Turn, line: SpoolLine) -> Turn:
        """That nothing more fits into the context is a failure of its own, whatever a client calls it."""
        if line.event != "StopFailure" or self._names is None or not turn.failure:
            return turn
        failure = self._names(line.event, line.payload())
        is_full = failure is not None and failure.type == "context_exhausted"
        return replace(turn, failure=CONTEXT_FULL) if is_full else turn
