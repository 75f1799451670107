"""How much memory the machine has left. Reading only; a sensor that this machine does not have is None."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import replace

from dogwatch.values import dataclass

_NO_LIMIT_BYTES = 1 << 62  # version 1 writes a number above this where there is no limit


@dataclass(frozen=True, slots=True)
class Memory:
    """The sensors at one look. The pressures are the shares of the last ten seconds in which some, or all, waited: on
    the machine or within the limit, wherever it is more.

    The limit is that of the control group around this process which has the least left; what it uses is counted
    without the file cache that the kernel would drop first. Swap is what such groups let this process have of it.
    """

    total_bytes: int | None = None
    available_bytes: int | None = None
    swap_total_bytes: int | None = None
    swap_free_bytes: int | None = None
    pressure_some_percent: float | None = None
    pressure_full_percent: float | None = None
    limit_bytes: int | None = None
    limit_used_bytes: int | None = None

    @property
    def size_bytes(self) -> int | None:
        """What there is at most to use: in a container its limit is the machine."""
        return min((size for size in (self.total_bytes, self.limit_bytes) if size is not None), default=None)

    @property
    def left_bytes(self) -> int | None:
        """What can still be used before the machine or the limit is full."""
        left = [] if self.available_bytes is None else [self.available_bytes]
        if self.limit_bytes is not None and self.limit_used_bytes is not None:
            left.append(max(0, self.limit_bytes - self.limit_used_bytes))
        return min(left, default=None)


def memory(proc: str = "/proc", groups: str = "/sys/fs/cgroup") -> Memory:
    """All sensors as they are now."""
    sizes = parse_sizes(_read(f"{proc}/meminfo"))
    pressures = parse_pressures(_read(f"{proc}/pressure/memory"))
    total = sizes.get("MemTotal")
    around = list(_groups(_read(f"{proc}/self/cgroup"), groups))
    limits = [group for group in around if group.limit_bytes < (total or _NO_LIMIT_BYTES)]
    tightest = min(limits, key=lambda group: group.limit_bytes - (group.used_bytes or 0), default=None)
    if tightest is not None:
        inside = parse_pressures(_read(f"{tightest.folder}/memory.pressure"))
        pressures = {kind: max(percent, inside.get(kind, 0.0)) for kind, percent in {**inside, **pressures}.items()}
    swaps = [(group.swap_limit_bytes, group.swap_used_bytes) for group in around]
    return Memory(
        total_bytes=total,
        available_bytes=sizes.get("MemAvailable"),
        swap_total_bytes=_least(sizes.get("SwapTotal"), [limit for limit, _ in swaps]),
        swap_free_bytes=_least(sizes.get("SwapFree"), [max(0, limit - used) for limit, used in swaps]),
        pressure_some_percent=pressures.get("some"),
        pressure_full_percent=pressures.get("full"),
        limit_bytes=tightest.limit_bytes if tightest is not None else None,
        limit_used_bytes=tightest.used_bytes if tightest is not None else None,
    )


def _least(machine: int | None, groups: list[int]) -> int | None:
    return None if machine is None else min([machine, *groups])


def parse_sizes(text: str) -> dict[str, int]:
    """The lines of /proc/meminfo that are sizes, in bytes; others are left out."""
    sizes = {}
    for line in text.splitlines():
        match line.split():
            case [name, number, "kB"] if name.endswith(":") and _is_number(number):
                sizes[name[:-1]] = int(number) * 1024
    return sizes


def parse_pressures(text: str) -> dict[str, float]:
    """The ten-second average of each line of /proc/pressure/memory."""
    pressures = {}
    for line in text.splitlines():
        match line.split():
            case [kind, average, *_] if average.startswith("avg10="):
                number = average.removeprefix("avg10=")
                if _is_number(number.replace(".", "", 1)):
                    pressures[kind] = float(number)
    return pressures


def parse_group(text: str) -> tuple[str, int]:
    """This process's control group of memory and the version of control groups, from /proc/self/cgroup.

    Where both versions are there, memory belongs to the one that names it. Empty where there is none.
    """
    unified = ("", 2)
    for line in text.splitlines():
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if "memory" in controllers.split(","):
            return path, 1
        if number == "0" and not controllers:
            unified = (path, 2)
    return unified


@dataclass(frozen=True, slots=True)
class _Group:
    """A control group around this process; a limit that it does not have is larger than any machine."""

    folder: str
    limit_bytes: int
    used_bytes: int | None
    swap_limit_bytes: int = _NO_LIMIT_BYTES
    swap_used_bytes: int = 0


def _groups(text: str, groups: str) -> Iterator[_Group]:
    """This process's group and each around it."""
    path, version = parse_group(text)
    if not path.startswith("/"):
        return
    mount, read = (groups, _version_2) if version == 2 else (f"{groups}/memory", _version_1)
    # Inside a container the path may be the one outside, which is not there: its own limit is that of the top then.
    parts = [part for part in path.split("/") if part not in ("", "..")]
    for depth in range(len(parts), -1, -1):
        yield read("/".join([mount, *parts[:depth]]))


def _version_2(folder: str) -> _Group:
    # Above `memory.high` the kernel lets nobody go on at full speed: there is no more to use than that.
    limit = min(_limit(f"{folder}/memory.max"), _limit(f"{folder}/memory.high"))
    return _Group(
        folder=folder,
        limit_bytes=limit,
        used_bytes=_used(folder, "memory.current", "inactive_file") if limit < _NO_LIMIT_BYTES else None,
        swap_limit_bytes=_limit(f"{folder}/memory.swap.max"),
        swap_used_bytes=_number(f"{folder}/memory.swap.current") or 0,
    )


def _version_1(folder: str) -> _Group:
    # A limit above, of a group that cannot be seen from inside a container, is told with the statistics.
    told = parse_statistics(_read(f"{folder}/memory.stat")).get("hierarchical_memory_limit", _NO_LIMIT_BYTES)
    own = _limit(f"{folder}/memory.limit_in_bytes")
    limit, with_swap = min(own, told), _limit(f"{folder}/memory.memsw.limit_in_bytes")
    group = _Group(folder, limit, None)
    if limit >= _NO_LIMIT_BYTES:
        return group
    group = replace(group, used_bytes=_used(folder, "memory.usage_in_bytes", "total_inactive_file"))
    if with_swap >= _NO_LIMIT_BYTES:
        return group
    both, memory_alone = _number(f"{folder}/memory.memsw.usage_in_bytes"), _number(f"{folder}/memory.usage_in_bytes")
    return replace(
        group, swap_limit_bytes=max(0, with_swap - own), swap_used_bytes=max(0, (both or 0) - (memory_alone or 0))
    )


def parse_statistics(text: str) -> Mapping[str, int]:
    """The lines of a control group's memory.stat."""
    pairs = (line.partition(" ") for line in text.splitlines())
    return {name: int(number) for name, _, number in pairs if _is_number(number)}


def _used(folder: str, file: str, cache: str) -> int | None:
    used = _number(f"{folder}/{file}")
    dropped = parse_statistics(_read(f"{folder}/memory.stat")).get(cache, 0)
    return None if used is None else max(0, used - dropped)


def _limit(path: str) -> int:
    """A limit from its file; where it says `max`, or there is none, one that is larger than any machine."""
    limit = _number(path)
    return _NO_LIMIT_BYTES if limit is None else min(limit, _NO_LIMIT_BYTES)


def _number(path: str) -> int | None:
    text = _read(path).strip()
    return int(text) if _is_number(text) else None


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) < 20


def _read(path: str) -> str:
    """The file's text; empty where there is none, or where the kernel has it and will not say."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return ""
    try:
        return os.read(fd, 1 << 16).decode(errors="replace")
    except OSError:
        return ""
    finally:
        os.close(fd)
