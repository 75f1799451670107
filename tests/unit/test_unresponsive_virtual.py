"""An agent that has stalled and is silent in its new incarnation too is unresponsive, in virtual time."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dogwatch.ledger.api import Store
from dogwatch.model.plan import Limits
from dogwatch.model.sight import Turn
from dogwatch.sim.machine import Witness
from dogwatch.testing.clock import ManualClock
from support.virtual import Machine, VirtualAgent
from unit.test_virtual_stalls import LIMITS, hangs
from unit.test_virtual_world import THREE_PHASES, begin, finish

PATIENT = replace(LIMITS, startup_s=2000.0)
"""A client that does not begin is not restarted for that meanwhile."""


class Silence(Witness):
    """From its second incarnation on, the writer's client starts and runs none of its hooks."""

    def spawned(self, agent: VirtualAgent) -> None:
        if agent.name == "writer" and agent.incarnation > 1:
            agent.turn, agent.hung = Turn(pid=agent.process.pid), True


def stalled(ledger: Store, clock: ManualClock, limits: Limits = PATIENT) -> Machine:
    """The writer has stalled, and its next incarnation has started and is silent."""
    machine = begin(ledger, clock, replace(THREE_PHASES, limits=limits), hangs)
    machine.witness = Silence()
    machine.run_until(lambda: bool(machine.events("agent_stalled")))
    machine.run_until(lambda: len(machine.events("agent_spawned", "writer")) == 2, 30)
    return machine


def wait(machine: Machine, seconds: float) -> None:
    until = machine.now.mono + seconds
    machine.run_until(lambda: machine.now.mono >= until, seconds + 10)


def test_who_stays_stalled_for_too_long_is_unresponsive_and_that_is_told_once(
    ledger: Store, clock: ManualClock
) -> None:
    machine = stalled(ledger, clock)
    assert machine.view("v-1").agents["writer"].health == "stalled"
    machine.run_until(lambda: bool(machine.events("agent_unresponsive")), 120)
    (stall,), (told,) = machine.events("agent_stalled"), machine.events("agent_unresponsive")
    assert PATIENT.unresponsive_s <= told.at.since(stall.at) < PATIENT.unresponsive_s + 2 * PATIENT.sweep_s + 2
    assert (told.agent, told.body) == ("writer", {"incarnation": 2})
    assert machine.view("v-1").agents["writer"].health == "unresponsive"
    wait(machine, 5 * PATIENT.unresponsive_s)
    assert len(machine.events("agent_unresponsive")) == 1
    assert machine.view("v-1").agents["writer"].health == "unresponsive"
    assert not machine.events("agent_recovered")


@pytest.mark.parametrize("waited_s", [0.0, 2 * PATIENT.unresponsive_s], ids=["stalled", "unresponsive"])
def test_a_sign_of_life_makes_it_healthy_again(ledger: Store, clock: ManualClock, waited_s: float) -> None:
    machine = stalled(ledger, clock)
    wait(machine, waited_s)
    writer = machine.agents["writer"]
    machine.script = lambda agent, header: ""
    writer.hung, mono = False, machine.now.mono
    writer.turn = Turn("idle", mono, mono, writer.process.pid)
    machine.run_until(lambda: bool(machine.events("agent_recovered")), 10)
    (recovered,) = machine.events("agent_recovered")
    assert (recovered.agent, recovered.body) == ("writer", {"incarnation": 2})
    found = machine.view("v-1").agents["writer"]
    assert (found.health, found.stalled) == ("healthy", None)
    assert finish(machine, 600)[0] == "COMPLETED"
    assert len(machine.events("agent_unresponsive")) == (1 if waited_s else 0)
    assert not machine.events("agent_replaced")


def test_how_long_that_takes_is_said_by_the_pipeline(ledger: Store, clock: ManualClock) -> None:
    machine = stalled(ledger, clock, replace(PATIENT, unresponsive_s=400.0))
    wait(machine, 300.0)
    assert machine.view("v-1").agents["writer"].health == "stalled"
    assert not machine.events("agent_unresponsive")
