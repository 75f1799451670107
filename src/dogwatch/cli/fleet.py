"""What the operator's commands share: bringing the dispatcher up, giving orders, taking everything down."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable

from dogwatch.actions.hands import MachineHands
from dogwatch.actions.kill import end
from dogwatch.actions.spawn import write_entry_point
from dogwatch.crew.queues import orders_queue
from dogwatch.errors import AwayError, DogwatchError
from dogwatch.ledger.api import Store, Tx
from dogwatch.ledger.records import load, load_all
from dogwatch.model.process import ProcessId
from dogwatch.model.records import CrewRecord, RunRecord
from dogwatch.world.clock import SystemClock
from dogwatch.world.home import Home
from dogwatch.world.processes import life

UP_WAIT_S = 30.0


def bring_up(home: Home, ledger: Store) -> CrewRecord:
    """A living dispatcher; starts one where there is none."""
    boot = SystemClock().now().boot
    write_entry_point(home)
    ledger.run(lambda tx: tx.delete("down"))
    if (found := _living_dispatcher(ledger, boot)) is not None:
        return found
    MachineHands(home, boot).start_crew("dispatcher")
    if not wait_until(ledger, lambda: _living_dispatcher(ledger, boot) is not None, UP_WAIT_S):
        raise DogwatchError(
            f"the dispatcher did not start within {UP_WAIT_S:g} s", hint=f"its log is {home.log('dispatcher')}"
        )
    started = _living_dispatcher(ledger, boot)
    assert started is not None  # noqa: S101 - it was there a moment ago, and is revived if it died since
    return started


class Keeper:
    """Keeps the dispatcher alive while an operator's command waits: the layer behind the crew's own revival, for the
    case that dispatcher and captains are killed at one instant."""

    def __init__(self, home: Home, ledger: Store) -> None:
        self._home = home
        self._ledger = ledger
        self._looked = 0.0

    def look(self) -> list[str]:
        """At most once a second; has nothing to say. AwayError where somebody has taken dogwatch down meanwhile."""
        if time.monotonic() - self._looked < 1.0:
            return []
        self._looked = time.monotonic()
        if self._ledger.read(lambda r: r.get("down")) is not None:
            raise AwayError("dogwatch was taken down; the runs keep their place", hint="dogwatch up goes on with them")
        if _living_dispatcher(self._ledger, SystemClock().now().boot) is None:
            bring_up(self._home, self._ledger)
        return []


def _living_dispatcher(ledger: Store, boot: str) -> CrewRecord | None:
    record = ledger.read(lambda r: load(r, CrewRecord, "crew//dispatcher"))
    return record if record is not None and life(record.process, boot) == "alive" else None


def order(ledger: Store, run: str, agent: str = "", cause: str = "") -> None:
    """Tells the run's captain to end the run, or one incarnation of an agent."""
    body = {"agent": agent, "cause": cause, "by": "operator"}

    def give(tx: Tx) -> None:
        item = tx.push(orders_queue(run), body)
        tx.append("order_given", {**body, "order": item}, run=run, agent=agent)

    ledger.run(give)


def take_down(home: Home, ledger: Store) -> int:
    """Ends the crew, then the agents; the runs stay as they are, for `up`. Returns how many processes there were."""
    boot = SystemClock().now().boot

    def mark(tx: Tx) -> None:
        tx.put("down", {"by": os.getpid()})

    ledger.run(mark)
    ended = 0
    # A dispatcher may be starting a captain, and a captain a watchdog, while they are being ended: until none is left.
    while found := _living_crew(ledger, boot):
        end(found, boot, grace_s=0.5)
        ended += len(found)
    hands = MachineHands(home, boot)
    for document in ledger.read(lambda r: r.scan("active/")):
        ended += hands.clear(document.key.removeprefix("active/"))
    return ended


def _living_crew(ledger: Store, boot: str) -> list[ProcessId]:
    crew = ledger.read(lambda r: load_all(r, CrewRecord, "crew/"))
    ranked = sorted(crew, key=lambda record: ("dispatcher", "captain", "watchdog").index(record.member))
    return [record.process for record in ranked if life(record.process, boot) == "alive"]


def runs_of(ledger: Store, names: Iterable[str]) -> list[RunRecord]:
    """The records of these runs, as they are now."""
    return ledger.read(lambda r: [run for name in names if (run := load(r, RunRecord, f"run/{name}")) is not None])


def wait_until(ledger: Store, fact: Callable[[], bool], timeout_s: float) -> bool:
    """Waits until the fact holds or the time is over; looks again whenever somebody has written."""
    until = time.monotonic() + timeout_s
    while not fact():
        remaining = until - time.monotonic()
        if remaining <= 0:
            return False
        ledger.wait(min(0.2, remaining))
    return True
