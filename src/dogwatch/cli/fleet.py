"""What the operator's commands share: bringing the dispatcher up, giving orders, taking everything down."""

from __future__ import annotations

import os
import selectors
import time
from collections.abc import Callable, Iterable
from functools import partial

from dogwatch.actions.hands import MachineHands
from dogwatch.actions.kill import end
from dogwatch.actions.spawn import write_programs
from dogwatch.coordination import orders
from dogwatch.crew.shared.eyes import MachineEyes
from dogwatch.crew.shared.membership import is_silent
from dogwatch.crew.shared.starting import CrewStarter
from dogwatch.errors import AwayError, DogwatchError
from dogwatch.ledger.api import Store
from dogwatch.ledger.records import load, load_all, load_run
from dogwatch.model import keys
from dogwatch.model.process import ProcessId
from dogwatch.model.records import CrewRecord, RunRecord
from dogwatch.world.clock import SystemClock
from dogwatch.world.home import Home
from dogwatch.world.processes import crew_processes, life

UP_WAIT_S = 30.0
STARTING_WAIT_S = 10.0


def bring_up(home: Home, ledger: Store) -> CrewRecord:
    """A living dispatcher, also where the operator had taken everything down."""
    write_programs(home)
    ledger.run(orders.bring_up)
    return keep_up(home, ledger)


def keep_up(home: Home, ledger: Store) -> CrewRecord:
    """A living dispatcher; starts one where there is none, or none that gives a sign of life."""
    with CrewView(home) as crew:
        if (found := crew.dispatcher(ledger)) is not None:
            return found
        CrewStarter(home).start_crew("dispatcher")
        wait_until(ledger, lambda: crew.dispatcher(ledger) is not None, UP_WAIT_S)
        started = crew.dispatcher(ledger)
    if started is None:
        message = f"the dispatcher did not start within {UP_WAIT_S:g} s"
        raise DogwatchError(message, hint=f"its log is {home.log('dispatcher')}")
    return started


class CrewView:
    """An operator's look at the crew."""

    def __init__(self, home: Home) -> None:
        self._clock = SystemClock()
        self._selector = selectors.DefaultSelector()
        self._eyes = MachineEyes(home, self._clock.now().boot, self._selector, "operator", "")

    def __enter__(self) -> CrewView:
        return self

    def __exit__(self, *exception: object) -> None:
        self._selector.close()

    def dispatcher(self, ledger: Store) -> CrewRecord | None:
        """The dispatcher that lives; one that is silent is ended, as any member of the crew would."""
        record = ledger.read(lambda r: load(r, CrewRecord, keys.dispatcher(r.host)))
        if record is None or self._eyes.life(record.process) != "alive":
            return None
        if is_silent(self._eyes, record, self._clock.now()):
            end([record.process], record.process.boot, grace_s=0.0)
            return None
        return record


class Keeper:
    """Keeps the dispatcher alive while an operator's command waits: the layer behind the crew's own revival, for the
    case that all of the crew is killed at one instant."""

    def __init__(self, home: Home, ledger: Store) -> None:
        self._home = home
        self._ledger = ledger
        self._looked = 0.0

    def look(self) -> list[str]:
        """At most once a second; has nothing to say. AwayError where somebody has taken dogwatch down meanwhile."""
        if time.monotonic() - self._looked < 1.0:
            return []
        self._looked = time.monotonic()
        refuse_when_down(self._ledger)
        keep_up(self._home, self._ledger)
        return []


def refuse_when_down(ledger: Store) -> None:
    """AwayError where the operator has taken dogwatch down."""
    if ledger.read(lambda r: r.get(keys.down(r.host))) is not None:
        raise AwayError("dogwatch was taken down; the runs keep their place", hint="dogwatch up goes on with them")


def order(ledger: Store, run: str, agent: str = "", cause: str = "") -> None:
    """Tells the run's captain to end the run, or one incarnation of an agent."""
    ledger.run(partial(orders.order_end, run=run, agent=agent, cause=cause))


def take_down(home: Home, ledger: Store) -> int:
    """Ends the crew, then the agents; the runs keep their place, for `up`. Returns how many processes there were."""
    boot = SystemClock().now().boot
    # From here on nobody can take a place in the crew; who has one already is ended until none is left.
    ledger.run(partial(orders.take_down, by=os.getpid()))
    ended = 0
    while found := _living_crew(ledger, boot):
        end(found, boot, grace_s=0.5)
        ended += len(found)
    # Members that were started and have not joined yet find the mark and leave by themselves.
    wait_until(ledger, lambda: not crew_processes(home.path), STARTING_WAIT_S)
    hands = MachineHands(home, boot)
    queued = ledger.read(lambda r: {document.key.removeprefix(keys.QUEUED) for document in r.scan(keys.QUEUED)})
    for document in ledger.read(lambda r: r.scan(keys.ACTIVE)):
        run = document.key.removeprefix(keys.ACTIVE)
        if run in queued:
            continue
        servers = {a.server for a in ledger.read(partial(load_run, run=run)).agents.values() if a.server is not None}
        ended += hands.clear(run, list(servers))
        ledger.run(partial(orders.stop_agents, run=run))
    return ended


def _living_crew(ledger: Store, boot: str) -> list[ProcessId]:
    dispatcher, crew = ledger.read(
        lambda r: (load(r, CrewRecord, keys.dispatcher(r.host)), load_all(r, CrewRecord, keys.CREW))
    )
    own = [record for record in crew if record.host == ledger.host]
    ranked = sorted(own, key=lambda record: ("captain", "watchdog").index(record.member))
    everybody = [*([dispatcher] if dispatcher is not None else []), *ranked]
    return [record.process for record in everybody if life(record.process, boot) == "alive"]


def runs_of(ledger: Store, names: Iterable[str]) -> list[RunRecord]:
    """The records of these runs, as they are now."""
    return ledger.read(lambda r: [run for name in names if (run := load(r, RunRecord, keys.run(name))) is not None])


def wait_until(ledger: Store, fact: Callable[[], bool], timeout_s: float) -> bool:
    """Waits until the fact holds or the time is over; looks again whenever somebody has written."""
    until = time.monotonic() + timeout_s
    while not fact():
        remaining = until - time.monotonic()
        if remaining <= 0:
            return False
        ledger.wait(min(0.2, remaining))
    return True
