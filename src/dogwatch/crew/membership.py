"""How a crew member takes its place: one lease for each place, taken over only from the dead."""

from __future__ import annotations

from collections.abc import Callable

from dogwatch.ledger.api import Lease, Store, Tx
from dogwatch.ledger.records import load, save
from dogwatch.model.moment import Moment
from dogwatch.model.process import ProcessId
from dogwatch.model.records import CrewRecord

LEASE_S = 30.0
BEAT_S = 2.0
SILENT_S = 15.0
"""A member that lives and has not renewed its lease for this long makes no progress."""
RESTART_PAUSE_S = 0.5
JOIN_S = 5.0


def place(member: str, run: str) -> str:
    """The lease's name."""
    return f"{member}/{run}"


def join(
    ledger: Store, member: str, run: str, process: ProcessId, life: Callable[[ProcessId], str], now: Moment
) -> Lease | None:
    """Takes the place, or None where a living process holds it. The fence then keeps any predecessor from writing."""

    def take(tx: Tx) -> Lease | None:
        name = place(member, run)
        record = load(tx, CrewRecord, f"crew/{run}/{member}")
        if record is not None and record.process != process:
            if life(record.process) != "dead":
                return None
            for held in tx.leases(name):
                if held.name == name:
                    tx.release(held)
        lease = tx.acquire(name, str(process), LEASE_S)
        if lease is None:
            return None
        starts = record.starts + 1 if record is not None else 1
        save(tx, CrewRecord(member=member, run=run, process=process, started=now, starts=starts))
        body = {"member": member, "pid": process.pid, "starts": starts}
        tx.append("crew_started" if starts == 1 else "crew_revived", body, f"crew:{run}:{member}:{process}", run=run)
        return lease

    return ledger.run(take)


def beat(ledger: Store, lease: Lease, now: Moment) -> Lease:
    """Renews the lease when it is time to. StaleError where somebody else has taken the place."""
    if now.since(lease.renewed) < BEAT_S:
        return lease
    return ledger.run(lambda tx: tx.renew(lease, LEASE_S))


def note_loss(tx: Tx, record: CrewRecord, need: str) -> None:
    """Records that a member is dead, or lives and is silent; once for each process."""
    body = {"member": record.member, "pid": record.process.pid}
    tx.append(
        "crew_silent" if need == "silent" else "crew_lost", body, f"lost:{record.key}:{record.process}", run=record.run
    )


class Reviver:
    """Keeps another crew member alive: starts it when dead, ends and starts it when silent.

    Its memory of the last start is only a courtesy: a second process would find the place taken and leave.
    """

    def __init__(self, member: str) -> None:
        self.member = member
        self._started: dict[str, Moment] = {}

    def needs(self, record: CrewRecord | None, lease: Lease | None, life: str, now: Moment, run: str) -> str:
        """dead, silent, or empty where nothing should be done now."""
        if record is not None and life == "unknown":
            return ""
        if record is None or life == "dead":
            return "" if self._too_soon(record, now, run) else "dead"
        renewed = lease.renewed if lease is not None else record.started
        if now.since(renewed) > SILENT_S and now.since(record.started) > SILENT_S:
            return "silent"
        return ""

    def _too_soon(self, record: CrewRecord | None, now: Moment, run: str) -> bool:
        """A start of ours that has not joined yet gets time to do so; one that joined and died, a short pause."""
        mine = self._started.get(run)
        if (
            record is not None
            and record.started.boot == now.boot
            and (mine is None or record.started.mono >= mine.mono)
        ):
            return now.since(record.started) < RESTART_PAUSE_S
        return mine is not None and now.since(mine) < JOIN_S

    def note_start(self, run: str, now: Moment) -> None:
        self._started[run] = now
