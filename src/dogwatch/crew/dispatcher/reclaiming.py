"""RECLAIM, the dispatcher's side: it orders that an idle worker rests; the worker's captain looks again and does it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import partial

from dogwatch.coordination import orders
from dogwatch.coordination.queues import RECLAIM
from dogwatch.crew.dispatcher.zoning import MemoryWatch
from dogwatch.crew.shared.fenced import fenced
from dogwatch.ledger.api import Lease, Reader, Store
from dogwatch.ledger.records import load, load_all, load_whole
from dogwatch.model import keys
from dogwatch.model.admission import WaitRecord
from dogwatch.model.keys import orders_queue
from dogwatch.model.memory import HostRecord
from dogwatch.model.moment import Moment
from dogwatch.model.records import WatchRecord
from dogwatch.policy.reclaim import Reclaim, choose, want_of


def order_reclaim(
    ledger: Store, lease: Lease, memory: MemoryWatch, host: HostRecord, runs: Sequence[str], now: Moment
) -> Reclaim | None:
    """At most one order, and none while an earlier one is open."""
    is_red = host.zone == "RED" and not memory.is_calming
    found = ledger.read(lambda reader: _choose(reader, host, runs, now, is_red=is_red, asked=memory.asked(now)))
    if found is None:
        return None
    memory.note_reclaim(fenced(ledger, lease, partial(orders.order_rest, found=found, host=memory.shown())))
    memory.note_asked((found.run, found.agent, found.incarnation), now)
    return found


def _choose(
    reader: Reader,
    host: HostRecord,
    runs: Sequence[str],
    now: Moment,
    *,
    is_red: bool,
    asked: Collection[tuple[str, str, int]],
) -> Reclaim | None:
    held = [wait for wait in load_all(reader, WaitRecord, keys.waits(reader.host)) if wait.launch.needed]
    wants = [want for wait in held if (want := want_of(wait, host.settings, now)) is not None]
    if not wants and not is_red:
        return None
    if any(item.body.get("order") == RECLAIM for run in runs for item in reader.items(orders_queue(run))):
        return None
    found = (load_whole(reader, run) for run in runs)
    views = [view for view in found if view is not None and not view.run.over]
    seen = {run: load(reader, WatchRecord, keys.watch(run)) for run in runs}
    watched = {run: record.agents for run, record in seen.items() if record is not None}
    return choose(views, watched, host, wants, now, is_red=is_red, asked=asked)
