"""All processes in one pass over /proc: who is whose child, and what each tree uses. Reading only.

One file is read for each process, so that a look costs the same for one agent and for all of a run.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Set
from typing import NamedTuple

from dogwatch.model.process import ProcessId
from dogwatch.values import dataclass
from dogwatch.world.probe import ProbeFailedError

COMMAND_LINE_MAX = 200
_TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_STAT_BYTES_MAX = 4096


@dataclass(frozen=True, slots=True)
class Member:
    """A living process. `cpu_s` is its own time and that of the children it has waited for."""

    process: ProcessId
    name: str
    cpu_s: float
    rss_bytes: int
    age_s: float
    state: str


@dataclass(frozen=True, slots=True)
class Tree:
    """A process with its living descendants of every depth, oldest first, and what they all use together.

    A child that has ended is still in `cpu_s`, so that this grows while the tree works. It may fall all the same: what
    has left the tree (its parent ended first) is no longer counted, and a child that is waited for while the look goes
    on is missed by it. `rss_bytes` counts pages that are shared for each who has them.
    """

    root: Member
    children: tuple[Member, ...]
    cpu_s: float
    rss_bytes: int

    @property
    def count(self) -> int:
        """How many live in it, the root too."""
        return 1 + len(self.children)


class Entry(NamedTuple):
    """What /proc/PID/stat says of one process; times in clock ticks. A tuple, because a look makes one for each."""

    pid: int
    parent: int
    name: bytes
    state: str
    cpu_ticks: int
    rss_pages: int
    start_ticks: int

    @property
    def rss_bytes(self) -> int:
        return self.rss_pages * _PAGE_BYTES


class Census:
    """The processes as they were at one look, `age_ticks` after the boot."""

    def __init__(
        self, boot: str, age_ticks: int, entries: Mapping[int, Entry], unreadable: Set[int], proc: str
    ) -> None:
        self.boot = boot
        self._age_ticks = age_ticks
        self._entries = entries
        self._unreadable = unreadable
        self._proc = proc
        self._children: dict[int, list[Entry]] = {}
        for entry in entries.values():
            self._children.setdefault(entry.parent, []).append(entry)

    def entries(self, root: ProcessId) -> list[Entry] | None:
        """This very process and all below it, zombies too, parents before their children; None where it is not alive.
        ProbeFailedError where it may not be read."""
        if root.boot != self.boot:
            return None
        if root.pid in self._unreadable:
            raise ProbeFailedError(f"process {root.pid} may not be read")
        first = self._entries.get(root.pid)
        if first is None or first.start_ticks != root.start_ticks or first.state in "ZX":
            return None
        return self._with_all_below(first)

    def tree(self, root: ProcessId) -> Tree | None:
        """The tree below this very process; None where it is not alive. ProbeFailedError where it may not be read."""
        found = self.entries(root)
        if found is None:
            return None
        first, *below = found
        below.sort(key=lambda entry: (entry.start_ticks, entry.pid))
        return Tree(
            root=self._member(first),
            children=tuple(self._member(entry) for entry in below if entry.state not in "ZX"),
            # A zombie's time belongs to the tree until its parent takes it over.
            cpu_s=sum(entry.cpu_ticks for entry in found) / _TICKS_A_SECOND,
            rss_bytes=sum(entry.rss_pages for entry in found) * _PAGE_BYTES,
        )

    def cmdline(self, pid: int) -> str:
        """The command line of `pid` as it is now, in one line and shortened; empty where there is none."""
        try:
            with open(f"{self._proc}/{pid}/cmdline", "rb") as file:
                raw = file.read(4 * COMMAND_LINE_MAX)
        except OSError:
            return ""
        line = printable(raw.rstrip(b"\0").replace(b"\0", b" "))
        return line if len(line) <= COMMAND_LINE_MAX else line[: COMMAND_LINE_MAX - 1] + "…"

    def _with_all_below(self, root: Entry) -> list[Entry]:
        """The root and all its descendants. What was read at different instants may contradict itself: nobody is met
        twice, and nobody is a child of somebody younger (whose pid was the parent's before)."""
        met = {root.pid}
        found = [root]
        for parent in found:
            for entry in self._children.get(parent.pid, ()):
                if entry.pid not in met and entry.start_ticks >= parent.start_ticks:
                    met.add(entry.pid)
                    found.append(entry)
        return found

    def _member(self, entry: Entry) -> Member:
        return Member(
            process=ProcessId(self.boot, entry.pid, entry.start_ticks),
            name=printable(entry.name),
            cpu_s=entry.cpu_ticks / _TICKS_A_SECOND,
            rss_bytes=entry.rss_bytes,
            age_s=max(0, self._age_ticks - entry.start_ticks) / _TICKS_A_SECOND,
            state=entry.state,
        )


def census(boot: str, proc: str = "/proc") -> Census:
    """All processes as they are now. ProbeFailedError where they cannot be looked at."""
    entries: dict[int, Entry] = {}
    unreadable: set[int] = set()
    try:
        for name in os.listdir(proc):
            if not name.isdecimal():
                continue
            try:
                entries[int(name)] = parse(_read(f"{proc}/{name}/stat"))
            except (FileNotFoundError, ProcessLookupError):
                continue
            except (PermissionError, ValueError):
                unreadable.add(int(name))
    except OSError as error:
        raise ProbeFailedError(f"the processes cannot be read: {error}") from error
    if os.getpid() not in entries:
        raise ProbeFailedError(f"{proc} does not even show the process that reads it")
    age_ticks = int(time.clock_gettime(time.CLOCK_BOOTTIME) * _TICKS_A_SECOND)
    return Census(boot, age_ticks, entries, unreadable, proc)


def seen_as(tree: Tree, pid: int) -> int:
    """Which of the tree's processes has this pid in a namespace of its own; 0 for none."""
    for child in tree.children:
        try:
            with open(f"/proc/{child.process.pid}/status", "rb") as file:
                line = next((line for line in file if line.startswith(b"NSpid:")), b"")
        except OSError:
            continue
        if len(line.split()) > 2 and int(line.split()[-1]) == pid:
            return child.process.pid
    return 0


def parse(stat: bytes) -> Entry:
    """One process from the text of its `stat`; ValueError where it is none. The name may hold anything, even `)`."""
    opening, closing = stat.index(b"("), stat.rindex(b")")
    fields = stat[closing + 2 :].split(b" ", 22)
    if len(fields) < 23 or len(fields[0]) != 1:  # one more than is used: the last one of a torn line may be cut
        raise ValueError(f"not the state of a process: {stat!r}")
    return Entry(
        pid=int(stat[:opening]),
        parent=int(fields[1]),
        name=stat[opening + 1 : closing],
        state=fields[0].decode(),
        cpu_ticks=int(fields[11]) + int(fields[12]) + int(fields[13]) + int(fields[14]),
        rss_pages=int(fields[21]),
        start_ticks=int(fields[19]),
    )


def _read(path: str) -> bytes:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(fd, _STAT_BYTES_MAX)
    finally:
        os.close(fd)


def printable(raw: bytes) -> str:
    """Whatever a process calls itself, it may not play tricks on the terminal of the one who reads it."""
    text = raw.decode(errors="replace")
    return text if text.isprintable() else "".join(letter if letter.isprintable() else "?" for letter in text)
