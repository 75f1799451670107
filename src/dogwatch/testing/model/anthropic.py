"""Anthropic's Messages API, as Claude Code and others speak it."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterator, Mapping
from itertools import cycle
from typing import Any

from dogwatch.testing.model.answer import Answer, Call, tokens_of
from dogwatch.testing.model.conversation import Question, Said, Speaker
from dogwatch.testing.model.wire import BadRequestError, Frame, json_body

MESSAGES = "/v1/messages"
COUNT = "/v1/messages/count_tokens"
JSON_PIECE = 16
BYTES_PER_TOKEN = 4
REMINDER = re.compile(r"<system-reminder>.*?</system-reminder>\s*", re.DOTALL)
"""What Claude Code tells the model beside the user's own words, within the same message."""
ASIDE = "The user sent a new message while you were working"
"""How Claude Code begins what the user has typed in the middle of a turn; it stands beside a tool's result."""
ERRORS = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    405: "invalid_request_error",
    413: "request_too_large",
    429: "rate_limit_error",
    504: "timeout_error",
    529: "overloaded_error",
}


class Anthropic:
    """The protocol; it keeps nothing."""

    def serves(self, path: str) -> bool:
        return path in (MESSAGES, COUNT)

    def aside(self, method: str, path: str, body: bytes) -> dict[str, Any] | None:
        if path == COUNT and method == "POST":
            _checked(body, ("model", "messages"))
            return {"input_tokens": _estimate(body)}
        return None

    def question(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> Question:
        if method != "POST" or path != MESSAGES:
            raise BadRequestError(f"{path} does not take {method}", 405)
        data = _checked(body, ("model", "messages", "max_tokens"))
        said, told = _said(data["messages"])
        metadata = data.get("metadata")
        user = metadata.get("user_id") if isinstance(metadata, dict) else None
        tools = data.get("tools")
        return Question(
            model=str(data["model"]),
            said=tuple(said),
            conversation=headers.get("x-claude-code-session-id") or (user if isinstance(user, str) else ""),
            system="\n".join([_text("system", data.get("system") or ""), *told]),
            tools=tuple(str(tool.get("name", "")) for tool in tools if isinstance(tool, dict))
            if isinstance(tools, list)
            else (),
            stream=data.get("stream") is True,
            messages=len(data["messages"]),
            input_tokens=_estimate(body),
            schema=_schema(data),
            body=data,
        )

    def whole(self, answer: Answer, question: Question) -> dict[str, Any]:
        content: list[dict[str, Any]] = [
            _call(part, part.input) if isinstance(part, Call) else {"type": "text", "text": part}
            for part in answer.parts
        ]
        message = _message(question)
        return {**message, "content": content, "stop_reason": _reason(answer), "usage": _usage(answer, question)}

    def stream(self, answer: Answer, question: Question) -> Iterator[Frame]:
        start = {**_usage(answer, question), "output_tokens": 1}
        yield _event("message_start", message={**_message(question), "usage": start})
        if answer.ending == "pings":
            while True:
                yield _event("ping", is_token=True)
        for index, part in enumerate(answer.parts):
            block = _call(part, {}) if isinstance(part, Call) else {"type": "text", "text": ""}
            yield _event("content_block_start", index=index, content_block=block)
            if index == 0:
                yield _event("ping")
            pieces = _pieces(part)
            for delta in cycle(pieces) if answer.ending == "tokens" else pieces:
                yield _event("content_block_delta", is_token=True, index=index, delta=delta)
            yield _event("content_block_stop", index=index)
        reason = {"stop_reason": _reason(answer), "stop_sequence": None}
        yield _event("message_delta", delta=reason, usage=_usage(answer, question))
        yield _event("message_stop")

    def failure(self, answer: Answer) -> bytes:
        return _event("error", error=_error(answer.status, answer.message)).data

    def error(self, status: int, message: str) -> dict[str, Any]:
        return {"type": "error", "error": _error(status, message), "request_id": f"req_{uuid.uuid4().hex[:24]}"}


def _checked(body: bytes, required: tuple[str, ...]) -> dict[str, Any]:
    """The body, if it has the keys that are required and a list of messages."""
    data = json_body(body)
    for key in required:
        if key not in data:
            raise BadRequestError(f"{key}: Field required")
    messages = data["messages"]
    if not isinstance(messages, list) or not messages:
        raise BadRequestError("messages: at least one message is required")
    for number, message in enumerate(messages):
        if not isinstance(message, dict) or message.get("role") not in ("user", "assistant", "system"):
            raise BadRequestError(f"messages.{number}.role: must be user or assistant")
    return data


def _said(messages: list[dict[str, Any]]) -> tuple[list[Said], list[str]]:
    """Who said what, in order; and what the client has told the model as the system, in between."""
    said: list[Said] = []
    told: list[str] = []
    for number, message in enumerate(messages):
        where, role = f"messages.{number}.content", message["role"]
        content = message.get("content")
        if role == "system":
            told.append(_text(where, content))
        elif role == "assistant":
            said.append(Said("model", _text(where, content)))
        else:
            for block in _blocks(where, content):
                if block.get("type") == "tool_result":
                    said.append(Said("tool", _text(where, block.get("content") or "")))
                elif text := str(block.get("text") or "").strip():
                    words = REMINDER.sub("", text).strip()
                    by: Speaker = "client" if not words else "aside" if words.startswith(ASIDE) else "user"
                    said.append(Said(by, words or text))
    return said, told


def _blocks(where: str, content: Any) -> list[dict[str, Any]]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    if not isinstance(content, list) or not all(isinstance(block, dict) for block in content):
        raise BadRequestError(f"{where}: must be a text or a list of content blocks")
    return content


def _text(where: str, content: Any) -> str:
    return "\n".join(str(block.get("text") or "") for block in _blocks(where, content) if "text" in block)


def _schema(data: dict[str, Any]) -> dict[str, Any] | None:
    config = data.get("output_config")
    wanted = config.get("format") if isinstance(config, dict) else None
    schema = wanted.get("schema") if isinstance(wanted, dict) else None
    return schema if isinstance(schema, dict) else None


def _estimate(body: bytes) -> int:
    return max(1, len(body) // BYTES_PER_TOKEN)


def _message(question: Question) -> dict[str, Any]:
    return {
        "id": f"msg_{uuid.uuid4().hex[:24]}",
        "type": "message",
        "role": "assistant",
        "model": question.model,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
    }


def _call(call: Call, given: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "tool_use", "id": f"toolu_{uuid.uuid4().hex[:24]}", "name": call.name, "input": given}


def _pieces(part: str | Call) -> list[dict[str, str]]:
    if isinstance(part, str):
        return [{"type": "text_delta", "text": token} for token in tokens_of(part)]
    text = json.dumps(part.input, ensure_ascii=False)
    pieces = [text[at : at + JSON_PIECE] for at in range(0, len(text), JSON_PIECE)]
    return [{"type": "input_json_delta", "partial_json": piece} for piece in ("", *pieces)]


def _reason(answer: Answer) -> str:
    return "tool_use" if any(isinstance(part, Call) for part in answer.parts) else "end_turn"


def _usage(answer: Answer, question: Question) -> dict[str, int]:
    usage = answer.usage
    spoken = sum(len(_pieces(part)) for part in answer.parts)
    return {
        "input_tokens": question.input_tokens if usage.input_tokens is None else usage.input_tokens,
        "cache_creation_input_tokens": usage.cache_write_tokens,
        "cache_read_input_tokens": usage.cache_read_tokens,
        "output_tokens": spoken if usage.output_tokens is None else usage.output_tokens,
    }


def _error(status: int, message: str) -> dict[str, str]:
    return {"type": ERRORS.get(status, "invalid_request_error" if status < 500 else "api_error"), "message": message}


def _event(kind: str, *, is_token: bool = False, **values: Any) -> Frame:
    data = json.dumps({"type": kind, **values}, ensure_ascii=True)
    return Frame(f"event: {kind}\ndata: {data}\n\n".encode(), is_token)
