"""Show the log of a crew member.

Without MEMBER the captain's and the watchdog's lines of RUN together, by time; without RUN the dispatcher's.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import sys
import time

from dogwatch.cli.following import following, until_left
from dogwatch.cli.framework import the_home
from dogwatch.cli.table import COLOURS, clean, paint, wants_colour
from dogwatch.errors import NotFoundError, UsageError
from dogwatch.model.redact import Redactor, known_secrets
from dogwatch.values import dataclass
from dogwatch.world.home import Home

EXAMPLE = "dogwatch logs overnight-1 captain --follow"
BLOCK_BYTES = 64 * 1024
WAIT_S = 0.25
_HEAD = ("at", "level", "member", "run", "event")


@dataclass(frozen=True, slots=True)
class Entry:
    """A line of a log with the lines behind it that are no JSON, such as a traceback's."""

    at: str
    member: str
    lines: tuple[str, ...]


class LogFile:
    """A member's log, from its last lines on."""

    def __init__(self, member: str, path: str) -> None:
        self.member = member
        self.path = path
        self._offset = 0
        self._at = ""

    def last(self, lines: int) -> list[Entry]:
        """The last whole lines; from here on `news` goes on."""
        try:
            with open(self.path, "rb") as file:
                end = position = file.seek(0, os.SEEK_END)
                data = b""
                while position > 0 and data.count(b"\n") <= lines:
                    step = min(BLOCK_BYTES, position)
                    position -= step
                    file.seek(position)
                    data = file.read(step) + data
        except FileNotFoundError:
            return []
        whole = data[: data.rfind(b"\n") + 1]
        self._offset = end - (len(data) - len(whole))
        kept = whole.splitlines()[-lines:] if lines else []
        return self._entries(kept)

    def news(self) -> list[Entry]:
        """The whole lines that have come since."""
        try:
            with open(self.path, "rb") as file:
                if os.fstat(file.fileno()).st_size < self._offset:
                    self._offset = 0
                file.seek(self._offset)
                data = file.read()
        except FileNotFoundError:
            return []
        whole = data[: data.rfind(b"\n") + 1]
        self._offset += len(whole)
        return self._entries(whole.splitlines())

    def _entries(self, raw: list[bytes]) -> list[Entry]:
        """What is no JSON stays with the line before it, so that merging by time does not tear a traceback apart."""
        entries: list[Entry] = []
        for line in raw:
            text = line.decode(errors="replace")
            at = _parsed(text).get("at", "")
            if at or not entries:
                self._at = str(at or self._at)
                entries.append(Entry(self._at, self.member, (text,)))
            else:
                entries[-1] = Entry(entries[-1].at, self.member, (*entries[-1].lines, text))
        return entries


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", nargs="?", default="", metavar="RUN", help="an exact name; without it, the dispatcher")
    parser.add_argument("member", nargs="?", default="", metavar="MEMBER", help="captain or watchdog")
    parser.add_argument("--follow", action="store_true", help="go on with what comes next, until Ctrl-C")
    parser.add_argument("--lines", type=int, default=100, metavar="N", help="the last N lines (default 100)")
    parser.add_argument("--json", action="store_true", help="the lines as they were written")


def execute(arguments: argparse.Namespace) -> int:
    if arguments.lines < 0:
        raise UsageError(f"--lines is {arguments.lines}", hint="a number of lines, 0 or more")
    files = log_files(the_home(), arguments.run, arguments.member)
    show(files, arguments.lines, follow=arguments.follow, raw=arguments.json)
    return 0


def log_files(home: Home, run: str, member: str) -> list[LogFile]:
    """The logs that are meant. They are looked for on the disk, so that a broken ledger does not hide them."""
    if not run or run == "dispatcher":
        members, run = ["dispatcher"], ""
    elif os.sep in run or not os.path.isdir(home.run(run)):
        raise NotFoundError(f"there are no logs of a run {run!r}", hint="dogwatch status lists all runs")
    elif member not in ("", "captain", "watchdog"):
        raise UsageError(f"{run} has no crew member {member!r}", hint="captain or watchdog")
    else:
        members = [member] if member else ["captain", "watchdog"]
    files = [LogFile(name, home.log(name, run)) for name in members]
    if not any(os.path.exists(file.path) for file in files):
        missing = " and ".join(file.path for file in files)
        raise NotFoundError(f"there is no log yet: {missing}", hint="dogwatch up starts the crew")
    return files


def show(files: list[LogFile], lines: int, *, follow: bool, raw: bool) -> None:
    """The last lines of the logs together, and with `follow` what comes next."""
    entries = sorted((entry for file in files for entry in file.last(lines)), key=lambda entry: entry.at)

    def step() -> bool:
        _print(sorted((entry for file in files for entry in file.news()), key=lambda entry: entry.at), raw)
        sys.stdout.flush()
        time.sleep(WAIT_S)
        return True

    with following(wanted=follow):
        _print(entries[len(entries) - min(lines, len(entries)) :], raw)
        if follow:
            until_left(step)


def _print(entries: list[Entry], raw: bool) -> None:
    colour = wants_colour(sys.stdout)
    redactor = Redactor(known_secrets(os.environ))
    for entry in entries:
        for line in entry.lines:
            told = redactor.text(line)
            print(told if raw else _pretty(told, colour))


def _pretty(line: str, colour: bool) -> str:
    """Time, level, member, event and the other fields; a line that is no JSON as it is, without control characters."""
    fields = _parsed(line)
    if not fields:
        return line if line.isprintable() else "".join(c if c.isprintable() or c == "\t" else "�" for c in line)
    level = str(fields.get("level", ""))
    head = f"{_local(str(fields.get('at', '')))} {paint(f'{level:<5}', COLOURS.get(level, ''), colour=colour)}"
    where = "/".join(str(fields[name]) for name in ("run", "member") if fields.get(name))
    rest = " ".join(f"{name}={_value(value)}" for name, value in fields.items() if name not in _HEAD)
    return f"{head} {clean(where)}  {clean(str(fields.get('event', '')))}  {rest}".rstrip()


def _parsed(line: str) -> dict[str, object]:
    """The line's fields; none where it is no JSON object."""
    if not line.startswith("{"):
        return {}
    try:
        value = json.loads(line)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _value(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if text.isprintable() and " " not in text and text else json.dumps(text, ensure_ascii=False)


def _local(at: str) -> str:
    """The time on this machine's clock."""
    try:
        return datetime.datetime.fromisoformat(at).astimezone().strftime("%m-%d %H:%M:%S.%f")[:-3]
    except ValueError:
        return clean(at)
