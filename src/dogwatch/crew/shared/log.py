"""The crew's log: one JSON object a line on standard error, which is the member's log file."""

from __future__ import annotations

import contextlib
import datetime
import json
import sys
import traceback
from collections.abc import Callable
from types import TracebackType

from dogwatch.model.redact import Redactor


class Log:
    """Writes lines for one crew member. Values that cannot be JSON are written as text; tokens are left out."""

    def __init__(
        self,
        member: str,
        run: str,
        write: Callable[[str], object] = sys.stderr.write,
        redactor: Redactor | None = None,
    ) -> None:
        self.redactor = redactor or Redactor()
        self._base = {"member": member, **({"run": run} if run else {})}
        self._write = write

    def info(self, event: str, **fields: object) -> None:
        self._line("info", event, fields)

    def error(self, event: str, **fields: object) -> None:
        self._line("error", event, fields)

    def crashed(self, kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        """An exception that ends the member, as `sys.excepthook`."""
        with contextlib.suppress(OSError):
            self._write(self.redactor.text("".join(traceback.format_exception(kind, error, trace))))

    def _line(self, level: str, event: str, fields: dict[str, object]) -> None:
        at = datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds")
        told = {name: self.redactor.value(value) for name, value in fields.items()}
        line = {"at": at, "level": level, **self._base, "event": event, **told}
        # A full disk must not end a crew member for want of a log line.
        with contextlib.suppress(OSError):
            self._write(json.dumps(line, ensure_ascii=False, default=self._text) + "\n")

    def _text(self, value: object) -> str:
        return self.redactor.text(str(value))
