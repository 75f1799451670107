"""OpenCode: how it is recognised, and the patterns of its screen (seen with 1.18.33)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

from dogwatch.harness import Screen, State

_BAR = re.compile(r"\s+┃")
_EDGE = re.compile(r"\s+╹▀{8,}")
_PERMISSION = re.compile(r"\s+┃\s+△ Permission required")
_RETRY = re.compile(r"\[retrying in .* attempt #\d+\]")
_BUSY = re.compile(r"\besc (?:again to )?interrupt\b")
_PLACEHOLDER = re.compile(r"Ask anything…")
# Its own lines are all indented.
_SHELL = re.compile(r"\S.*[$#%](?:\s|$)")
_RESUME = re.compile(r"\s*Continue\s+opencode -s \S+$")


class OpenCode:
    """OpenCode."""

    name = "opencode"
    programs = ("opencode",)

    def read(self, lines: Sequence[str], title: str = "") -> Screen:
        """The last block with a bar at its left, which is the composer or a dialog, and what stands below it count."""
        shown = _trimmed(lines)
        bars = [number for number, line in enumerate(shown) if _BAR.match(line)]
        below = shown[bars[-1] + 1 :] if bars else shown
        if any(_SHELL.match(line) for line in below):
            return Screen("shell", None)
        if not bars:
            return Screen("unknown", None)
        block = _last_block(shown, bars[-1])
        if any(_PERMISSION.match(line) for line in block):
            return Screen("permission", None)
        # On the first page a tip and an empty field stand below the composer, so its distance from the end varies.
        if not below or not _EDGE.match(below[0]):
            return Screen("unknown", None)
        return Screen(_state(below[1:]), _composer(block))

    def question(self, lines: Sequence[str]) -> str:
        """What the open dialog asks, in a few words: a command, or the dialog's heading."""
        shown = _trimmed(lines)
        bars = [number for number, line in enumerate(shown) if _BAR.match(line)]
        block = [line.strip().removeprefix("┃").strip() for line in _last_block(shown, bars[-1])] if bars else []
        command = next((line[2:] for line in block if line.startswith("$ ")), "")
        return f"Bash {command}" if command else next((line[2:] for line in block if line.startswith("# ")), "")

    def remains(self, lines: Sequence[str]) -> Literal["", "ended", "killed"]:
        """What it has left on the screen of a pane where it no longer runs."""
        shown = [line for line in _trimmed(lines) if line]
        if any(_RESUME.match(line) for line in shown[-2:]):
            return "ended"
        return "killed" if any(_EDGE.match(line) for line in shown[-3:]) else ""


def _state(footer: Sequence[str]) -> State:
    if any(_RETRY.search(line) for line in footer):
        return "retry"
    return "busy" if any(_BUSY.search(line) for line in footer) else "idle"


def _last_block(shown: Sequence[str], end: int) -> Sequence[str]:
    start = end
    while start > 0 and _BAR.match(shown[start - 1]):
        start -= 1
    return shown[start : end + 1]


def _composer(block: Sequence[str]) -> str:
    """The text between the first line, which is empty, and the last two: an empty one and the model's name."""
    text = "\n".join(line.strip().removeprefix("┃").removeprefix("  ") for line in block[1:-2])
    return "" if _PLACEHOLDER.match(text) else text


def _trimmed(lines: Sequence[str]) -> list[str]:
    """Without the blanks at the ends of lines and without empty last lines."""
    shown = [line.rstrip() for line in lines]
    while shown and not shown[-1]:
        shown.pop()
    return shown
