"""The crew's places: each is a lease, taken over only from the dead; its fence keeps any predecessor from writing."""

from __future__ import annotations

from collections.abc import Callable

from dogwatch.errors import StaleError
from dogwatch.ledger.api import Lease, Tx
from dogwatch.ledger.records import load, save
from dogwatch.model import keys
from dogwatch.model.events.crew import CrewLost, CrewRevived, CrewSilent, CrewStarted
from dogwatch.model.moment import Moment
from dogwatch.model.process import ProcessId
from dogwatch.model.records import CrewRecord

LEASE_S = 30.0
REVIVE_LEASE_S = 10.0


def join(
    tx: Tx,
    member: str,
    run: str,
    process: ProcessId,
    life: Callable[[ProcessId], str],
    started: Moment,
    *,
    notifies: bool = False,
) -> Lease | None:
    """Takes the place, or None where a living process holds it or the operator wants everything down. `notifies` says
    whether the member's environment names a way to tell a person: transactions cannot look there."""
    if tx.get(keys.down(tx.host)) is not None:
        return None
    name = keys.place(member, run or tx.host)
    record = load(tx, CrewRecord, keys.crew(run, member) if run else keys.dispatcher(tx.host))
    # Who is on another host cannot be asked: there, the lease alone decides.
    if record is not None and record.process != process and record.host == tx.host:
        if life(record.process) != "dead":
            return None
        for held in tx.leases(name):
            if held.name == name:
                tx.release(held)
    lease = tx.acquire(name, str(process), LEASE_S)
    if lease is None:
        return None
    starts = record.starts + 1 if record is not None else 1
    mine = CrewRecord(
        member=member, run=run, host=tx.host, process=process, started=started, starts=starts, notifies=notifies
    )
    save(tx, mine)
    joined = CrewStarted if starts == 1 else CrewRevived
    tx.append(joined(member=member, pid=process.pid, starts=starts, run=run), f"crew:{run}:{member}:{process}")
    return lease


def renew(tx: Tx, lease: Lease) -> Lease:
    """The lease with a later end. StaleError where somebody else has taken the place.

    A lease that ran out while the ledger could not be written is taken anew, unless a successor has joined.
    """
    try:
        return tx.renew(lease, LEASE_S)
    except StaleError:
        member, _, of = lease.name.partition("/")
        record = load(tx, CrewRecord, keys.dispatcher(of) if member == "dispatcher" else keys.crew(of, member))
        mine = record is not None and str(record.process) == lease.holder
        again = tx.acquire(lease.name, lease.holder, LEASE_S) if mine else None
        if again is None:
            raise
        return again


def leave(tx: Tx, lease: Lease) -> None:
    """The place is free: its run is cleared."""
    tx.release(lease)


def leave_host(tx: Tx, lease: Lease) -> bool:
    """The dispatcher's place is free; False where there is a run to look after. In one transaction with the last look
    for work: whoever makes a run after it finds no dispatcher here."""
    if tx.keys(keys.ACTIVE):
        return False
    tx.release(lease)
    tx.delete(keys.dispatcher(tx.host))
    return True


def note_loss(tx: Tx, record: CrewRecord, need: str, quiet_s: float | None = None) -> None:
    """Records that a member was found dead, or was ended because it was silent; once for each process."""
    event = (CrewSilent if need == "silent" else CrewLost)(
        member=record.member,
        pid=record.process.pid,
        quiet_s=round(quiet_s, 3) if quiet_s is not None else None,
        run=record.run,
    )
    tx.append(event, f"lost:{keys.crew(record.run, record.member)}:{record.process}")


def revive_dispatcher(tx: Tx, holder: str, dead: CrewRecord | None) -> bool:
    """Whether it is `holder` that starts the next dispatcher: one helper at a time."""
    if tx.acquire(keys.revival(tx.host), holder, REVIVE_LEASE_S) is None:
        return False
    if dead is not None:
        note_loss(tx, dead, "dead")
    return True
