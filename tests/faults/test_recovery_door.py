"""Whatever comes to the door: a clear refusal, and the captain and its run go on."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import uuid
from typing import Any

import pytest

from faults.pipelines import one_task
from support.fleet import Fleet
from support.helpers import wait_for

HALF = "\ud83d"
"""Half of an emoji: valid in a JSON escape, no character."""
DEEP: Any = []
for _ in range(800):
    DEEP = [DEEP]
SOON = {"DOGWATCH_DOOR_WAIT_S": "1"}
STAYS: dict[str, Any] = {"work_s": 0.3, "rules": [{"on": "dispatch", "do": [{"wait": 600}]}]}


def knock(path: str, line: bytes) -> dict[str, Any]:
    """One line to the door as any program could send it, and the answer."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(30)
        connection.connect(path)
        connection.sendall(line + b"\n")
        received = b""
        while data := connection.recv(65536):
            received += data
    answer: dict[str, Any] = json.loads(received) if received else {"ok": None, "code": "no answer"}
    return answer


def requests(run: str) -> dict[str, Any]:
    """Hostile requests by name; each is a request of the writer except for what it says."""
    report = {"op": "report", "result": "done", "task": "draft"}
    mail = {"op": "mail_send", "to": "writer", "text": "hello"}
    hostile: dict[str, dict[str, Any]] = {
        "half an emoji in a note": {**report, "note": HALF},
        "a NUL in a note": {**report, "note": "a\0b"},
        "half an emoji in a mail": {**mail, "text": HALF},
        "a NUL in a mail": {**mail, "text": "a\0b"},
        "a deep note": {**report, "note": DEEP},
        "a deep mail": {**mail, "text": DEEP},
        "half an emoji as the task": {**report, "task": HALF},
        "a NUL in the task": {**report, "task": "a\0b"},
        "a deep task": {**report, "task": DEEP},
        "half an emoji as the receiver": {**mail, "to": HALF},
        "half an emoji as the operation": {"op": HALF},
        "a deep operation": {"op": DEEP},
        "half an emoji as the agent": {**report, "agent": HALF},
        "a NUL in the agent": {**report, "agent": "a\0b"},
        "a deep agent": {**report, "agent": DEEP},
        "half an emoji as the run": {**report, "run": HALF},
        "a deep run": {**report, "run": DEEP},
        "half an emoji as the incarnation": {**report, "incarnation": HALF},
        "a deep incarnation": {**report, "incarnation": DEEP},
        "a huge incarnation": {**report, "incarnation": 10**4000},
        "half an emoji as the operation id": {**mail, "op_id": HALF},
        "a long operation id": {"op": "heartbeat", "op_id": "x" * 5000},
        "a deep checkpoint": {"op": "checkpoint", "checkpoint": DEEP, "verdict": "approve"},
        "a message id that is half an emoji": {"op": "mail_ack", "message": HALF},
        "a long message id": {"op": "mail_ack", "message": "x" * 5000},
        "not a number as the progress": {"op": "heartbeat", "progress_percent": float("nan")},
    }
    base = {"run": run, "agent": "writer", "incarnation": 1}
    return {name: {"op_id": uuid.uuid4().hex, **base, **body} for name, body in hostile.items()}


def test_nothing_that_comes_to_the_door_ends_the_captain_or_goes_without_an_answer(fleet: Fleet) -> None:
    run = fleet.launch(fleet.spec(one_task(), {"writer": STAYS}))
    wait_for(lambda: fleet.deeds("writer", "turn_start"), 60, fleet.tail)
    captain = fleet.crew("captain", run)
    door = fleet.home.door(run)
    answers = {name: knock(door, json.dumps(body).encode()) for name, body in requests(run).items()}
    refusals = ("usage", "refused", "stale")
    wrong = {name: a for name, a in answers.items() if a["ok"] is not False or a["code"] not in refusals}
    for raw in (b"[" * 500_000, b'{"op":' * 100_000, b'"\\ud83d', b"\xff\xfe", b"nul\0l", b"", b"{}", b"[]", b"1e999"):
        answer = knock(door, raw)
        assert (answer["ok"], answer["code"]) == (False, "usage"), raw[:20]
    assert wrong == {}
    assert all(answer["message"] for answer in answers.values())
    assert fleet.crew("captain", run) == captain, "the captain is the same process as before"
    assert fleet.view(run).tasks["draft"].state == "claimed"
    assert fleet.view(run).agents["writer"].incarnation == 1
    assert not fleet.events("crew_lost")
    # And the door still serves.
    (fleet.project / "out" / run / "draft.md").write_text("done")
    assert b"reported" in fleet.as_agent(run, "writer", "report", "done", "--task", "draft").stdout
    assert fleet.wait_over(run, 60).run.state == "COMPLETED"


def test_bad_requests_in_a_row_do_not_add_up_to_the_end_of_the_run(fleet: Fleet) -> None:
    run = fleet.launch(fleet.spec(one_task(), {"writer": STAYS}))
    wait_for(lambda: fleet.deeds("writer", "turn_start"), 60, fleet.tail)
    captain = fleet.crew("captain", run)
    body = {"op": "report", "op_id": "1", "run": run, "agent": "a\0b", "incarnation": 1}
    answers = [knock(fleet.home.door(run), json.dumps(body).encode()) for _ in range(25)]
    assert not fleet.view(run).run.over, fleet.view(run).run.cause
    assert fleet.crew("captain", run) == captain
    assert {answer["ok"] for answer in answers} == {False}


def assert_refused_in_words(done: subprocess.CompletedProcess[bytes]) -> None:
    shown = done.stderr.decode(errors="replace").strip().splitlines()
    assert shown[0].startswith("error: "), shown[-1]
    assert done.returncode == 64, shown


def test_bytes_that_are_no_text_are_refused_whichever_way_they_come(fleet: Fleet) -> None:
    run = fleet.launch(fleet.spec(one_task(), {"writer": STAYS}))
    wait_for(lambda: fleet.deeds("writer", "turn_start"), 60, fleet.tail)
    captain = fleet.crew("captain", run)
    torn = b"cut \xf0\x9f"
    note = ["report", "done", "--task", "draft", "--note", os.fsdecode(torn)]
    assert_refused_in_words(fleet.as_agent(run, "writer", *note))
    assert_refused_in_words(fleet.as_agent(run, "writer", "mail", "send", "writer", os.fsdecode(torn)))
    assert_refused_in_words(fleet.as_agent(run, "writer", "mail", "send", "writer", stdin=torn))
    assert fleet.view(run).tasks["draft"].state == "claimed"
    assert not [message for message in fleet.view(run).messages.values() if message.kind == "mail"]
    assert fleet.crew("captain", run) == captain


@pytest.mark.parametrize("incarnation", ["²", "9" * 5000], ids=["superscript", "long"])
def test_a_garbage_incarnation_in_the_environment_is_refused_by_the_command(fleet: Fleet, incarnation: str) -> None:
    variables = {**SOON, "DOGWATCH_INCARNATION": incarnation}
    assert_refused_in_words(fleet.as_agent("t-1", "writer", "heartbeat", variables=variables))
