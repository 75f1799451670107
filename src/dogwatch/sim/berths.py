"""A crew member's virtual process: it joins a moment after its start, then steps as the real loop would have it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from dogwatch.crew.captain.captain import Captain
from dogwatch.crew.dispatcher.dispatcher import Dispatcher
from dogwatch.crew.shared.log import Log
from dogwatch.crew.shared.loop import PAUSE_S
from dogwatch.crew.shared.membership import join
from dogwatch.crew.watchdog.watchdog import Watchdog
from dogwatch.errors import LeaseLostError, LedgerError, StaleError
from dogwatch.ledger.api import Lease, Store
from dogwatch.model.process import ProcessId
from dogwatch.sim.door import DoorMachine, VirtualDoor
from dogwatch.sim.eyes import EyesMachine, VirtualEyes
from dogwatch.sim.hands import HandsMachine, VirtualCrewHands, VirtualHands, VirtualStarter
from dogwatch.world.tmux import ProbeFailedError

JOIN_S = 0.3
IDLE_MIN_S = 1.0
"""A shorter wait is for something: only longer ones may be stretched."""


class KilledInStepError(BaseException):
    """The member's process was killed in the middle of its step: no code of its own may catch that."""


@dataclass(frozen=True)
class WatchdogWorld:
    """What a watchdog is given."""

    eyes: VirtualEyes
    starter: VirtualStarter


@dataclass(frozen=True)
class DispatcherWorld:
    """What a dispatcher is given."""

    eyes: VirtualEyes
    hands: VirtualCrewHands


@dataclass(frozen=True)
class CaptainWorld:
    """What a captain is given."""

    eyes: VirtualEyes
    hands: VirtualHands
    door: VirtualDoor


class CrewMachine(EyesMachine, HandsMachine, DoorMachine, Protocol):
    """What a crew member's process needs of the machine that it runs on."""

    idle_s: float
    idle_max_s: float
    """How long a member's wait may become while nothing happens; 0 for never longer than it asks for."""

    def ledger_for(self, berth: Berth) -> Store:
        """The ledger as this member has it."""

    def dispatcher(self, lease: Lease, log: Log) -> Dispatcher:
        """Whoever takes the dispatcher's place."""

    def joined(self, berth: Berth, lease: Lease) -> None:
        """A crew member has taken its place."""

    def crashed(self, berth: Berth, error: Exception) -> None:
        """A step has failed in a way that ends its member's process."""

    def note(self, line: str) -> None:
        """A log line."""

    def is_fine(self) -> bool:
        """Whether waits are not stretched now."""


class Berth:
    """A crew member's process."""

    def __init__(self, machine: CrewMachine, name: str, run: str) -> None:
        self.name = name
        self.run = run
        self.process = machine.process()
        self.member: Captain | Watchdog | Dispatcher | None = None
        self.joins = self.due = machine.now.mono + JOIN_S
        self.stepped = 0.0
        self.watched: set[ProcessId] = set()
        self.stopped = False
        """Whether it lives and does nothing, as after SIGSTOP."""
        self.idle_s = machine.idle_s
        self.ledger: Store = machine.ledger_for(self)
        self.eyes = VirtualEyes(machine, self)
        self.door = VirtualDoor(machine, run)
        self._failed = False
        self._log = Log(name, run, write=machine.note)

    def step(self, machine: CrewMachine) -> None:
        """One step, or the taking of its place; what the real loop waits for is waited for."""
        now, self._failed = machine.now, False
        self.stepped = now.mono
        try:
            wait_s = self._step(machine)
        except (LeaseLostError, StaleError):
            wait_s = None
        except (LedgerError, OSError, ProbeFailedError):
            wait_s, self._failed = PAUSE_S if self.member is not None else None, True
        except KilledInStepError:
            wait_s = None
        except Exception as error:
            machine.crashed(self, error)
            wait_s = None
        if wait_s is None:
            machine.kill(self.process)
        else:
            self.due = now.mono + max(0.01, wait_s)

    def rest(self, machine: CrewMachine, *, moved: bool) -> None:
        """After a step in which nothing moved, the next may come later and later; each wait that is for something is
        kept as it is."""
        wait_s = self.due - machine.now.mono
        if moved or self._failed or machine.is_fine():
            self.idle_s = machine.idle_s
        elif wait_s >= IDLE_MIN_S:
            self.idle_s = min(4 * self.idle_s, machine.idle_max_s)
            self.due = machine.now.mono + max(wait_s, self.idle_s)

    def _step(self, machine: CrewMachine) -> float | None:
        if self.member is None:
            lease = join(self.ledger, self.name, self.run, self.process, self.eyes.life, machine.now)
            if lease is None:
                return None
            machine.joined(self, lease)
            self._take(lease, machine)
        self.eyes.pulse()
        if isinstance(self.member, Captain):
            hands = VirtualHands(machine, self.name, self.run)
            return self.member.step(CaptainWorld(self.eyes, hands, self.door), self.ledger, machine.now)
        if isinstance(self.member, Watchdog):
            starter = VirtualStarter(machine, self.name, self.run)
            return self.member.step(WatchdogWorld(self.eyes, starter), self.ledger, machine.now)
        crew_hands = VirtualCrewHands(machine, self.name)
        assert self.member is not None  # noqa: S101 - it has just been made
        return self.member.step(DispatcherWorld(self.eyes, crew_hands), self.ledger, machine.now)

    def _take(self, lease: Lease, machine: CrewMachine) -> None:
        if self.name == "captain":
            self.member = Captain(self.run, lease, self._log)
        elif self.name == "watchdog":
            self.member = Watchdog(self.run, lease, self._log)
        else:
            self.member = machine.dispatcher(lease, self._log)
