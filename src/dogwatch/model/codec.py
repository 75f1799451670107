"""Frozen dataclasses to JSON values and back, by their type hints; unknown fields of newer writers are dropped."""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Callable, Hashable, Mapping
from functools import cache
from typing import Any, TypeVar, cast

T = TypeVar("T")
Reader = Callable[[Any], Any]


_PLAIN = frozenset({str, int, float, bool, type(None)})


def encode(value: Any) -> Any:
    """`value` as plain JSON values."""
    kind = type(value)
    if kind in _PLAIN:
        return value
    names = _names(cast("Hashable", kind))
    # Most values are plain: to find that out here is much less than a call for each of them.
    if names:
        return {name: item if type(item := getattr(value, name)) in _PLAIN else encode(item) for name in names}
    if isinstance(value, tuple | list):
        return [item if type(item) in _PLAIN else encode(item) for item in value]
    if isinstance(value, Mapping):
        return {key: item if type(item) in _PLAIN else encode(item) for key, item in value.items()}
    return value


@cache
def _names(kind: Any) -> tuple[str, ...]:
    """The fields of a dataclass; none for anything else."""
    return tuple(field.name for field in dataclasses.fields(kind)) if dataclasses.is_dataclass(kind) else ()


def decode(kind: type[T], data: Any) -> T:
    """The dataclass `kind` from plain JSON values; absent fields take their defaults."""
    made: T = _decoder(cast("Hashable", kind))(data)
    return made


@cache
def _decoder(kind: Any) -> Reader:
    """What makes the dataclass of plain JSON. Most fields are there already as they are to be."""
    hints = typing.get_type_hints(kind)
    names = frozenset(field.name for field in dataclasses.fields(kind))
    readers = [(name, reader) for name in names if (reader := reader_of(hints[name])) is not None]

    def make(data: Mapping[str, Any]) -> Any:
        values = {**data} if data.keys() <= names else {name: data[name] for name in names if name in data}
        for name, reader in readers:
            if name in values:
                values[name] = reader(values[name])
        return kind(**values)

    return make


def reader_of(hint: Any) -> Reader | None:
    """What makes a value of this type of its plain JSON; None where that is the value already."""
    origin = typing.get_origin(hint)
    arguments = typing.get_args(hint)
    if origin in (types.UnionType, typing.Union):
        parts = [part for part in arguments if part is not types.NoneType]
        inner = reader_of(parts[0]) if len(parts) == 1 else _tagged(parts)
        return (lambda data: None if data is None else inner(data)) if inner else None
    if origin is tuple:
        item = reader_of(arguments[0])
        return (lambda data: tuple([item(one) for one in data])) if item else tuple
    if origin in (dict, Mapping):
        value = reader_of(arguments[1])
        return (lambda data: {key: value(one) for key, one in data.items()}) if value else dict
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        return _decoder(hint)
    return None


def _tagged(kinds: list[Any]) -> Reader | None:
    """What makes one of several dataclasses: each says in its field `kind` which one it is. None for plain values."""
    if not all(dataclasses.is_dataclass(kind) for kind in kinds):
        return None
    readers = {kind.__dataclass_fields__["kind"].default: _decoder(kind) for kind in kinds}
    return lambda data: readers[data["kind"]](data)
