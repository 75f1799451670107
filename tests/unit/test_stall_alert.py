"""The first stall of each agent is told: an event for all, and a letter to those that wait for it."""

from __future__ import annotations

from dogwatch.ledger.api import Store
from dogwatch.model.brief import Header
from dogwatch.model.plan import Dispatch, Output, Phase, Role
from dogwatch.testing.clock import ManualClock
from support.virtual import Machine, VirtualAgent
from unit.test_virtual_stalls import with_limits
from unit.test_virtual_world import DRAFT, begin, finish, plan

EDIT = Dispatch(name="edit", to="editor", task="Edit.", outputs=(Output(path="edit.md"),))
PRINT = Dispatch(name="print", to="printer", task="Print.", outputs=(Output(path="print.md"),), after=("draft",))
ROLES = tuple(Role(name=name, harness="scripted") for name in ("writer", "editor", "printer", "clerk", "reader"))
"""The printer's work comes after the writer's; clerk and reader have no task."""
BESIDE = with_limits(plan(Phase(name="work", dispatches=(DRAFT, EDIT, PRINT)), roles=ROLES))


def told(machine: Machine) -> list[tuple[str, int]]:
    """Who got how many letters about a stall."""
    letters = [event for event in machine.events("message_sent") if event.body["subject"] == "stall_alert"]
    receivers = [event.agent for event in letters]
    return [(name, receivers.count(name)) for name in sorted(set(receivers))]


def waiting_for_the_writer(ledger: Store, clock: ManualClock, *who_hang: str) -> Machine:
    """Those hang over every dispatch; the clerk has written to the writer, which does not answer."""

    def script(agent: VirtualAgent, header: Header) -> str:
        return "hang" if agent.name in who_hang and header.kind == "dispatch" else ""

    machine = begin(ledger, clock, BESIDE, script)
    machine.run_until(lambda: bool(machine.events("message_delivered", "writer")))
    machine.agents["clerk"].call("mail_send", to="writer", text="How far are you?")
    return machine


def test_who_waits_for_the_stalled_agent_gets_a_letter_and_nobody_else_does(ledger: Store, clock: ManualClock) -> None:
    machine = waiting_for_the_writer(ledger, clock, "writer")
    machine.run_until(lambda: bool(machine.events("agent_stalled", "writer")))
    assert told(machine) == [("clerk", 1), ("printer", 1)]
    (alert,) = machine.events("stall_alert")
    assert (alert.agent, alert.body["told"]) == ("writer", ["clerk", "printer"])


def test_a_second_stall_of_the_same_agent_is_not_told_again(ledger: Store, clock: ManualClock) -> None:
    machine = waiting_for_the_writer(ledger, clock, "writer")
    machine.run_until(lambda: len(machine.events("agent_stalled", "writer")) == 2, 1200)
    assert finish(machine, 1200)[0] == "COMPLETED"
    assert told(machine) == [("clerk", 1), ("printer", 1)]
    assert [event.agent for event in machine.events("stall_alert")] == ["writer"]


def test_the_first_stall_of_another_agent_is_told_too(ledger: Store, clock: ManualClock) -> None:
    machine = waiting_for_the_writer(ledger, clock, "writer", "editor")
    machine.agents["reader"].call("mail_send", to="editor", text="And you?")
    machine.run_until(
        lambda: bool(machine.events("agent_stalled", "writer") and machine.events("agent_stalled", "editor"))
    )
    assert sorted(event.agent for event in machine.events("stall_alert")) == ["editor", "writer"]
    assert told(machine) == [("clerk", 1), ("printer", 1), ("reader", 1)]


def test_a_stall_that_nobody_waits_for_is_an_event_alone(ledger: Store, clock: ManualClock) -> None:
    machine = waiting_for_the_writer(ledger, clock, "editor")
    machine.run_until(lambda: bool(machine.events("agent_stalled", "editor")))
    assert [(event.agent, event.body["told"]) for event in machine.events("stall_alert")] == [("editor", [])]
    assert told(machine) == []


def test_a_waiter_that_stalls_in_the_same_step_gets_its_letter_in_its_next_incarnation(
    ledger: Store, clock: ManualClock
) -> None:
    machine = waiting_for_the_writer(ledger, clock, "writer", "editor")
    for name, other in (("editor", "writer"), ("writer", "editor")):
        machine.agents[name].call("mail_send", to=other, text="Are you there?")
    machine.run_until(lambda: len(machine.events("agent_stalled")) == 2)
    assert {name for name, _ in told(machine)} == {"clerk", "editor", "printer", "writer"}
    view = machine.view("v-1")
    letters = [one for one in view.messages.values() if one.subject == "stall_alert" and one.to in ("editor", "writer")]
    assert [one.incarnation for one in letters] == [view.agents[one.to].incarnation for one in letters]
    assert len(letters) == 2
