"""What a run shows: a line of progress while it goes on, and its figures in the end."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Mapping

from torture.orchestrator import Orchestrator
from torture.verify import History, lines_of

TTY_S = 0.2
PLAIN_S = 10.0

Figures = Mapping[str, int | float | str]


class Progress:
    """One line that is written anew on a terminal, and a line now and then elsewhere."""

    def __init__(self) -> None:
        self._every_s = TTY_S if sys.stdout.isatty() else PLAIN_S
        self._next = time.monotonic() + self._every_s

    def __call__(self, run: Orchestrator) -> None:
        """Shows how far it is, if it is time."""
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + self._every_s
        left_s = (now - run.began) / max(1, run.kills) * max(0, run.plan.kills - run.kills)
        line = f"{run.kills} of {run.plan.kills} kills, {run.board.total()} operations, about {left_s:.0f} s left"
        print(f"\r\033[K{line}" if sys.stdout.isatty() else line, end="" if sys.stdout.isatty() else "\n", flush=True)

    def clear(self) -> None:
        """Takes the line away again."""
        if sys.stdout.isatty():
            print("\r\033[K", end="", flush=True)


def figures(engine: str, run: Orchestrator, history: History, duration_s: float) -> Figures:
    """The numbers of a run, in the order of the table."""
    acknowledged: Counter[str] = Counter()
    for seat, lines in history.journals.items():
        acknowledged[seat.partition("-")[0]] += sum(line.startswith("ack ") for line in lines)
    retries = Counter(line.rsplit(" ", 1)[1] for line in lines_of(history, "retried"))

    def count(verb: str) -> int:
        return sum(1 for _ in lines_of(history, verb))

    return {
        "engine": engine,
        "seed": run.plan.seed,
        "kills": run.kills,
        "kills of all workers at once": run.blackouts,
        "pauses": run.pauses,
        "server kills": run.server_kills,
        "events": len(history.events),
        **{f"acknowledged by {role}s": acknowledged[role] for role in ("writer", "claimer", "holder", "stage")},
        "events seen by followers": sum(len(lines) for lines in history.followed.values()),
        "retried by successors, was there": retries["there"],
        "retried by successors, was missing": retries["missing"],
        "stale holders refused": count("refused"),
        "conflicts on documents": count("conflict"),
        "effects repeated": count("repeated"),
        "errors while the server was away": count("error"),
        "duration in s": round(duration_s, 1),
    }


def show(table: Figures) -> None:
    """Prints the figures, one in a line."""
    width = max(map(len, table))
    for name, value in table.items():
        print(f"{name:{width}}  {value}")
