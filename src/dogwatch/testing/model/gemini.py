"""Google's Gemini API, as the Gemini CLI speaks it."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterator, Mapping
from itertools import cycle
from typing import Any

from dogwatch.testing.model.answer import Answer, Call, tokens_of
from dogwatch.testing.model.conversation import Question, Said
from dogwatch.testing.model.wire import BadRequestError, Frame, json_body

PATH = re.compile(r"/v1(?:beta|alpha)?/models/([^/:]+):(\w+)")
STREAM = "streamGenerateContent"
METHODS = ("generateContent", STREAM, "countTokens")
BYTES_PER_TOKEN = 4
CONTEXT = "<session_context>"
NOTE = re.compile(r"<(session_context|hook_context|system_note)>.*</\1>\s*", re.DOTALL)
"""What the Gemini CLI tells the model beside the user's own words."""
FRAME = re.compile(
    r"<untrusted_context>\nOutput: (.*?)(?:\n(?:Error|Exit Code|Signal|Background PIDs|Process Group PGID): [^\n]*)*"
    r"\n</untrusted_context>",
    re.DOTALL,
)
"""What the Gemini CLI puts around the output of a command."""
ERRORS = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    405: "INVALID_ARGUMENT",
    413: "INVALID_ARGUMENT",
    429: "RESOURCE_EXHAUSTED",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
    529: "UNAVAILABLE",
}


class Gemini:
    """The protocol; it keeps nothing."""

    def serves(self, path: str) -> bool:
        found = PATH.fullmatch(path)
        return found is not None and found[2] in METHODS

    def aside(self, method: str, path: str, body: bytes) -> dict[str, Any] | None:
        if path.endswith(":countTokens") and method == "POST":
            _checked(body)
            return {"totalTokens": _estimate(body)}
        return None

    def question(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> Question:
        found = PATH.fullmatch(path)
        if method != "POST" or found is None:
            raise BadRequestError(f"{path} does not take {method}", 405)
        data = _checked(body)
        contents, tools = data["contents"], tuple(_tools(data.get("tools")))
        return Question(
            model=found[1],
            said=tuple(_said(contents)),
            conversation=_conversation(contents[0]) if tools else "",
            system=_text(data.get("systemInstruction")),
            tools=tools,
            stream=found[2] == STREAM,
            messages=len(contents),
            input_tokens=_estimate(body),
            schema=_schema(data),
            body=data,
        )

    def whole(self, answer: Answer, question: Question) -> dict[str, Any]:
        parts = [_call(part) if isinstance(part, Call) else {"text": part} for part in answer.parts]
        return _response(question, parts, "STOP", _usage(answer, question))

    def stream(self, answer: Answer, question: Question) -> Iterator[Frame]:
        usage = _usage(answer, question)
        if answer.ending == "pings":
            while True:
                yield _frame(_response(question, [], None, usage), is_token=True)
        for part in answer.parts:
            pieces = [_call(part)] if isinstance(part, Call) else [{"text": token} for token in tokens_of(part)]
            for piece in cycle(pieces) if answer.ending == "tokens" else pieces:
                yield _frame(_response(question, [piece], None, usage), is_token=True)
        # The last piece has a text, be it empty: without one the client takes the whole answer for broken.
        yield _frame(_response(question, [{"text": ""}], "STOP", usage))

    def failure(self, answer: Answer) -> bytes:
        return _frame(self.error(answer.status, answer.message)).data

    def error(self, status: int, message: str) -> dict[str, Any]:
        name = ERRORS.get(status, "INVALID_ARGUMENT" if status < 500 else "INTERNAL")
        return {"error": {"code": status, "message": message, "status": name}}


def _checked(body: bytes) -> dict[str, Any]:
    """The body, if it has a list of contents, each with its parts."""
    data = json_body(body)
    contents = data.get("contents")
    if not isinstance(contents, list) or not contents:
        raise BadRequestError("contents: at least one content is required")
    for number, content in enumerate(contents):
        if not isinstance(content, dict) or content.get("role", "user") not in ("user", "model"):
            raise BadRequestError(f"contents[{number}].role: must be user or model")
        parts = content.get("parts")
        if not isinstance(parts, list) or not all(isinstance(part, dict) for part in parts):
            raise BadRequestError(f"contents[{number}].parts: must be a list of parts")
    return data


def _said(contents: list[dict[str, Any]]) -> Iterator[Said]:
    """Who said what, in order."""
    for content in contents:
        if content.get("role") == "model":
            yield Said("model", _text(content))
            continue
        for part in content["parts"]:
            if "functionResponse" in part:
                yield Said("tool", _result(part["functionResponse"]))
            elif text := str(part.get("text") or "").strip():
                words = NOTE.sub("", text).strip()
                yield Said("user" if words else "client", words or text)


def _result(response: Any) -> str:
    """What a tool has said."""
    given = response.get("response") if isinstance(response, dict) else None
    if not isinstance(given, dict):
        return ""
    said = given.get("output", given.get("error", given))
    text = said if isinstance(said, str) else json.dumps(said, ensure_ascii=False)
    framed = FRAME.fullmatch(text)
    return framed[1] if framed else text


def _conversation(first: dict[str, Any]) -> str:
    """A name for it. Requests have none, but what the client has begun a conversation with stays at its beginning."""
    words = str(first["parts"][0].get("text") or "") if first["parts"] else ""
    return uuid.uuid5(uuid.NAMESPACE_OID, words).hex if words.startswith(CONTEXT) else ""


def _text(content: Any) -> str:
    parts = content.get("parts") if isinstance(content, dict) else content
    if isinstance(parts, dict):
        parts = [parts]
    if not isinstance(parts, list):
        return ""
    return "\n".join(str(part.get("text") or "") for part in parts if isinstance(part, dict) and "text" in part)


def _tools(tools: Any) -> Iterator[str]:
    for tool in tools if isinstance(tools, list) else ():
        declared = tool.get("functionDeclarations") if isinstance(tool, dict) else None
        for one in declared if isinstance(declared, list) else ():
            if isinstance(one, dict):
                yield str(one.get("name", ""))


def _schema(data: dict[str, Any]) -> dict[str, Any] | None:
    config = data.get("generationConfig")
    schema = config.get("responseJsonSchema", config.get("responseSchema")) if isinstance(config, dict) else None
    return schema if isinstance(schema, dict) else None


def _estimate(body: bytes) -> int:
    return max(1, len(body) // BYTES_PER_TOKEN)


def _call(call: Call) -> dict[str, Any]:
    return {"functionCall": {"id": f"call_{uuid.uuid4().hex[:12]}", "name": call.name, "args": dict(call.input)}}


def _response(
    question: Question, parts: list[dict[str, Any]], reason: str | None, usage: Mapping[str, int]
) -> dict[str, Any]:
    candidate: dict[str, Any] = {"content": {"role": "model", "parts": parts}, "index": 0}
    if reason is not None:
        candidate["finishReason"] = reason
    return {"candidates": [candidate], "usageMetadata": usage, "modelVersion": question.model}


def _usage(answer: Answer, question: Question) -> dict[str, int]:
    usage = answer.usage
    spoken = sum(1 if isinstance(part, Call) else len(tokens_of(part)) for part in answer.parts)
    fresh = question.input_tokens if usage.input_tokens is None else usage.input_tokens
    prompt = fresh + usage.cache_read_tokens + usage.cache_write_tokens
    output = spoken if usage.output_tokens is None else usage.output_tokens
    return {
        "promptTokenCount": prompt,
        "candidatesTokenCount": output,
        "cachedContentTokenCount": usage.cache_read_tokens,
        "totalTokenCount": prompt + output,
    }


def _frame(data: Mapping[str, Any], *, is_token: bool = False) -> Frame:
    return Frame(f"data: {json.dumps(data, ensure_ascii=True)}\r\n\r\n".encode(), is_token)
