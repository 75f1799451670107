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
    names = _names(kind)
    if names:
        return {name: encode(getattr(value, name)) for name in names}
    if isinstance(value, tuple | list):
        return [encode(item) for item in value]
    if isinstance(value, Mapping):
        return {key: encode(item) for key, item in value.items()}
    return value


@cache
def _names(kind: type) -> tuple[str, ...]:
    """The fields of a dataclass; none for anything else."""
    return tuple(field.name for field in dataclasses.fields(kind)) if dataclasses.is_dataclass(kind) else ()


def decode(kind: type[T], data: Any) -> T:
    """The dataclass `kind` from plain JSON values; absent fields take their defaults."""
    readers = _readers(cast("Hashable", kind))
    return kind(**{name: read(data[name]) if read else data[name] for name, read in readers.items() if name in data})


@cache
def _readers(kind: Any) -> dict[str, Reader | None]:
    """What makes each field's value of plain JSON; None where that is the value already."""
    hints = typing.get_type_hints(kind)
    return {field.name: _reader(hints[field.name]) for field in dataclasses.fields(kind)}


def _reader(hint: Any) -> Reader | None:
    origin = typing.get_origin(hint)
    arguments = typing.get_args(hint)
    if origin in (types.UnionType, typing.Union):
        inner = _reader(next(part for part in arguments if part is not types.NoneType))
        return (lambda data: None if data is None else inner(data)) if inner else None
    if origin is tuple:
        item = _reader(arguments[0])
        return (lambda data: tuple([item(one) for one in data])) if item else tuple
    if origin in (dict, Mapping):
        value = _reader(arguments[1])
        return (lambda data: {key: value(one) for key, one in data.items()}) if value else dict
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        return lambda data: decode(hint, data)
    return None
