"""How much memory the machine has left. Reading only; a sensor that this machine does not have is None."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass

_NO_LIMIT_BYTES = 1 << 62  # version 1 writes a number above this where there is no limit


@dataclass(frozen=True, slots=True)
class Memory:
    """The sensors at one look. The pressures are the shares of the last ten seconds in which some, or all, waited.

    The limit is that of the control group around this process which has the least left; what it uses is counted
    without the file cache that the kernel would drop first.
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
    limits = _limits(_read(f"{proc}/self/cgroup"), groups, total or _NO_LIMIT_BYTES)
    limit, used = min(limits, key=lambda found: found[0] - (found[1] or 0), default=(None, None))
    return Memory(
        total_bytes=total,
        available_bytes=sizes.get("MemAvailable"),
        swap_total_bytes=sizes.get("SwapTotal"),
        swap_free_bytes=sizes.get("SwapFree"),
        pressure_some_percent=pressures.get("some"),
        pressure_full_percent=pressures.get("full"),
        limit_bytes=limit,
        limit_used_bytes=used,
    )


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


def _limits(text: str, groups: str, size_bytes: int) -> Iterator[tuple[int, int | None]]:
    """Limit and use of this process's group and of each around it that has a limit below the size of the machine."""
    path, version = parse_group(text)
    if not path.startswith("/"):
        return
    mount, limit_file, used_file, cache = (
        (groups, "memory.max", "memory.current", "inactive_file")
        if version == 2
        else (f"{groups}/memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
    )
    # Inside a container the path may be the one outside, which is not there: its own limit is that of the top then.
    parts = [part for part in path.split("/") if part not in ("", "..")]
    for depth in range(len(parts), -1, -1):
        folder = "/".join([mount, *parts[:depth]])
        limit = _read(f"{folder}/{limit_file}").strip()
        if _is_number(limit) and int(limit) < size_bytes:
            used = _read(f"{folder}/{used_file}").strip()
            dropped = _cache_bytes(_read(f"{folder}/memory.stat"), cache)
            yield int(limit), max(0, int(used) - dropped) if _is_number(used) else None


def _cache_bytes(text: str, name: str) -> int:
    for line in text.splitlines():
        key, _, number = line.partition(" ")
        if key == name and _is_number(number):
            return int(number)
    return 0


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
