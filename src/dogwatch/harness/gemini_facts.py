"""What the Gemini CLI keeps and tells: the user's own configuration, transcripts, errors (seen with 0.61.0)."""

from __future__ import annotations

import glob
import json
import math
import os
import re
from collections.abc import Mapping, Sequence
from typing import Any

from dogwatch.errors import RefusedError
from dogwatch.harness.api import Launch
from dogwatch.harness.neutral import Neutral, count, json_object, short, text, wall_of
from dogwatch.model.plan import Role
from dogwatch.model.tally import ErrorType, Failure, ModelCall, Tokens

WINDOW_TOKENS = 1_048_576
"""How much its models keep in mind; the client makes its conversation shorter from half of it on."""
HOME_VARIABLE = "GEMINI_CLI_HOME"
NOT_LINKED = frozenset({"settings.json", "tmp", "history", "projects.json", "keybindings.json", "state.json"})
"""What each agent has for itself. Other keys than the usual ones would not be pressed."""
_ERRORS: tuple[tuple[ErrorType, re.Pattern[str]], ...] = (
    ("context_exhausted", re.compile(r"context window|maximum number of tokens|input token count")),
    ("auth_failed", re.compile(r"unauthenticated|permission_denied|api[ _]key|\b40[13]\b")),
    ("rate_limited", re.compile(r"resource_exhausted|quota")),
    ("overloaded", re.compile(r"unavailable|\b503\b")),
    ("api_timeout", re.compile(r"deadline_exceeded")),
)
# Commas before a closing bracket are as wrong for the client as for us; comments are not.
_COMMENT = re.compile(r'("(?:\\.|[^"\\])*")|//[^\n]*|/\*.*?\*/', re.DOTALL)


def user_folder(role: Role) -> str:
    """Where the user's own configuration is, for agents of this role."""
    home = role.environment.get("HOME") or os.environ.get(HOME_VARIABLE) or os.environ.get("HOME", "")
    return os.path.join(home, ".gemini")


def own_home(launch: Launch) -> str:
    """What the agent has for a home as far as its client's own files go: one for each conversation."""
    return f"{launch.folder}/gemini-{launch.conversation[:8]}"


def user_settings(role: Role) -> dict[str, Any]:
    """The user's own settings; RefusedError where they cannot be read, as the client itself would refuse them."""
    path = os.path.join(user_folder(role), "settings.json")
    try:
        with open(path, encoding="utf-8", opener=_unblocked) as file:
            settings = json.loads(_COMMENT.sub(lambda found: found[1] or "", file.read()))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, RecursionError) as error:
        raise RefusedError(
            f"{path} cannot be read: {error}", hint="the client would not start with it either"
        ) from None
    if not isinstance(settings, dict):
        raise RefusedError(f"{path} is no JSON object", hint="the client would not start with it either")
    return settings


def _unblocked(path: str, flags: int) -> int:
    """Agents may write there too: a pipe is not waited for."""
    return os.open(path, flags | os.O_NONBLOCK)


def links(launch: Launch) -> dict[str, str]:
    """From the agent's own folder to all that is the user's: login, trusted folders, commands, extensions."""
    folder, own = user_folder(launch.role), f"{own_home(launch)}/.gemini"
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        return {}
    return {f"{own}/{name}": f"{folder}/{name}" for name in names if name not in NOT_LINKED and ".lock" not in name}


def has_conversation(launch: Launch) -> bool:
    """Whether the client has kept something of this conversation; where nothing was said in it, it begins anew."""
    return bool(glob.glob(f"{glob.escape(own_home(launch))}/.gemini/tmp/*/chats/session-*.jsonl"))


class GeminiFacts(Neutral):
    """The part of the Gemini CLI's harness that reads its errors and transcripts."""

    def failure(self, event: str, payload: Mapping[str, Any]) -> Failure | None:
        """The provider's own words come first."""
        found = super().failure(event, payload)
        if found is None or event != "StopFailure":
            return found
        said = text(payload.get("error"))
        lowered = said.lower()
        kind = next((kind for kind, pattern in _ERRORS if pattern.search(lowered)), found.type)
        return Failure(kind, "", short(said))

    def transcripts(self, path: str) -> Sequence[str]:
        """The conversation's own file, and one for each sub-agent, in a folder that is named after the conversation."""
        folder, name = os.path.split(path)
        begin = name.removesuffix(".jsonl").rpartition("-")[2]
        return (path, *sorted(glob.glob(f"{glob.escape(folder)}/{glob.escape(begin)}*/*.jsonl")))

    def entry(self, line: bytes) -> ModelCall | None:
        """An answer of the model with its usage."""
        if b'"tokens":{' not in line or line.startswith(b'{"$set"'):
            return None
        entry = json_object(line)
        tokens, model = entry.get("tokens"), text(entry.get("model"))
        if entry.get("type") != "gemini" or not isinstance(tokens, dict) or not model:
            return None
        cached = count(tokens.get("cached"))
        counted = Tokens(
            calls=1,
            input=max(0, count(tokens.get("input")) - cached),
            output=count(tokens.get("output")) + count(tokens.get("thoughts")),
            cache_read=cached,
        )
        return ModelCall(id=text(entry.get("id")), model=model, at=wall_of(entry), tokens=counted, subagent=False)

    def context(self, tail: bytes) -> float | None:
        """From the last answer that counts its tokens; after a compaction nothing is known for a while."""
        for line in reversed(tail.splitlines()):
            if line.startswith(b'{"$set":{"sessionId":'):
                return None
            if b'"tokens":{' not in line or line.startswith(b'{"$set"'):
                continue
            tokens = json_object(line).get("tokens")
            if isinstance(tokens, dict) and (used := count(tokens.get("input"))):
                share = used / WINDOW_TOKENS
                return share if math.isfinite(share) else None
        return None
