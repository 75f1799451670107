"""What holds for a client of which nothing special is known: its errors by the usual words, and no files of its own."""

from __future__ import annotations

import datetime
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from dogwatch.harness.api import Launch, Rehearsal, Start, State
from dogwatch.model.plan import Role
from dogwatch.model.process import ProcessId
from dogwatch.model.tally import ErrorType, Failure, ModelCall, Refusal

MESSAGE_MAX = 200
COUNT_MAX = 10**12
FAILURE_EVENTS = frozenset({"StopFailure", "PostToolUseFailure", "PermissionDenied"})
"""The hook events that tell of an error."""
_WORDS: tuple[tuple[ErrorType, re.Pattern[str]], ...] = (
    ("context_exhausted", re.compile(r"context_full|(?:prompt|input) is too long|context (?:window|limit|length)")),
    ("rate_limited", re.compile(r"rate.?limit|\b429\b|too many requests")),
    ("overloaded", re.compile(r"overload|\b529\b")),
    ("auth_failed", re.compile(r"authenticat|unauthori[sz]ed|\b401\b|invalid api key|billing|account_on_hold")),
    ("api_timeout", re.compile(r"time[d ]?\s?-?out|\b408\b|\b504\b")),
)
"""In this order: what is said first decides."""


class Neutral:
    """The part of a harness that tells of errors, model calls and the client's own files."""

    package = ""
    pasted = ""
    spoilt = "\t"
    clear_keys: tuple[str, ...] = ("C-e", "C-u")
    interrupt_keys: tuple[str, ...] = ("Escape",)
    speaks_first = True

    def failure(self, event: str, payload: Mapping[str, Any]) -> Failure | None:
        """The error that a hook event tells of; None where it tells of none."""
        if event not in FAILURE_EVENTS:
            return None
        tool = text(payload.get("tool_name"))
        error = text(payload.get("error"))
        if event == "PermissionDenied":
            return Failure("permission_denied", tool, short(text(payload.get("reason"))))
        if event == "PostToolUseFailure":
            return Failure("tool_interrupted" if payload.get("is_interrupt") else "tool_failed", tool, short(error))
        said = text(payload.get("last_assistant_message"))
        return Failure(error_type(error) or error_type(said) or "api_error", "", short(said or error))

    def rehearsal(self, home: str, project: str, url: str) -> Rehearsal:
        """It talks to no model."""
        return Rehearsal()

    def check_in(self, launch: Launch, question: str) -> Start | None:
        """There is no conversation."""
        return None

    def ending(self, tail: bytes) -> tuple[float, Failure] | None:
        """Its hooks tell of it."""
        return None

    def transcripts(self, path: str) -> Sequence[str]:
        """The files that tell of model calls, where `path` is the client's own file of its conversation."""
        return ()

    def entry(self, line: bytes) -> ModelCall | Refusal | None:
        """What a line of such a file tells of."""
        return None

    def told_state(self, role: Role, processes: Sequence[ProcessId]) -> State:
        """What the client itself says that it is doing, in a file of its own; `processes` are those of the agent."""
        return "unknown"


def error_type(words: str) -> ErrorType | None:
    """The type that the usual words speak of."""
    lowered = words.lower()
    return next((kind for kind, pattern in _WORDS if pattern.search(lowered)), None)


def short(words: str) -> str:
    """One line of it."""
    return " ".join(words.split())[:MESSAGE_MAX]


def text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def json_object(data: bytes) -> dict[str, Any]:
    """The object in these bytes; empty where there is none."""
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def wall_of(entry: Mapping[str, Any]) -> float:
    """When an entry of a transcript was written; 0 where it does not say."""
    try:
        return datetime.datetime.fromisoformat(text(entry.get("timestamp"))).timestamp()
    except (ValueError, OverflowError):
        return 0.0


def count(value: Any) -> int:
    """A number of tokens; 0 for what is none."""
    return value if isinstance(value, int) and 0 < value < COUNT_MAX else 0


def trimmed(lines: Sequence[str]) -> list[str]:
    """A screen without the blanks at the ends of lines and without empty last lines."""
    shown = [line.rstrip() for line in lines]
    while shown and not shown[-1]:
        shown.pop()
    return shown
