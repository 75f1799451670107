"""A machine on which things can go wrong: members stop, the ledger is locked, and it boots with its plans intact.

What happens on it, and what goes wrong, is told in one digest: the same seed gives the same digest.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from typing import IO, Any

from dogwatch.ledger.api import Store, StoredEvent
from dogwatch.model.redact import Redactor
from dogwatch.sim.berths import Berth
from dogwatch.sim.fragile import FragileStore
from dogwatch.sim.ledger import SimLedger, SimStore
from dogwatch.sim.machine import Machine
from dogwatch.sim.scenarios import Setup
from dogwatch.testing.clock import ManualClock

_line = json.JSONEncoder(sort_keys=True).encode


class Telling(Redactor):
    """Takes nothing out: on a machine that is not there nothing is secret, and to look for it takes a third of all
    time."""

    def text(self, text: str) -> str:
        return text

    def value(self, value: Any, depth: int = 0) -> Any:
        return value

    def suspects(self, text: str) -> bool:
        return False


class FaultyMachine(Machine):
    """The machine as faults and invariants know it. Nothing goes wrong here by itself."""

    def __init__(self, setup: Setup, trace: IO[str] | None = None) -> None:
        clock = ManualClock()
        self._memory = SimLedger()
        super().__init__(self._store(clock), clock)
        self.setup = setup
        self.runs: list[str] = []
        self.open_runs: list[str] = []
        self.locked_until_s = 0.0
        self.last_fault_s = 0.0
        """When something has gone wrong last."""
        self.events_seen = 0
        self._planned: list[tuple[float, Callable[[], None]]] = []
        self._digest = hashlib.sha256()
        self._trace = trace

    @property
    def sha256(self) -> str:
        """The digest of everything so far."""
        return self._digest.hexdigest()

    def _store(self, clock: ManualClock) -> SimStore:
        store = SimStore(clock, self._memory)
        store.redactor = Telling()
        return store

    def ledger_for(self, berth: Berth) -> Store:
        return FragileStore(self._store(self.clock), self.is_locked)

    def is_locked(self) -> bool:
        """Whether the ledger cannot be written now."""
        return self.elapsed_s < self.locked_until_s

    def at(self, elapsed_s: float, deed: Callable[[], None]) -> None:
        """Does it at that time since the beginning, also where the machine boots in between."""
        one = (elapsed_s, deed)
        self._planned.append(one)
        self._arm(one)

    def _arm(self, one: tuple[float, Callable[[], None]]) -> None:
        def fire() -> None:
            self._planned.remove(one)
            one[1]()

        self.later(self.now.mono + max(0.0, one[0] - self.elapsed_s), fire)

    def reboot(self) -> None:
        super().reboot()
        for one in self._planned:
            self._arm(one)

    def stop(self, berth: Berth) -> None:
        """The member lives and does nothing from now on."""
        berth.stopped = True
        self.pulses[berth.name, berth.run] = self.now.mono
        self.ring()

    def resume(self, berth: Berth) -> None:
        """It goes on, as if no time had passed."""
        if berth.stopped:
            berth.stopped, berth.due = False, self.now.mono

    def seen(self, event: StoredEvent) -> None:
        self.events_seen += 1
        at = event.at
        told = [event.kind, event.body, at.boot, at.mono, at.wall, event.run, event.agent, event.op_id]
        line = _line(told)
        self._digest.update(line.encode())
        if self._trace is not None:
            self._trace.write(f"{line}\n")
        super().seen(event)
        if event.kind in ("run_cleared", "run_not_cleared") and event.run in self.open_runs:
            self.open_runs.remove(event.run)

    def tell(self, name: str, what: str) -> None:
        """Something that is not recorded in the ledger: a fault, or an invariant that did not hold."""
        line = json.dumps(["fault", name, what, self.elapsed_s])
        self._digest.update(line.encode())
        if self._trace is not None:
            self._trace.write(f"{line}\n")
