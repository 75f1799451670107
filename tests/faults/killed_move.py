"""`python killed_move.py N before|after WORDS...`: `dogwatch ledger WORDS`, killed before or after its Nth commit."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from typing import Any

from dogwatch.cli.framework import run_command
from dogwatch.ledger.postgres import PostgresStore
from dogwatch.ledger.sqlite import SqliteStore


def deadly(run: Callable[..., Any], count: list[int], number: int, when: str) -> Callable[..., Any]:
    def counted(store: object, fn: Callable[[Any], Any]) -> Any:
        def last(tx: Any) -> Any:
            result = fn(tx)
            if when == "before" and count[0] + 1 == number:
                os.kill(os.getpid(), signal.SIGKILL)
            return result

        result = run(store, last)
        count[0] += 1
        if count[0] == number:
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    return counted


if __name__ == "__main__":
    count = [0]
    for kind in (PostgresStore, SqliteStore):
        setattr(kind, "run", deadly(kind.run, count, int(sys.argv[1]), sys.argv[2]))  # noqa: B010
    sys.exit(run_command(["ledger", *sys.argv[3:]]))
