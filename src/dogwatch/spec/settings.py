"""What `--set key=value` changes: a dotted key is a path into the file, a key without a dot is a variable."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dogwatch.spec.problem import Place, did_you_mean, dotted
from dogwatch.spec.source import Source, scalar

_NAMED_IN_THE_FILE = (("roles",), ("milestones",))
"""Mappings whose keys are names: setting something in one that is not there would be a slip, not a new role."""


def apply(source: Source, overrides: Mapping[str, str]) -> None:
    """Writes the overrides into the source's values; whatever is wrong with them is reported as theirs."""
    for key, text in overrides.items():
        if "." not in key:
            variables = source.data.setdefault("vars", {})
            if isinstance(variables, dict):
                _put(source, variables, ("vars", key), key, text)
            continue
        *path, last = key.split(".")
        place, value = _walk(source, key, path)
        if place is None:
            continue
        step = _step(value, last)
        if step is None and not (last and isinstance(value, dict)):
            _refuse(source, key, place, last, value)
            continue
        _put(source, value, (*place, last if step is None else step), key, text)


def _walk(source: Source, key: str, path: list[str]) -> tuple[Place | None, Any]:
    """The mapping or list that holds what is to be set. Sections that the file leaves out are added."""
    place: Place = ()
    value: Any = source.data
    for part in path:
        step = _step(value, part)
        if step is None:
            if not part or not isinstance(value, dict) or place in _NAMED_IN_THE_FILE:
                _refuse(source, key, place, part, value)
                return None, None
            step = part
            value[step] = {}
            source.settings[(*place, step)] = key
        place = (*place, step)
        value = value[step]
    return place, value


def _step(value: Any, part: str) -> str | int | None:
    """The key or index that `part` means in `value`: items of a list go by their name or their number."""
    if isinstance(value, dict):
        return part if part in value else None
    if isinstance(value, list):
        names = [item.get("name") if isinstance(item, dict) else None for item in value]
        if part in names:
            return names.index(part)
        if part.isascii() and part.isdigit() and len(part) < 6 and int(part) < len(value):
            return int(part)
    return None


def _put(source: Source, value: Any, place: Place, key: str, text: str) -> None:
    """Sets one value. A variable keeps its text as it is: `1.10` must not become `1.1`."""
    source.settings[place] = key
    source.texts[place] = text
    source.refuse_control_characters(place, text)
    try:
        value[place[-1]] = text if place[0] == "vars" else scalar(text)
    except ValueError as error:
        value[place[-1]] = text
        source.report(place, str(error))


def _refuse(source: Source, key: str, place: Place, part: str, value: Any) -> None:
    source.settings[(key,)] = key
    where = f"in {dotted(place)}" if place else "in the file"
    if isinstance(value, dict):
        names = [str(name) for name in value]
    elif isinstance(value, list):
        names = [item["name"] for item in value if isinstance(item, dict) and isinstance(item.get("name"), str)]
    else:
        where, names = f"in {dotted(place)}, which is a plain value", []
    source.report((key,), f"there is no {part!r} {where}", did_you_mean(part, names))
