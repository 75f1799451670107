"""The dispatcher: one for each host. It looks at the memory, lets runs in, and every run that was let in has a living
captain."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from dogwatch.coordination import crew
from dogwatch.crew.dispatcher.learning import Peaks
from dogwatch.crew.dispatcher.queueing import admit_runs, free_permits
from dogwatch.crew.dispatcher.reclaiming import order_reclaim
from dogwatch.crew.dispatcher.zoning import MemoryWatch
from dogwatch.crew.shared.log import Log
from dogwatch.crew.shared.membership import Awake, Reviver, allowed_silence_s, renew, silent_s
from dogwatch.crew.shared.worlds import DispatcherWorld
from dogwatch.errors import LedgerError
from dogwatch.ledger.api import Lease, Reader, Store
from dogwatch.ledger.records import load, load_all, load_plan
from dogwatch.model import keys
from dogwatch.model.admission import MemoryProfile
from dogwatch.model.memory import HostRecord
from dogwatch.model.moment import Moment
from dogwatch.model.records import AgentRecord, CrewRecord, RunRecord
from dogwatch.policy.forecast import by_key

CADENCE_S = 1.0
SPACE_S = 20.0
"""How often it is asked whether everybody would fit at once, while nobody waits to be let in."""
LINGER_S = 60.0
"""How long a dispatcher stays without any run to look after."""


class Dispatcher:
    """Holds its lease and the memory of its latest starts; everything else is on the ledger."""

    def __init__(self, lease: Lease, log: Log, since: Moment) -> None:
        self.lease = lease
        self.log = log
        self._captains = Reviver()
        self._busy = since
        self._awake = Awake()
        self._memory = MemoryWatch()
        self._peaks = Peaks()
        self._coming = 0
        self._spacious = True
        self._spaced: Moment | None = None
        self._queued: Sequence[str] = []

    def step(self, world: DispatcherWorld, ledger: Store, now: Moment) -> float | None:
        try:
            return self._dispatch(world, ledger, now)
        except LedgerError:
            self._awake.excuse()
            raise

    def _dispatch(self, world: DispatcherWorld, ledger: Store, now: Moment) -> float | None:
        captains = ledger.read(_captains)
        silent = self._end_silent(world, ledger, captains, now)
        self.lease = renew(ledger, self.lease, now)
        waiting = self._limit(world, ledger, list(captains), now)
        for run, captain in captains.items():
            self._keep_captain(world, ledger, run, captain, silent.get(run), now)
        world.eyes.watch([captain.process for captain in captains.values() if captain is not None])
        if captains or waiting:
            self._busy = now
        if now.since(self._busy) > LINGER_S and ledger.run(partial(crew.leave_host, lease=self.lease)):
            self.log.info("nothing_to_do", lingered_s=LINGER_S)
            return None
        return CADENCE_S

    def _end_silent(
        self, world: DispatcherWorld, ledger: Store, captains: Mapping[str, CrewRecord | None], now: Moment
    ) -> dict[str, float]:
        """Before anything is written: a captain that is stopped in the middle of a transaction holds the ledger. So may
        its watchdog, and where the captain cannot end that, nobody else would."""
        silent: dict[str, float] = {}
        if not self._awake.can_judge(now, allowed_silence_s(world.eyes)):
            return silent
        for run, captain in captains.items():
            quiet_s = silent_s(world.eyes, captain, now)
            if captain is not None and quiet_s is not None:
                silent[run] = quiet_s
                self.log.error("captain_silent", run=run, pid=captain.process.pid)
                world.hands.end_silent_crew(captain.process)
            if captain is None or quiet_s is not None or world.eyes.life(captain.process) == "dead":
                watchdog = ledger.read(partial(_member, key=keys.crew(run, "watchdog")))
                if watchdog is not None and silent_s(world.eyes, watchdog, now) is not None:
                    self.log.error("watchdog_silent", run=run, pid=watchdog.process.pid)
                    world.hands.end_silent_crew(watchdog.process)
        return silent

    def _limit(self, world: DispatcherWorld, ledger: Store, runs: list[str], now: Moment) -> bool:
        """Memory and admission; True while runs wait to be let in."""
        host = self._memory.look(world.eyes, ledger, self.lease, runs, now, self.log)
        world.eyes.pulse()
        queued = ledger.read(lambda reader: reader.keys(keys.QUEUED))
        is_due = bool(queued) or self._spaced is None or now.since(self._spaced) >= SPACE_S
        is_news = queued != self._queued or (host.at == now and is_due)
        if host.at == now:
            ledger.read(lambda reader: self._note_peaks(reader, host, runs, now))
            self._peaks.keep(ledger, self.lease, now)
            profiles = by_key(ledger.read(lambda reader: load_all(reader, MemoryProfile, keys.PROFILES)))
            self._coming = self._peaks.coming(profiles, now)
        if free_permits(ledger, self.lease, world.eyes.life) or is_news:
            self._spacious, self._spaced = admit_runs(ledger, self.lease, world.eyes.life, host, now, self.log), now
            self._queued = ledger.read(lambda reader: reader.keys(keys.QUEUED))
            world.eyes.pulse()
        self._memory.note_space(ledger, self.lease, self._spacious, self._coming)
        if found := order_reclaim(ledger, self.lease, self._memory, host, runs, now):
            self.log.info("reclaim_ordered", run=found.run, agent=found.agent, why=found.why)
        return bool(queued)

    def _note_peaks(self, reader: Reader, host: HostRecord, runs: list[str], now: Moment) -> None:
        for run in runs:
            record, plan = load(reader, RunRecord, keys.run(run)), load_plan(reader, run)
            if record is not None and plan is not None:
                agents = load_all(reader, AgentRecord, keys.agents(run))
                self._peaks.see(record, plan, agents, host.readings.agents, now)

    def _keep_captain(
        self,
        world: DispatcherWorld,
        ledger: Store,
        run: str,
        captain: CrewRecord | None,
        quiet_s: float | None,
        now: Moment,
    ) -> None:
        life = world.eyes.life(captain.process) if captain is not None else "dead"
        if not self._captains.may_start(captain, life, now, run):
            return
        need = "dead" if quiet_s is None else "silent"
        if captain is not None:
            ledger.run(partial(crew.note_loss, record=captain, need=need, quiet_s=quiet_s))
        self.log.info("captain_started", run=run, because=need)
        world.hands.start_crew("captain", run)
        self._captains.note_start(run, now)
        world.eyes.pulse()


def _member(reader: Reader, key: str) -> CrewRecord | None:
    return load(reader, CrewRecord, key)


def _captains(reader: Reader) -> dict[str, CrewRecord | None]:
    """The captain of every run that was let in and is not cleared yet."""
    queued = {key.removeprefix(keys.QUEUED) for key in reader.keys(keys.QUEUED)}
    runs = [key.removeprefix(keys.ACTIVE) for key in reader.keys(keys.ACTIVE)]
    runs = [run for run in runs if run not in queued]
    return {run: load(reader, CrewRecord, keys.crew(run, "captain")) for run in runs}
