"""Text for terminals: aligned columns, colours by state, lengths of time, and how text of others is made harmless."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable, Sequence
from typing import TextIO

COLOURS: dict[str, str] = {
    **dict.fromkeys(("COMPLETED", "SUCCEEDED", "HANDED_OFF", "accepted", "approved", "passed", "alive", "ok"), "green"),
    **dict.fromkeys(("FAILED", "ERROR", "failed", "unresponsive", "dead", "problem", "error"), "red"),
    **dict.fromkeys(("PARTIAL", "NO_CONSENSUS", "stalled", "returned", "revised", "warning", "unknown"), "yellow"),
    **dict.fromkeys(("RUNNING", "REPORT", "ORCHESTRATING", "BUSY", "claimed", "reported", "asked"), "cyan"),
    "QUEUED": "dim",
}
"""The colour of a state, by its name; the others are plain."""
_CODES = {"green": "32", "red": "31", "yellow": "33", "cyan": "36", "dim": "2", "bold": "1"}


def wants_colour(stream: TextIO) -> bool:
    """Whether a person looks at the stream on a terminal that has colours, and did not say no."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM", "") != "dumb"


def paint(text: str, style: str, *, colour: bool) -> str:
    """The text in the style, where colours are wanted."""
    return f"\x1b[{_CODES[style]}m{text}\x1b[0m" if colour and style else text


def width_of(stream: TextIO) -> int | None:
    """The columns of the terminal behind the stream; None where there is none, and nothing should be cut."""
    try:
        return os.get_terminal_size(stream.fileno()).columns if stream.isatty() else None
    except (OSError, ValueError):
        return None


def columns(heading: Sequence[str], rows: Iterable[Sequence[str]], *, colour: bool, width: int | None) -> list[str]:
    """The rows as lines with aligned columns, each state in its colour. The last column is cut at `width`."""
    table = [[clean(cell) for cell in row] for row in rows]
    sizes = [max([len(title), *(len(row[n]) for row in table)]) for n, title in enumerate(heading)]
    lines = [paint(_line(list(heading), sizes, width), "dim", colour=colour)]
    for row in table:
        line = _line(row, sizes, width)
        if colour:
            line = _painted(line, row, sizes)
        lines.append(line)
    return lines


def _line(cells: list[str], sizes: list[int], width: int | None) -> str:
    return cut("  ".join(cell.ljust(size) for cell, size in zip(cells, sizes, strict=True)).rstrip(), width)


def _painted(line: str, cells: list[str], sizes: list[int]) -> str:
    """From the right, so that a colour's code does not move the cells that are still to be painted."""
    for n in reversed(range(len(cells))):
        style = COLOURS.get(cells[n])
        start = sum(sizes[:n]) + 2 * n
        if style and line[start : start + len(cells[n])] == cells[n]:
            line = line[:start] + paint(cells[n], style, colour=True) + line[start + len(cells[n]) :]
    return line


def cut(text: str, width: int | None) -> str:
    """The text in at most `width` characters, with a sign where some are missing."""
    return text if width is None or len(text) <= width else text[: max(0, width - 1)] + "…"


def clean(text: str) -> str:
    """One line of printable characters: what agents write must neither move the cursor nor break a table."""
    if text.isprintable():
        return text
    return " ".join("".join(char if char.isprintable() else " " for char in text).split())


def duration(seconds: float | None) -> str:
    """A length of time in its two largest units."""
    if seconds is None:
        return "-"
    whole = int(seconds)
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m {whole % 60:02d}s"
    if whole < 86400:
        return f"{whole // 3600}h {whole % 3600 // 60:02d}m"
    return f"{whole // 86400}d {whole % 86400 // 3600:02d}h"


def clock_time(wall: float) -> str:
    """The time of day, where the reader is."""
    return time.strftime("%H:%M:%S", time.localtime(wall))


def percent(share: float | None) -> str:
    """`62 %`; empty where it is not known."""
    return "" if share is None else f"{share:.0f} %"


def size(count: int | None) -> str:
    """Bytes for people, in the units of `host.yaml`: 0 and None are not known."""
    if not count:
        return "-"
    return f"{count / 1024**3:.1f} GB" if count >= 1024**3 else f"{count / 1024**2:.0f} MB"


def number(count: int, word: str) -> str:
    """`1 task`, `2 tasks`."""
    return f"{count} {word}" if count == 1 else f"{count} {word}s"


def note(text: str) -> None:
    """A remark for the person at the terminal, beside the output."""
    print(text, file=sys.stderr)
