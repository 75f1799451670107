"""OpenAI's chat completions as the scripted model speaks them: what is understood, and what is answered."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dogwatch.testing.model.answer import Answer, Call
from dogwatch.testing.model.conversation import Question
from dogwatch.testing.model.openai_chat import OpenAIChat
from dogwatch.testing.model.scenario import Usage
from dogwatch.testing.model.server import WIRES
from dogwatch.testing.model.wire import BadRequestError

PATH = "/v1/chat/completions"
WIRE = OpenAIChat()
TOOLS = [{"type": "function", "function": {"name": "bash", "parameters": {}}}]
USAGE = Usage(input_tokens=120, output_tokens=9, cache_read_tokens=80, cache_write_tokens=0)


def asked(*messages: dict[str, Any], **more: Any) -> Question:
    body = {"model": "scripted", "messages": list(messages), "tools": TOOLS, **more}
    return WIRE.question("POST", PATH, {"x-session-affinity": "ses_1"}, json.dumps(body).encode())


def user(text: Any) -> dict[str, Any]:
    return {"role": "user", "content": text}


def chunks(answer: Answer, question: Question) -> list[dict[str, Any]]:
    """The stream's events; the last one says that it is over."""
    lines = [frame.data.decode() for frame in WIRE.stream(answer, question)]
    assert lines.pop() == "data: [DONE]\n\n"
    return [json.loads(line.removeprefix("data: ")) for line in lines]


def test_the_server_speaks_it() -> None:
    assert any(wire.serves(PATH) and isinstance(wire, OpenAIChat) for wire in WIRES)


def test_a_conversation_is_understood() -> None:
    call = {"id": "call_1", "type": "function", "function": {"name": "bash", "arguments": "{}"}}
    question = asked(
        {"role": "system", "content": "Be good."},
        user([{"type": "text", "text": "<system-reminder>note</system-reminder>\nWrite it."}]),
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "call_1", "content": "the result"},
    )
    assert (question.conversation, question.system, question.tools) == ("ses_1", "Be good.", ("bash",))
    assert [one.results for one in question.turn.rounds] == [None, "the result"]
    assert question.turn.prompt == "Write it."
    assert not question.side


def test_what_is_typed_in_the_middle_of_a_turn_begins_no_turn_of_its_own() -> None:
    aside = "<system-reminder>\nThe user sent the following message:\nHurry.\n</system-reminder>"
    call = {"role": "assistant", "content": ""}
    question = asked(user("Write it."), call, {"role": "tool", "content": "done"}, user(aside))
    assert len(question.turn.rounds) == 2
    assert "Hurry." in question.turn.prompt


def test_a_request_without_tools_is_a_side_request() -> None:
    assert asked(user("Generate a title"), tools=None).side


def test_an_answer_comes_whole_or_as_a_stream_and_is_the_same() -> None:
    answer = Answer(("Two  things\n at once.", Call("bash", {"command": "echo 'é 💡' | cat"}), Call("read", {})), USAGE)
    question = asked(user("go"), stream_options={"include_usage": True})
    whole = WIRE.whole(answer, question)
    [choice] = whole["choices"]
    assert choice["finish_reason"] == "tool_calls"
    events = chunks(answer, question)
    assert events[-1]["usage"] == whole["usage"]
    assert (whole["usage"]["prompt_tokens"], whole["usage"]["completion_tokens"]) == (200, 9)
    deltas = [event["choices"][0]["delta"] for event in events[:-1]]
    assert "".join(delta.get("content", "") for delta in deltas) == choice["message"]["content"]
    arguments = {0: "", 1: ""}
    for delta in deltas:
        for call in delta.get("tool_calls", ()):
            arguments[call["index"]] += call["function"]["arguments"]
    assert [json.loads(text) for text in arguments.values()] == [{"command": "echo 'é 💡' | cat"}, {}]
    assert [json.loads(call["function"]["arguments"]) for call in choice["message"]["tool_calls"]] == [
        {"command": "echo 'é 💡' | cat"},
        {},
    ]


def test_no_usage_is_told_to_a_client_that_does_not_ask_for_it() -> None:
    events = chunks(Answer(("hello",), USAGE), asked(user("go")))
    assert all("usage" not in event for event in events)
    assert events[-1]["choices"][0]["finish_reason"] == "stop"


def test_errors_have_the_form_that_clients_expect() -> None:
    assert WIRE.error(429, "slow down")["error"]["code"] == "rate_limit_exceeded"
    assert WIRE.error(529, "busy")["error"]["type"] == "server_error"
    assert json.loads(WIRE.failure(Answer((), USAGE, status=500, message="no")).removeprefix(b"data: "))["error"]


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b"[]",
        b'{"model": "x"}',
        b'{"model": "x", "messages": []}',
        b'{"model": "x", "messages": [{"role": "nobody"}]}',
        b'{"model": "x", "messages": [{"role": "user", "content": 1}]}',
        b'{"model": "x", "messages": [{"role": "user", "content": ""}], "tools": 1}',
    ],
)
def test_what_is_against_the_protocol_is_refused(body: bytes) -> None:
    with pytest.raises(BadRequestError):
        WIRE.question("POST", PATH, {}, body)


def test_only_posts_are_questions() -> None:
    with pytest.raises(BadRequestError) as refused:
        WIRE.question("GET", PATH, {}, b"")
    assert refused.value.status == 405
