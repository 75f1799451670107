"""The machine of the experiment: so much memory for all agents of a fleet, and an end for who takes more.

A control group is the best one: the kernel itself ends processes then. Where none can be made, a watcher plays the
kernel, and says so.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import threading
import time
from typing import Protocol

from dogwatch.actions.confine import make_above
from dogwatch.world import groups
from dogwatch.world.memory import parse_statistics

LOOK_S = 0.1
LEAVING_S = 10.0


class Machine(Protocol):
    """What holds the agents."""

    limit_bytes: int
    words: str
    """What ends a process here."""

    def entrance(self) -> str:
        """A line of shell with which a process comes into the machine."""

    def used_bytes(self) -> int:
        """What everything in it uses, without file cache that can be dropped."""

    def kills(self) -> int:
        """How many processes were ended because nothing was left."""

    def close(self) -> None:
        """Ends whatever is still in it, and the machine with it."""


def new_machine(limit_bytes: int, home: str) -> Machine:
    """A control group with this limit, or the next best thing."""
    place = groups.place()
    if not place.obstacle:
        name = f"dogwatch-evaluation-{secrets.token_hex(4)}"
        try:
            return Group(place.version, f"{place.folder}/{name}", limit_bytes)
        except OSError as error:
            place = groups.Place(obstacle=str(error))
    return Watcher(home, limit_bytes, place.obstacle)


class Group:
    """A control group; everything that enters it stays in it, with all its children."""

    def __init__(self, version: int, above: str, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.words = f"the kernel, in a control group of version {version}"
        self._above = above
        self._folder = f"{above}/agents/all"
        self._current = "memory.current" if version == 2 else "memory.usage_in_bytes"
        self._cache = "inactive_file" if version == 2 else "total_inactive_file"
        try:
            self._make(version)
        except OSError:
            self._remove()
            raise

    def _make(self, version: int) -> None:
        make_above(os.path.dirname(self._folder))
        os.makedirs(self._folder, exist_ok=True)
        limit = str(self.limit_bytes)
        if version == 2:
            _write(f"{self._folder}/memory.max", limit)
            more = {"memory.swap.max": "0"}
        else:
            _write(f"{self._folder}/memory.limit_in_bytes", limit)
            more = {"memory.memsw.limit_in_bytes": limit, "memory.swappiness": "0"}
        for name, value in more.items():
            with contextlib.suppress(OSError):  # a kernel without swap has no such file
                _write(f"{self._folder}/{name}", value)

    def entrance(self) -> str:
        return f"echo 0 >'{self._folder}/cgroup.procs'"

    def used_bytes(self) -> int:
        cache = parse_statistics(_read(f"{self._folder}/memory.stat")).get(self._cache, 0)
        return max(0, int(_read(f"{self._folder}/{self._current}").strip() or 0) - cache)

    def kills(self) -> int:
        return groups.kills(self._folder).count

    def close(self) -> None:
        until = time.monotonic() + LEAVING_S
        while (left := groups.members(self._folder)) and time.monotonic() < until:
            for pid in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(LOOK_S)
        self._remove()

    def _remove(self) -> None:
        for folder in (self._folder, os.path.dirname(self._folder), self._above):
            for _ in range(20):
                with contextlib.suppress(OSError):
                    os.rmdir(folder)
                if not os.path.isdir(folder):
                    break
                time.sleep(LOOK_S)  # who has just ended may still be counted


class Watcher:
    """Plays the kernel: ten times a second it adds up the agents' resident memory, and where that is more than the
    machine has, it ends the largest process."""

    def __init__(self, home: str, limit_bytes: int, obstacle: str) -> None:
        self.limit_bytes = limit_bytes
        self.words = f"a watcher in the kernel's place, because there is no control group: {obstacle}"
        self._mark = f"DOGWATCH_HOME={home}".encode()
        self._kills = 0
        self._used = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def entrance(self) -> str:
        return ":"

    def used_bytes(self) -> int:
        return self._used

    def kills(self) -> int:
        return self._kills

    def close(self) -> None:
        self._stop.set()
        self._thread.join()
        for pid in self._sizes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def _watch(self) -> None:
        while not self._stop.wait(LOOK_S):
            sizes = self._sizes()
            self._used = sum(sizes.values())
            if self._used > self.limit_bytes:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(max(sizes, key=lambda pid: sizes[pid]), signal.SIGKILL)
                    self._kills += 1

    def _sizes(self) -> dict[int, int]:
        """The resident memory of each process of an agent."""
        page = os.sysconf("SC_PAGE_SIZE")
        found = {}
        for name in os.listdir("/proc"):
            if not name.isdecimal():
                continue
            variables = _read(f"/proc/{name}/environ").encode(errors="surrogateescape").split(b"\0")
            if self._mark in variables and any(one.startswith(b"DOGWATCH_ROLE=") for one in variables):
                pages = _read(f"/proc/{name}/statm").split()
                if len(pages) > 1 and pages[1] != "0":
                    found[int(name)] = int(pages[1]) * page
        return found


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            return file.read()
    except OSError:
        return ""


def _write(path: str, text: str) -> None:
    with open(path, "w", encoding="ascii") as file:
        file.write(text)
