"""OpenAI's Responses API, as Codex and others speak it: a stream of events, or an answer in one piece."""

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

RESPONSES = "/v1/responses"
JSON_PIECE = 16
BYTES_PER_TOKEN = 4
NOTE = re.compile(
    r"<(?:environment_context|user_instructions|turn_aborted|subagent_notification|recommended_\w+)\b|# AGENTS\.md "
)
"""How Codex begins what it tells the model in the user's name."""
NEW_TASK = "Message Type: NEW_TASK"
ERRORS = {
    401: ("authentication_error", "invalid_api_key"),
    403: ("permission_error", None),
    413: ("invalid_request_error", "context_length_exceeded"),
    429: ("rate_limit_error", "rate_limit_exceeded"),
    503: ("server_error", "server_is_overloaded"),
    529: ("server_error", "server_is_overloaded"),
}


class OpenAIResponses:
    """The protocol; it keeps nothing."""

    def serves(self, path: str) -> bool:
        return path == RESPONSES

    def aside(self, method: str, path: str, body: bytes) -> dict[str, Any] | None:
        return None

    def question(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> Question:
        if method != "POST":
            raise BadRequestError(f"{path} does not take {method}", 405)
        data = _checked(body)
        said, told = _said(data["input"])
        cache_key = data.get("prompt_cache_key")
        instructions = data.get("instructions")
        return Question(
            model=str(data["model"]),
            said=tuple(said),
            conversation=headers.get("session-id") or (cache_key if isinstance(cache_key, str) else ""),
            system="\n".join([instructions if isinstance(instructions, str) else "", *told]),
            tools=() if _is_beside(headers) else tuple(_tools(data)),
            stream=data.get("stream") is True,
            messages=len(data["input"]),
            input_tokens=max(1, len(body) // BYTES_PER_TOKEN),
            schema=_schema(data),
            body=data,
        )

    def whole(self, answer: Answer, question: Question) -> dict[str, Any]:
        return _response(question, "completed", _items(answer, question), _usage(answer, question))

    def stream(self, answer: Answer, question: Question) -> Iterator[Frame]:
        numbers = iter(range(1_000_000_000))
        items = _items(answer, question)
        begun = _response(question, "in_progress", [], None)

        def event(kind: str, *, is_token: bool = False, **values: Any) -> Frame:
            data = json.dumps({"type": kind, "sequence_number": next(numbers), **values}, ensure_ascii=True)
            return Frame(f"event: {kind}\ndata: {data}\n\n".encode(), is_token)

        yield event("response.created", response=begun)
        if answer.ending == "pings":
            while True:
                yield event("response.in_progress", is_token=True, response=begun)
        for index, (part, item) in enumerate(zip(answer.parts, items, strict=True)):
            place = {"item_id": item["id"], "output_index": index}
            pieces = _pieces(part, question)
            endless = cycle(pieces) if answer.ending == "tokens" else pieces
            if isinstance(part, Call):
                key = "arguments" if "arguments" in item else "input"
                kind = "response.function_call_arguments" if key == "arguments" else "response.custom_tool_call_input"
                added = {**item, "status": "in_progress", key: ""}
                yield event("response.output_item.added", output_index=index, item=added)
                for piece in endless:
                    yield event(f"{kind}.delta", is_token=True, delta=piece, **place)
                yield event(f"{kind}.done", **{key: item[key]}, **place)
            else:
                empty: dict[str, Any] = {"type": "output_text", "text": "", "annotations": []}
                added = {**item, "status": "in_progress", "content": []}
                yield event("response.output_item.added", output_index=index, item=added)
                yield event("response.content_part.added", content_index=0, part=empty, **place)
                for piece in endless:
                    yield event("response.output_text.delta", is_token=True, content_index=0, delta=piece, **place)
                yield event("response.output_text.done", content_index=0, text=part, **place)
                yield event("response.content_part.done", content_index=0, part=item["content"][0], **place)
            yield event("response.output_item.done", output_index=index, item=item)
        yield event("response.completed", response=_response(question, "completed", items, _usage(answer, question)))

    def failure(self, answer: Answer) -> bytes:
        _, code = _kind(answer.status)
        error = {"code": code or "server_error", "message": answer.message}
        response = {"id": f"resp_{uuid.uuid4().hex}", "object": "response", "status": "failed", "error": error}
        data = json.dumps({"type": "response.failed", "response": response}, ensure_ascii=True)
        return f"event: response.failed\ndata: {data}\n\n".encode()

    def error(self, status: int, message: str) -> dict[str, Any]:
        kind, code = _kind(status)
        return {"error": {"message": message, "type": kind, "param": None, "code": code}}


def _checked(body: bytes) -> dict[str, Any]:
    """The body, if it names a model and has an input; a text alone becomes the one message that it stands for."""
    data = json_body(body)
    for key in ("model", "input"):
        if key not in data:
            raise BadRequestError(f"Missing required parameter: '{key}'.")
    if isinstance(data["input"], str):
        data["input"] = [{"type": "message", "role": "user", "content": data["input"]}]
    if not isinstance(data["input"], list) or not data["input"]:
        raise BadRequestError("Invalid type for 'input': expected a text or a list of items.")
    for number, item in enumerate(data["input"]):
        if not isinstance(item, dict):
            raise BadRequestError(f"Invalid type for 'input[{number}]': expected an object.")
        if _is_message(item) and item.get("role") not in ("user", "assistant", "system", "developer"):
            raise BadRequestError(f"Invalid value for 'input[{number}].role'.")
    return data


def _is_beside(headers: Mapping[str, str]) -> bool:
    """Whether Codex asks for a title or a summary. It may offer all its tools even then."""
    try:
        about = json.loads(headers.get("x-codex-turn-metadata", "{}"))
    except (ValueError, RecursionError):
        return False
    if not isinstance(about, dict):
        return False
    return about.get("request_kind", "turn") != "turn" or about.get("thread_source") == "thread_title"


def _is_message(item: Mapping[str, Any]) -> bool:
    return bool(item.get("type", "message") == "message")


def _said(items: list[dict[str, Any]]) -> tuple[list[Said], list[str]]:
    """Who said what, in order; and what the client has told the model as its developer."""
    said: list[Said] = []
    told: list[str] = []
    for number, item in enumerate(items):
        kind, where = str(item.get("type", "message")), f"input[{number}]"
        if _is_message(item) and item["role"] in ("system", "developer"):
            told.append(_text(where, item.get("content")))
        elif _is_message(item) and item["role"] == "user":
            text = _text(where, item.get("content")).strip()
            by: Speaker = "client" if NOTE.match(text) else "user"
            if text:
                said.append(Said(by, text))
        elif kind == "additional_tools":
            continue
        elif kind == "agent_message":
            # Between agents of Codex: a task, or how far a sub-agent has come.
            text = _text(where, item.get("content"))
            said.append(Said("user" if NEW_TASK in text else "client", text))
        elif kind.endswith("_call_output"):
            said.append(Said("tool", _text(where, item.get("output"))))
        else:
            said.append(Said("model", _text(where, item.get("content"))))
    return said, told


def _text(where: str, content: Any) -> str:
    if content is None or isinstance(content, str):
        return content or ""
    if not isinstance(content, list) or not all(isinstance(part, dict) for part in content):
        raise BadRequestError(f"Invalid type for '{where}': expected a text or a list of parts.")
    texts = [part.get("text", part.get("encrypted_content")) for part in content]
    return "\n".join(str(text) for text in texts if text)


def _tools(data: Mapping[str, Any]) -> dict[str, str]:
    """The names of all tools with their kinds; one in a namespace is `namespace.name`. A client may tell of some within
    the conversation."""
    more = [item.get("tools") for item in data["input"] if item.get("type") == "additional_tools"]
    return {name: kind for tools in (data.get("tools"), *more) for name, kind in _named(tools)}


def _named(tools: Any) -> Iterator[tuple[str, str]]:
    for tool in tools if isinstance(tools, list) else []:
        if not isinstance(tool, dict):
            continue
        if tool.get("type") == "namespace":
            yield from ((f"{tool.get('name')}.{name}", kind) for name, kind in _named(tool.get("tools")))
        else:
            yield str(tool.get("name") or tool.get("type") or ""), str(tool.get("type"))


def _schema(data: Mapping[str, Any]) -> dict[str, Any] | None:
    text = data.get("text")
    wanted = text.get("format") if isinstance(text, dict) else None
    schema = wanted.get("schema") if isinstance(wanted, dict) else None
    return schema if isinstance(schema, dict) else None


def _items(answer: Answer, question: Question) -> list[dict[str, Any]]:
    return [_call(part, question) if isinstance(part, Call) else _message(part) for part in answer.parts]


def _message(text: str) -> dict[str, Any]:
    content = [{"type": "output_text", "text": text, "annotations": []}]
    identity = f"msg_{uuid.uuid4().hex}"
    return {"type": "message", "id": identity, "status": "completed", "role": "assistant", "content": content}


def _call(call: Call, question: Question) -> dict[str, Any]:
    item = {"status": "completed", "call_id": f"call_{uuid.uuid4().hex[:24]}", "name": call.name}
    if _is_custom(call, question):
        item |= {"type": "custom_tool_call", "id": f"ctc_{uuid.uuid4().hex}", "input": _given(call, question)}
    else:
        item |= {"type": "function_call", "id": f"fc_{uuid.uuid4().hex}", "arguments": _given(call, question)}
    namespace, _, name = call.name.rpartition(".")
    return {**item, "namespace": namespace, "name": name} if namespace and call.name in question.tools else item


def _is_custom(call: Call, question: Question) -> bool:
    """Whether the tool takes a text of its own form, which a step calls its `input`."""
    return _tools(question.body).get(call.name) == "custom"


def _given(call: Call, question: Question) -> str:
    if _is_custom(call, question):
        return str(call.input.get("input", ""))
    return json.dumps(call.input, ensure_ascii=False)


def _pieces(part: str | Call, question: Question) -> list[str]:
    if isinstance(part, str):
        return tokens_of(part)
    text = _given(part, question)
    return [text[at : at + JSON_PIECE] for at in range(0, len(text), JSON_PIECE)]


def _response(
    question: Question, status: str, output: list[dict[str, Any]], usage: dict[str, Any] | None
) -> dict[str, Any]:
    return {
        "id": f"resp_{uuid.uuid4().hex}",
        "object": "response",
        "status": status,
        "model": question.model,
        "output": output,
        "usage": usage,
        "error": None,
    }


def _usage(answer: Answer, question: Question) -> dict[str, Any]:
    """This protocol counts what came from a cache as a part of the input."""
    usage = answer.usage
    fresh = question.input_tokens if usage.input_tokens is None else usage.input_tokens
    spoken = sum(len(_pieces(part, question)) for part in answer.parts)
    given = fresh + usage.cache_read_tokens + usage.cache_write_tokens
    output = spoken if usage.output_tokens is None else usage.output_tokens
    return {
        "input_tokens": given,
        "input_tokens_details": {"cached_tokens": usage.cache_read_tokens},
        "output_tokens": output,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": given + output,
    }


def _kind(status: int) -> tuple[str, str | None]:
    return ERRORS.get(status, ("invalid_request_error" if status < 500 else "server_error", None))
