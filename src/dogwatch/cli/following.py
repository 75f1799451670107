"""What commands with --follow share: they end when nobody reads any more, and Ctrl-C is their normal end."""

from __future__ import annotations

import contextlib
import os
import select
import sys
from collections.abc import Callable


def until_left(step: Callable[[], bool]) -> None:
    """Calls `step` again and again until it answers False, the reader of the output has left, or Ctrl-C.

    `step` waits for news itself, for half a second at the most.
    """
    with contextlib.suppress(KeyboardInterrupt):
        while not reader_has_left() and step():
            sys.stdout.flush()
        sys.stdout.flush()


def reader_has_left() -> bool:
    """Whether standard output is a pipe that nobody reads. Writing would tell, but only when there is news."""
    try:
        waiting = select.poll()
        waiting.register(sys.stdout.fileno(), 0)
        return any(event & (select.POLLERR | select.POLLHUP) for _, event in waiting.poll(0))
    except (OSError, ValueError):
        return False


def is_terminal() -> bool:
    """Whether a person sits at both ends."""
    return os.isatty(0) and os.isatty(1)
