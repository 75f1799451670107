"""Requests from what came over the wire, and answers as they go back: one reader, made from the types of the fields.

Fields that a request does not have are ignored: an agent may be newer than its captain.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import cache, partial
from typing import Annotated, Any, Literal, TypeVar, cast, get_args, get_origin, get_type_hints

from dogwatch.door.verb import Argument, CallId, wire_name
from dogwatch.errors import UsageError
from dogwatch.model.redact import Redactor

T = TypeVar("T")
Reader = Callable[[Mapping[str, Any], Redactor], Any]


def read_request(kind: type[T], body: Mapping[str, Any], redactor: Redactor) -> T:
    """The request; UsageError with the first field that is wrong."""
    values = {name: reader(body, redactor) for name, reader in _readers(cast("Hashable", kind)).items()}
    return kind(**values)


def write_answer(answer: Any) -> dict[str, Any]:
    """The answer as a JSON object. A field that has its default is left out."""
    told: dict[str, Any] = {}
    for field in fields(answer):
        value = getattr(answer, field.name)
        if field.default is MISSING or value != field.default:
            told[wire_name(field.name)] = [_plain(one) for one in value] if isinstance(value, tuple) else value
    return told


def _plain(value: Any) -> Any:
    return write_answer(value) if is_dataclass(value) else value


def text(body: Mapping[str, Any], name: str) -> str:
    """A text that must be there."""
    value = body.get(name)
    if not isinstance(value, str) or not value:
        raise UsageError(f"{name} must be a text that is not empty")
    return clean(value, name)


def clean(value: str, name: str) -> str:
    """The text, where it can be kept: half a character pair and NUL cannot."""
    try:
        value.encode()
    except UnicodeEncodeError:
        raise UsageError(f"{name} is not valid Unicode", hint="half of a surrogate pair cannot be kept") from None
    if "\0" in value:
        raise UsageError(f"{name} holds a NUL character", hint="leave it out")
    return value


@cache
def _readers(kind: Hashable) -> dict[str, Reader]:
    """How each field of the request is read."""
    hints = get_type_hints(kind, include_extras=True)
    return {field.name: _reader(field.name, hints[field.name], field.default) for field in fields(cast("Any", kind))}


def _reader(name: str, hint: Any, default: Any) -> Reader:
    note = next((one for one in get_args(hint) if isinstance(one, Argument | CallId)), None)
    plain = get_args(hint)[0] if get_origin(hint) is Annotated else hint
    argument = note if isinstance(note, Argument) else Argument("")
    if argument.read is not None:
        return partial(_whole, argument.read)
    if get_origin(plain) is Literal:
        return partial(_choice, name, argument.called or name, get_args(plain))
    if isinstance(note, CallId):
        return lambda body, _: f"door:{text(body, name)}"
    if plain is str and default is MISSING:
        return lambda body, _: text(body, name)
    if plain is str:
        return partial(_optional_text, name, argument, default)
    if plain in (float, float | None):
        return partial(_number, name, argument, default)
    raise TypeError(f"the field {name} of a request cannot be a {plain}")


def _whole(read: Callable[[Mapping[str, Any]], Any], body: Mapping[str, Any], _: Redactor) -> Any:
    return read(body)


def _choice(name: str, called: str, choices: tuple[str, ...], body: Mapping[str, Any], _: Redactor) -> str:
    value = text(body, name)
    if value not in choices:
        raise UsageError(f"{called} is {' or '.join(choices)}, not {value!r}")
    return value


def _optional_text(name: str, argument: Argument, default: str, body: Mapping[str, Any], redactor: Redactor) -> str:
    value = body.get(name) or default
    called = argument.called or name
    if not isinstance(value, str) or (argument.bytes_max and len(clean(value, called).encode()) > argument.bytes_max):
        size = f" of at most {argument.bytes_max} bytes" if argument.bytes_max else ""
        hint = "write a file and name its path" if argument.bytes_max else "leave it out where there is nothing to say"
        raise UsageError(f"{called} is a text{size}", hint=hint)
    return redactor.text(clean(value, called)) if argument.redacted else clean(value, called)


def _number(name: str, argument: Argument, default: Any, body: Mapping[str, Any], _: Redactor) -> float | None:
    value = body.get(name)
    if value is None and default is not MISSING:
        return None if default is None else float(default)
    least, largest = argument.between or (float("-inf"), float("inf"))
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= largest:
        size = f" from {least:g} to {largest:g}" if argument.between else ""
        raise UsageError(f"{argument.called or name} is a number{size}")
    return value
