"""Starts one crew member as this process: takes its place, builds its world, and serves until its work is over."""

from __future__ import annotations

import faulthandler
import os
import selectors
import signal
from dataclasses import dataclass

from dogwatch.crew.eyes import MachineEyes
from dogwatch.crew.log import Log
from dogwatch.crew.loop import serve
from dogwatch.crew.membership import join
from dogwatch.errors import UsageError
from dogwatch.ledger import open_store
from dogwatch.ledger.api import Lease, Store
from dogwatch.model.process import ProcessId
from dogwatch.world.clock import SystemClock
from dogwatch.world.home import Home
from dogwatch.world.processes import identify

MEMBERS = ("dispatcher", "captain", "watchdog")


@dataclass(frozen=True, slots=True)
class Place:
    """What every member has once it has taken its place."""

    home: Home
    run: str
    lease: Lease
    ledger: Store
    clock: SystemClock
    selector: selectors.BaseSelector
    eyes: MachineEyes
    log: Log


def main(home: Home, member: str, run: str) -> int:
    """Serves as `member`; exit code 0 also where the place is taken."""
    if member not in MEMBERS or bool(run) == (member == "dispatcher"):
        raise UsageError(f"no such crew member: {member} {run}".rstrip(), hint="dispatcher, captain RUN, watchdog RUN")
    faulthandler.register(signal.SIGUSR1, all_threads=True)
    log = Log(member, run)
    clock = SystemClock()
    now = clock.now()
    ledger = open_store(home.ledger, clock)
    selector = selectors.DefaultSelector()
    eyes = MachineEyes(home, now.boot, selector)
    process = identify(os.getpid(), now.boot) or ProcessId(now.boot, os.getpid(), 0)
    lease = join(ledger, member, run, process, eyes.life, now)
    if lease is None:
        log.info("place_taken")
        return 0
    log.info("started", pid=os.getpid())
    place = Place(home, run, lease, ledger, clock, selector, eyes, log)
    return {"watchdog": _watchdog, "dispatcher": _dispatcher, "captain": _captain}[member](place)


# Each member imports its own code only: in a watchdog's process there is nothing that could touch an agent.


@dataclass(frozen=True, slots=True)
class Watching:
    """A watchdog's world."""

    eyes: MachineEyes


def _watchdog(place: Place) -> int:
    from dogwatch.crew.watchdog import Watchdog

    member = Watchdog(place.run, place.lease, place.log)
    return serve(
        member, Watching(place.eyes), place.ledger, place.run, place.clock.now, place.selector, place.eyes, place.log
    )


def _dispatcher(place: Place) -> int:
    from dogwatch.actions.hands import MachineHands
    from dogwatch.crew.dispatcher import Dispatcher

    now = place.clock.now()
    hands = MachineHands(place.home, now.boot)

    @dataclass(frozen=True, slots=True)
    class Dispatching:
        eyes: MachineEyes
        hands: MachineHands

    world = Dispatching(place.eyes, hands)
    member = Dispatcher(place.lease, place.log, now)
    return serve(
        member, world, place.ledger, place.run, place.clock.now, place.selector, place.eyes, place.log, hands.reap
    )


def _captain(place: Place) -> int:
    from dogwatch.actions.hands import MachineHands
    from dogwatch.crew.captain import Captain
    from dogwatch.crew.door import UnixDoor

    hands = MachineHands(place.home, place.clock.now().boot)
    os.makedirs(place.home.run(place.run), mode=0o700, exist_ok=True)
    at_door = UnixDoor(place.home.door(place.run), place.selector)

    @dataclass(frozen=True, slots=True)
    class Commanding:
        eyes: MachineEyes
        hands: MachineHands
        door: UnixDoor

    world = Commanding(place.eyes, hands, at_door)
    member = Captain(place.run, place.lease, place.log)
    try:
        return serve(
            member, world, place.ledger, place.run, place.clock.now, place.selector, place.eyes, place.log, hands.reap
        )
    finally:
        at_door.close()
