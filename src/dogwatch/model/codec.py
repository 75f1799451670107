"""Frozen dataclasses to JSON values and back, by their type hints; unknown fields of newer writers are dropped."""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Hashable, Mapping
from functools import cache
from typing import Any, TypeVar, cast

T = TypeVar("T")


def encode(value: Any) -> Any:
    """`value` as plain JSON values."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: encode(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, tuple | list):
        return [encode(item) for item in value]
    if isinstance(value, Mapping):
        return {key: encode(item) for key, item in value.items()}
    return value


def decode(kind: type[T], data: Any) -> T:
    """The dataclass `kind` from plain JSON values; absent fields take their defaults."""
    hints = _hints(cast("Hashable", kind))
    return kind(**{name: _value(hints[name], data[name]) for name in hints if name in data})


@cache
def _hints(kind: Any) -> dict[str, Any]:
    hints = typing.get_type_hints(kind)
    return {field.name: hints[field.name] for field in dataclasses.fields(kind)}


def _value(hint: Any, data: Any) -> Any:
    origin = typing.get_origin(hint)
    arguments = typing.get_args(hint)
    if origin in (types.UnionType, typing.Union):
        if data is None:
            return None
        return _value(next(part for part in arguments if part is not types.NoneType), data)
    if origin is tuple:
        return tuple(_value(arguments[0], item) for item in data)
    if origin in (dict, Mapping):
        return {key: _value(arguments[1], item) for key, item in data.items()}
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        return decode(hint, data)
    return data
