"""Agents and messages of ledger version 2 become those of version 3, and nothing that is known of them is lost."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dogwatch.ledger.bodies import dump
from dogwatch.ledger.upgraded_lives import upgrade_agent, upgrade_message
from dogwatch.ledger.upgrades import UPGRADES, upgraded_document
from dogwatch.model.codec import decode
from dogwatch.model.delivery import Acknowledged, Delivered, Delivery, Expired, Queued, Read, Typing
from dogwatch.model.life import Finished, GivenUp, Interrupt, Life, NotStarted, Resting, Running, Starting
from dogwatch.model.moment import Moment
from dogwatch.model.process import ProcessId
from dogwatch.model.records import AgentRecord, MessageRecord, SettledStall

AT: dict[str, Any] = {"boot": "b", "mono": 1.0, "wall": 2.0}
LATER: dict[str, Any] = {"boot": "b", "mono": 3.0, "wall": 4.0}
MOMENT, AFTER = Moment("b", 1.0, 2.0), Moment("b", 3.0, 4.0)
PROCESS: dict[str, Any] = {"boot": "b", "pid": 7, "start_ticks": 8}
OLD: dict[str, Any] = {
    "run": "r",
    "agent": "writer",
    "role": "writer",
    "state": "CREATED",
    "incarnation": 2,
    "name": "quiet-otter",
    "restarts": [AT],
    "alerts": 3,
    "stall_count": 1,
    "health": "stalled",
    "stalled": AT,
    "conversation": 1,
}
STARTED = {"intended": AT, "confirmed": LATER, "process": PROCESS, "pane": "%4", "server": {**PROCESS, "pid": 9}}
RUNNING = Running(since=AFTER, process=ProcessId("b", 7, 8), pane="%4")


def upgraded(**changes: Any) -> AgentRecord:
    found = upgrade_agent("agent/r/writer", {**OLD, **changes}, "here")
    assert found is not None
    assert found[0] == "agent/r/writer"
    assert upgrade_agent(*found, "here") is None, "what was made already is left alone"
    return decode(AgentRecord, found[1])


@pytest.mark.parametrize(
    ("body", "life"),
    [
        ({}, NotStarted()),
        ({"not_before": AT, "held": "memory is RED"}, NotStarted(not_before=MOMENT, gate_reason="memory is RED")),
        ({"resting": "idle", "held": "no place"}, Resting(reason="idle", gate_reason="no place")),
        ({"intended": AT}, Starting(since=MOMENT)),
        ({"state": "WAITING", **STARTED}, RUNNING),
        ({"state": "ERROR", "cause": "it failed"}, GivenUp(cause="it failed")),
        (
            {"state": "ERROR", "cause": "x", "successor": "writer-r1", **STARTED},
            GivenUp(cause="x", successor="writer-r1", last=RUNNING),
        ),
        ({"state": "SUCCEEDED", **STARTED}, Finished(last=RUNNING)),
        ({"state": "HANDED_OFF"}, Finished()),
    ],
)
def test_an_agent_has_the_life_that_its_fields_told_of(body: dict[str, Any], life: Life) -> None:
    found = upgraded(**body)
    assert found.life == life
    assert found.state == {"HANDED_OFF": "SUCCEEDED"}.get(body.get("state", "CREATED"), body.get("state", "CREATED"))
    assert found.host == ("here" if body.get("intended") else "")
    assert (found.restarts, found.alerts, found.stall_count, found.stalled) == ((MOMENT,), 3, 1, MOMENT)


def test_what_was_asked_of_an_incarnation_and_done_to_it_goes_with_its_life() -> None:
    more = {"nudges": 1, "probed": AT, "interrupts": [AT, LATER], "interrupted": "stop_loop", "progress_percent": 40.0}
    found = upgraded(state="BUSY", guarded=2, sandboxed=True, stall="#2:hang", stall_again=LATER, **STARTED, **more)
    assert found.running is not None
    assert (found.running.nudges, found.running.probed, found.running.progress_percent) == (1, MOMENT, 40.0)
    assert found.running.interrupt == Interrupt(diagnosis="stop_loop", presses=(MOMENT, AFTER))
    assert found.rings == ("namespace", "hook", "wrappers")
    assert found.settled == SettledStall(stall="#2:hang", again=AFTER)
    assert (found.busy, found.server) == (True, ProcessId("b", 9, 8))
    assert upgraded(state="BUSY", guarded=1, **STARTED).rings == ("wrappers",), "an earlier incarnation's guard"


LETTER: dict[str, Any] = {
    "run": "r",
    "id": "m1",
    "to": "writer",
    "sender": "captain",
    "kind": "mail",
    "subject": "s",
    "body": "words",
    "queued": AT,
    "incarnation": 1,
    "tries": 2,
}


@pytest.mark.parametrize("word", ["message", "held-message", "past-message"])
@pytest.mark.parametrize(
    ("body", "delivery"),
    [
        ({"state": "queued"}, Queued()),
        ({"state": "delivered", "delivered": LATER}, Delivered(at=AFTER)),
        ({"state": "read", "read": LATER}, Read(at=AFTER)),
        ({"state": "read", "read": LATER, "delivered": AT}, Read(at=AFTER, delivered=MOMENT)),
        ({"state": "acknowledged", "read": AT, "acknowledged": LATER}, Acknowledged(at=AFTER)),
        ({"state": "expired"}, Expired()),
    ],
)
def test_a_message_has_the_delivery_that_its_fields_told_of(
    word: str, body: dict[str, Any], delivery: Delivery
) -> None:
    found = upgrade_message(f"{word}/r/m1", {**LETTER, **body, "step": "pasted", "step_at": LATER}, "here")
    assert found is not None
    record = decode(MessageRecord, found[1])
    assert (record.delivery, record.tries, record.typing) == (delivery, 2, Typing(step="pasted", at=AFTER))
    assert upgrade_message(*found, "here") is None


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@given(
    st.sampled_from(["agent/r/a", "message/r/m", "past-message/r/m", "agent", "message/"]),
    st.dictionaries(st.sampled_from([*OLD, *LETTER, *STARTED, "interrupts", "life", "delivery", "state"]), values),
)
def test_whatever_stands_there_nothing_is_raised_and_what_is_not_understood_stays(key: str, body: Any) -> None:

    found = upgraded_document(key, dump(body), list(UPGRADES.values()), "here")
    assert found is None or found[0] == key
