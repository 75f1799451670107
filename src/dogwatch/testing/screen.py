"""The scripted agent's screen: transcript above, a live region below it, drawn line by line on a real terminal.

`frame` is pure and gives the lines; `Terminal` writes only those that have changed. The live region always ends the
same way: one status line, a rule, the composer, a rule, the footer. A dialog takes the composer's place.
"""

from __future__ import annotations

import os
import termios
import tty
import unicodedata
from collections import deque
from dataclasses import dataclass, field
from typing import NamedTuple

PASTE_LINES_MAX = 3
PASTE_CHARACTERS_MAX = 1000
TRANSCRIPT_LINES_MAX = 200


class TerminalGoneError(Exception):
    """Nobody is at the other end of the terminal any more."""


class _Piece(NamedTuple):
    text: str
    shown: str


class Composer:
    """The text that is being written. A long paste counts and shows as one piece."""

    def __init__(self) -> None:
        self._pieces: list[_Piece] = []
        self._pastes = 0

    def type(self, text: str) -> None:
        """Adds typed characters."""
        self._pieces += [_Piece(character, character) for character in text]

    def paste(self, text: str) -> None:
        """Adds pasted text, as a label where it is long."""
        breaks = text.count("\n")
        if breaks < PASTE_LINES_MAX and len(text) <= PASTE_CHARACTERS_MAX:
            self.type(text)
            return
        self._pastes += 1
        self._pieces.append(_Piece(text, f"[Pasted text #{self._pastes} +{breaks} lines]"))

    def backspace(self) -> None:
        """Removes the last character or the last long paste."""
        del self._pieces[-1:]

    def clear(self) -> None:
        """Removes everything."""
        self._pieces.clear()

    @property
    def text(self) -> str:
        return "".join(piece.text for piece in self._pieces)

    @property
    def shown(self) -> str:
        return "".join(piece.shown for piece in self._pieces)


@dataclass
class View:
    """All that is on the screen."""

    transcript: deque[str] = field(default_factory=lambda: deque(maxlen=TRANSCRIPT_LINES_MAX))
    status: str = ""
    composer: str = ""
    dialog: tuple[str, ...] = ()
    footer: tuple[str, ...] = ()
    starting: bool = True


def width(text: str) -> int:
    """Columns that `text` takes on a terminal, near enough for wrapping."""
    return sum(
        0 if unicodedata.combining(character) else 2 if unicodedata.east_asian_width(character) in "WF" else 1
        for character in text
    )


def wrap(text: str, columns: int) -> list[str]:
    """`text` cut into lines of at most `columns`, all but the first indented by two; control characters show as ?."""
    lines: list[str] = []
    for part in text.split("\n"):
        line, used = ("  " if lines else ""), (2 if lines else 0)
        for character in part:
            shown = character if character.isprintable() else "?"
            wide = width(shown)
            if used + wide > columns:
                lines.append(line)
                line, used = "  ", 2
            line += shown
            used += wide
        lines.append(line)
    return lines


def frame(view: View, columns: int, rows: int) -> tuple[list[str], tuple[int, int]]:
    """The screen's lines from the top, and where the cursor stands (row and column from 0)."""
    rule = "─" * columns
    footer = [line[:columns] for line in view.footer]
    below = 0
    if view.dialog:
        live = ["", rule, *(f" {line}"[:columns] for line in view.dialog)]
    elif view.starting:
        live = ["", "  Starting…"]
    else:
        # A tall draft must not push the rules off the screen: its end is what matters.
        composer = wrap(f"❯ {view.composer}", columns)
        if len(composer) > rows // 2:
            composer = ["❯ …", *composer[1 - rows // 2 :]]
        live = ["", view.status[:columns], rule, *composer, rule, *footer]
        below = 1 + len(footer)
    space = max(0, rows - len(live))
    transcript: list[str] = []
    for entry in list(view.transcript)[-space:] if space else []:
        transcript += wrap(entry, columns)
    lines = (transcript[-space:] if space else []) + live[-rows:]
    row = len(lines) - 1 - below
    return lines, (row, min(columns - 1, width(lines[row])))


class Terminal:
    """The real terminal in raw mode, as long as it is open."""

    def __init__(self) -> None:
        self._settings = termios.tcgetattr(0)
        self._drawn: list[str] = []
        self.columns, self.rows = 80, 24

    def open(self) -> None:
        """Takes the terminal over: no echo, no signals from keys, pastes in brackets, no wrapping of lines."""
        tty.setraw(0, termios.TCSANOW)
        self._write("\x1b[?2004h\x1b[?7l")
        self.resized()

    def resized(self) -> None:
        """Everything must be drawn anew."""
        size = os.get_terminal_size(1)
        self.columns, self.rows = max(20, size.columns), max(8, size.lines)
        self._drawn = []
        self._write("\x1b[2J")

    def draw(self, view: View) -> None:
        """Shows `view`, touching only lines that have changed."""
        lines, (row, column) = frame(view, self.columns, self.rows)
        out = []
        for number in range(max(len(lines), len(self._drawn))):
            line = lines[number] if number < len(lines) else ""
            if number >= len(self._drawn) or self._drawn[number] != line:
                out.append(f"\x1b[{number + 1};1H\x1b[2K{line}")
        if out:
            self._write("".join(out) + f"\x1b[{row + 1};{column + 1}H")
        self._drawn = lines

    def close(self) -> None:
        """Gives the terminal back, with the cursor below all that was drawn."""
        self._write(f"\x1b[{max(1, len(self._drawn))};1H\x1b[?2004l\x1b[?7h\r\n")
        termios.tcsetattr(0, termios.TCSANOW, self._settings)

    def read(self) -> bytes:
        """What has been typed, at least one byte."""
        try:
            data = os.read(0, 65536)
        except OSError as error:
            raise TerminalGoneError from error
        if not data:
            raise TerminalGoneError
        return data

    def _write(self, text: str) -> None:
        data = text.encode("utf-8", "replace")
        try:
            while data:
                data = data[os.write(1, data) :]
        except OSError as error:
            raise TerminalGoneError from error
