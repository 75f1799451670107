"""No agent starts before its run's watchdog lives: nobody would notice what becomes of it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from dogwatch.ledger.api import Store
from dogwatch.sim.agents import VirtualAgent
from dogwatch.sim.machine import Witness
from dogwatch.testing.clock import ManualClock
from support.virtual import Machine
from unit.test_virtual_world import THREE_PHASES, begin, by_incarnation, finish

LONG_S = 60.0


class Lookout(Witness):
    """Notes for every start of an agent whether a watchdog lives at that moment."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self.watched: list[bool] = []

    def spawned(self, agent: VirtualAgent) -> None:
        self.watched.append(self._machine.berth("watchdog", "v-1") is not None)


def keep_out(machine: Machine) -> None:
    """Every watchdog that is started dies before it has taken its place."""
    for berth in [berth for berth in machine.crew if berth.name == "watchdog"]:
        machine.kill(berth.process)


def without_watchdog(machine: Machine, seconds: float) -> None:
    """So long no watchdog lives, however often one is started."""
    until = machine.now.mono + seconds

    def is_over() -> bool:
        keep_out(machine)
        return machine.now.mono >= until

    machine.run_until(is_over, seconds + 10)


@pytest.fixture
def machine(ledger: Store, clock: ManualClock) -> Iterator[Machine]:
    """A new run, which has no agents yet; whoever is started is watched in the end."""
    machine = begin(ledger, clock, THREE_PHASES)
    lookout = machine.witness = Lookout(machine)
    yield machine
    assert finish(machine, 200)[0] == "COMPLETED"
    assert lookout.watched
    assert all(lookout.watched)


def test_at_its_beginning_a_run_starts_nobody_until_its_watchdog_lives(machine: Machine) -> None:
    without_watchdog(machine, LONG_S)
    assert machine.berth("captain", "v-1") is not None, "the captain is at work"
    assert not machine.agents
    assert not machine.events("agent_spawned")
    machine.run_until(lambda: machine.berth("watchdog", "v-1") is not None, 10)
    machine.run_until(lambda: len(machine.events("agent_spawned")) == 2, 10)


def test_a_new_incarnation_waits_for_the_next_watchdog_too(machine: Machine) -> None:
    machine.script = by_incarnation("writer", "silent")
    machine.run_until(lambda: len(machine.events("agent_spawned")) == 2 and bool(machine.events("task_dispatched")))
    first = machine.agents["writer"].process
    machine.kill(first)
    machine.run_until(lambda: bool(machine.events("alert_raised", "writer")))
    without_watchdog(machine, LONG_S)
    assert machine.view("v-1").agents["writer"].incarnation == 2, "its death is settled"
    assert machine.agents["writer"].process == first
    machine.run_until(lambda: machine.berth("watchdog", "v-1") is not None, 10)
    machine.run_until(lambda: len(machine.events("agent_spawned", "writer")) == 2, 10)
