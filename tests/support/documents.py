"""What a document shows, and whether it is what was printed.

The convention for `console` blocks:

- `$ ` begins a command; the lines up to the next one are its output, on standard output and then on standard error.
- `…` in a line stands for anything in that line. A line that is only `…` stands for any lines, or none.
- Times, dates, durations and sizes of memory may differ. So may the width of the gaps between columns.
- A number of four or more digits is a pid. It may differ, but the same number is the same process in the whole
  document, also in commands.
- `/tmp` is the reader's folder for temporary files.

Everything else must be the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

ANYTHING = "…"
PROMPT = "$ "
_PID = re.compile(r"\b\d{4,}\b")
_VARYING = (
    (re.compile(r"\b\d\d-\d\d \d\d:\d\d:\d\d\b|\b\d\d:\d\d:\d\d\b"), "<time>"),
    (re.compile(r"\b(?:\d+d \d\dh|\d+h \d\dm|\d+m \d\ds|\d+s|\d+\.\d\d s)(?!\w)"), "<duration>"),
    (re.compile(r"\b[\d.]+ [KMG]B\b"), "<size>"),
    (re.compile(r" {2,}"), "  "),
)


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block, with the text between the one before and it."""

    before: str
    language: str
    text: str

    @property
    def file(self) -> str:
        """The file that a block of YAML is the content of: the last one that the text before it names."""
        named: list[str] = re.findall(r"`([\w-]+\.yaml)`", self.before)
        return named[-1] if named else ""

    def commands(self) -> Iterator[tuple[str, str]]:
        """Each command with the output that is shown. In a block of plain shell, each line is a command without one."""
        if self.language == "sh":
            yield from ((line.partition(" #")[0].strip(), "") for line in self.text.splitlines())
            return
        first, *rest = f"\n{self.text}".split(f"\n{PROMPT}")
        assert not first, f"a block of commands begins with something else: {first!r}"
        for part in rest:
            command, _, output = part.partition("\n")
            yield command, output.rstrip("\n")


def blocks(path: Path) -> list[Block]:
    """The fenced blocks of a Markdown file, in their order."""
    before, *rest = re.split(r"^```(\w*)\n(.*?)^```$\n", path.read_text(), flags=re.MULTILINE | re.DOTALL)
    found = []
    for language, text, after in zip(rest[::3], rest[1::3], rest[2::3], strict=True):
        found.append(Block(before, language, text))
        before = after
    return found


@dataclass
class Pids:
    """Which process each pid in a document stands for."""

    known: dict[str, str] = field(default_factory=dict)

    def meant(self, command: str) -> str:
        """The command with the pids that are meant."""

        def pid(match: re.Match[str]) -> str:
            assert match[0] in self.known, f"`{command}`: no output before shows where {match[0]} comes from"
            return self.known[match[0]]

        return _PID.sub(pid, command)

    def match(self, shown: str, printed: str) -> bool:
        """Whether this was printed; only then are the pids in it known from now on."""
        wanted, fresh = "", set[str]()
        for line in shown.splitlines():
            if line == ANYTHING:
                wanted += r"(?:.*\n)*?"
                continue
            wanted += ".*?".join(self._pattern(part, fresh) for part in _plain(line).split(ANYTHING)) + r"\n"
        found = re.fullmatch(wanted, "".join(f"{_plain(line)}\n" for line in printed.splitlines()))
        if found is None:
            return False
        now = {**self.known, **{pid: found[f"pid{pid}"] for pid in fresh}}
        if len(set(now.values())) < len(now):
            return False
        self.known = now
        return True

    def _pattern(self, text: str, fresh: set[str]) -> str:
        """A regular expression for the text. `fresh` gathers the pids that nobody knows yet."""
        pattern, end = "", 0
        for match in _PID.finditer(text):
            pattern, end, pid = pattern + re.escape(text[end : match.start()]), match.end(), match[0]
            if pid in self.known:
                pattern += self.known[pid]
            else:
                pattern += f"(?P=pid{pid})" if pid in fresh else rf"(?P<pid{pid}>\d+)"
                fresh.add(pid)
        return pattern + re.escape(text[end:])


def _plain(line: str) -> str:
    """The line without what may differ."""
    for varying, name in _VARYING:
        line = varying.sub(name, line)
    return line.rstrip()
