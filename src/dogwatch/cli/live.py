"""The live table on standard error: runs, their agents and what happened last, drawn anew as the ledger changes.

It is drawn on the terminal's other screen, so that a resize leaves no traces, and the last frame stays on the first.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Callable
from typing import Any

from rich.console import Console, ConsoleDimensions, Group
from rich.live import Live
from rich.text import Text

from dogwatch.cli.frame import Frame, Line, lay_out
from dogwatch.cli.sentences import QUIET_KINDS, SENTENCES
from dogwatch.cli.snapshot import take
from dogwatch.ledger.api import Reader, Store, StoredEvent
from dogwatch.world.clock import SystemClock

REDRAW_S_MAX = 0.5
REDRAW_S_MIN = 0.125
EVENTS_SHOWN_MAX = 8

_TOLD = [kind for kind in SENTENCES if kind not in QUIET_KINDS]

Extra = Callable[[], list[str]]


def show_until_over(ledger: Store, runs: list[str], extra: Extra | None = None) -> None:
    """Shows the runs until nothing of any of them is left. `extra` gives further lines for the bottom."""
    _show(ledger, runs, extra, lambda frame: all(run["cleared"] for run in frame.snapshot["runs"]))


def watch_forever(ledger: Store, runs: list[str] | None) -> None:
    """Shows the runs, or whatever runs there are, until Ctrl-C."""
    _show(ledger, runs, None, lambda frame: False)


def _show(ledger: Store, runs: list[str] | None, extra: Extra | None, over: Callable[[Frame], bool]) -> None:
    console = Console(stderr=True, highlight=False, soft_wrap=False)
    frame = _look(ledger, runs, extra)
    with Live(
        console=console,
        auto_refresh=False,
        screen=True,
        redirect_stdout=False,
        redirect_stderr=False,
        vertical_overflow="crop",
    ) as live:
        while not over(frame):
            _measure(console)
            live.update(_drawn(frame, console, console.height), refresh=True)
            drawn = time.monotonic()
            ledger.wait(REDRAW_S_MAX)
            # A busy ledger rings more often than anybody can look.
            time.sleep(max(0.0, drawn + REDRAW_S_MIN - time.monotonic()))
            frame = _look(ledger, runs, extra)
    console.print(_drawn(frame, console, max(console.height, len(frame.extra) + 2 * len(frame.snapshot["runs"]))))


def _measure(console: Console) -> None:
    """The terminal's size as it is now; rich would believe COLUMNS and LINES, which may be of another time."""
    with contextlib.suppress(OSError):
        columns, lines = os.get_terminal_size(sys.stderr.fileno())
        console.size = ConsoleDimensions(columns, lines)


def _look(ledger: Store, runs: list[str] | None, extra: Extra | None) -> Frame:
    clock = SystemClock()

    def read(reader: Reader) -> tuple[dict[str, Any], list[StoredEvent]]:
        snapshot = take(reader, runs, clock.now())
        shown = [run["run"] for run in snapshot["runs"] if runs is not None or not run["cleared"]]
        events = [event for run in shown for event in reader.recent(EVENTS_SHOWN_MAX, run, _TOLD)]
        return snapshot, sorted(events, key=lambda event: event.at.wall)[-EVENTS_SHOWN_MAX:]

    snapshot, events = ledger.read(read)
    return Frame(snapshot, events, extra() if extra is not None else [], clock.now())


def _drawn(frame: Frame, console: Console, height: int) -> Group:
    width = console.width
    lines = lay_out(frame, width, height)
    return Group(*(_text(line, width) for line in lines))


def _text(line: Line, width: int) -> Text:
    text = Text(no_wrap=True, overflow="ellipsis", end="\n")
    for part, style in line:
        text.append(part, style=style or "")
    text.truncate(width, overflow="ellipsis")
    return text
