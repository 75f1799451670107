"""What may be stored: strict JSON of a limited size, and names that every engine can hold."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from dogwatch.errors import UsageError
from dogwatch.ledger.api import Json
from dogwatch.model.redact import Redactor

BODY_BYTES_MAX = 1024 * 1024
BODY_DEPTH_MAX = 100
NAME_BYTES_MAX = 1024

# Made once: with options, `json.dumps` builds a new encoder for every call. All of it is ASCII, so that a lone
# surrogate or a NUL in a string is an escape, which every engine keeps as it is. It need not look for circles: what
# goes round is nested too deep.
_encode = json.JSONEncoder(allow_nan=False, check_circular=False, separators=(",", ":")).encode


def dump(body: Json) -> str:
    """`body` as JSON text; UsageError for what is not JSON or too large."""
    if not isinstance(body, Mapping):
        raise UsageError(f"a body must be a JSON object, not {type(body).__name__}")
    plain = dict(body)
    _check(plain, 1)
    try:
        text = _encode(plain)
    except (TypeError, ValueError) as error:
        raise UsageError(f"a body must be strict JSON: {error}") from error
    if len(text) > BODY_BYTES_MAX:
        raise UsageError(
            f"a body of {len(text)} bytes is too large: at most {BODY_BYTES_MAX} bytes of JSON are kept",
            hint="write the content to a file and record its path and checksum",
        )
    return text


def dump_told(body: Json, redactor: Redactor) -> str:
    """The same for what was told by somebody else, without the tokens in it."""
    text = dump(body)
    return dump(redactor.value(body)) if redactor.suspects(text) else text


def load(text: str) -> dict[str, Any]:
    """The body that `dump` made this text of."""
    body: dict[str, Any] = json.loads(text)
    return body


def checked(text: str, what: str) -> str:
    """`text` itself where it can be a key, a kind or any other name; UsageError otherwise."""
    if not isinstance(text, str):
        raise UsageError(f"{what} must be text, not {type(text).__name__}")
    if text.isascii() and len(text) <= NAME_BYTES_MAX and "\0" not in text:
        return text
    try:
        size = len(text.encode())
    except UnicodeEncodeError as error:
        raise UsageError(f"{what} is not valid Unicode: {text!r}") from error
    if size > NAME_BYTES_MAX:
        raise UsageError(f"{what} of {size} bytes is too long: at most {NAME_BYTES_MAX} bytes are kept")
    if "\0" in text:
        raise UsageError(f"{what} holds a NUL character: {text!r}")
    return text


def required(text: str, what: str) -> str:
    """A name that must not be empty."""
    if not checked(text, what):
        raise UsageError(f"{what} is empty")
    return text


def seconds(value: float, what: str) -> float:
    """A length of time: more than nothing, and not endless."""
    if not (value > 0 and math.isfinite(value)):
        raise UsageError(f"{what} must be a positive number of seconds, not {value!r}")
    return value


_PLAIN = frozenset({str, int, float, bool, type(None)})


def _check(value: Any, depth: int) -> None:
    """Finds what the encoder would pass: keys that are no text (it turns them into text), and depths that the
    decoder may later not come out of again."""
    if depth > BODY_DEPTH_MAX:
        raise UsageError(f"a body is nested deeper than {BODY_DEPTH_MAX} levels")
    if isinstance(value, dict):
        for key, item in value.items():
            if not isinstance(key, str):
                raise UsageError(f"a body must be strict JSON: the key {key!r} is not text")
            if type(item) not in _PLAIN:
                _check(item, depth + 1)
    elif isinstance(value, list | tuple):
        for item in value:
            if type(item) not in _PLAIN:
                _check(item, depth + 1)
