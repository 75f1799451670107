"""Starts one crew member as this process: takes its place, builds its world, and serves until its work is over."""

from __future__ import annotations

import faulthandler
import os
import selectors
import signal
import sys
from dataclasses import dataclass

from dogwatch.coordination.ledgers import bind, open_home_ledger
from dogwatch.crew.shared.eyes import MachineEyes
from dogwatch.crew.shared.log import Log
from dogwatch.crew.shared.loop import Member, W, serve
from dogwatch.crew.shared.membership import LOCK_WAIT_S, join
from dogwatch.crew.shared.protecting import protect
from dogwatch.crew.shared.starting import CrewStarter
from dogwatch.errors import UsageError
from dogwatch.ledger.api import Lease, Store
from dogwatch.ledger.records import load
from dogwatch.model import keys
from dogwatch.model.plan import Notify, Plan
from dogwatch.model.process import ProcessId
from dogwatch.model.redact import Redactor, known_secrets
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
    faulthandler.register(signal.SIGUSR1, all_threads=True, chain=True)
    protect(home)
    clock = SystemClock()
    now = clock.now()
    ledger = open_home_ledger(home, clock, LOCK_WAIT_S)
    bind(home, ledger)
    ledger.redactor = redactor = Redactor(_secrets(ledger, run))
    log = Log(member, run, redactor=redactor)
    sys.excepthook = log.crashed
    selector = selectors.DefaultSelector()
    os.makedirs(home.run(run) if run else home.path, mode=0o700, exist_ok=True)
    eyes = MachineEyes(home, now.boot, selector, member, run, redactor)
    process = identify(os.getpid(), now.boot) or ProcessId(now.boot, os.getpid(), 0)
    notifies = Notify().or_those_of(os.environ).has_ways
    lease = join(ledger, member, run, process, eyes.life, now, notifies=notifies)
    if lease is None:
        log.info("place_taken")
        return 0
    log.info("started", pid=os.getpid())
    eyes.pulse()
    place = Place(home, run, lease, ledger, clock, selector, eyes, log)
    return {"watchdog": _watchdog, "dispatcher": _dispatcher, "captain": _captain}[member](place)


def _secrets(ledger: Store, run: str) -> dict[str, str]:
    """What must stand in no log and no record: of our own environment, and of what the run's agents are given."""
    plan = ledger.read(lambda reader: load(reader, Plan, keys.plan(run))) if run else None
    given = [role.environment for role in plan.roles] if plan is not None else []
    return known_secrets(os.environ, *given)


# Each member imports its own code only: in a watchdog's process there is nothing that could touch an agent.


@dataclass(frozen=True, slots=True)
class Watching:
    """A watchdog's world."""

    eyes: MachineEyes
    starter: CrewStarter


def _watchdog(place: Place) -> int:
    from dogwatch.crew.watchdog.watchdog import Watchdog

    world = Watching(place.eyes, CrewStarter(place.home))
    return _serve(place, Watchdog(place.run, place.lease, place.log), world)


def _dispatcher(place: Place) -> int:
    from dogwatch.crew.dispatcher.dispatcher import Dispatcher
    from dogwatch.crew.shared.hands import CrewHands

    @dataclass(frozen=True, slots=True)
    class Dispatching:
        eyes: MachineEyes
        hands: CrewHands

    now = place.clock.now()
    world = Dispatching(place.eyes, CrewHands(place.home, now.boot, place.ledger))
    return _serve(place, Dispatcher(place.lease, place.log, now), world)


def _captain(place: Place) -> int:
    from dogwatch.crew.captain.captain import Captain
    from dogwatch.crew.shared.hands import CrewHands
    from dogwatch.door.server import UnixDoor

    @dataclass(frozen=True, slots=True)
    class Commanding:
        eyes: MachineEyes
        hands: CrewHands
        door: UnixDoor

    at_door = UnixDoor(place.home.door(place.run), place.selector)
    try:
        world = Commanding(place.eyes, CrewHands(place.home, place.clock.now().boot, place.ledger), at_door)
        return _serve(place, Captain(place.run, place.lease, place.log), world)
    finally:
        at_door.close()


def _serve(place: Place, member: Member[W], world: W) -> int:
    return serve(member, world, place.ledger, place.run, place.clock.now, place.selector, place.eyes, place.log)
