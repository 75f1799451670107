"""What commands with --follow share: they end when nobody reads any more, and Ctrl-C is their normal end."""

from __future__ import annotations

import contextlib
import os
import select
import sys
from collections.abc import Callable, Iterator


@contextlib.contextmanager
def following(*, wanted: bool) -> Iterator[None]:
    """Within it, Ctrl-C is the normal end where following is wanted."""
    try:
        yield
    except KeyboardInterrupt:
        if not wanted:
            raise


def until_left(step: Callable[[], bool]) -> None:
    """Calls `step` again and again until it answers False or the reader of the output has left.

    `step` waits for news itself, for half a second at the most.
    """
    sys.stdout.flush()
    while not reader_has_left() and step():
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
