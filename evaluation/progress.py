"""How far an experiment is: one line that is rewritten on a terminal, and a line now and then elsewhere."""

from __future__ import annotations

import time
from typing import TextIO

TTY_S = 0.2
PLAIN_S = 10.0


class Progress:
    """Writes to `stream`, and leaves nothing behind on a terminal."""

    def __init__(self, title: str, stream: TextIO) -> None:
        self._title = title
        self._stream = stream
        self._began = time.monotonic()
        self._is_terminal = stream.isatty()
        self._next = 0.0

    def __call__(self, text: str) -> None:
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + (TTY_S if self._is_terminal else PLAIN_S)
        passed = int(now - self._began)
        line = f"{self._title} {passed // 60}:{passed % 60:02} · {text}"
        self._write(f"\r\033[K{line}" if self._is_terminal else f"{line}\n")

    def clear(self) -> None:
        """Takes the line away again."""
        if self._is_terminal:
            self._write("\r\033[K")

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()
