"""Events out of stored bodies of any version."""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Callable, Hashable, Mapping
from functools import cache
from typing import Any, TypeVar, cast

from dogwatch.model.codec import reader_of
from dogwatch.model.events.base import Event

E = TypeVar("E", bound=Event)
UNREADABLE = (TypeError, ValueError, KeyError, AttributeError)


def decode_as(kind: type[E], body: Mapping[str, Any], *, run: str, agent: str) -> E:
    """The event of this class in a stored body."""
    values: dict[str, Any] = {"run": run, "agent": agent}
    for name, (key, read, zero) in _fields(cast("Hashable", kind)).items():
        if key in body:
            try:
                values[name] = read(body[key]) if read is not None else body[key]
            except UNREADABLE:
                values[name] = zero
        else:
            values[name] = zero
    return kind(**values)


@cache
def _fields(kind: Any) -> dict[str, tuple[str, Callable[[Any], Any] | None, Any]]:
    """For each field of the body its key, what reads its value (None: it is what it is) and what stands in for it."""
    hints = typing.get_type_hints(kind)
    always = kind.required()
    return {
        name: (key, reader_of(hints[name]), zero_of(hints[name]) if key in always else kind.default(name))
        for name, key in kind.keys.items()
    }


def zero_of(hint: Any) -> Any:
    """The empty value of a type; of a closed set of values the first."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (types.UnionType, typing.Union):
        return None if types.NoneType in arguments else zero_of(arguments[0])
    if origin is typing.Literal:
        return "" if "" in arguments else arguments[0]
    if origin is tuple:
        return ()
    if origin in (dict, Mapping):
        return {}
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        hints = typing.get_type_hints(hint)
        return hint(**{field.name: zero_of(hints[field.name]) for field in dataclasses.fields(hint)})
    return hint()
