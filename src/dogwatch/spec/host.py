"""The operator's settings of a host: `DOGWATCH_HOME/host.yaml`, which is read-only in a sandbox."""

from __future__ import annotations

import math
import os
import re
import stat
from collections.abc import Callable
from typing import Any

import yaml

from dogwatch.errors import SpecError
from dogwatch.model.memory import HostSettings
from dogwatch.spec.problem import did_you_mean, printable, shortened
from dogwatch.spec.source import kind_of

BYTES_MAX = 8 * 1024
"""The dispatcher reads it between two steps."""
_SIZE = re.compile(r"(\d{1,9}(?:\.\d{1,6})?)\s*(B|KB|MB|GB|TB)", re.IGNORECASE)
_UNITS = {"B": 1, "KB": 1024, "MB": 1024**2, "GB": 1024**3, "TB": 1024**4}
_FILE = "it must be a file that may be read, with the operator's settings of this host"
OFF = -1
"""What `agent_memory: off` means: no limit for agents."""


def load_host(path: str) -> HostSettings:
    """The settings in the file, or all defaults where there is none; SpecError where it cannot be used."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return HostSettings()
    except OSError as error:
        raise SpecError(f"{path}: {error.strerror}", hint=_FILE) from None
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise SpecError(f"{path}: not a file", hint=_FILE)
        data = os.read(fd, BYTES_MAX + 1)
    except OSError as error:
        raise SpecError(f"{path}: {error.strerror}", hint=_FILE) from None
    finally:
        os.close(fd)
    if len(data) > BYTES_MAX:
        raise SpecError(f"{path}: larger than {BYTES_MAX} bytes", hint="it has a few lines; see docs/memory.md")
    return parse_host(data, path)


def parse_host(data: bytes, path: str = "host.yaml") -> HostSettings:
    """The settings in these bytes."""
    try:
        text = data.decode("utf-8")
        found, twice = yaml.safe_load(text), _twice(yaml.compose(text, yaml.SafeLoader))
    except Exception as error:  # what is tagged as something that it is not, PyYAML meets with errors of all kinds
        first = shortened(printable(str(error).partition("\n")[0]))
        raise SpecError(f"{path}: not YAML: {first}", hint="for example: parallel: 3") from None
    if twice:
        raise SpecError(f"{path}: {shortened(printable(twice))!r} stands there twice", hint="remove one of the two")
    if found is None:
        return HostSettings()
    if not isinstance(found, dict):
        raise SpecError(f"{path}: {kind_of(found)} where settings were expected", hint="for example: parallel: 3")
    values = {}
    for name, value in found.items():
        if name not in _KNOWN:
            text = shortened(printable(str(name)))
            raise SpecError(f"{path}: there is no setting {text!r}", hint=did_you_mean(text, _KNOWN))
        field, read = _KNOWN[name]
        try:
            values[field] = read(value)
        except ValueError as error:
            raise SpecError(f"{path}: {name}: {error}", hint="docs/memory.md explains each setting") from None
    return HostSettings(**values)


def _twice(node: yaml.Node | None) -> str:
    """A name that stands twice in a mapping, or in one of its values: which of them counts, nobody could tell."""
    if not isinstance(node, yaml.MappingNode):
        return ""
    names = [str(name.value) for name, _ in node.value]
    again = next((name for name in names if names.count(name) > 1), "")
    return again or next((found for _, value in node.value if (found := _twice(value))), "")


def _size(value: Any) -> int:
    match = _SIZE.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None:
        raise ValueError(f"{shortened(kind_of(value))} is no size such as 16 GB or 512 MB")
    number = int(float(match[1]) * _UNITS[match[2].upper()])
    if number < 1024**2:
        raise ValueError(f"{match[0]} is less than 1 MB")
    return number


def _size_or_off(value: Any) -> int:
    return OFF if value is False or value == "off" else _size(value)


def _count(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= 100_000:
        raise ValueError(f"{shortened(kind_of(value))} is no number from 1 to 100000")
    return value


def _cap(value: Any) -> int:
    return 0 if value == 0 and not isinstance(value, bool) else _count(value)


def _caps(value: Any) -> dict[str, int]:
    if not isinstance(value, dict) or not all(isinstance(name, str) for name in value):
        raise ValueError(f"{shortened(kind_of(value))} is no mapping of names to numbers, such as {{writer: 3}}")
    return {name: _cap(cap) for name, cap in value.items()}


def _confidence(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or math.isnan(value) or not 0.5 <= value <= 0.9999:
        raise ValueError(f"{shortened(kind_of(value))} is no probability from 0.5 to 0.9999")
    return float(value)


def _seconds(least: int, most: int) -> Callable[[Any], float]:
    def read(value: Any) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
            raise ValueError(f"{shortened(kind_of(value))} is no number of seconds from {least} to {most}")
        return float(value)

    return read


_KNOWN: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "memory": ("memory_bytes", _size),
    "agent_memory": ("agent_memory_bytes", _size_or_off),
    "agents": ("agents", _count),
    "parallel": ("parallel", _count),
    "wave": ("wave", _count),
    "roles": ("roles", _caps),
    "harnesses": ("harnesses", _caps),
    "credentials": ("credentials", _caps),
    "confidence": ("confidence", _confidence),
    "calm_s": ("calm_s", _seconds(1, 3600)),
    "idle_s": ("idle_s", _seconds(1, 86_400)),
    "cycle_s": ("cycle_s", _seconds(5, 3600)),
    "growth_s": ("growth_s", _seconds(5, 240)),
    # Whoever waits for another's transaction is silent for up to four seconds, and that is no reason to end it.
    "silent_s": ("silent_s", _seconds(6, 3600)),
}
