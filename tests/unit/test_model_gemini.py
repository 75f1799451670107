"""The Gemini API as the scripted model speaks it: what is understood, and what is answered."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dogwatch.testing.model.answer import Answer, Call
from dogwatch.testing.model.conversation import Question
from dogwatch.testing.model.gemini import Gemini
from dogwatch.testing.model.scenario import Usage
from dogwatch.testing.model.server import WIRES
from dogwatch.testing.model.wire import BadRequestError

MODEL = "/v1beta/models/gemini-3.1-pro-preview"
STREAM, WHOLE = f"{MODEL}:streamGenerateContent", f"{MODEL}:generateContent"
WIRE = Gemini()
TOOLS = [{"functionDeclarations": [{"name": "run_shell_command"}, {"name": "invoke_agent"}]}]
USAGE = Usage(input_tokens=40, output_tokens=9, cache_read_tokens=80, cache_write_tokens=0)
CONTEXT = {"text": "<session_context>\nToday is a day.\n</session_context>"}


def asked(*contents: dict[str, Any], path: str = STREAM, **more: Any) -> Question:
    body = {"contents": list(contents), "tools": TOOLS, **more}
    return WIRE.question("POST", path, {}, json.dumps(body).encode())


def user(*parts: dict[str, Any]) -> dict[str, Any]:
    return {"role": "user", "parts": list(parts)}


def chunks(answer: Answer, question: Question) -> list[dict[str, Any]]:
    lines = [frame.data.decode() for frame in WIRE.stream(answer, question)]
    assert all(line.startswith("data: ") and line.endswith("\r\n\r\n") for line in lines)
    return [json.loads(line.removeprefix("data: ")) for line in lines]


def test_the_server_speaks_it() -> None:
    assert any(wire.serves(STREAM) and isinstance(wire, Gemini) for wire in WIRES)
    assert [wire for wire in WIRES if wire.serves(f"{MODEL}:countTokens")] != []
    assert not WIRE.serves(f"{MODEL}:embedContent")


def test_a_conversation_is_understood() -> None:
    call = {"role": "model", "parts": [{"functionCall": {"name": "run_shell_command", "args": {}}}]}
    output = "<untrusted_context>\nOutput: two\nlines\nExit Code: 1\nProcess Group PGID: 7\n</untrusted_context>"
    result = {"functionResponse": {"name": "run_shell_command", "response": {"output": output}}}
    question = asked(
        user(CONTEXT, {"text": "Write it."}), call, user(result), systemInstruction=user({"text": "Be good."})
    )
    assert (question.system, question.tools) == ("Be good.", ("run_shell_command", "invoke_agent"))
    assert [one.results for one in question.turn.rounds] == [None, "two\nlines"]
    assert (question.turn.prompt, question.stream, question.messages) == ("Write it.", True, 3)


def test_the_same_conversation_has_the_same_name_and_side_requests_have_none() -> None:
    first, later = asked(user(CONTEXT, {"text": "One."})), asked(user(CONTEXT, {"text": "One."}, {"text": "Two."}))
    assert first.conversation == later.conversation != ""
    assert later.turn.prompt == "Two."
    side = asked(user(CONTEXT, {"text": "One."}), path=WHOLE, tools=[])
    assert (side.side, side.conversation, side.stream) == (True, "", False)


def test_what_a_hook_adds_is_not_the_users_word() -> None:
    question = asked(user({"text": "Write it."}, {"text": "<hook_context>a letter</hook_context>"}))
    assert question.turn.prompt == "Write it."


def test_an_answer_comes_whole_or_as_a_stream_and_is_the_same() -> None:
    answer = Answer(("Two  things\n at once.", Call("run_shell_command", {"command": "echo 'é 💡'"})), USAGE)
    question = asked(user({"text": "Go."}))
    whole = WIRE.whole(answer, question)
    parts = [part for chunk in chunks(answer, question) for part in chunk["candidates"][0]["content"]["parts"]]
    texts, calls = zip(*[(part.get("text", ""), part.get("functionCall")) for part in parts], strict=True)
    [given] = [call for call in calls if call]
    assert "".join(texts) == whole["candidates"][0]["content"]["parts"][0]["text"] == "Two  things\n at once."
    assert (given["name"], given["args"]) == ("run_shell_command", {"command": "echo 'é 💡'"})
    last = chunks(answer, question)[-1]
    assert last["candidates"][0]["finishReason"] == "STOP"
    assert last["usageMetadata"] == whole["usageMetadata"]
    assert last["usageMetadata"] == {
        "promptTokenCount": 120,
        "candidatesTokenCount": 9,
        "cachedContentTokenCount": 80,
        "totalTokenCount": 129,
    }


def test_a_schema_that_is_asked_for_is_known() -> None:
    schema = {"type": "object", "properties": {}}
    config = {"responseMimeType": "application/json", "responseJsonSchema": schema}
    assert asked(user({"text": "Who speaks next?"}), path=WHOLE, tools=None, generationConfig=config).schema == schema


def test_errors_have_the_protocols_form() -> None:
    assert WIRE.error(429, "slow down")["error"] == {
        "code": 429,
        "message": "slow down",
        "status": "RESOURCE_EXHAUSTED",
    }
    failure = WIRE.failure(Answer((), USAGE, ending="error", status=500, message="oh"))
    assert json.loads(failure.removeprefix(b"data: "))["error"]["status"] == "INTERNAL"


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"{}",
        b'{"contents":[]}',
        b'{"contents":[{"role":"system","parts":[]}]}',
        b'{"contents":[{"role":"user"}]}',
    ],
)
def test_what_is_against_the_protocol_is_refused(body: bytes) -> None:
    with pytest.raises(BadRequestError):
        WIRE.question("POST", STREAM, {}, body)


def test_tokens_are_counted_without_a_scenario() -> None:
    body = json.dumps({"contents": [user({"text": "x" * 400})]}).encode()
    counted = WIRE.aside("POST", f"{MODEL}:countTokens", body)
    assert counted is not None
    assert counted["totalTokens"] > 100
    assert WIRE.aside("POST", STREAM, body) is None
