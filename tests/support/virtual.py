"""The simulator's machine for tests with one run: its agents are known by their names alone."""

from __future__ import annotations

from dogwatch.coordination.usage import AgentTally
from dogwatch.ledger.api import StoredEvent
from dogwatch.sim.agents import Script, VirtualAgent
from dogwatch.sim.berths import Berth
from dogwatch.sim.door import Call, VirtualDoor
from dogwatch.sim.eyes import VirtualEyes
from dogwatch.sim.hands import Started, VirtualHands
from dogwatch.sim.machine import Machine as SimulatedMachine
from support.helpers import events_of

__all__ = [
    "Berth",
    "Call",
    "Machine",
    "Script",
    "Started",
    "VirtualAgent",
    "VirtualDoor",
    "VirtualEyes",
    "VirtualHands",
]


class Machine(SimulatedMachine):
    """A machine with one run."""

    @property
    def agents(self) -> dict[str, VirtualAgent]:
        return {agent.name: agent for agent in self.clients.values()}

    def tally(self, run: str, agent: str) -> AgentTally | None:
        return self.tallies.get(agent)

    def events(self, kind: str = "", agent: str = "", run: str = "") -> list[StoredEvent]:
        return events_of(self.ledger, kind, agent)
