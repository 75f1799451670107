"""What several test files need."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

POLL_S = 0.02


def wait_for(fn: Callable[[], T], timeout_s: float = 60, what: str | Callable[[], str] = "") -> T:
    """The first true value of `fn`, asked again and again; AssertionError naming `what` after `timeout_s`."""
    deadline = time.monotonic() + timeout_s
    while not (value := fn()):
        if time.monotonic() > deadline:
            name = what() if callable(what) else what
            raise AssertionError(f"waited {timeout_s:.0f} s in vain for {name or fn}")
        time.sleep(POLL_S)
    return value
