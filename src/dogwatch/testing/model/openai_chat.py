"""OpenAI's chat completions, as OpenCode and many others speak them."""

from __future__ import annotations

import json
import re
import time
import uuid
from collections.abc import Iterator, Mapping
from itertools import cycle
from typing import Any

from dogwatch.testing.model.answer import Answer, Call, tokens_of
from dogwatch.testing.model.conversation import Question, Said
from dogwatch.testing.model.wire import BadRequestError, Frame, json_body

PATHS = ("/chat/completions", "/v1/chat/completions")
SESSIONS = ("x-session-affinity", "x-opencode-session", "x-session-id")
"""Headers in which clients name the conversation."""
ROLES = ("system", "developer", "user", "assistant", "tool")
JSON_PIECE = 16
BYTES_PER_TOKEN = 4
REMINDER = re.compile(r"<system-reminder>.*?</system-reminder>\s*", re.DOTALL)
"""What OpenCode tells the model beside the user's own words, within the same message."""
ASIDE = "The user sent the following message"
"""How OpenCode begins what the user has typed in the middle of a turn, within such a reminder."""
ERRORS = {
    401: ("invalid_request_error", "invalid_api_key"),
    403: ("invalid_request_error", "forbidden"),
    404: ("invalid_request_error", "not_found"),
    429: ("rate_limit_error", "rate_limit_exceeded"),
}


class OpenAIChat:
    """The protocol; it keeps nothing."""

    def serves(self, path: str) -> bool:
        return path in PATHS

    def aside(self, method: str, path: str, body: bytes) -> dict[str, Any] | None:
        return None

    def question(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> Question:
        if method != "POST":
            raise BadRequestError(f"{path} does not take {method}", 405)
        data = _checked(body)
        said, told = _said(data["messages"])
        functions = [tool.get("function") for tool in data.get("tools") or () if isinstance(tool, dict)]
        user = data.get("user")
        return Question(
            model=str(data["model"]),
            said=tuple(said),
            conversation=next((headers[name] for name in SESSIONS if headers.get(name)), "")
            or (user if isinstance(user, str) else ""),
            system="\n".join(told),
            tools=tuple(str(one.get("name", "")) for one in functions if isinstance(one, dict)),
            stream=data.get("stream") is True,
            messages=len(data["messages"]),
            input_tokens=max(1, len(body) // BYTES_PER_TOKEN),
            schema=_schema(data),
            body=data,
        )

    def whole(self, answer: Answer, question: Question) -> dict[str, Any]:
        calls = [part for part in answer.parts if isinstance(part, Call)]
        message: dict[str, Any] = {
            "role": "assistant",
            "content": "".join(part for part in answer.parts if isinstance(part, str)) or (None if calls else ""),
        }
        if calls:
            message["tool_calls"] = [_call(call, json.dumps(call.input, ensure_ascii=False)) for call in calls]
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": _reason(answer)}
        head = _head(question, "chat.completion")
        return {**head, "choices": [choice], "usage": _usage(answer, question)}

    def stream(self, answer: Answer, question: Question) -> Iterator[Frame]:
        head = _head(question, "chat.completion.chunk")
        yield _chunk(head, {"role": "assistant", "content": ""})
        if answer.ending == "pings":
            while True:
                yield Frame(b": keep-alive\n\n", True)
        number = 0
        for part in answer.parts:
            if isinstance(part, Call):
                yield _chunk(head, {"tool_calls": [{"index": number, **_call(part, "")}]})
                for piece in _pieces(part):
                    call = {"index": number, "function": {"arguments": piece}}
                    yield _chunk(head, {"tool_calls": [call]}, is_token=True)
                number += 1
            else:
                pieces = tokens_of(part)
                for piece in cycle(pieces) if answer.ending == "tokens" else pieces:
                    yield _chunk(head, {"content": piece}, is_token=True)
        yield _chunk(head, {}, reason=_reason(answer))
        options = question.body.get("stream_options")
        if isinstance(options, dict) and options.get("include_usage") is True:
            yield _event({**head, "choices": [], "usage": _usage(answer, question)})
        yield Frame(b"data: [DONE]\n\n")

    def failure(self, answer: Answer) -> bytes:
        return _event(self.error(answer.status, answer.message)).data

    def error(self, status: int, message: str) -> dict[str, Any]:
        kind, code = ERRORS.get(status, ("invalid_request_error" if status < 500 else "server_error", None))
        return {"error": {"message": message, "type": kind, "param": None, "code": code}}


def _checked(body: bytes) -> dict[str, Any]:
    """The body, if it has a model and a list of messages."""
    data = json_body(body)
    for key in ("model", "messages"):
        if key not in data:
            raise BadRequestError(f"Missing required parameter: '{key}'.")
    messages = data["messages"]
    if not isinstance(messages, list) or not messages:
        raise BadRequestError("Invalid 'messages': empty array.")
    for number, message in enumerate(messages):
        if not isinstance(message, dict) or message.get("role") not in ROLES:
            raise BadRequestError(f"Invalid value for 'messages[{number}].role': must be one of {', '.join(ROLES)}.")
    if not isinstance(data.get("tools") or [], list):
        raise BadRequestError("Invalid type for 'tools': expected an array.")
    return data


def _said(messages: list[dict[str, Any]]) -> tuple[list[Said], list[str]]:
    """Who said what, in order; and what the client has told the model as the system."""
    said: list[Said] = []
    told: list[str] = []
    for number, message in enumerate(messages):
        role, texts = message["role"], _texts(number, message.get("content"))
        if role in ("system", "developer"):
            told += texts
        elif role == "assistant":
            said.append(Said("model", "\n".join(texts)))
        elif role == "tool":
            said.append(Said("tool", "\n".join(texts)))
        else:
            said += [_user(text.strip()) for text in texts if text.strip()]
    return said, told


def _user(text: str) -> Said:
    words = REMINDER.sub("", text).strip()
    return Said("user", words) if words else Said("aside" if ASIDE in text else "client", text)


def _texts(number: int, content: Any) -> list[str]:
    if content is None or isinstance(content, str):
        return [content or ""]
    if not isinstance(content, list) or not all(isinstance(part, dict) for part in content):
        raise BadRequestError(f"Invalid type for 'messages[{number}].content': expected a string or an array.")
    return [str(part.get("text") or "") for part in content if "text" in part]


def _schema(data: dict[str, Any]) -> dict[str, Any] | None:
    wanted = data.get("response_format")
    inner = wanted.get("json_schema") if isinstance(wanted, dict) else None
    schema = inner.get("schema") if isinstance(inner, dict) else None
    return schema if isinstance(schema, dict) else None


def _head(question: Question, kind: str) -> dict[str, Any]:
    name = f"chatcmpl-{uuid.uuid4().hex[:24]}"
    return {"id": name, "object": kind, "created": int(time.time()), "model": question.model}


def _call(call: Call, arguments: str) -> dict[str, Any]:
    function = {"name": call.name, "arguments": arguments}
    return {"id": f"call_{uuid.uuid4().hex[:24]}", "type": "function", "function": function}


def _pieces(call: Call) -> list[str]:
    text = json.dumps(call.input, ensure_ascii=False)
    return [text[at : at + JSON_PIECE] for at in range(0, len(text), JSON_PIECE)]


def _reason(answer: Answer) -> str:
    return "tool_calls" if any(isinstance(part, Call) for part in answer.parts) else "stop"


def _usage(answer: Answer, question: Question) -> dict[str, Any]:
    """Here what was read from a cache is part of the prompt's tokens."""
    usage = answer.usage
    spoken = sum(len(_pieces(part) if isinstance(part, Call) else tokens_of(part)) for part in answer.parts)
    fresh = question.input_tokens if usage.input_tokens is None else usage.input_tokens
    prompt = fresh + usage.cache_read_tokens + usage.cache_write_tokens
    output = spoken if usage.output_tokens is None else usage.output_tokens
    return {
        "prompt_tokens": prompt,
        "completion_tokens": output,
        "total_tokens": prompt + output,
        "prompt_tokens_details": {"cached_tokens": usage.cache_read_tokens},
    }


def _chunk(
    head: Mapping[str, Any], delta: Mapping[str, Any], *, reason: str | None = None, is_token: bool = False
) -> Frame:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}
    return _event({**head, "choices": [choice]}, is_token=is_token)


def _event(data: Mapping[str, Any], *, is_token: bool = False) -> Frame:
    return Frame(f"data: {json.dumps(data, ensure_ascii=True)}\n\n".encode(), is_token)
