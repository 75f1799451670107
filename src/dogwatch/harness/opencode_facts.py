"""What OpenCode tells besides its turns: its session, errors, and model calls (seen with 1.18.33).

Its conversations lie in a database. What is needed of them, dogwatch's plugin puts into the agent's spool, which so is
its transcript too.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping, Sequence
from typing import Any

from dogwatch.harness.api import Launch
from dogwatch.harness.neutral import Neutral, count, error_type, short, text
from dogwatch.model.spool import parse
from dogwatch.model.tally import ErrorType, Failure, ModelCall, Refusal, Tokens

CALL = b"\tModelCall\t"
_PROMPT = b"\tUserPromptSubmit\t"
_COMPACTED = b"\tPostCompact\t"
_SESSION = re.compile(rb'"session_id":"(ses_\w+)","conversation":"([\w-]+)"')
_RULE = "The user has specified a rule which prevents"
_REJECTED = "The user rejected permission"
_INVALID = "invalid: "
_ARGUMENTS = "tool was called with invalid arguments"
_ERRORS: Mapping[str, ErrorType] = {
    "ProviderAuthError": "auth_failed",
    "MessageOutputLengthError": "context_exhausted",
    "ContextOverflowError": "context_exhausted",
}
"""What the client calls its errors, where the name says it all."""


def spool_of(launch: Launch) -> str:
    """The agent's spool, also where its marks are not told."""
    runs, agent = os.path.dirname(os.path.dirname(launch.folder)), os.path.basename(launch.folder)
    return launch.marks.get("DOGWATCH_SPOOL") or f"{runs}/spool/{agent}.spool"


def session_of(launch: Launch) -> str:
    """The client's own name for this conversation; empty where nothing was said in it yet."""
    try:
        with open(spool_of(launch), "rb") as file:
            data = file.read()
    except OSError:
        return ""
    end = len(data)
    while (at := data.rfind(_PROMPT, 0, end)) >= 0:
        found = _SESSION.search(data, at, at + 400)
        if found and found[2] == launch.conversation.encode():
            return found[1].decode()
        end = at
    return ""


class OpenCodeFacts(Neutral):
    """The part of OpenCode's harness that reads its errors and model calls."""

    def failure(self, event: str, payload: Mapping[str, Any]) -> Failure | None:
        """A tool's input that was refused, and a rule that forbids a call, are told like any failure of a tool."""
        found = super().failure(event, payload)
        error = text(payload.get("error"))
        if found is not None and event == "PostToolUseFailure":
            if error.startswith((_RULE, _REJECTED)):
                return Failure("permission_denied", found.tool, short(error.partition(" Here are")[0]))
            if error.startswith(_INVALID) or _ARGUMENTS in error:
                return Failure("validation_failure", found.tool, short(error.removeprefix(_INVALID)))
        if found is not None and event == "StopFailure":
            said = text(payload.get("last_assistant_message"))
            kind = _ERRORS.get(error.partition(" ")[0]) or error_type(said) or error_type(error)
            return Failure(kind or "api_error", "", short(said or error))
        return found

    def transcripts(self, path: str) -> Sequence[str]:
        """The spool itself."""
        return (path,)

    def entry(self, line: bytes) -> ModelCall | Refusal | None:
        """An answer of the model with its usage."""
        call = _call(line)
        identity, model, usage = text(call.get("id")), text(call.get("model")), call.get("usage")
        if not identity or not model or not isinstance(usage, dict):
            return None
        tokens = Tokens(
            calls=1,
            input=count(usage.get("input")),
            output=count(usage.get("output")),
            cache_creation=count(usage.get("cache_creation")),
            cache_read=count(usage.get("cache_read")),
        )
        at = call.get("at")
        wall = float(at) if isinstance(at, int | float) and 0 <= at < 1e12 else 0.0
        return ModelCall(id=identity, model=model, at=wall, tokens=tokens, subagent="agent_id" in call)

    def context(self, tail: bytes) -> float | None:
        """From the last answer of the model; after a compaction nothing is known for a while."""
        for line in reversed(tail.splitlines()):
            if _COMPACTED in line[:200] and b'"agent_id"' not in line:
                return None
            call = _call(line)
            usage, window = call.get("usage"), count(call.get("window"))
            if isinstance(usage, dict) and window and "agent_id" not in call and call.get("summary") is not True:
                share = sum(count(value) for value in usage.values()) / window
                return share if math.isfinite(share) else None
        return None


def _call(line: bytes) -> dict[str, Any]:
    """What a line of the spool tells of a model call; empty where it is another."""
    found = parse(line) if CALL in line[:200] else None
    return found.payload() if found is not None and found.event == "ModelCall" else {}
