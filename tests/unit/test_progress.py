"""How far an agent says it is: kept where a reader finds it, until it begins something else."""

from __future__ import annotations

from typing import Any

import pytest

from dogwatch.ledger.api import Store
from dogwatch.model.brief import Header
from dogwatch.testing.clock import ManualClock
from support.virtual import Machine, VirtualAgent
from unit.test_virtual_stalls import hangs, with_limits
from unit.test_virtual_world import THREE_PHASES, begin, by_incarnation, finish


def hangs_once(agent: VirtualAgent, header: Header) -> str:
    return by_incarnation("writer", "hang")(agent, header)


def progress(machine: Machine, agent: str = "writer") -> float | None:
    last = machine.view("v-1").agents[agent].last
    return last.progress_percent if last is not None else None


def beat(machine: Machine, percent: float | None, op_id: str = "") -> None:
    more: dict[str, Any] = {"op_id": op_id} if op_id else {}
    call = machine.agents["writer"].call("heartbeat", progress_percent=percent, **more)
    machine.run_until(lambda: bool(call.answers), 10)
    assert call.answers[0]["ok"]


def test_a_heartbeats_progress_stays_until_the_next_one_that_names_it(ledger: Store, clock: ManualClock) -> None:
    machine = begin(ledger, clock, THREE_PHASES, hangs_once)
    machine.run_until(lambda: bool(machine.events("message_delivered", "writer")))
    assert progress(machine) is None
    beat(machine, 40, op_id="first")
    assert progress(machine) == 40.0
    beat(machine, None)
    assert progress(machine) == 40.0, "a plain sign of life says nothing of it"
    beat(machine, 62.5)
    beat(machine, 40, op_id="first")
    assert progress(machine) == 62.5, "a call whose answer was lost comes again, and is old"


def test_a_new_incarnation_begins_without_progress(ledger: Store, clock: ManualClock) -> None:
    machine = begin(ledger, clock, THREE_PHASES, hangs_once)
    machine.run_until(lambda: bool(machine.events("message_delivered", "writer")))
    beat(machine, 90)
    assert progress(machine) == 90.0
    machine.mishap = lambda what, agent: "unknown" if what == "spawn" else ""  # so that it is not given its task yet
    machine.kill(machine.agents["writer"].process)
    machine.run_until(lambda: bool(machine.events("agent_restarted", "writer")), 60)
    assert progress(machine) is None


@pytest.mark.parametrize("end", ["agent_quarantined", "agent_replaced"])
def test_an_agent_that_was_given_up_is_not_half_done_for_ever(ledger: Store, clock: ManualClock, end: str) -> None:
    limits = {"restarts_max": 0} if end == "agent_quarantined" else {}
    machine = begin(ledger, clock, with_limits(THREE_PHASES, **limits), hangs)
    machine.run_until(lambda: bool(machine.events("message_delivered", "writer")))
    if end == "agent_replaced":
        machine.run_until(lambda: machine.view("v-1").tasks["draft"].incarnation == 2)
    beat(machine, 90)
    machine.run_until(lambda: bool(machine.events(end, "writer")), 1200)
    assert progress(machine) is None


def test_who_has_nothing_to_do_is_not_on_its_way(ledger: Store, clock: ManualClock) -> None:
    machine = begin(ledger, clock, THREE_PHASES, hangs_once)
    machine.run_until(lambda: bool(machine.events("message_delivered", "writer")))
    call = machine.agents["judge"].call("heartbeat", progress_percent=100)
    machine.run_until(lambda: bool(call.answers), 10)
    assert progress(machine, "judge") is None


def test_work_that_is_over_leaves_no_progress_for_what_comes_next(ledger: Store, clock: ManualClock) -> None:
    machine = begin(ledger, clock, THREE_PHASES)
    machine.work_s = 5.0
    machine.run_until(lambda: bool(machine.events("message_delivered", "writer")))
    beat(machine, 90)
    assert progress(machine) == 90.0
    machine.run_until(lambda: bool(machine.events("task_accepted", "writer")), 60)
    assert progress(machine) is None
    machine.run_until(lambda: len(machine.events("task_dispatched", "writer")) == 2, 60)
    assert progress(machine) is None
    assert finish(machine, 60)[0] == "COMPLETED"
