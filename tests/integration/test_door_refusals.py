"""The door of a real run: forged callers, garbage, and a captain that is stopped. None of it changes anything, so all
these tests knock at one door."""

from __future__ import annotations

import json
import signal
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from integration.doors import ask, beat, captain, in_background, launch, raw
from support.fleet import Fleet, fleets


@pytest.fixture(scope="module")
def lasting() -> Iterator[tuple[Fleet, str]]:
    for fleet in fleets():
        yield fleet, launch(fleet)


@pytest.fixture
def fleet(lasting: tuple[Fleet, str]) -> Fleet:
    """The one fleet, in which nothing has happened yet for this test."""
    lasting[0].forget()
    return lasting[0]


@pytest.fixture
def run(lasting: tuple[Fleet, str], fleet: Fleet) -> Iterator[str]:
    yield lasting[1]
    assert not fleet.events("crew_lost"), "a captain died of a request"


WORDS = (
    "report done",
    "report failed --note x",
    "claim draft",
    "mail read",
    "mail send reader hello",
    "checkpoint approve review",
    "heartbeat",
)


def test_a_stale_incarnation_is_refused_and_recorded_whatever_it_asks(fleet: Fleet, run: str) -> None:
    for words in WORDS:
        done = fleet.as_agent(run, "writer", *words.split(), incarnation=2 if words == "heartbeat" else 0)
        assert (words, done.returncode) == (words, 77), done.stderr
        assert b"hint:" in done.stderr
    refused = [(e.agent, e.body["code"]) for e in fleet.events("request_refused")]
    assert refused == [("writer", "stale")] * len(WORDS)
    assert [e.body["incarnation"] for e in fleet.events("request_refused")][-2:] == ["0", "2"]
    assert fleet.view(run).tasks["draft"].state == "claimed"
    assert not fleet.events("message_sent", "reader")


def test_forged_names_and_rights_are_refused_and_change_nothing(fleet: Fleet, run: str) -> None:
    before = fleet.view(run)
    refusals = [
        fleet.as_agent(run, "nobody", "heartbeat"),
        fleet.as_agent("t-9", "writer", "heartbeat", variables={"DOGWATCH_DOOR": fleet.home.door(run)}),
        fleet.as_agent(run, "reader", "report", "done", "--task", "draft"),
        fleet.as_agent(run, "reader", "report", "done"),
        fleet.as_agent(run, "reader", "claim", "draft"),
        fleet.as_agent(run, "writer", "mail", "send", "nobody", "hello"),
        fleet.as_agent(run, "writer", "mail", "ack", "m123"),
        fleet.as_agent(run, "writer", "report", "done", "--task", "other"),
    ]
    assert [done.returncode for done in refusals] == [77] * len(refusals)
    assert len(fleet.events("request_refused")) == len(refusals)
    assert fleet.view(run).tasks == before.tasks
    assert fleet.view(run).messages == before.messages


def test_a_role_that_the_run_does_not_have_is_refused_with_a_hint_and_recorded_whatever_it_asks(
    fleet: Fleet, run: str
) -> None:
    before = fleet.view(run)
    calls = [*(("nobody", words) for words in WORDS), ("writer-2", "heartbeat"), ("captain", "heartbeat")]
    for role, words in calls:
        done = fleet.as_agent(run, role, *words.split())
        said = f"{role} is no agent of {run}"
        assert (words, done.returncode) == (words, 77)
        assert done.stderr.decode().splitlines() == [
            f"error: {said}",
            "hint: leave DOGWATCH_RUN and DOGWATCH_ROLE as they were set",
        ]
        event = fleet.events("request_refused")[-1]
        assert (event.run, event.agent, event.body["code"], event.body["message"]) == (run, role, "refused", said)
    assert len(fleet.events("request_refused")) == len(calls)
    assert fleet.view(run).tasks == before.tasks
    assert fleet.view(run).messages == before.messages


def test_the_environment_of_a_stranger_is_a_usage_error(fleet: Fleet, run: str) -> None:
    assert fleet.cli("report", "done", check=False).returncode == 64
    for changes in ({"DOGWATCH_INCARNATION": "one"}, {"DOGWATCH_ROLE": ""}, {"DOGWATCH_DOOR_WAIT_S": "soon"}):
        done = fleet.as_agent(run, "writer", "heartbeat", variables=changes)
        assert done.returncode == 64
        assert b"Traceback" not in done.stderr


BROKEN: tuple[dict[str, Any], ...] = (
    {"op": "heartbeat", "incarnation": True},
    {"op": "heartbeat", "incarnation": "1"},
    {"op": "heartbeat", "incarnation": None},
    {"op": "heartbeat", "agent": ["writer"]},
    {"op": "heartbeat", "agent": "\ud800"},
    {"op": "heartbeat", "agent": "a\0b"},
    {"op": "heartbeat", "op_id": "x" * 5000},
    {"op": "heartbeat", "op_id": "\ud800"},
    {"op": "heartbeat", "op_id": {"a": 1}},
    {"op": "heartbeat", "progress_percent": 1e400},
    {"op": "heartbeat", "progress_percent": True},
    {"op": "\ud800"},
    {"op": "no-such"},
    {"op": None},
    {"op": "report", "result": "done\ud800"},
    {"op": "report", "result": "failed", "note": "\ud800"},
    {"op": "report", "result": "failed", "note": "x" * 20000},
    {"op": "report", "result": "failed", "note": {"a": 1}},
    {"op": "claim", "task": "\ud800"},
    {"op": "checkpoint", "checkpoint": "\ud800", "verdict": "approve"},
    {"op": "mail_send", "to": "reader", "text": "\ud800"},
    {"op": "mail_send", "to": "\udfff", "text": "hello"},
    {"op": "mail_send", "to": "reader", "text": "x" * 300_000},
    {"op": "mail_ack", "message": "\ud800"},
)


def test_no_request_harms_the_captain(fleet: Fleet, run: str) -> None:
    before = captain(fleet, run)
    answers = {ascii(body)[:80]: ask(fleet, run, **body) for body in BROKEN}
    assert {name: answer for name, answer in answers.items() if answer.get("ok") is not False} == {}
    assert beat(fleet, run) == 0
    assert captain(fleet, run) == before


@pytest.mark.parametrize("agent", ["\ud800", "a\0b"], ids=ascii)
def test_a_broken_request_made_again_and_again_does_not_end_the_run(agent: str, fleet: Fleet, run: str) -> None:
    for _ in range(30):
        ask(fleet, run, op="heartbeat", agent=agent)
    assert beat(fleet, run) == 0
    assert not fleet.view(run).run.over


def test_garbage_huge_half_sent_and_slow_callers_disturb_nobody(fleet: Fleet, run: str) -> None:
    before = captain(fleet, run)
    slow = [socket.socket(socket.AF_UNIX) for _ in range(20)]
    try:
        for one in slow:
            one.connect(fleet.home.door(run))
            one.sendall(b'{"op": "heart')
        for garbage in (b"", b"\n", b"\0\xff\n", b"[]\n", b"GET / HTTP/1.1\r\n\r\n", b"{" * 100_000 + b"\n"):
            raw(fleet, run, garbage)
        raw(fleet, run, b"x" * 3_000_000)
        assert beat(fleet, run) == 0
        slow[0].sendall(b'beat", "op_id": "slow", "run": "%s", "agent": "writer", "incarnation": 1}\n' % run.encode())
        slow[0].settimeout(30)
        assert json.loads(slow[0].recv(65536))["ok"]
    finally:
        for one in slow:
            one.close()
    assert captain(fleet, run) == before


def test_connections_that_nobody_closes_do_not_keep_the_agents_out(fleet: Fleet, run: str) -> None:
    idle: list[socket.socket] = []
    try:
        for _ in range(300):
            idle.append(socket.socket(socket.AF_UNIX))
            idle[-1].connect(fleet.home.door(run))
        assert fleet.as_agent(run, "writer", "heartbeat", variables={"DOGWATCH_DOOR_WAIT_S": "5"}).returncode == 0
    finally:
        for one in idle:
            one.close()


def test_a_call_waits_for_a_stopped_captain(fleet: Fleet, run: str) -> None:
    before = captain(fleet, run)
    fleet.kill(before, signal.SIGSTOP)
    try:
        thread, done = in_background(fleet, run, "heartbeat", "--progress", "40")
        thread.join(1.0)
        assert not done
    finally:
        fleet.kill(before, signal.SIGCONT)
    thread.join(60)
    assert done[0].returncode == 0
    assert [e.body["progress_percent"] for e in fleet.events("heartbeat_received")] == [40.0]
