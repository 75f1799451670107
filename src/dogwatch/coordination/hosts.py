"""The host as every gate reads it: its sensors, its zone, and what a change of zone means for each run."""

from __future__ import annotations

from collections.abc import Sequence

from dogwatch.coordination.notices import push_notice
from dogwatch.ledger.api import Tx
from dogwatch.ledger.records import save
from dogwatch.model.events.admission import MemoryCritical, MemoryLow, ZoneChanged
from dogwatch.model.memory import GB, ZONES, HostRecord
from dogwatch.policy.growth import leaker


def keep(tx: Tx, host: HostRecord) -> None:
    """The host as it was seen."""
    save(tx, host)


def keep_look(tx: Tx, before: HostRecord | None, host: HostRecord, runs: Sequence[str]) -> None:
    """The host as it was seen, with a change of its zone; `before` is how it was at the look before."""
    save(tx, host)
    was = before or HostRecord(host=host.host, at=host.at, since=host.at)
    if was.zone != host.zone:
        _tell(tx, was, host, runs)


def _tell(tx: Tx, before: HostRecord, host: HostRecord, runs: Sequence[str]) -> None:
    """The change itself, and to each run's captain what it means for it."""
    readings = host.readings
    largest = readings.largest
    event = ZoneChanged(
        zone=host.zone,
        before=before.zone,
        sensor=host.sensor or before.sensor,
        why=host.why or f"calm again after {host.at.since(before.since):.0f} s",
        left_bytes=readings.left_bytes,
        size_bytes=readings.size_bytes,
        processes=readings.processes,
        largest=f"{largest.agent or largest.name} {largest.rss_bytes / GB:.1f} GB" if largest is not None else "",
        leaker=leaker(readings),
    )
    tx.append(event)
    if ZONES.index(host.zone) < ZONES.index(before.zone):
        return
    for run in runs:
        scarce = MemoryCritical if host.zone == "RED" else MemoryLow
        tx.append(scarce(sensor=event.sensor, why=event.why, leaker=event.leaker, run=run))
        if host.zone == "RED":
            text = "\n".join(line for line in (event.why, event.leaker) if line)
            push_notice(tx, run, "escalation", f"memory:{host.at.mono:.3f}", "memory is RED", text)
