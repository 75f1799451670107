"""A task whose holder is gone is open again: pending, without an owner, and no attempt of it is counted."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dogwatch.ledger.api import Store
from dogwatch.ledger.records import change
from dogwatch.model.plan import Phase
from dogwatch.model.records import TaskRecord
from dogwatch.testing.clock import ManualClock
from support.virtual import Machine
from unit.test_virtual_stalls import hangs, with_limits
from unit.test_virtual_world import COLLECT, DRAFT, JUDGE, REVIEW, THREE_PHASES, WORKERS, WRITER, begin, finish, plan

POOL = with_limits(plan(Phase(name="collect", dispatches=(COLLECT,)), roles=(WORKERS,), path="data.csv"))


def stay_away(machine: Machine) -> None:
    """Nobody is started from now on, so that a task that is open stays open."""
    machine.mishap = lambda what, agent: "unknown" if what == "spawn" else ""


@pytest.mark.parametrize("way", ["death", "stall", "replacement"])
def test_a_task_whose_holder_is_gone_is_pending_and_has_no_owner(ledger: Store, clock: ManualClock, way: str) -> None:
    machine = begin(ledger, clock, with_limits(THREE_PHASES), hangs)
    machine.run_until(lambda: bool(machine.events("message_delivered", "writer")))
    if way == "replacement":
        machine.run_until(lambda: machine.view("v-1").tasks["draft"].incarnation == 2, 600)
    stay_away(machine)
    if way == "death":
        machine.kill(machine.agents["writer"].process)
    ends = {"death": "agent_restarted", "stall": "agent_stalled", "replacement": "agent_replaced"}
    machine.run_until(lambda: bool(machine.events(ends[way])), 600)
    task = machine.view("v-1").tasks["draft"]
    assert (task.state, task.agent, task.attempt) == ("pending", "", 0)
    released = machine.events("task_released", "writer")
    assert [event.body["task"] for event in released] == ["draft"] * (2 if way == "replacement" else 1)
    assert not machine.events("task_returned")
    assert not machine.events("dispatch_miscounted")


def test_a_task_with_one_holder_goes_to_its_next_incarnation(ledger: Store, clock: ManualClock) -> None:
    machine = begin(ledger, clock, with_limits(THREE_PHASES), hangs)
    machine.run_until(lambda: bool(machine.events("message_delivered", "writer")))
    machine.kill(machine.agents["writer"].process)
    machine.run_until(lambda: len(machine.events("task_dispatched", "writer")) == 2, 60)
    task = machine.view("v-1").tasks["draft"]
    assert (task.state, task.agent, task.incarnation, task.attempt) == ("claimed", "writer", 2, 1)


def claimed_pool(ledger: Store, clock: ManualClock) -> tuple[Machine, str, str]:
    """A run whose task for any worker was taken by one of two, and the other's offer has come too late."""
    machine = begin(ledger, clock, POOL)
    machine.work_s = 5.0
    machine.run_until(lambda: bool(machine.events("task_claimed")) and bool(machine.events("request_refused")))
    first = machine.events("task_claimed")[0].agent
    (other,) = {"worker-1", "worker-2"} - {first}
    return machine, first, other


def test_a_task_for_any_of_a_role_goes_to_who_is_free_while_its_holder_is_away(
    ledger: Store, clock: ManualClock
) -> None:
    machine, first, other = claimed_pool(ledger, clock)
    stay_away(machine)
    machine.kill(machine.agents[first].process)
    machine.run_until(lambda: bool(machine.events("task_accepted", other)), 60)
    assert len(machine.events("task_accepted")) == 1


def test_a_task_for_any_of_a_role_stays_open_while_nobody_is_there(ledger: Store, clock: ManualClock) -> None:
    machine, first, other = claimed_pool(ledger, clock)
    stay_away(machine)
    for name in (first, other):
        machine.kill(machine.agents[name].process)
    machine.run_until(lambda: len(machine.events("agent_restarted")) == 2, 60)
    task = machine.view("v-1").tasks["collect"]
    assert (task.state, task.agent) == ("pending", "")
    machine.mishap = lambda what, agent: ""
    assert finish(machine, 300)[0] == "COMPLETED"
    assert len(machine.events("task_accepted")) == 1


def test_an_offer_is_over_once_somebody_has_held_the_task(ledger: Store, clock: ManualClock) -> None:
    """The run was sent back to an earlier phase, so that nobody may do the task for now."""
    phases = (Phase(name="draft", dispatches=(DRAFT,), checkpoints=(REVIEW,)), Phase(name="c", dispatches=(COLLECT,)))
    machine = begin(ledger, clock, plan(*phases, roles=(WRITER, JUDGE, WORKERS), path="data.csv"))
    machine.run_until(lambda: bool(machine.events("checkpoint_closed")))
    machine.work_s = 40.0
    machine.run_until(lambda: bool(machine.events("task_claimed")) and bool(machine.events("request_refused")))
    first = machine.events("task_claimed")[0].agent
    (other,) = {"worker-1", "worker-2"} - {first}
    machine.agents["judge"].call("mail_send", to="writer", text="DISAGREE with draft.md: the figure is wrong")
    machine.run_until(lambda: bool(machine.events("phase_reopened")))
    machine.kill(machine.agents[first].process)
    machine.run_until(lambda: bool(machine.events("agent_restarted", first)))
    late = machine.agents[other].call("claim", task="collect")
    machine.run_until(lambda: len(machine.events("task_accepted", "writer")) == 2, 200)
    assert late.answers[0]["code"] == "refused"
    assert not machine.events("alert_raised", other)
    assert finish(machine)[0] == "COMPLETED"


def test_a_task_that_an_earlier_version_returned_to_its_owner_is_done_by_it(ledger: Store, clock: ManualClock) -> None:
    machine = begin(ledger, clock, with_limits(THREE_PHASES), hangs)
    machine.run_until(lambda: bool(machine.events("message_delivered", "writer")))
    stay_away(machine)
    machine.kill(machine.agents["writer"].process)
    machine.run_until(lambda: bool(machine.events("agent_restarted")), 60)

    def as_before(task: TaskRecord) -> TaskRecord:
        return replace(task, state="returned", agent="writer", incarnation=1)

    ledger.run(lambda tx: change(tx, TaskRecord, "task/v-1/draft", as_before))
    machine.mishap = lambda what, agent: ""
    machine.run_until(lambda: len(machine.events("task_dispatched", "writer")) == 2, 60)
    assert finish(machine, 1200)[0] == "COMPLETED"


def test_a_task_that_is_given_up_with_its_holder_is_told_with_its_name(ledger: Store, clock: ManualClock) -> None:
    machine = begin(ledger, clock, with_limits(THREE_PHASES), hangs)
    machine.run_until(lambda: bool(machine.events("message_delivered", "writer")))
    machine.mishap = lambda what, agent: "fail" if what == "spawn" else ""
    machine.kill(machine.agents["writer"].process)
    assert finish(machine)[0] == "FAILED"
    assert [event.agent for event in machine.events("task_failed")] == ["writer"]


def test_a_task_is_not_claimed_before_those_that_it_comes_after(ledger: Store, clock: ManualClock) -> None:
    """Whoever may hold it knows its name, and could claim it before anybody has offered it."""
    collect = replace(COLLECT, after=("draft",))
    machine = begin(ledger, clock, plan(Phase(name="p", dispatches=(DRAFT, collect)), roles=(WRITER, WORKERS)))
    machine.work_s = 20.0
    machine.run_until(lambda: bool(machine.events("task_dispatched")) and "worker-1" in machine.agents)
    early = machine.agents["worker-1"].call("claim", task="collect")
    machine.run_until(lambda: bool(early.answers))
    assert (early.answers[0]["code"], early.answers[0]["message"]) == (
        "refused",
        "collect cannot begin yet: draft comes first",
    )
    assert finish(machine)[0] == "COMPLETED"
    assert [event.body["task"] for event in machine.events("task_accepted")] == ["draft", "collect"]
