"""The events as a JSON Schema, and their types in words. For the reference; nothing that runs a fleet loads this."""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Mapping
from typing import Any

from dogwatch.model.events import KINDS, event_class
from dogwatch.model.events.base import Event
from dogwatch.model.moment import Moment

_NAMES = {str: "string", int: "integer", float: "number", bool: "boolean", types.NoneType: "null"}
_WORDS = {str: "text", int: "integer", float: "number", bool: "true or false", types.NoneType: "null"}


def meaning(kind: type[Event]) -> str:
    """What a kind means, in one line."""
    return " ".join((kind.__doc__ or "").split())


def schema() -> dict[str, Any]:
    """The schema of one event as `dogwatch events --json` prints it. Kinds and fields of newer versions are allowed."""
    properties: dict[str, Any] = {name: {"type": "string"} for name in ("cursor", "kind", "run", "agent", "op_id")}
    properties |= {"at": type_schema(Moment), "body": {"type": "object"}}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "An event of dogwatch",
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "allOf": [
            {
                "if": {"properties": {"kind": {"const": kind}}},
                "then": {"properties": {"body": {"$ref": f"#/$defs/{kind}"}}},
            }
            for kind in KINDS
        ],
        "$defs": {kind: body_schema(event_class(kind)) for kind in KINDS},
    }


def body_schema(kind: type[Event]) -> dict[str, Any]:
    """The schema of the bodies of one kind."""
    hints = typing.get_type_hints(kind)
    properties = {"agent": {"type": "string"}} if kind.repeats_agent else {}
    properties |= {key: type_schema(hints[name]) for name, key in kind.keys.items()}
    required = [key for key in properties if key == "agent" or key in kind.required()]
    return {"description": meaning(kind), "type": "object", "properties": properties, "required": required}


def type_schema(hint: Any) -> dict[str, Any]:
    """The schema of a field's type."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if hint in _NAMES:
        return {"type": _NAMES[hint]}
    if origin in (types.UnionType, typing.Union):
        return {"anyOf": [type_schema(one) for one in arguments]}
    if origin is typing.Literal:
        return {"enum": list(arguments)}
    if origin is tuple:
        return {"type": "array", "items": type_schema(arguments[0])}
    if origin is Mapping:
        return {"type": "object", "additionalProperties": type_schema(arguments[1])}
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        hints = typing.get_type_hints(hint)
        properties = {field.name: type_schema(hints[field.name]) for field in dataclasses.fields(hint)}
        return {"type": "object", "properties": properties, "required": list(properties)}
    raise TypeError(f"an event may not have a field of type {hint!r}")


def type_words(hint: Any) -> str:
    """A field's type for readers of the reference."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if hint in _WORDS:
        return _WORDS[hint]
    if origin in (types.UnionType, typing.Union):
        return " or ".join(type_words(one) for one in arguments)
    if origin is typing.Literal:
        return ", ".join(f"`{one}`" if one else "empty" for one in arguments)
    if origin is tuple:
        return f"list of {type_words(arguments[0])}"
    if origin is Mapping:
        return f"map of {type_words(arguments[1])}"
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        hints = typing.get_type_hints(hint)
        return "{" + ", ".join(f"`{f.name}`: {type_words(hints[f.name])}" for f in dataclasses.fields(hint)) + "}"
    raise TypeError(f"an event may not have a field of type {hint!r}")
