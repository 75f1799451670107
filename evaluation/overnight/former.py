"""A dispatcher as the earlier system had it, for the overnight experiment alone: its zones are read off the same table,
but no launch of an agent is ever held, and in RED it takes one idle worker a cycle, whether or not that is needed
later.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dogwatch.coordination.admission import ask
from dogwatch.coordination.launches import run_holder
from dogwatch.crew.dispatcher.dispatcher import Dispatcher
from dogwatch.crew.dispatcher.queueing import free_permits
from dogwatch.crew.dispatcher.reclaiming import order_reclaim
from dogwatch.crew.dispatcher.zoning import LOOK_S, MemoryWatch, watched_agents
from dogwatch.crew.shared.log import Log
from dogwatch.crew.shared.worlds import CrewEyes, DispatcherWorld
from dogwatch.ledger.api import Lease, Store, Tx
from dogwatch.ledger.records import change, load_all, save
from dogwatch.model import keys
from dogwatch.model.admission import Launch, PermitRecord, QueuedRun
from dogwatch.model.events.admission import RunAdmitted
from dogwatch.model.memory import HostRecord, HostSettings, Readings
from dogwatch.model.moment import Moment
from dogwatch.model.records import RunRecord
from dogwatch.policy.admission import first
from dogwatch.policy.zones import ZoneState, next_state

OPEN = HostSettings(parallel=0, wave=0)
ENDLESS = Readings(size_bytes=2**60)
"""A machine on which any number of agents fits."""


class FormerWatch(MemoryWatch):
    """Zones with the table's own lines. What the gates read says that there is always room."""

    is_calming = False

    def look(
        self, eyes: CrewEyes, ledger: Store, lease: Lease, runs: Sequence[str], now: Moment, log: Log
    ) -> HostRecord:
        before = self._host
        if before is not None and now.since(before.at) < LOOK_S:
            return before
        roots, subagents = ledger.read(lambda reader: watched_agents(reader, runs))
        readings = eyes.memory(roots, 0)
        readings = replace(readings, processes=readings.processes + sum(subagents.values()))
        state = ZoneState(calm_since=self._calm_since)
        if before is not None:
            state = replace(state, zone=before.zone, sensor=before.sensor, why=before.why)
        after = next_state(state, readings, 0, now)
        self._calm_since = after.calm_since
        since = before.since if before is not None and before.zone == after.zone else now
        self._host = HostRecord(
            host=ledger.host,
            at=now,
            zone=after.zone,
            since=since,
            sensor=after.sensor,
            why=after.why,
            readings=readings,
            settings=OPEN,
            reclaimed=before.reclaimed if before is not None else None,
        )
        self._open_gates(ledger, lease, self._host, now)
        return self._host

    def shown(self) -> None:
        """What the gates read must not say how it is."""

    def note_reclaim(self, at: Moment) -> None:
        if self._host is not None:
            self._host = replace(self._host, reclaimed=at)

    def _open_gates(self, ledger: Store, lease: Lease, host: HostRecord, now: Moment) -> None:
        if self._written is not None and now.since(self._written.at) < 4 * LOOK_S:
            return
        shown = replace(host, zone="GREEN", sensor="", why="", readings=ENDLESS)

        def fn(tx: Tx) -> None:
            tx.check(lease)
            save(tx, shown)

        ledger.run(fn)
        self._written = shown


class FormerDispatcher(Dispatcher):
    """Lets in as many runs as it was told, in GREEN alone where it `pauses`, and knows nothing of their needs."""

    def __init__(self, lease: Lease, log: Log, since: Moment, *, pauses: bool) -> None:
        super().__init__(lease, log, since)
        self._former = FormerWatch()
        self._pauses = pauses

    def _limit(self, world: DispatcherWorld, ledger: Store, runs: list[str], now: Moment) -> bool:
        host = self._former.look(world.eyes, ledger, self.lease, runs, now, self.log)
        free_permits(ledger, self.lease, world.eyes.life)
        queue = ledger.read(lambda reader: load_all(reader, QueuedRun, "queued/"))
        while queue and (host.zone == "GREEN" or not self._pauses):
            going = ledger.read(lambda reader: load_all(reader, PermitRecord, keys.permits(reader.host, "run")))
            head = first(queue, going)
            if head is None:
                break
            self._let_in(world, ledger, head)
            queue.remove(head)
        is_due = host.reclaimed is None or now.since(host.reclaimed) >= host.settings.cycle_s
        if host.zone == "RED" and is_due:
            order_reclaim(ledger, self.lease, self._former, host, runs, now)
        return bool(queue)

    def _let_in(self, world: DispatcherWorld, ledger: Store, queued: QueuedRun) -> None:
        launch = Launch(
            kind="run", holder=run_holder(queued.run), run=queued.run, group=queued.group, ceiling=queued.ceiling
        )

        def fn(tx: Tx) -> None:
            tx.check(self.lease)
            if ask(tx, launch, world.eyes.life).verdict != "admit":
                return
            tx.delete(queued.key)
            run = change(tx, RunRecord, f"run/{queued.run}", lambda record: replace(record, admitted=tx.now))
            waited_s = round(tx.now.since(run.created), 3)
            event = RunAdmitted(waited_s=waited_s, peak_bytes=0, learnt=False, run=queued.run)
            tx.append(event, f"admitted:{queued.run}")

        ledger.run(fn)
