"""Whether a file has the form of `schema`: every error of it, in words for people and with its position."""

from __future__ import annotations

import re
import typing
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from dogwatch.spec.problem import Place, did_you_mean, nearest
from dogwatch.spec.schema import PATTERN_MEANINGS, Pipeline
from dogwatch.spec.source import Source, kind_of, scalar

_TYPES = {
    "string_type": "text",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "list_type": "a list",
    "dict_type": "a mapping of keys to values",
    "model_type": "a mapping of keys to values",
}

_BOUNDS = {
    "greater_than": ("more than", "gt"),
    "greater_than_equal": ("at least", "ge"),
    "less_than": ("less than", "lt"),
    "less_than_equal": ("at most", "le"),
}


def parse(source: Source) -> Pipeline | None:
    """The file as models, or None where it does not have their form; the reasons are reported to the source."""
    try:
        return Pipeline.model_validate(source.data)
    except ValidationError as error:
        for details in error.errors(include_url=False):
            if source.full:
                break
            _report(source, details)
        return None


def model_at(place: Place) -> type[BaseModel] | None:
    """The model that describes the mapping at `place`, or None where there is none."""
    hint: Any = Pipeline
    for part in place:
        hint = _bare(hint)
        if isinstance(hint, type) and issubclass(hint, BaseModel):
            fields = {field.alias or name: field.annotation for name, field in hint.model_fields.items()}
            hint = fields.get(str(part))
        else:
            hint = next(iter(typing.get_args(hint)[-1:]), None)
    hint = _bare(hint)
    return hint if isinstance(hint, type) and issubclass(hint, BaseModel) else None


def keys_of(model: type[BaseModel]) -> tuple[str, ...]:
    """The keys that a mapping of this model may have, as the file spells them."""
    return tuple(field.alias or name for name, field in model.model_fields.items())


def _bare(hint: Any) -> Any:
    while typing.get_origin(hint) is typing.Annotated:
        hint = typing.get_args(hint)[0]
    return hint


def _report(source: Source, details: ErrorDetails) -> None:
    place = tuple(details["loc"])
    at_key = details["type"] == "extra_forbidden" or place[-1:] == ("[key]",)
    if place[-1:] == ("[key]",):
        place = place[:-1]
    message, hint = _words(details, place)
    if details["type"] == "missing":
        place = place[:-1]
    source.report(place, message, hint, at_key=at_key)


def _words(details: ErrorDetails, place: Place) -> tuple[str, str]:
    kind, value, context = details["type"], details["input"], details.get("ctx", {})
    if place[:2] == ("notify", "targets") and isinstance(value, str) and value.strip():
        value = "***"  # a target may hold a secret, and what is wrong with a file is printed everywhere
    name = repr(str(place[-1])) if place and isinstance(place[-1], str) else "this"
    if kind == "extra_forbidden":
        model = model_at(place[:-1])
        return f"unknown key {name}", did_you_mean(str(place[-1]), keys_of(model) if model else ())
    if kind == "missing":
        model = model_at(place[:-1])
        meaning = model.model_fields[str(place[-1])].description if model else ""
        return f"{name} is missing", str(meaning or "")
    if kind in _TYPES:
        return f"{name} must be {_TYPES[kind]}, not {kind_of(value)}", _type_hint(kind, value)
    if kind in _BOUNDS:
        words, bound = _BOUNDS[kind]
        return f"{name} must be {words} {context[bound]:,.15g}, not {value:.15g}", ""
    if kind == "finite_number":
        return f"{name} must be a number with an end, not {value}", ""
    if kind == "literal_error":
        near = nearest(value, re.findall("'([^']*)'", context["expected"])) if isinstance(value, str) else ""
        return f"{name} must be {context['expected']}, not {kind_of(value)}", near
    if kind == "string_pattern_mismatch":
        return f"{name} must be {PATTERN_MEANINGS[context['pattern']]}, not {kind_of(value)}", ""
    if kind == "string_too_long":
        return f"{name} must have at most {context['max_length']} characters, not {len(value)}", ""
    if kind == "too_short":
        return f"{name} must have at least {context['min_length']} entry", ""
    if kind == "too_long":
        return f"{name} must have at most {context['max_length']} entries", ""
    return f"{name}: {details['msg']}", ""


def _is_number_or_flag(text: str) -> bool:
    try:
        return isinstance(scalar(text), bool | int | float)
    except ValueError:
        return False


def _type_hint(kind: str, value: Any) -> str:
    if value is None:
        return "give it a value, or leave the key out"
    if kind == "string_type" and isinstance(value, bool | int | float):
        return "put it in quotes"
    if kind in ("int_type", "float_type", "bool_type") and isinstance(value, str) and _is_number_or_flag(value):
        return "write it without quotes"
    if kind == "list_type" and isinstance(value, str):
        return f"write [{value}]" if len(value) <= 40 else "put it in [brackets]"
    return ""
