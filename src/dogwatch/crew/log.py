"""The crew's log: one JSON object a line on standard error, which is the member's log file."""

from __future__ import annotations

import contextlib
import datetime
import json
import sys
from collections.abc import Callable


class Log:
    """Writes lines for one crew member. Values that cannot be JSON are written as text."""

    def __init__(self, member: str, run: str, write: Callable[[str], object] = sys.stderr.write) -> None:
        self._base = {"member": member, **({"run": run} if run else {})}
        self._write = write

    def info(self, event: str, **fields: object) -> None:
        self._line("info", event, fields)

    def error(self, event: str, **fields: object) -> None:
        self._line("error", event, fields)

    def _line(self, level: str, event: str, fields: dict[str, object]) -> None:
        at = datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds")
        line = {"at": at, "level": level, **self._base, "event": event, **fields}
        # A full disk must not end a crew member for want of a log line.
        with contextlib.suppress(OSError):
            self._write(json.dumps(line, ensure_ascii=False, default=str) + "\n")
