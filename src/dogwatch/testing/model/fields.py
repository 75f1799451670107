"""Plain values of a scenario, as YAML or JSON give them: checked one by one, and refused with their place."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from dogwatch.errors import UsageError

HINT = "docs/reference/model.md lists all keys and steps"
REQUIRED = object()
ALWAYS = "always"

Field = tuple[Callable[[str, Any], Any], Any]
"""How a value is checked, and its default."""


def keys(where: str, data: Any, known: set[str]) -> dict[str, Any]:
    """The mapping, if all its keys are known."""
    if not isinstance(data, dict):
        raise wrong(where or "the scenario", "a mapping", data)
    for key in data:
        if key not in known:
            place = f"{where}.{key}" if where else str(key)
            raise UsageError(f"{place}: unknown key", hint=f"known here: {', '.join(sorted(known)) or 'none'}")
    return data


def fields(where: str, data: Any, shape: Mapping[str, Field]) -> dict[str, Any]:
    """All values of the shape: checked where they are given, otherwise the defaults."""
    given = keys(where, data, set(shape))
    values: dict[str, Any] = {}
    for key, (check, default) in shape.items():
        place = f"{where}.{key}" if where else key
        if key in given:
            values[key] = check(place, given[key])
        elif default is REQUIRED:
            raise UsageError(f"{place}: is missing", hint=HINT)
        else:
            values[key] = default
    return values


SHOWN_MAX = 80
"""So much of a wrong value is said."""


def wrong(where: str, wanted: str, value: Any) -> UsageError:
    """The error for a value that is something else than was wanted."""
    shown = repr(value)
    shown = shown if len(shown) <= SHOWN_MAX else f"{shown[:SHOWN_MAX]}…"
    return UsageError(f"{where}: must be {wanted}, not {shown}", hint=HINT)


def seconds(where: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e7:
        raise wrong(where, "a number of seconds", value)
    return float(value)


def whole(where: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise wrong(where, "a whole number, 0 or more", value)
    return value


def times(where: str, value: Any) -> int | None:
    """How often; None is always."""
    if value == ALWAYS:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise wrong(where, f"a whole number, 1 or more, or {ALWAYS}", value)
    return value


def text(where: str, value: Any) -> str:
    if not isinstance(value, str):
        raise wrong(where, "a text", value)
    return value


def mapping(where: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
        raise wrong(where, "a mapping", value)
    return value


def pattern(where: str, value: Any) -> re.Pattern[str]:
    try:
        return re.compile(text(where, value))
    except re.error as error:
        raise UsageError(f"{where}: {value!r} is no regular expression: {error}", hint=HINT) from error


def status(where: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 400 <= value <= 599:
        raise wrong(where, "a status from 400 to 599", value)
    return value


def one_of(*choices: Any) -> Callable[[str, Any], Any]:
    def check(where: str, value: Any) -> Any:
        # 1 == True in Python, but not in a scenario.
        if not any(value is choice or (isinstance(choice, str) and value == choice) for choice in choices):
            raise wrong(where, " or ".join(str(choice).lower() for choice in choices), value)
        return value

    return check
