"""Control groups of memory: where groups of ours can be made, which one an agent has, and what the kernel has done in
it. Reading only."""

from __future__ import annotations

import contextlib
import hashlib
import os

from dogwatch.values import dataclass
from dogwatch.world.home import Home
from dogwatch.world.memory import parse_group

CREW = "dogwatch-crew"
"""The group of version 2 that the crew moves to: there a group holds either processes or limited groups, never both."""
_DELEGATED = ("user.delegate", "trusted.delegate")
"""How systemd marks a group that it leaves to whoever runs in it."""
_FULL = 0.95
"""A share of its limit that a group must have used for that to be reached: what is asked for at once does not fit."""
_SCOPE = "systemd-run --user --scope -p Delegate=yes dogwatch …"


@dataclass(frozen=True, slots=True)
class Place:
    """The folder below which groups can be made. `obstacle` is why they cannot, `fix` what to do about it."""

    version: int = 0
    folder: str = ""
    obstacle: str = ""
    fix: str = ""


@dataclass(frozen=True, slots=True)
class Kills:
    """How many processes of a group the kernel has ended for memory. `limit_bytes` is the group's own limit where that
    was reached; 0 where memory had run out around it."""

    count: int = 0
    limit_bytes: int = 0


def group_name(home: Home) -> str:
    """The name of the group that holds all groups of this home."""
    return f"dogwatch-{hashlib.sha256(home.path.encode()).hexdigest()[:10]}"


def place(own: str = "", proc: str = "/proc", mount: str = "/sys/fs/cgroup") -> Place:
    """Where groups can be made: in the group that this process is in, so that whatever holds for us holds for them.
    Where that lies in the group with the name `own`, in the one around it."""
    path, version = parse_group(_read(f"{proc}/self/cgroup"))
    if not path.startswith("/"):
        return Place(obstacle="the kernel has no control groups of memory", fix="boot without cgroup_disable=memory")
    names = [name for name in path.split("/") if name not in ("", "..")]
    if own in names:
        names = names[: names.index(own)]
    if names[-1:] == [CREW]:
        names.pop()
    top = mount if version == 2 else f"{mount}/memory"
    folder = "/".join([top, *names])
    if not os.path.isdir(folder):
        folder = top  # in a container the path may be the one outside
    if version == 1:
        return _place_of_version_1(folder)
    return _place_of_version_2(folder, top)


def is_in_group_of(home: Home) -> bool:
    """Whether this process is in a group of this home: an agent has started it."""
    return group_name(home) in parse_group(_read("/proc/self/cgroup"))[0].split("/")


def _place_of_version_1(folder: str) -> Place:
    if not os.path.exists(f"{folder}/memory.limit_in_bytes"):
        fix = "mount -t cgroup -o memory cgroup /sys/fs/cgroup/memory"
        return Place(1, folder, "the memory controller of version 1 is not mounted", fix)
    if not os.access(folder, os.W_OK):
        return Place(1, folder, f"{folder} is not writable", "run as root, or boot with version 2 of control groups")
    return Place(1, folder)


def _place_of_version_2(folder: str, top: str) -> Place:
    if "memory" not in _read(f"{folder}/cgroup.controllers").split():
        return Place(2, folder, f"{folder} is not given the memory controller", _SCOPE)
    if not (os.access(folder, os.W_OK) and os.access(f"{folder}/cgroup.procs", os.W_OK)):
        return Place(2, folder, f"{folder} is not writable", _SCOPE)
    # The top of a container's own hierarchy has a type, that of the machine has none.
    is_container = folder == top and os.path.exists(f"{folder}/cgroup.type")
    if not (is_container or _is_delegated(folder)):
        return Place(2, folder, f"{folder} is not delegated: its processes are not ours to move", _SCOPE)
    return Place(2, folder)


def _is_delegated(folder: str) -> bool:
    for name in _DELEGATED:
        with contextlib.suppress(OSError):
            if os.getxattr(folder, name) == b"1":
                return True
    return False


def is_version_2(folder: str) -> bool:
    """Whether the group is one of version 2."""
    return os.path.exists(f"{folder}/cgroup.controllers")


def note_of(home: Home, run: str) -> str:
    """The file that says where the run's groups are: each captain may have been started in another group."""
    return f"{home.run(run)}/group"


def noted(home: Home, run: str) -> str:
    """The folder with the groups of the run's agents; empty where there is none."""
    folder = _read(note_of(home, run)).strip()
    is_ours = folder.startswith("/sys/fs/cgroup/") and folder.endswith(f"/{group_name(home)}/{run}")
    return folder if is_ours and ".." not in folder.split("/") and os.path.isdir(folder) else ""


def group_of(home: Home, run: str, agent: str, incarnation: int) -> str:
    """The folder of the incarnation's own group; empty where it has none."""
    above = noted(home, run)
    folder = f"{above}/{agent}.{incarnation}"
    return folder if above and os.path.isdir(folder) else ""


def holds(folder: str, pid: int) -> bool:
    """Whether the process is in the group."""
    return str(pid) in _read(f"{folder}/cgroup.procs").split()


def members(folder: str) -> list[int]:
    """The processes in the group."""
    return [int(word) for word in _read(f"{folder}/cgroup.procs").split() if word.isdecimal()]


def limit(folder: str) -> int | None:
    """The group's limit in bytes; None where it has none."""
    text = (_read(f"{folder}/memory.max") or _read(f"{folder}/memory.limit_in_bytes")).strip()
    return int(text) if text.isdecimal() else None


def kills(folder: str) -> Kills:
    """What the kernel has ended in the group."""
    if text := _read(f"{folder}/memory.events"):
        events = counters(text)
        at_limit = events.get("oom", 0) > 0
    else:
        events = counters(_read(f"{folder}/memory.oom_control"))
        # Newer kernels do not count failures in version 1 any more.
        most = _read(f"{folder}/memory.max_usage_in_bytes").strip()
        at_limit = most.isdecimal() and int(most) >= _FULL * (limit(folder) or int(most) + 1)
    count = events.get("oom_kill", 0)
    return Kills(count, (limit(folder) or 0) if count and at_limit else 0)


def counters(text: str) -> dict[str, int]:
    """The lines of `memory.events` or `memory.oom_control` that are a name and a number."""
    pairs = (line.split() for line in text.splitlines())
    return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2 and pair[1].isdecimal()}


def oom_score_adj(pid: int | str) -> int | None:
    """How willingly the kernel takes the process when memory runs out: -1000 for never, up to 1000."""
    text = _read(f"/proc/{pid}/oom_score_adj").strip()
    return int(text) if text.removeprefix("-").isdecimal() else None


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""
