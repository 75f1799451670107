"""One change in a JSON text: everything else in it stays as it is, byte for byte.

A file that belongs to another program, or to a person, keeps its layout, its numbers as they were written and even its
double keys; what was put in and taken out again leaves no trace.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from dogwatch.values import dataclass

INDENT = "  "
Key = str | int
_SPACE = re.compile(r"[ \t\n\r]*")
_BLANKS = re.compile(r"[ \t]*")
_MARK = "\ufeff"


def _no_json(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")


_DECODER = json.JSONDecoder(parse_constant=_no_json)


@dataclass(frozen=True, slots=True)
class _Member:
    """A member of an object or an array: where it begins (with its key), where its value begins, and where it ends."""

    key: Key
    start: int
    value: int
    end: int


def parse(text: str) -> Any:
    """The value that the text stands for; ValueError where it is no JSON."""
    try:
        value, end = _DECODER.raw_decode(text, _first(text))
    except RecursionError:
        raise ValueError("it is too deeply nested") from None
    if _past(text, end) != len(text):
        raise json.JSONDecodeError("Extra data", text, end)
    return value


def put(text: str, path: Sequence[Key], value: Any) -> str:
    """The text with this value at the path: in the place of the one there, or behind the last of its container, which
    must be there. For an array the key is an index; one past its end appends."""
    at = _locate(text, path[:-1])
    members, close = _members(text, at)
    for member in reversed(members):
        if member.key == path[-1]:
            return text[: member.value] + _written(text, value, _indented(text, member.start)) + text[member.end :]
    if members:
        last = members[-1]
        gap = text[members[-2].end : last.start] if len(members) > 1 else "," + (text[at + 1 : last.start] or " ")
        return text[: last.end] + gap + _keyed(text, at, path[-1], value, _margin(gap)) + text[last.end :]
    step = _step(text)
    if step is None:
        return text[: at + 1] + _keyed(text, at, path[-1], value, None) + text[close:]
    margin = _indented(text, at) or ""
    before, behind = f"{_line_end(text)}{margin}{step}", f"{_line_end(text)}{margin}"
    return text[: at + 1] + before + _keyed(text, at, path[-1], value, margin + step) + behind + text[close:]


def remove(text: str, path: Sequence[Key]) -> str:
    """The text without what is at the path, which must be there."""
    at = _locate(text, path[:-1])
    members, close = _members(text, at)
    number = max(number for number, member in enumerate(members) if member.key == path[-1])
    if len(members) == 1:
        return text[: at + 1] + text[close:]
    if number == 0:
        return text[: members[0].start] + text[members[1].start :]
    return text[: members[number - 1].end] + text[members[number].end :]


def _first(text: str) -> int:
    return _past(text, 1 if text.startswith(_MARK) else 0)


def _past(text: str, at: int) -> int:
    """The first place from `at` on that is not blank."""
    match = _SPACE.match(text, at)
    return match.end() if match else at


def _locate(text: str, path: Sequence[Key]) -> int:
    """Where the value at the path begins."""
    at = _first(text)
    for key in path:
        at = next(member.value for member in reversed(_members(text, at)[0]) if member.key == key)
    return at


def _members(text: str, at: int) -> tuple[list[_Member], int]:
    """What is in the object or array that begins at `at`, and where it closes."""
    found: list[_Member] = []
    is_object = text[at] == "{"
    at = _past(text, at + 1)
    while text[at] not in "}]":
        start, key = at, len(found)
        name: Key = key
        if is_object:
            name, at = _DECODER.raw_decode(text, at)
            at = _past(text, _past(text, at) + 1)
        end = _DECODER.raw_decode(text, at)[1]
        found.append(_Member(name, start, at, end))
        at = _past(text, end)
        if text[at] == ",":
            at = _past(text, at + 1)
    return found, at


def _step(text: str) -> str | None:
    """By how much the text indents; None where it stands on one line."""
    at = _first(text)
    members, _ = _members(text, at)
    if not members:
        return INDENT
    margin = _margin(text[at + 1 : members[0].start])
    return margin if margin is None else margin or INDENT


def _margin(gap: str) -> str | None:
    """The blanks before what follows the gap; None where it is on the same line."""
    return gap.rpartition("\n")[2] if "\n" in gap else None


def _indented(text: str, at: int) -> str | None:
    """The blanks at the beginning of the line; None in a text that stands on one."""
    blanks = _BLANKS.match(text, text.rfind("\n", 0, at) + 1)
    return None if _step(text) is None or blanks is None else blanks.group()


def _line_end(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _keyed(text: str, at: int, key: Key, value: Any, margin: str | None) -> str:
    written = _written(text, value, margin)
    return f"{json.dumps(key, ensure_ascii=False)}: {written}" if text[at] == "{" else written


def _written(text: str, value: Any, margin: str | None) -> str:
    """The value in the text's own layout, `margin` before each line but the first."""
    if margin is None:
        return json.dumps(value, ensure_ascii=False)
    lines = json.dumps(value, ensure_ascii=False, indent=_step(text) or INDENT)
    return lines.replace("\n", _line_end(text) + margin)
