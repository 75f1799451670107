"""An agent's life and a message's delivery carry exactly what is known in them, and take only legal steps."""

from __future__ import annotations

import ast
from dataclasses import replace
from pathlib import Path
from typing import get_args

import pytest

import dogwatch
from dogwatch.errors import IllegalTransitionError
from dogwatch.model.codec import decode, encode
from dogwatch.model.delivery import Acknowledged, Delivered, Delivery, Expired, Queued, Read, Typing
from dogwatch.model.life import Finished, GivenUp, Interrupt, Life, NotStarted, Resting, Starting
from dogwatch.model.moment import Moment
from dogwatch.model.records import AgentRecord, MessageRecord
from support.records import PROCESS, running

NOW = Moment("boot", 1000.0, 5000.0)
RUNNING = running(
    NOW, pane="%1", guarded=True, probed=NOW, interrupt=Interrupt(diagnosis="stop_loop", presses=(NOW, NOW.plus(1)))
)
LIVES: tuple[Life, ...] = (
    NotStarted(not_before=NOW, gate_reason="memory is RED"),
    Resting(reason="memory is RED", gate_reason="no place"),
    Starting(since=NOW),
    RUNNING,
    GivenUp(cause="it failed", successor="writer-r1", last=RUNNING),
    GivenUp(cause="it failed", last=RUNNING, dismissed=True),
    Finished(last=RUNNING),
    Finished(),
)
DELIVERIES: tuple[Delivery, ...] = (
    Queued(),
    Delivered(at=NOW),
    Read(at=NOW.plus(1), delivered=NOW),
    Read(at=NOW),
    Acknowledged(at=NOW),
    Expired(),
)


def agent(life: Life, *, busy: bool = False) -> AgentRecord:
    return AgentRecord(run="r", agent="writer", role="writer", incarnation=1, life=life, busy=busy)


def message(delivery: Delivery) -> MessageRecord:
    return MessageRecord(
        run="r", id="m1", to="writer", sender="captain", kind="mail", subject="s", body="", queued=NOW, incarnation=1,
        delivery=delivery, typing=Typing(step="posted", at=NOW),
    )  # fmt: skip


def test_every_life_and_every_delivery_is_tried_here() -> None:
    assert {type(life) for life in LIVES} == set(get_args(Life))
    assert {type(delivery) for delivery in DELIVERIES} == set(get_args(Delivery))


@pytest.mark.parametrize("life", LIVES, ids=lambda life: life.kind)
def test_a_life_comes_back_from_the_ledger_as_it_was(life: Life) -> None:
    assert decode(AgentRecord, encode(agent(life))) == agent(life)


@pytest.mark.parametrize("delivery", DELIVERIES, ids=lambda delivery: delivery.kind)
def test_a_delivery_comes_back_from_the_ledger_as_it_was(delivery: Delivery) -> None:
    assert decode(MessageRecord, encode(message(delivery))) == message(delivery)


def test_a_life_that_this_version_does_not_know_is_an_error_and_not_another_life() -> None:
    body = {**encode(agent(RUNNING)), "life": {"kind": "frozen", "since": encode(NOW)}}
    with pytest.raises(KeyError):
        decode(AgentRecord, body)


@pytest.mark.parametrize(
    ("life", "busy", "state"),
    [
        (NotStarted(), False, "CREATED"),
        (Resting(reason="x"), False, "CREATED"),
        (Starting(since=NOW), False, "CREATED"),
        (Starting(since=NOW), True, "BUSY"),
        (RUNNING, False, "WAITING"),
        (RUNNING, True, "BUSY"),
        (GivenUp(cause="x"), True, "ERROR"),
        (Finished(), True, "SUCCEEDED"),
    ],
)
def test_the_state_for_readers_follows_from_the_life(life: Life, busy: bool, state: str) -> None:
    assert agent(life, busy=busy).state == state


def test_only_a_running_agent_can_be_addressed_and_what_is_left_of_one_can_be_ended() -> None:
    assert [life.kind for life in LIVES if agent(life).running] == ["running"]
    with_process = [life for life in LIVES if agent(life).process]
    assert with_process == [RUNNING, GivenUp(cause="it failed", successor="writer-r1", last=RUNNING), LIVES[6]]
    assert all(agent(life).process == PROCESS for life in with_process)
    assert all(agent(life).pane == "" for life in LIVES if life != RUNNING)


def test_an_illegal_step_raises() -> None:
    for end in (GivenUp(cause="x"), Finished()):
        for life in (NotStarted(), Starting(since=NOW), RUNNING):
            with pytest.raises(IllegalTransitionError):
                agent(end).become(life)
    with pytest.raises(IllegalTransitionError):
        message(Acknowledged(at=NOW)).become(Queued())
    with pytest.raises(IllegalTransitionError):
        message(Queued()).become(Acknowledged(at=NOW))


def test_nothing_of_an_incarnation_outlives_it() -> None:
    old = agent(RUNNING, busy=True)
    new = replace(old, busy=False).become(NotStarted())
    assert (new.nudges, new.probed, new.interrupt, new.pane, new.process) == (0, None, None, "", None)
    assert new.while_running(lambda life: replace(life, nudges=3)) == new, "there is nothing that could be nudged"


def test_a_message_that_was_sent_again_was_not_told_before() -> None:
    assert message(Read(at=NOW)).told == NOW
    assert message(Read(at=NOW.plus(5), delivered=NOW)).told == NOW
    assert message(Delivered(at=NOW)).become(Queued()).told is None


def test_whether_an_agent_lives_is_asked_of_its_record_alone() -> None:
    """Nobody outside the record's own file looks for a process in a life, or compares states to find out."""
    found = []
    root = Path(dogwatch.__file__).parent
    for path in root.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            asks_state = isinstance(node, ast.Compare) and any(
                isinstance(one, ast.Constant) and one.value in ("ERROR", "HANDED_OFF", "SUCCEEDED")
                for one in (node.left, *node.comparators)
            )
            asks_life = (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Name)
                and node.func.id == "isinstance"
                and "Running" in {one.id for one in ast.walk(node.args[1]) if isinstance(one, ast.Name)}
            )
            if asks_state or asks_life:
                found.append((str(path.relative_to(root)), ast.unparse(node)))
    known = {"model/records.py", "ledger/upgraded_lives.py", "cli/snapshot.py"}
    assert not [place for place in found if place[0] not in known]
