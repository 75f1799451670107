"""Processes as the kernel shows them. Reading only; whoever may end one does it in `actions/kill.py`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Literal

from dogwatch.model.process import ProcessId

Life = Literal["alive", "dead", "unknown"]


def boot_id() -> str:
    """The kernel's id of this boot."""
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        return file.read().strip()


def identify(pid: int, boot: str) -> ProcessId | None:
    """The identity of the living process `pid`, or None where there is none (a zombie is none)."""
    try:
        state, _, start_ticks = _stat(pid)
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if state in "ZX" else ProcessId(boot, pid, start_ticks)


def life(process: ProcessId, boot: str) -> Life:
    """Whether this very process lives. A reused pid and an earlier boot are dead; a look that fails is unknown."""
    if process.boot != boot:
        return "dead"
    try:
        state, _, start_ticks = _stat(process.pid)
    except (FileNotFoundError, ProcessLookupError):
        return "dead"
    except (OSError, ValueError):
        return "unknown"
    return "alive" if start_ticks == process.start_ticks and state not in "ZX" else "dead"


def open_pidfd(process: ProcessId, boot: str) -> int | None:
    """A descriptor that becomes readable when this very process dies, or None where it is dead already.

    The pid is opened first and compared then: after that it cannot be reused under the descriptor.
    """
    try:
        fd = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return None
    if life(process, boot) == "dead":
        os.close(fd)
        return None
    return fd


def environment(pid: int) -> dict[str, str]:
    """The environment `pid` was started with; empty where it cannot be read."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            raw = file.read()
    except OSError:
        return {}
    pairs = (entry.partition(b"=") for entry in raw.split(b"\0") if entry)
    return {os.fsdecode(name): os.fsdecode(value) for name, _, value in pairs}


def marked(boot: str, home: str, run: str, agent: str = "") -> Iterator[tuple[ProcessId, int]]:
    """Living processes that carry the mark of `run` (and `agent`) in their environment, each with its incarnation.

    The mark is inherited by whatever an agent starts, so it also finds children that were left behind with parent 1.
    """
    needles = [f"DOGWATCH_HOME={home}".encode(), f"DOGWATCH_RUN={run}".encode()]
    if agent:
        needles.append(f"DOGWATCH_ROLE={agent}".encode())
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            with open(f"/proc/{entry}/environ", "rb") as file:
                variables = file.read().split(b"\0")
        except OSError:
            continue
        if not all(needle in variables for needle in needles):
            continue
        mark = next((v for v in variables if v.startswith(b"DOGWATCH_INCARNATION=")), None)
        found = identify(int(entry), boot)
        if mark is not None and found is not None:
            # A number that was tampered with counts as the oldest incarnation: it hides nobody.
            number = mark.partition(b"=")[2]
            yield found, int(number) if number.isdigit() and len(number) < 10 else 0


def crew_processes(home: str) -> list[int]:
    """The pids of all crew members of the home, also of those that have not taken their place yet."""
    needle = f"DOGWATCH_HOME={home}".encode()
    found = []
    for entry in os.listdir("/proc"):
        try:
            with open(f"/proc/{entry}/cmdline", "rb") as file:
                is_crew = file.read().split(b"\0")[2:4] == [b"dogwatch", b"crew"]
            with open(f"/proc/{entry}/environ", "rb") as file:
                if is_crew and needle in file.read().split(b"\0"):
                    found.append(int(entry))
        except (OSError, ValueError):
            continue
    return found


def pid_namespace(pid: int) -> str:
    """The pid namespace of `pid`, such as `pid:[4026531836]`; empty where that cannot be seen."""
    try:
        return os.readlink(f"/proc/{pid}/ns/pid")
    except OSError:
        return ""


def inner_pid(pid: int) -> int:
    """What `pid` is called in its own namespace; the same where that cannot be seen."""
    try:
        with open(f"/proc/{pid}/status", "rb") as file:
            for line in file:
                if line.startswith(b"NSpid:"):
                    return int(line.split()[-1])
    except (OSError, ValueError):
        pass
    return pid


def _stat(pid: int) -> tuple[str, int, int]:
    """State letter, parent and start time of `pid`. The command's name may hold anything, even `)` and spaces."""
    with open(f"/proc/{pid}/stat", "rb") as file:
        fields = file.read().rpartition(b")")[2].split()
    return fields[0].decode(), int(fields[1]), int(fields[19])
