"""What Codex tells besides its turns, in the rollout that it keeps of each conversation (seen with 0.166.0)."""

from __future__ import annotations

import glob
import math
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from dogwatch.harness.neutral import Neutral, count, error_type, json_object, short, text, wall_of
from dogwatch.model.plan import Role
from dogwatch.model.tally import ErrorType, Failure, ModelCall, Refusal, Tokens

HEAD_BYTES = 4096
UNKNOWN_MODEL = "codex"
"""A record of a call does not say which model it was."""
_ERRORS: Mapping[str, ErrorType] = {
    "context_window_exceeded": "context_exhausted",
    "usage_limit_exceeded": "rate_limited",
    "server_overloaded": "overloaded",
    "unauthorized": "auth_failed",
}
"""What a turn that has failed calls its error."""
_STATUS: Mapping[int, ErrorType] = {
    401: "auth_failed",
    403: "auth_failed",
    408: "api_timeout",
    429: "rate_limited",
    503: "overloaded",
    504: "api_timeout",
    529: "overloaded",
}
_SESSION = re.compile(rb'"session_id":"([0-9a-f-]{36})"')
_TURNS = (b'"task_started"', b'"task_complete"', b'"turn_aborted"')


def config_folder(role: Role) -> str:
    """Where the client keeps its own files for agents of this role."""
    variables = {**os.environ, **role.environment}
    return variables.get("CODEX_HOME") or os.path.join(variables.get("HOME", ""), ".codex")


class CodexFacts(Neutral):
    """The part of Codex's harness that reads its rollouts."""

    def context(self, tail: bytes) -> float | None:
        """From the last count of tokens; after a compaction nothing is known for a while."""
        for line in reversed(tail.splitlines()):
            if b'"compacted"' in line and json_object(line).get("type") == "compacted":
                return None
            if b'"token_count"' not in line:
                continue
            info = _payload(line, "event_msg", "token_count").get("info")
            last = info.get("last_token_usage") if isinstance(info, dict) else None
            if not isinstance(info, dict) or not isinstance(last, dict):
                continue
            used, window = count(last.get("total_tokens")), count(info.get("model_context_window"))
            share = used / window if window else math.nan
            return share if used and math.isfinite(share) else None
        return None

    def ending(self, tail: bytes) -> tuple[float, Failure] | None:
        """A turn that an error has ended runs no hook: its end stands here alone."""
        for line in reversed(tail.splitlines()):
            if not any(word in line for word in _TURNS):
                continue
            entry = json_object(line)
            payload = entry.get("payload")
            if entry.get("type") != "event_msg" or not isinstance(payload, dict):
                continue
            failure = _failure(payload)
            return (wall_of(entry), failure) if failure is not None else None
        return None

    def transcripts(self, path: str) -> Sequence[str]:
        """The conversation's own file, and those of its sub-agents, which lie beside it or in the folder of a later
        day."""
        folder = os.path.dirname(path)
        root = os.path.dirname(os.path.dirname(os.path.dirname(folder)))
        session = _session(path)
        if not session:
            return (path,)
        days = [day for day in glob.glob(f"{glob.escape(root)}/*/*/*") if day >= folder]
        files = [file for day in days for file in glob.glob(f"{glob.escape(day)}/rollout-*.jsonl")]
        return (path, *sorted(file for file in files if file != path and _session(file) == session))

    def entry(self, line: bytes) -> ModelCall | Refusal | None:
        """An answer of the model with its usage, or a turn that has ended with an error."""
        if b'"token_usage_record"' in line:
            return _call(json_object(line))
        if b'"task_complete"' in line and b'"error"' in line:
            entry = json_object(line)
            payload = entry.get("payload")
            if entry.get("type") == "event_msg" and isinstance(payload, dict):
                failure = _failure(payload)
                turn = text(payload.get("turn_id"))
                return Refusal(id=turn, at=wall_of(entry), failure=failure) if failure is not None else None
        return None


def _call(entry: Mapping[str, Any]) -> ModelCall | None:
    payload = entry.get("payload")
    usage = payload.get("usage") if isinstance(payload, dict) else None
    if entry.get("type") != "token_usage_record" or not isinstance(payload, dict) or not isinstance(usage, dict):
        return None
    identity = text(payload.get("response_id"))
    if not identity:
        return None
    read, written = count(usage.get("cached_input_tokens")), count(usage.get("cache_write_input_tokens"))
    tokens = Tokens(
        calls=1,
        # What came from a cache, or went into one, is a part of its input.
        input=max(0, count(usage.get("input_tokens")) - read - written),
        output=count(usage.get("output_tokens")),
        cache_creation=written,
        cache_read=read,
    )
    subagent = payload.get("thread_id") != payload.get("session_id")
    model = text(payload.get("model")) or UNKNOWN_MODEL
    return ModelCall(id=identity, model=model, at=wall_of(entry), tokens=tokens, subagent=subagent)


def _failure(payload: Mapping[str, Any]) -> Failure | None:
    """The error that has ended a turn; None where it has ended well, or was interrupted."""
    error = payload.get("error")
    if payload.get("type") != "task_complete" or not isinstance(error, dict):
        return None
    said, info = text(error.get("message")), error.get("codex_error_info")
    kinds: list[ErrorType] = [_ERRORS[word] for word in _words(info) if word in _ERRORS]
    kinds += [_STATUS[code] for code in _statuses(info) if code in _STATUS]
    return Failure(kinds[0] if kinds else error_type(said) or "api_error", "", short(said))


def _words(info: Any) -> Iterator[str]:
    if isinstance(info, str):
        yield info
    elif isinstance(info, dict):
        yield from info


def _statuses(info: Any) -> Iterator[int]:
    for about in info.values() if isinstance(info, dict) else ():
        code = about.get("http_status_code") if isinstance(about, dict) else None
        if isinstance(code, int):
            yield code


@lru_cache(maxsize=4096)
def _known_session(path: str, inode: int) -> str:
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # a pipe is not waited for
    with open(fd, "rb") as file:
        found = _SESSION.search(file.read(HEAD_BYTES) or b"")
    if found is None:
        raise ValueError(path)  # not written yet: nothing to be remembered
    return found[1].decode()


def _session(path: str) -> str:
    """Which session a rollout belongs to: its own, or that of the agent whose sub-agent it is."""
    try:
        return _known_session(path, os.stat(path).st_ino)
    except (OSError, ValueError):
        return ""


def _payload(line: bytes, kind: str, event: str) -> dict[str, Any]:
    entry = json_object(line)
    payload = entry.get("payload")
    is_it = entry.get("type") == kind and isinstance(payload, dict) and payload.get("type") == event
    return payload if is_it and isinstance(payload, dict) else {}
