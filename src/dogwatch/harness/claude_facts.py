"""What Claude Code tells besides its turns: errors, model calls and refusals, and its own state (seen with 2.1.325)."""

from __future__ import annotations

import glob
import os
import re
import stat
from collections.abc import Mapping, Sequence
from typing import Any

from dogwatch.harness.api import State
from dogwatch.harness.neutral import Neutral, count, error_type, json_object, short, text, wall_of
from dogwatch.model.plan import Role
from dogwatch.model.process import ProcessId
from dogwatch.model.tally import ErrorType, Failure, ModelCall, Refusal, Tokens
from dogwatch.world.processes import inner_pid, pid_namespace

STATE_BYTES_MAX = 65536
CANDIDATES_MAX = 8
"""Among so many of an agent's processes the client is looked for: below launchers and sandboxes."""
_ERRORS: Mapping[str, ErrorType] = {
    "rate_limit": "rate_limited",
    "overloaded": "overloaded",
    "authentication_failed": "auth_failed",
    "oauth_org_not_allowed": "auth_failed",
    "account_on_hold": "auth_failed",
    "verification_required": "auth_failed",
    "billing_error": "auth_failed",
    "cloud_credential_error": "auth_failed",
}
"""What a StopFailure calls its error. A 529 and a time-out are `server_error` or `unknown` there: the words tell."""
_REFUSED = "<tool_use_error>"
_FORBIDDEN = "Permission to use "
_TOOL = re.compile(r"(?:InputValidationError: |Permission to use |No such tool available: )([\w.:-]+)")
_TAG = re.compile(r"</?tool_use_error>")
_STATES: Mapping[str, State] = {"idle": "idle", "busy": "busy", "shell": "shell"}


def config_folder(role: Role) -> str:
    """Where the client keeps its own files for agents of this role."""
    variables = {**os.environ, **role.environment}
    return variables.get("CLAUDE_CONFIG_DIR") or os.path.join(variables.get("HOME", ""), ".claude")


class ClaudeFacts(Neutral):
    """The part of Claude Code's harness that reads its errors, transcripts and state files."""

    def failure(self, event: str, payload: Mapping[str, Any]) -> Failure | None:
        """A tool's input that was refused is told by the transcript, not by a hook."""
        found = super().failure(event, payload)
        if found is None or (event == "PostToolUseFailure" and text(payload.get("error")).startswith(_REFUSED)):
            return None
        if event != "StopFailure":
            return found
        said = text(payload.get("last_assistant_message"))
        kind = error_type(said) if error_type(said) == "context_exhausted" else _ERRORS.get(text(payload.get("error")))
        return Failure(kind or error_type(said) or "api_error", "", short(said or text(payload.get("error"))))

    def transcripts(self, path: str) -> Sequence[str]:
        """The conversation's own file, and one for each sub-agent."""
        folder = path.removesuffix(".jsonl")
        return (path, *sorted(glob.glob(f"{glob.escape(folder)}/subagents/*.jsonl")))

    def entry(self, line: bytes) -> ModelCall | Refusal | None:
        """An answer of the model with its usage, or a tool's result that says that the call was refused."""
        if b'"usage"' in line and b'"assistant"' in line:
            return _call(json_object(line))
        if b'"is_error":true' in line and (_REFUSED.encode() in line or _FORBIDDEN.encode() in line):
            return _refusal(json_object(line))
        return None

    def told_state(self, role: Role, processes: Sequence[ProcessId]) -> State:
        """From `sessions/PID.json`. A killed client leaves its file behind, so pid, start and namespace must be those
        of a living process of the agent; in a namespace of its own the file has the pid that holds there."""
        folder = os.path.join(config_folder(role), "sessions")
        for process in processes[:CANDIDATES_MAX]:
            told = _told(folder, process, process.pid)
            if told is None and (inner := inner_pid(process.pid)) != process.pid:
                # The folder is another for each sandbox: in all of them the client has the same pid.
                told = _told(f"/proc/{process.pid}/root{os.path.realpath(folder)}", process, inner)
            if told is not None:
                return _state(told)
        return "unknown"


def _told(folder: str, process: ProcessId, pid: int) -> dict[str, Any] | None:
    """The state file of this very process. The agent can put anything there: a pipe is not waited for."""
    try:
        fd = os.open(f"{folder}/{pid}.json", os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    with open(fd, "rb") as file:
        told = json_object(file.read(STATE_BYTES_MAX)) if stat.S_ISREG(os.fstat(fd).st_mode) else {}
    domain = text(told.get("pidDomain"))
    if told.get("pid") != pid or text(told.get("procStart")) != str(process.start_ticks):
        return None
    if domain or pid != process.pid:
        namespace = pid_namespace(process.pid)
        if not namespace or not domain.endswith(f":{namespace}"):
            return None
    return told


def _state(told: Mapping[str, Any]) -> State:
    status = text(told.get("status"))
    if status == "waiting":
        return "permission" if "permission" in text(told.get("waitingFor")) else "dialog"
    return _STATES.get(status, "unknown")


def _call(entry: Mapping[str, Any]) -> ModelCall | None:
    message = entry.get("message")
    usage = message.get("usage") if isinstance(message, dict) else None
    if entry.get("type") != "assistant" or not isinstance(message, dict) or not isinstance(usage, dict):
        return None
    model, identity = text(message.get("model")), text(message.get("id"))
    if not identity or not model or model.startswith("<"):
        return None  # the client's own words, such as "API Error": no model was called
    tokens = Tokens(
        calls=1,
        input=count(usage.get("input_tokens")),
        output=count(usage.get("output_tokens")),
        cache_creation=count(usage.get("cache_creation_input_tokens")),
        cache_read=count(usage.get("cache_read_input_tokens")),
    )
    subagent = bool(entry.get("isSidechain") or entry.get("agentId"))
    return ModelCall(id=identity, model=model, at=wall_of(entry), tokens=tokens, subagent=subagent)


def _refusal(entry: Mapping[str, Any]) -> Refusal | None:
    message = entry.get("message")
    content = message.get("content") if isinstance(message, dict) else None
    if entry.get("type") != "user" or not isinstance(content, list):
        return None
    for block in content:
        said = text(block.get("content")) if isinstance(block, dict) and block.get("is_error") is True else ""
        if said.startswith((_REFUSED, _FORBIDDEN)):
            kind: ErrorType = "permission_denied" if said.startswith(_FORBIDDEN) else "validation_failure"
            tool = _TOOL.search(said)
            failure = Failure(kind, tool.group(1) if tool else "", short(_TAG.sub("", said)))
            return Refusal(id=text(block.get("tool_use_id")), at=wall_of(entry), failure=failure)
    return None
