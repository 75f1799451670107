"""Staffing: an agent that the plan does not name is admitted, started, listed and cleared like all others."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dogwatch.coordination.agents import replace_agent
from dogwatch.coordination.launches import agent_holder
from dogwatch.coordination.runs import create_run
from dogwatch.coordination.staffing import staff
from dogwatch.errors import DogwatchError, NotFoundError, RefusedError, UsageError
from dogwatch.ledger.api import Store
from dogwatch.ledger.records import load, load_run
from dogwatch.model import keys
from dogwatch.model.admission import PermitRecord, WaitRecord
from dogwatch.model.memory import HostRecord
from dogwatch.model.plan import ByteCheck, Dispatch, Limits, Output, Phase, Plan, Role
from dogwatch.model.records import AgentRecord
from dogwatch.policy.needs import is_done
from dogwatch.sim.refold import Records
from dogwatch.testing.clock import ManualClock
from support.virtual import Machine

RUN = "v-1"
WRITER = Role(name="writer", harness="scripted", limits={"nudge_s": 7.0})
DRAFT = Dispatch(name="draft", to="writer", task="Write.", outputs=(Output(path="draft.md"),))
FINAL = Dispatch(name="final", to="writer", task="Finish.", outputs=(Output(path="final.md"),))
PLAN = Plan(
    name="v",
    roles=(WRITER,),
    phases=(Phase(name="draft", dispatches=(DRAFT,)), Phase(name="final", dispatches=(FINAL,))),
    deliverable=ByteCheck(path="final.md"),
    limits=Limits(restart_backoff_s=1.0, restarts_max=2, deadline_s=500.0),
)


@pytest.fixture
def machine(ledger: Store, clock: ManualClock) -> Machine:
    """A run whose writer is at its first task."""
    ledger.run(lambda tx: create_run(tx, PLAN, "/project", "/out", "/pipeline.yaml"))
    machine = Machine(ledger, clock, lambda agent, header: "")
    machine.work_s = 60.0
    machine.hands.start_crew("dispatcher")
    machine.run_until(lambda: bool(machine.events("task_dispatched")))
    return machine


def join(ledger: Store, name: str = "helper", role: str = "writer") -> AgentRecord:
    return ledger.run(lambda tx: staff(tx, load_run(tx, RUN), name, role, reason="two reviewers cannot agree"))


def permit(ledger: Store, name: str = "helper") -> PermitRecord | None:
    return ledger.read(lambda reader: load(reader, PermitRecord, f"permit/{reader.host}/{agent_holder(RUN, name)}"))


def host_agents(ledger: Store) -> int:
    """How many agents the gate lets start on this host."""
    host = ledger.read(lambda reader: load(reader, HostRecord, keys.host(reader.host)))
    return host.settings.agents if host is not None else 0


def finish(machine: Machine) -> None:
    machine.run_until(lambda: machine.view(RUN).run.cleared, 400)
    assert machine.failures == [], "a step or a request failed"
    assert machine.view(RUN).run.state == "COMPLETED"


def test_a_helper_is_admitted_started_listed_and_gone_when_the_run_is_over(ledger: Store, machine: Machine) -> None:
    join(ledger)
    machine.ring()
    machine.run_until(lambda: bool(machine.events("agent_spawned", "helper")))
    helper = machine.view(RUN).agents["helper"]
    granted = permit(ledger)
    assert granted is not None, "it was started without asking at the gate"
    assert granted.process == helper.process
    assert helper.process == machine.agents["helper"].process
    assert helper.process in machine.alive
    assert helper.running is not None
    assert helper.state == "WAITING"
    (told,) = machine.events("agent_staffed")
    assert (told.agent, told.body) == ("helper", {"role": "writer", "reason": "two reviewers cannot agree"})
    finish(machine)
    assert helper.process not in machine.alive
    machine.run_until(lambda: permit(ledger) is None, 60)


def test_a_helper_may_join_before_anybody_has_started_and_is_wanted_until_the_end(
    ledger: Store, clock: ManualClock
) -> None:
    ledger.run(lambda tx: create_run(tx, PLAN, "/project", "/out", "/pipeline.yaml"))
    join(ledger)
    machine = Machine(ledger, clock, lambda agent, header: "")
    machine.hands.start_crew("dispatcher")
    machine.run_until(lambda: machine.view(RUN).run.phase == 1)
    assert len(machine.events("agent_spawned")) == 2
    assert not is_done(machine.view(RUN), "helper"), "nobody knows what else it may be asked"
    finish(machine)


def test_a_helper_waits_at_the_gate_like_all_others(ledger: Store, machine: Machine) -> None:
    machine.settings = replace(machine.settings, agents=1)
    machine.run_until(lambda: host_agents(ledger) == 1)
    join(ledger)
    machine.ring()
    machine.run_until(lambda: bool(machine.view(RUN).agents["helper"].gate_reason))
    assert "helper" not in machine.agents
    assert (
        ledger.read(lambda reader: load(reader, WaitRecord, f"waits/{reader.host}/{agent_holder(RUN, 'helper')}"))
        is not None
    )
    machine.settings = replace(machine.settings, agents=2)
    machine.run_until(lambda: bool(machine.events("agent_spawned", "helper")))
    finish(machine)


def test_a_helper_that_dies_is_started_again_and_can_be_replaced(ledger: Store, machine: Machine) -> None:
    join(ledger)
    machine.ring()
    machine.run_until(lambda: bool(machine.events("agent_spawned", "helper")))
    machine.kill(machine.agents["helper"].process)
    machine.run_until(lambda: len(machine.events("agent_spawned", "helper")) == 2)
    stalled = replace(machine.view(RUN).agents["helper"], health="stalled")
    ledger.run(lambda tx: replace_agent(tx, load_run(tx, RUN), stalled, "stalled again", []))
    machine.ring()
    machine.run_until(lambda: bool(machine.events("agent_spawned", "helper-r1")))
    successor = machine.view(RUN).agents["helper-r1"]
    assert (successor.role, successor.replaces, len(successor.restarts)) == ("writer", "helper", 2)
    assert len(machine.events("agent_staffed")) == 1
    finish(machine)


def test_a_helper_has_its_role_s_limits_and_gets_mail(ledger: Store, machine: Machine) -> None:
    join(ledger)
    machine.ring()
    machine.run_until(lambda: bool(machine.events("agent_spawned", "helper")))
    view = machine.view(RUN)
    assert (view.role_of("helper"), view.limits_of("helper").nudge_s) == (WRITER, 7.0)
    machine.agents["writer"].call("mail_send", to="helper", text="what do you think?")
    machine.run_until(lambda: bool(machine.events("message_acknowledged", "helper")))
    finish(machine)


def test_two_agents_whose_long_names_begin_alike_get_a_successor_each(ledger: Store) -> None:
    twins = Role(name="a-writer-with-a-very-long-name", harness="scripted", count=2)
    draft = replace(DRAFT, to=twins.agents()[0])
    plan = replace(PLAN, roles=(twins,), phases=(Phase(name="draft", dispatches=(draft,)),))
    ledger.run(lambda tx: create_run(tx, plan, "/project", "/out", "/pipeline.yaml"))
    for name in twins.agents():
        view = ledger.read(lambda reader: load_run(reader, RUN))
        stalled = replace(view.agents[name], health="stalled")
        ledger.run(lambda tx, view=view, old=stalled: replace_agent(tx, view, old, "stalled again", []))  # type: ignore[misc]
    agents = ledger.read(lambda reader: load_run(reader, RUN)).agents
    assert {agents[agents[name].successor].replaces for name in twins.agents()} == set(twins.agents())
    assert len(agents) == 4


def test_agents_of_the_plan_are_told_of_with_their_run(machine: Machine) -> None:
    assert not machine.events("agent_staffed")
    assert machine.events("run_created")[0].body["agents"] == ["writer"]


def test_the_records_made_again_from_the_events_have_the_helper(ledger: Store, machine: Machine) -> None:
    join(ledger)
    machine.ring()
    machine.run_until(lambda: bool(machine.events("agent_spawned", "helper")))
    final = machine.view(RUN)
    again = Records(final)
    for event in machine.events():
        again.fold(event)
    helper = again.view(PLAN).agents["helper"]
    assert (helper.role, helper.process) == ("writer", final.agents["helper"].process)
    assert again.unread == 0


@pytest.mark.parametrize(
    ("name", "role", "error", "message"),
    [
        ("helper", "mediator", RefusedError, "v has no role 'mediator'"),
        ("writer", "writer", RefusedError, "v-1 has an agent 'writer' already"),
        ("captain", "writer", UsageError, "'captain' is no name for an agent"),
        ("../etc", "writer", UsageError, "'../etc' is no name for an agent"),
        ("", "writer", UsageError, "'' is no name for an agent"),
    ],
)
def test_an_unknown_role_and_a_name_that_cannot_be_had_are_refused_and_nothing_changes(
    ledger: Store, machine: Machine, name: str, role: str, error: type[DogwatchError], message: str
) -> None:
    before = machine.view(RUN).agents
    with pytest.raises(error, match=message):
        join(ledger, name, role)
    assert machine.view(RUN).agents == before
    assert not machine.events("agent_staffed")


def test_the_same_name_is_refused_also_under_a_view_from_before(ledger: Store, machine: Machine) -> None:
    old = machine.view(RUN)
    join(ledger)
    with pytest.raises(RefusedError, match="has an agent 'helper' already"):
        ledger.run(lambda tx: staff(tx, old, "helper", "writer"))


def test_nobody_joins_a_run_that_is_over_or_unknown(ledger: Store, machine: Machine) -> None:
    old = machine.view(RUN)
    finish(machine)
    with pytest.raises(RefusedError, match="v-1 is over"):
        ledger.run(lambda tx: staff(tx, old, "helper", "writer"))
    assert "helper" not in machine.view(RUN).agents
    nowhere = replace(old, run=replace(old.run, run="v-9"))
    with pytest.raises(NotFoundError, match="there is no run v-9"):
        ledger.run(lambda tx: staff(tx, nowhere, "helper", "writer"))
