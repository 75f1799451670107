"""The scripted model over real HTTP: what clients get, what they may do, and that nothing of it stays behind."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from dogwatch.errors import UsageError
from dogwatch.testing.model import Request, ScriptedModel
from dogwatch.testing.model.scenario import MARK
from support.helpers import wait_for

WAIT_S = 60.0
TOOLS = [{"name": "Agent", "input_schema": {}}, {"name": "Bash", "input_schema": {}}]
RESULT = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "the result"}
Event = dict[str, Any]


def asking(prompt: Any, **more: Any) -> dict[str, Any]:
    """A request with one prompt, or with whole messages."""
    messages = prompt if isinstance(prompt, list) else [{"role": "user", "content": prompt}]
    return {"model": "claude-test", "max_tokens": 100, "tools": TOOLS, "messages": messages, **more}


def connect(model: ScriptedModel) -> http.client.HTTPConnection:
    place = urlsplit(model.url)
    assert place.hostname == "127.0.0.1"
    return http.client.HTTPConnection("127.0.0.1", place.port or 0, timeout=WAIT_S)


def post(
    connection: http.client.HTTPConnection, body: Any, path: str = "/v1/messages?beta=true", **headers: str
) -> http.client.HTTPResponse:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    connection.request("POST", path, data, {"Content-Type": "application/json", **headers})
    return connection.getresponse()


def ask(model: ScriptedModel, body: Any, path: str = "/v1/messages", **headers: str) -> tuple[int, Any]:
    with closing(connect(model)) as connection:
        response = post(connection, body, path, **headers)
        return response.status, json.loads(response.read())


def text_of(answer: tuple[int, Any]) -> str:
    status, message = answer
    assert status == 200, message
    return "".join(block.get("text", "") for block in message["content"])


def events(response: http.client.HTTPResponse) -> Iterator[Event]:
    """The events of a stream, each as soon as it is there."""
    assert response.status == 200
    assert response.headers["Content-Type"].startswith("text/event-stream")
    name = ""
    while line := response.readline().decode():
        if line.startswith("event: "):
            name = line.removeprefix("event: ").strip()
        elif line.startswith("data: "):
            data = json.loads(line.removeprefix("data: "))
            assert data["type"] == name
            yield data


def put_together(stream: Iterator[Event]) -> dict[str, Any]:
    """The message that a stream makes, by the rules of the protocol."""
    message: dict[str, Any] = {}
    inputs: dict[int, str] = {}
    for event in stream:
        match event["type"]:
            case "message_start":
                message = event["message"]
            case "content_block_start":
                assert event["index"] == len(message["content"])
                message["content"].append(event["content_block"])
            case "content_block_delta":
                block, delta = message["content"][event["index"]], event["delta"]
                if delta["type"] == "text_delta":
                    block["text"] += delta["text"]
                else:
                    inputs[event["index"]] = inputs.get(event["index"], "") + delta["partial_json"]
            case "content_block_stop":
                if event["index"] in inputs:
                    message["content"][event["index"]]["input"] = json.loads(inputs[event["index"]])
            case "message_delta":
                message |= {**event["delta"], "usage": message["usage"] | event["usage"]}
    return message


def tokens(stream: Iterator[Event], number: int) -> list[str]:
    """The next so many tokens of a text, as they come."""
    found: list[str] = []
    while len(found) < number:
        event = next(stream)
        if event["type"] == "content_block_delta":
            found.append(event["delta"]["text"])
    return found


def settled(model: ScriptedModel, number: int) -> list[Request]:
    """The requests, when there are so many and each has come to its end."""
    wait_for(lambda: len([one for one in model.requests if one.outcome]) >= number, WAIT_S, "all requests to end")
    return model.requests


@contextlib.contextmanager
def no_thread_is_left() -> Iterator[None]:
    before = set(threading.enumerate())
    yield
    assert set(threading.enumerate()) <= before


# What is answered


def test_a_message_comes_whole_or_as_a_stream_and_is_the_same() -> None:
    usage = {"input_tokens": 120, "output_tokens": 9, "cache_read_tokens": 80, "cache_write_tokens": 4}
    calls = [{"name": "Bash", "input": {"command": "echo 'é 💡' | cat"}}, {"name": "Read", "input": {}}]
    scenario = {"rules": [{"do": [{"tools": {"text": "Two  things\n at once.", "calls": calls, "usage": usage}}]}]}
    with ScriptedModel(scenario) as model, closing(connect(model)) as connection:
        whole = json.loads(post(connection, asking("go")).read())
        stream = list(events(post(connection, asking("go", stream=True))))
    streamed = put_together(iter(stream))
    assert whole["content"][0] == {"type": "text", "text": "Two  things\n at once."}
    assert [(block["name"], block["input"]) for block in whole["content"][1:]] == [
        ("Bash", {"command": "echo 'é 💡' | cat"}),
        ("Read", {}),
    ]
    assert whole["stop_reason"] == "tool_use"
    assert whole["usage"] == {
        "input_tokens": 120,
        "output_tokens": 9,
        "cache_read_input_tokens": 80,
        "cache_creation_input_tokens": 4,
    }
    for message in (whole, streamed):
        del message["id"]
        for block in message["content"]:
            block.pop("id", None)
    assert streamed == whole
    kinds = [event["type"] for event in stream]
    assert kinds[0] == "message_start"
    assert kinds[-2:] == ["message_delta", "message_stop"]
    assert "ping" in kinds
    assert kinds.count("content_block_start") == kinds.count("content_block_stop") == 3


def test_without_a_rule_a_prompt_gets_a_text_and_a_result_ends_the_turn() -> None:
    with ScriptedModel({"answer": "short", "after_tool": "ended"}) as model:
        assert text_of(ask(model, asking("anything"))) == "short"
        call = {"role": "assistant", "content": [{"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {}}]}
        status, message = ask(model, asking([*asking("x")["messages"], call, {"role": "user", "content": [RESULT]}]))
        assert (status, message["stop_reason"]) == (200, "end_turn")
        assert message["usage"]["input_tokens"] > 0
        assert text_of((status, message)) == "ended"


def test_a_turn_of_several_steps_is_told_by_the_prompt_alone() -> None:
    nested = f'{MARK} {{"text": "hello from below"}}'
    steps = [
        {"shell": "ls"},
        {"status": {"code": 529, "times": 2, "retry_after_s": 1.5, "message": "busy"}},
        {"agent": {"prompt": nested}},
        {"text": "finished"},
    ]
    prompt = f"Please work.\n{MARK} {json.dumps(steps)}"
    messages: list[dict[str, Any]] = [{"role": "user", "content": prompt}]
    seen: list[str] = []
    with ScriptedModel() as model, closing(connect(model)) as connection:
        while not seen or seen[-1] != "end_turn":
            response = post(connection, asking(messages, stream=True))
            if response.status != 200:
                error = json.loads(response.read())
                assert (error["type"], error["error"]) == ("error", {"type": "overloaded_error", "message": "busy"})
                assert response.headers["retry-after"] == "1.5"
                seen.append(str(response.status))
                continue
            message = put_together(events(response))
            seen += [block["name"] for block in message["content"] if block["type"] == "tool_use"]
            if message["stop_reason"] == "end_turn":
                assert message["content"][0]["text"] == "finished"
                seen.append("end_turn")
            for block in message["content"]:
                if block["type"] == "tool_use" and block["name"] == "Agent":
                    assert text_of(ask(model, asking(block["input"]["prompt"]))) == "hello from below"
            messages += [
                {"role": "assistant", "content": message["content"]},
                {"role": "user", "content": [RESULT]},
            ]
        records = model.requests
    assert seen == ["Bash", "529", "529", "Agent", "end_turn"]
    assert [(one.rule, one.step, one.number, one.status) for one in records] == [
        ("directive", "shell", 0, 200),
        ("directive", "status", 1, 529),
        ("directive", "status", 1, 529),
        ("directive", "agent", 2, 200),
        ("directive", "text", 0, 200),
        ("directive", "text", 3, 200),
    ]
    assert records[1].tool_result == "the result"
    assert records[1].body["messages"] == records[2].body["messages"] == messages[:3]


def test_tokens_are_slow_and_an_answer_late_where_the_scenario_says_so() -> None:
    scenario = {"rules": [{"do": [{"text": {"text": "one two three", "token_s": 0.2, "delay_s": 0.3}}]}]}
    with ScriptedModel(scenario) as model, closing(connect(model)) as connection:
        for stream in (True, False):
            start = time.monotonic()
            response = post(connection, asking("go", stream=stream))
            message = put_together(events(response)) if stream else json.loads(response.read())
            assert time.monotonic() - start >= 0.3 + 3 * 0.2
            assert message["content"][0]["text"] == "one two three"


def test_tokens_are_counted() -> None:
    with ScriptedModel() as model:
        status, small = ask(model, asking("x"), "/v1/messages/count_tokens?beta=true")
        assert status == 200
        _, large = ask(model, asking("x" * 4000), "/v1/messages/count_tokens")
        assert 0 < small["input_tokens"] < large["input_tokens"]
        assert small["input_tokens"] < 1000 <= large["input_tokens"]


def test_the_client_is_asked_for_tools_that_it_has() -> None:
    with ScriptedModel() as model:
        status, error = ask(model, asking(f'{MARK} {{"agent": "look"}}', tools=[{"name": "Read"}]))
        assert (status, error["error"]["type"]) == (400, "invalid_request_error")
        assert "offers no tool for the step agent" in error["error"]["message"]
        assert "it offers: Read" in error["error"]["message"]


# What goes wrong on purpose


def test_a_stream_is_read_while_it_goes_on() -> None:
    with no_thread_is_left(), ScriptedModel() as model, closing(connect(model)) as connection:
        stream = events(post(connection, asking(f'{MARK} {{"hang": {{"tokens": 3}}}}', stream=True)))
        assert tokens(stream, 3) == ["This", " answer", " is"]
        assert [one.outcome for one in model.requests] == [""]
        connection.close()
        assert settled(model, 1)[0].outcome == "left"


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("number", [0, 2])
def test_a_connection_is_dropped_and_the_next_request_goes_on(number: int, stream: bool) -> None:
    prompt = f'{MARK} {{"drop": {{"tokens": {number}}}}} {MARK} {{"text": "back"}}'
    with ScriptedModel() as model:
        with closing(connect(model)) as connection, pytest.raises((http.client.HTTPException, ConnectionError)):
            post(connection, asking(prompt, stream=stream)).read()
        assert text_of(ask(model, asking(prompt))) == "back"
        dropped, answered = settled(model, 2)
        assert (dropped.step, dropped.outcome, dropped.status) == ("drop", "dropped", 200 if number else 0)
        assert (answered.step, answered.outcome) == ("text", "complete")


@pytest.mark.parametrize("stream", [True, False])
def test_a_request_that_hangs_ends_with_its_client(stream: bool) -> None:
    with no_thread_is_left(), ScriptedModel() as model:
        with closing(connect(model)) as connection:
            connection.request("POST", "/v1/messages", json.dumps(asking(f"{MARK} hang", stream=stream)))
            wait_for(lambda: model.requests, WAIT_S, "the request")
            assert connection.sock is not None
            connection.sock.settimeout(0.3)
            with pytest.raises(TimeoutError):
                connection.getresponse()
        (hung,) = settled(model, 1)
        assert (hung.step, hung.status, hung.outcome) == ("hang", 0, "left")


def test_an_error_may_come_in_the_middle_of_a_stream() -> None:
    prompt = f'{MARK} {{"status": {{"code": 529, "tokens": 2, "message": "too much"}}}}'
    with ScriptedModel() as model, closing(connect(model)) as connection:
        stream = list(events(post(connection, asking(prompt, stream=True))))
        assert stream[-1] == {"type": "error", "error": {"type": "overloaded_error", "message": "too much"}}
        assert [event["type"] for event in stream].count("content_block_delta") == 2
        assert text_of(ask(model, asking(prompt))) == model.scenario.answer


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (400, "invalid_request_error"),
        (401, "authentication_error"),
        (429, "rate_limit_error"),
        (500, "api_error"),
        (529, "overloaded_error"),
    ],
)
def test_errors_have_anthropics_form(code: int, kind: str) -> None:
    with ScriptedModel({"rules": [{"do": [{"status": {"code": code, "times": "always"}}]}]}) as model:
        for _ in range(3):
            status, error = ask(model, asking("go"))
            assert status == code
            assert (error["type"], error["error"]["type"]) == ("error", kind)
            assert error["request_id"].startswith("req_")


@pytest.mark.parametrize("send", ["tokens", "pings"])
def test_an_endless_stream_ends_with_its_client(send: str) -> None:
    prompt = f'{MARK} {{"endless": {{"send": "{send}", "every_s": 0.01, "text": "on and"}}}}'
    with no_thread_is_left(), ScriptedModel() as model:
        idle = threading.active_count()
        with closing(connect(model)) as connection:
            stream = events(post(connection, asking(prompt, stream=True)))
            wanted = "ping" if send == "pings" else "content_block_delta"
            assert sum(next(stream)["type"] == wanted for _ in range(50)) >= 40
            assert threading.active_count() == idle + 1
        wait_for(lambda: threading.active_count() == idle, WAIT_S, "the thread of the stream to end")
        assert settled(model, 1)[0].outcome == "left"


def test_the_end_of_the_model_ends_every_stream_and_every_wait() -> None:
    with no_thread_is_left():
        opened = []
        with ScriptedModel() as model:
            for step in ("endless", "hang", '{"hang": {"tokens": 1}}'):
                opened.append(connect(model))
                opened[-1].request("POST", "/v1/messages", json.dumps(asking(f"{MARK} {step}", stream=True)))
            opened.append(connect(model))
            assert post(opened[-1], asking("then idle")).read()
            wait_for(lambda: len(model.requests) == 4, WAIT_S, "all requests")
        for connection in opened[:3]:
            with pytest.raises((http.client.HTTPException, ConnectionError)):
                connection.getresponse().read()
        for connection in opened:
            connection.close()


def test_many_streams_at_once() -> None:
    """All of them are open at the same time: each has had tokens, and none has ended."""
    number = 32
    with no_thread_is_left(), ScriptedModel() as model:
        idle = threading.active_count()
        with contextlib.ExitStack() as stack:
            prompt = f'{MARK} {{"endless": {{"every_s": 0.05}}}}'
            connections = [stack.enter_context(closing(connect(model))) for _ in range(number)]
            streams = [events(post(each, asking(f"{n} {prompt}", stream=True))) for n, each in enumerate(connections)]
            for stream in streams:
                assert tokens(stream, 3) == ["and", " so", " on"]
            assert [one.outcome for one in model.requests] == [""] * number
        wait_for(lambda: threading.active_count() == idle, WAIT_S, "all threads to end")
        assert {one.outcome for one in settled(model, number)} == {"left"}


def test_many_clients_at_once_get_their_own_answers() -> None:
    def client(number: int) -> list[str]:
        with closing(connect(model)) as connection:
            prompts = [f'{MARK} {{"text": "client {number} turn {turn}"}}' for turn in range(5)]
            answers = [put_together(events(post(connection, asking(prompt, stream=True)))) for prompt in prompts]
            return [message["content"][0]["text"] for message in answers]

    with no_thread_is_left(), ScriptedModel() as model:
        with ThreadPoolExecutor(32) as pool:
            for number, texts in enumerate(pool.map(client, range(32))):
                assert texts == [f"client {number} turn {turn}" for turn in range(5)]
        assert len(settled(model, 160)) == 160


# What clients may do


def test_a_connection_is_kept_whatever_comes_over_it() -> None:
    with ScriptedModel() as model, closing(connect(model)) as connection:
        connection.connect()
        first = connection.sock
        for method, path, status in (
            ("HEAD", "/", 404),
            ("HEAD", "/v1/messages", 405),
            ("OPTIONS", "/v1/messages", 204),
            ("GET", "/v1/messages", 405),
            ("GET", "/v1/models", 404),
            ("GET", "/api/hello", 404),
            ("PUT", "/v1/messages", 405),
            ("DELETE", "/", 404),
        ):
            connection.request(method, path)
            response = connection.getresponse()
            body = response.read()
            assert response.status == status, (method, path)
            if method in ("HEAD", "OPTIONS"):
                assert body == b""
            else:
                error = json.loads(body)
                assert error["type"] == "error"
                assert path in error["error"]["message"]
        assert post(connection, b"{}", "/v1/complete").read()
        assert put_together(events(post(connection, asking("go", stream=True))))["stop_reason"] == "end_turn"
        assert post(connection, asking("go")).read()
        assert connection.sock is first
        assert [one.status for one in model.requests][-3:] == [404, 200, 200]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"no json", "not valid JSON"),
        (b"\xff\xfe\x00", "not valid JSON"),
        (b"[" * 100_000, "not valid JSON"),
        (b"[]", "must be a JSON object"),
        (b"{}", "model: Field required"),
        ({"model": "x", "messages": [{"role": "user", "content": "x"}]}, "max_tokens: Field required"),
        (asking([]) | {"messages": []}, "at least one message"),
        (asking("x") | {"messages": "x"}, "at least one message"),
        (asking([{"role": "wizard", "content": "x"}]), "messages.0.role"),
        (asking([{"role": "user", "content": 3}]), "messages.0.content"),
        (asking([{"role": "user", "content": ["x"]}]), "messages.0.content"),
        (asking(f"{MARK} dance"), "there is no step 'dance'\nhint: the steps are text"),
    ],
)
def test_a_wrong_request_is_refused_in_anthropics_form(body: Any, message: str) -> None:
    with ScriptedModel() as model, closing(connect(model)) as connection:
        response = post(connection, body)
        error = json.loads(response.read())
        assert (response.status, error["type"], error["error"]["type"]) == (400, "error", "invalid_request_error")
        assert message in error["error"]["message"]
        assert model.requests[0].error == error["error"]["message"]
        assert post(connection, asking("still there?")).status == 200


def test_bodies_may_be_large_but_not_too_large() -> None:
    with ScriptedModel() as model, closing(connect(model)) as connection:
        large = json.dumps(asking("x")).encode()
        large += b" " * (50 * 1024 * 1024 - len(large))
        assert text_of((200, json.loads(post(connection, large).read()))) == model.scenario.answer
        response = post(connection, large + b" ")
        error = json.loads(response.read())
        assert (response.status, error["error"]["type"]) == (413, "request_too_large")
        assert post(connection, asking("go")).status == 200


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1", 200),
        ("127.0.0.1:1", 200),
        ("localhost:8080", 200),
        ("[::1]:80", 200),
        ("example.com", 403),
        ("127.0.0.1.example.com", 403),
        ("localhost@example.com", 403),
        ("[", 403),
        ("", 403),
    ],
)
def test_only_this_machine_is_served(host: str, status: int) -> None:
    with ScriptedModel() as model:
        answered, body = ask(model, asking("go"), Host=host)
        assert answered == status
        if status == 403:
            assert body["error"]["type"] == "permission_error"


def test_nothing_is_passed_on_to_anybody() -> None:
    with ScriptedModel() as model, closing(connect(model)) as connection:
        connection.request("POST", "http://example.com/v1/messages", json.dumps(asking("go")))
        assert connection.getresponse().read()
        assert [one.status for one in model.requests] == [403]
    with ScriptedModel() as model, raw(model) as client:
        client.sendall(b"CONNECT example.com:443 HTTP/1.1\r\nHost: example.com:443\r\n\r\n")
        assert b" 403 " in client.recv(4096)


@contextlib.contextmanager
def raw(model: ScriptedModel) -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", urlsplit(model.url).port or 0), timeout=WAIT_S) as client:
        yield client


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"nonsense\r\n\r\n", b"400"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\r\n\r\n", b"400"),
        (b"BREW / HTTP/1.1\r\nHost: localhost\r\n\r\n", b"501"),
        (b"POST /v1/messages HTTP/1.1\r\nHost: localhost\r\nContent-Length: many\r\n\r\n", b"400"),
        (b"POST /v1/messages HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9999999999999\r\n\r\n", b"400"),
        (b"POST /v1/messages HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n", b"411"),
        (b"GET /" + b"x" * 70_000 + b" HTTP/1.1\r\n\r\n", b"414"),
    ],
)
def test_what_is_no_request_is_refused_and_the_model_goes_on(data: bytes, status: bytes) -> None:
    with ScriptedModel() as model:
        with raw(model) as client:
            client.sendall(data)
            answer = b""
            with contextlib.suppress(ConnectionError):
                while piece := client.recv(65536):
                    answer += piece
            assert status in answer
            assert b'"type": "error"' in answer
        assert text_of(ask(model, asking("go"))) == model.scenario.answer


def test_clients_may_leave_at_any_time(capfd: pytest.CaptureFixture[str]) -> None:
    parts = [
        b"",
        b"POST /v1/mess",
        b"POST /v1/messages HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n{",
        b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    ]
    with no_thread_is_left(), ScriptedModel() as model:
        idle = threading.active_count()
        for linger in (False, True):
            for part in parts:
                with raw(model) as client:
                    client.sendall(part)
                    if linger:  # leaves with a reset instead of in good order
                        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
        wait_for(lambda: threading.active_count() == idle, WAIT_S, "all threads to end")
        assert text_of(ask(model, asking("go"))) == model.scenario.answer
    assert capfd.readouterr().err == ""


def test_a_client_of_http_1_0_gets_its_stream_without_chunks() -> None:
    with ScriptedModel() as model, raw(model) as client:
        body = json.dumps(asking("go", stream=True)).encode()
        client.sendall(
            b"POST /v1/messages HTTP/1.0\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(body) + body
        )
        answer = b""
        while piece := client.recv(65536):
            answer += piece
        head, _, data = answer.partition(b"\r\n\r\n")
        assert b"chunked" not in head
        assert data.startswith(b"event: message_start\n")
        assert data.endswith(b"\n\n")


# What is noted


def test_the_log_has_a_line_for_each_request(tmp_path: Path) -> None:
    log = tmp_path / "requests.jsonl"
    log.write_text('{"from": "an earlier run"}\n')
    scenario = {"rules": [{"name": "hi", "prompt": "hello", "do": [{"text": "hello"}]}]}
    with ScriptedModel(scenario, log=str(log)) as model:
        ask(model, asking("x" * 5000 + "hello", stream=False), **{"X-Claude-Code-Session-Id": "s1", "X-Api-Key": "k"})
        ask(model, asking("a title?", tools=[]))
        ask(model, b"nonsense")
        lines = [json.loads(line) for line in log.read_text().splitlines()]
        assert len(lines) == 4
        first = lines[1]
        assert abs(first.pop("time") - time.time()) < 3600
        assert first == {
            "method": "POST",
            "path": "/v1/messages",
            "status": 200,
            "model": "claude-test",
            "stream": False,
            "side": False,
            "conversation": "s1",
            "role": "",
            "rule": "hi",
            "step": "text",
            "number": 0,
            "messages": 1,
            "prompt": "x" * 1000,
            "tool_result": "",
            "tools": ["Agent", "Bash"],
            "error": "",
        }
        assert (lines[2]["rule"], lines[2]["side"], lines[2]["tools"]) == ("default", True, [])
        assert lines[3]["status"] == 400
        assert "not valid JSON" in lines[3]["error"]
        assert [one.outcome for one in settled(model, 3)] == ["complete"] * 3
        assert model.requests[0].body["messages"][0]["content"].endswith("hello")


def test_only_the_last_requests_are_kept() -> None:
    with ScriptedModel(keep=2) as model:
        for number in range(4):
            ask(model, asking(str(number)))
        assert [one.prompt for one in model.requests] == ["2", "3"]


def test_a_port_in_use_and_a_log_that_cannot_be_written_are_explained(tmp_path: Path) -> None:
    with ScriptedModel() as model:
        port = urlsplit(model.url).port or 0
        with pytest.raises(UsageError, match=f"port {port} is in use"), ScriptedModel(port=port):
            pass
    with pytest.raises(UsageError, match="the log cannot be written"):
        ScriptedModel(log=str(tmp_path / "missing" / "log")).__enter__()
    with ScriptedModel(port=port) as again:
        assert again.url == f"http://127.0.0.1:{port}"


# The command


@contextlib.contextmanager
def command(tmp_path: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    argv = [sys.executable, "-m", "dogwatch", "model", *arguments]
    environment = {**os.environ, "DOGWATCH_HOME": str(tmp_path / "home")}
    process = subprocess.Popen(
        argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment, cwd=tmp_path
    )
    with process:
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_command_serves_until_a_signal_and_ends_in_good_order(tmp_path: Path, number: int) -> None:
    (tmp_path / "model.yaml").write_text("rules:\n- prompt: who\n  do:\n  - text: It is me.\n  - endless\n")
    with command(tmp_path, "--scenario", "model.yaml", "--log", "log.jsonl") as process:
        assert process.stdout is not None
        place = urlsplit(process.stdout.readline().strip())
        assert (place.scheme, place.hostname, place.path) == ("http", "127.0.0.1", "")
        with closing(http.client.HTTPConnection("127.0.0.1", place.port or 0, timeout=WAIT_S)) as connection:
            assert text_of((200, json.loads(post(connection, asking("who is it?")).read()))) == "It is me."
            stream = events(post(connection, asking(f"{MARK} endless", stream=True)))
            assert next(stream)["type"] == "message_start"
            process.send_signal(number)
            rest, errors = process.communicate(timeout=WAIT_S)
        assert process.returncode == 0
        assert rest == ""
        assert "ANTHROPIC_BASE_URL=http://127.0.0.1:" in errors
        assert "Traceback" not in errors
    assert [json.loads(line)["step"] for line in (tmp_path / "log.jsonl").read_text().splitlines()] == [
        "text",
        "endless",
    ]


@pytest.mark.parametrize(
    ("arguments", "error", "hint"),
    [
        (["--scenario", "missing.yaml"], "the scenario cannot be read", "--scenario"),
        (["--scenario", "wrong.yaml"], "rules[0].promt: unknown key", "known here: do, model"),
        (["--port", "70000"], "is no port: 0 to 65535", "--help"),
        (["--port", "-1"], "is no port: 0 to 65535", "--help"),
        (["--log", "missing/log"], "the log cannot be written", "--log"),
    ],
)
def test_the_command_explains_what_is_wrong(tmp_path: Path, arguments: list[str], error: str, hint: str) -> None:
    (tmp_path / "wrong.yaml").write_text("rules:\n- promt: x\n  do: [hang]\n")
    with command(tmp_path, *arguments) as process:
        output, errors = process.communicate(timeout=WAIT_S)
    assert process.returncode == 64
    assert output == ""
    first, second = errors.splitlines()
    assert first.startswith("error: ")
    assert error in first
    assert second.startswith("hint: ")
    assert hint in second


def test_the_command_explains_a_port_in_use(tmp_path: Path) -> None:
    with ScriptedModel() as model, command(tmp_path, "--port", str(urlsplit(model.url).port)) as process:
        _, errors = process.communicate(timeout=WAIT_S)
        assert process.returncode == 64
        assert "is in use\nhint: --port 0 takes any free one" in errors
