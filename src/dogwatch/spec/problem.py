"""What is wrong with a pipeline file, and where: the one form in which all parts of the spec report it."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass

TEXT_MAX = 500
WORDS_MAX = 500

Place = tuple[str | int, ...]
"""The keys and indexes that lead to a value in the file."""


@dataclass(frozen=True, slots=True, order=True)
class Problem:
    """One error. Lines and columns count from 1; line 0 means that it came with `--set`, not with the file.

    `path` names the value in the file, such as `roles.writer.count`; it is empty where it is the file as a whole.
    """

    line: int
    column: int
    path: str
    message: str
    hint: str = ""

    def render(self, file: str) -> str:
        """The problem as editors and terminals know it: `file:line:column: message`, the hint below."""
        where = f"{file}:{self.line}:{self.column}" if self.line else f"--set {printable(self.path)}"
        text = f"{where}: {self.message}"
        return f"{text}\n  hint: {self.hint}" if self.hint else text


class UnreadableError(Exception):
    """The file cannot be read as YAML at all, so that there is only this one problem to report."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.message)
        self.problem = problem


def dotted(place: Place) -> str:
    """The place as people write it: `phases.0.name`."""
    return ".".join(printable(str(part)) for part in place)


def printable(text: str) -> str:
    """The text with everything escaped that a terminal could not show or would obey."""
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)


def shortened(text: str) -> str:
    """The text, cut where it is longer than a person would read."""
    return text if len(text) <= TEXT_MAX else f"{text[: TEXT_MAX - 3]}..."


def nearest(word: str, known: Iterable[str]) -> str:
    """A hint with the known word that `word` was probably meant to be; empty where none is near."""
    words = sorted(set(known))[:WORDS_MAX]
    near = difflib.get_close_matches(word, words, n=1, cutoff=0.6)
    return f"did you mean {near[0]!r}?" if near else ""


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """A hint: the nearest known word, or all of them where none is near."""
    words = sorted(set(known))
    shown = ", ".join(words[:12]) + (", ..." if len(words) > 12 else "")
    return nearest(word, words) or (f"known here: {shown}" if words else "")
