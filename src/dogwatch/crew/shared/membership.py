"""How a crew member takes its place, shows that it is alive, and is found missing.

The place is a lease, taken over only from the dead: its fence keeps any predecessor from writing. The sign of life is
a file of its own and not the lease: while the ledger is locked nobody can renew, and everybody would look dead.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from dogwatch.coordination import crew
from dogwatch.crew.shared.worlds import CrewEyes, Starter
from dogwatch.ledger.api import Lease, Store
from dogwatch.ledger.records import load
from dogwatch.model import keys
from dogwatch.model.moment import Moment
from dogwatch.model.process import ProcessId
from dogwatch.model.records import CrewRecord

BEAT_S = 2.0
RESTART_PAUSE_S = 0.5
JOIN_S = 5.0
"""How long a member that was started may take to join."""
LOCK_WAIT_S = 4.0
"""How long a member waits for another's transaction: a member that waits gives no sign of life."""


def join(
    ledger: Store,
    member: str,
    run: str,
    process: ProcessId,
    life: Callable[[ProcessId], str],
    now: Moment,
    *,
    notifies: bool = False,
) -> Lease | None:
    """Takes the place, or None where a living process holds it or the operator wants everything down. `notifies` says
    whether the member's environment names a way to tell a person: transactions cannot look there."""
    return ledger.run(
        partial(crew.join, member=member, run=run, process=process, life=life, started=now, notifies=notifies)
    )


def renew(ledger: Store, lease: Lease, now: Moment) -> Lease:
    """Renews the lease when it is time to. StaleError where somebody else has taken the place.

    A lease that ran out while the ledger could not be written is taken anew, unless a successor has joined.
    """
    if now.since(lease.renewed) < BEAT_S:
        return lease
    return ledger.run(partial(crew.renew, lease=lease))


class Awake:
    """Since when its holder has stepped without a long pause: who has slept cannot tell who is silent."""

    def __init__(self) -> None:
        self._since: Moment | None = None
        self._latest: Moment | None = None

    def excuse(self) -> None:
        """The step was held up by the ledger, perhaps by the very member that is silent: that was no sleep."""
        self._latest = None

    def can_judge(self, now: Moment, allowed_s: float) -> bool:
        """To be asked in every step; `allowed_s` is how long the others may be silent."""
        if self._latest is not None and now.since(self._latest) > allowed_s / 3:
            self._since = now
        self._latest = now
        return self._since is None or now.since(self._since) > allowed_s


def allowed_silence_s(eyes: CrewEyes) -> float:
    """How long a member may give no sign of life on this host."""
    settings, _ = eyes.settings()
    return settings.silent_s


def silent_s(eyes: CrewEyes, record: CrewRecord | None, now: Moment) -> float | None:
    """How long the member has lived without progress; None where that is not too long. A new one has given no sign
    yet: it gets as long as any."""
    allowed_s = allowed_silence_s(eyes)
    if record is None or eyes.life(record.process) != "alive" or now.since(record.started) <= allowed_s:
        return None
    quiet_s = eyes.silence_s(record.member, record.run, now)
    return quiet_s if quiet_s is not None and quiet_s > allowed_s else None


def is_silent(eyes: CrewEyes, record: CrewRecord | None, now: Moment) -> bool:
    """Whether the member lives and makes no progress."""
    return silent_s(eyes, record, now) is not None


class Reviver:
    """Decides when a member is to be started. Its memory of the last start is only a courtesy: a second process would
    find the place taken and leave."""

    def __init__(self) -> None:
        self._started: dict[str, Moment] = {}

    def may_start(self, record: CrewRecord | None, life: str, now: Moment, run: str) -> bool:
        """Whether the member is dead and its successor due. A start of ours that has not joined yet gets time to do
        so; one that joined and died, a short pause."""
        if record is not None and life != "dead":
            return False
        mine = self._started.get(run)
        joined = record.started if record is not None and record.started.boot == now.boot else None
        if joined is not None and (mine is None or joined.mono >= mine.mono):
            return now.since(joined) >= RESTART_PAUSE_S
        return mine is None or now.since(mine) >= JOIN_S

    def note_start(self, run: str, now: Moment) -> None:
        self._started[run] = now


def keep_dispatcher(
    eyes: CrewEyes, starter: Starter, ledger: Store, reviver: Reviver, holder: str, now: Moment
) -> CrewRecord | None:
    """Revives a dead dispatcher, one helper at a time, and not while the operator wants it down; returns its record."""
    dispatcher, down = ledger.read(lambda r: (load(r, CrewRecord, keys.dispatcher(r.host)), r.get(keys.down(r.host))))
    life = eyes.life(dispatcher.process) if dispatcher is not None else "dead"
    if down is not None or not reviver.may_start(dispatcher, life, now, ""):
        return dispatcher
    if ledger.run(partial(crew.revive_dispatcher, holder=holder, dead=dispatcher)):
        starter.start_crew("dispatcher")
        reviver.note_start("", now)
    return dispatcher
