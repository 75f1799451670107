"""OpenAI's Responses API as the scripted model speaks it: what is understood, and what is answered."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dogwatch.testing.model.answer import Answer, Call, answer
from dogwatch.testing.model.conversation import Question
from dogwatch.testing.model.openai_responses import OpenAIResponses
from dogwatch.testing.model.scenario import Usage, parse
from dogwatch.testing.model.server import WIRES
from dogwatch.testing.model.wire import BadRequestError

PATH = "/v1/responses"
WIRE = OpenAIResponses()
TOOLS = [
    {"type": "function", "name": "exec_command"},
    {"type": "namespace", "name": "multi_agent_v1", "tools": [{"type": "function", "name": "spawn_agent"}]},
    {"type": "web_search"},
]
PROGRAMS = [{"type": "namespace", "name": "functions", "tools": [{"type": "custom", "name": "exec"}]}]
USAGE = Usage(input_tokens=120, output_tokens=9, cache_read_tokens=80)


def asked(*items: Any, about: Any = None, **more: Any) -> Question:
    body = {"model": "scripted", "input": list(items), "tools": TOOLS, **more}
    headers = {"session-id": "s-1", "x-codex-turn-metadata": json.dumps(about or {"request_kind": "turn"})}
    return WIRE.question("POST", PATH, headers, json.dumps(body).encode())


def said(role: str, *texts: str) -> dict[str, Any]:
    return {"type": "message", "role": role, "content": [{"type": "input_text", "text": text} for text in texts]}


def events(given: Answer, question: Question) -> list[dict[str, Any]]:
    """The stream's events, each with its name before it."""
    found = []
    for frame in WIRE.stream(given, question):
        name, data = frame.data.decode().rstrip("\n").split("\n")
        found.append(json.loads(data.removeprefix("data: ")))
        assert name == f"event: {found[-1]['type']}"
    assert [one["sequence_number"] for one in found] == list(range(len(found)))
    return found


def test_the_server_speaks_it() -> None:
    assert any(wire.serves(PATH) and isinstance(wire, OpenAIResponses) for wire in WIRES)


def test_a_conversation_is_understood() -> None:
    question = asked(
        said("developer", "Be good."),
        said("user", "<environment_context>\n  <cwd>/p</cwd>"),
        said("user", "Write it."),
        {"type": "reasoning", "summary": []},
        {"type": "function_call", "name": "exec_command", "arguments": "{}", "call_id": "c"},
        {"type": "function_call_output", "call_id": "c", "output": "the result"},
        instructions="You are a model.",
    )
    assert (question.conversation, question.system) == ("s-1", "You are a model.\nBe good.")
    assert question.tools == ("exec_command", "multi_agent_v1.spawn_agent", "web_search")
    assert [one.by for one in question.said] == ["client", "user", "model", "model", "tool"]
    assert [one.results for one in question.turn.rounds] == [None, "the result"]
    assert question.turn.prompt == "Write it."
    assert not question.side


def test_tools_may_come_with_the_conversation_and_a_task_from_another_agent() -> None:
    told = {
        "type": "agent_message",
        "content": [
            {"type": "input_text", "text": "Message Type: NEW_TASK\n"},
            {"type": "encrypted_content", "encrypted_content": "Look at it."},
        ],
    }
    question = asked({"type": "additional_tools", "tools": PROGRAMS}, said("user", "<environment_context>"), told)
    assert "functions.exec" in question.tools
    assert question.turn.prompt.endswith("Look at it.")


@pytest.mark.parametrize("about", [{"thread_source": "thread_title"}, {"request_kind": "compaction"}])
def test_titles_and_summaries_are_asked_for_beside_the_work(about: dict[str, str]) -> None:
    assert asked(said("user", "Make a title."), about=about).side


@pytest.mark.parametrize("about", ["no object", [], {"thread_source": "user"}])
def test_everything_else_is_work(about: Any) -> None:
    assert not asked(said("user", "Write it."), about=about).side


def test_a_text_is_said_word_by_word() -> None:
    question = asked(said("user", "Write it."))
    found = events(Answer(("Here it is.",), USAGE), question)
    assert [one["delta"] for one in found if one["type"] == "response.output_text.delta"] == ["Here", " it", " is."]
    done = found[-1]["response"]
    assert (found[0]["type"], found[-1]["type"], done["status"]) == (
        "response.created",
        "response.completed",
        "completed",
    )
    assert done["output"][0]["content"][0]["text"] == "Here it is."
    assert done["usage"]["input_tokens"] == 200, "what came from a cache is a part of the input"
    assert done["usage"]["input_tokens_details"] == {"cached_tokens": 80}
    assert done["usage"]["total_tokens"] == 209


@pytest.mark.parametrize(
    ("name", "tools", "expected"),
    [
        ("exec_command", TOOLS, {"type": "function_call", "name": "exec_command", "arguments": '{"input": "x"}'}),
        ("multi_agent_v1.spawn_agent", TOOLS, {"namespace": "multi_agent_v1", "name": "spawn_agent"}),
        ("functions.exec", PROGRAMS, {"type": "custom_tool_call", "namespace": "functions", "input": "x"}),
        ("no.such", TOOLS, {"name": "no.such"}),
    ],
)
def test_a_tool_call_has_the_form_of_its_tool(name: str, tools: list[Any], expected: dict[str, Any]) -> None:
    question = asked(said("user", "Write it."), tools=tools)
    call = Answer((Call(name, {"input": "x"}),), USAGE)
    item = events(call, question)[-1]["response"]["output"][0]
    assert expected.items() <= item.items()
    pieces = [one["delta"] for one in events(call, question) if one["type"].endswith(".delta")]
    assert "".join(pieces) == item.get("arguments", item.get("input"))
    assert WIRE.whole(call, question)["output"][0].keys() == item.keys()


def test_a_command_is_run_by_the_tool_that_there_is() -> None:
    scenario = parse({"rules": [{"prompt": "x", "do": [{"shell": "ls"}]}]})
    [step] = scenario.rules[0].do
    [call] = answer(step, asked(said("user", "x")), scenario).parts
    assert isinstance(call, Call)
    assert (call.name, call.input["cmd"]) == ("exec_command", "ls")
    [call] = answer(step, asked(said("user", "x"), tools=PROGRAMS), scenario).parts
    assert isinstance(call, Call)
    assert call.name == "functions.exec"
    assert 'await tools.exec_command({"cmd": "ls"' in call.input["input"]


def test_endless_answers_have_no_end() -> None:
    question = asked(said("user", "x"))
    for ending, kind in (("pings", "response.in_progress"), ("tokens", "response.output_text.delta")):
        stream = WIRE.stream(Answer(("a b",), USAGE, ending=ending), question)  # type: ignore[arg-type]
        tokens = [frame for _, frame in zip(range(50), stream, strict=False) if frame.is_token]
        assert len(tokens) > 40
        assert f"event: {kind}\n".encode() in tokens[-1].data


def test_errors_have_the_protocols_form() -> None:
    assert WIRE.error(429, "slowly")["error"]["code"] == "rate_limit_exceeded"
    assert WIRE.error(500, "oh")["error"] == {"message": "oh", "type": "server_error", "param": None, "code": None}
    failed = json.loads(WIRE.failure(Answer((), USAGE, status=413, message="full")).split(b"data: ")[1])
    assert failed["response"]["error"] == {"code": "context_length_exceeded", "message": "full"}


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b"[]",
        b'{"model":"m"}',
        b'{"model":"m","input":[]}',
        b'{"model":"m","input":["x"]}',
        b'{"model":"m","input":[{"role":"robot","content":"x"}]}',
        b'{"model":"m","input":[{"role":"user","content":5}]}',
    ],
)
def test_what_is_against_the_protocol_is_refused(body: bytes) -> None:
    with pytest.raises(BadRequestError):
        WIRE.question("POST", PATH, {}, body)
    with pytest.raises(BadRequestError):
        WIRE.question("GET", PATH, {}, body)


_JSON = st.recursive(st.none() | st.integers() | st.text(max_size=8), lambda inner: st.lists(inner, max_size=3))


@settings(max_examples=60, deadline=None)
@given(items=st.lists(st.dictionaries(st.sampled_from(["type", "role", "content", "output", "tools"]), _JSON)))
def test_nothing_that_a_client_sends_is_an_error_of_ours(items: list[dict[str, Any]]) -> None:
    body = json.dumps({"model": "m", "input": items, "tools": items}).encode()
    try:
        question = WIRE.question("POST", PATH, {}, body)
    except BadRequestError:
        return
    assert question.turn.rounds
