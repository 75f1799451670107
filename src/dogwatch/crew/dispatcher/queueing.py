"""The dispatcher lets runs in, in their order: as many as caps, zone and forecast allow, and not one more."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from dogwatch.coordination.admission import Further, Life, abandoned, free_abandoned, look
from dogwatch.coordination.launches import is_heavy, run_holder
from dogwatch.coordination.queueing import admit, end_queued
from dogwatch.crew.dispatcher.zoning import SMALLEST_BYTES
from dogwatch.crew.shared.fenced import fenced
from dogwatch.crew.shared.log import Log
from dogwatch.ledger.api import Lease, Reader, Store
from dogwatch.ledger.records import load, load_all, load_plan
from dogwatch.model import keys
from dogwatch.model.admission import Answer, Launch, MemoryProfile, PermitRecord, QueuedRun, WaitRecord
from dogwatch.model.keys import orders_queue
from dogwatch.model.memory import HostRecord
from dogwatch.model.moment import Moment
from dogwatch.model.plan import Plan
from dogwatch.model.records import AgentRecord, RunRecord
from dogwatch.policy.admission import Situation, first, gist
from dogwatch.policy.forecast import (
    Profiles,
    RunForecast,
    by_key,
    demand_of,
    forecast,
    heaviest,
    run_forecast,
    subagents_max,
)
from dogwatch.policy.needs import places
from dogwatch.policy.zones import processes_max, room_bytes


@dataclass(frozen=True, slots=True)
class Going:
    """A run that was let in: its phase, and what its agents use now, by their places."""

    run: str
    plan: Plan
    phase: int = 0
    living: Mapping[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class Outlook:
    """What the runs that were let in will still take, by what is learnt."""

    profiles: Profiles
    going: list[Going]
    _made: dict[tuple[str, bool], RunForecast] = field(default_factory=dict)

    def forecasts(self, *, all_along: bool = False) -> list[RunForecast]:
        """Where each agent lives for as long as it is needed, or where all live all along."""
        return [self._forecast(one, all_along) for one in self.going]

    def _forecast(self, one: Going, all_along: bool) -> RunForecast:
        made = self._made.get((one.run, all_along))
        if made is None:
            made = run_forecast(one.run, one.plan, self.profiles, one.phase, living=one.living, all_along=all_along)
            self._made[one.run, all_along] = made
        return made

    def has_places(self, host: HostRecord) -> bool:
        """Whether everybody has a place under every cap all along."""
        taken: Counter[str] = Counter()
        for one in self.going:
            taken.update(places(one.plan, all_along=True))
        return all(taken[key] <= cap for key, cap in host.settings.caps.items())

    def fits(self, host: HostRecord, new: RunForecast | None = None) -> tuple[bool, str]:
        """Whether `new` fits beside them, or they all along; and if not, why."""
        others = self.forecasts(all_along=new is None)
        asked = new if new is not None else RunForecast(run="")
        demands = [heaviest(run.phases).demand for run in (*others, asked)]
        each = sum(one.mean_bytes for one in demands) / max(1, sum(one.agents for one in demands))
        # Sub-agents come and go: the gate holds who would start too many of them, as long as it is not started before
        # its time. So it is agents against agents; where everybody is to be there at once, with all their sub-agents.
        subagents = sum(one.processes - 1 for one in host.readings.agents.values())
        if new is None:
            subagents -= sum(subagents_max(one.plan, self.profiles, one.phase) for one in self.going)
        room_agents = processes_max(host, max(each, SMALLEST_BYTES)) - (host.readings.processes - subagents)
        found = forecast(asked, others, room_bytes(host), host.settings.confidence, room_agents)
        return found.fits, found.reason


def free_permits(ledger: Store, lease: Lease, life: Life) -> int:
    """Gives back the places of those who are gone; returns how many."""
    permits, waits = ledger.read(lambda reader: abandoned(reader, life))
    if not permits and not waits:
        return 0
    return fenced(ledger, lease, partial(free_abandoned, life=life))


def admit_runs(ledger: Store, lease: Lease, life: Life, host: HostRecord, now: Moment, log: Log) -> bool:
    """Lets in whoever may come, the first of the queue first; returns whether afterwards there is room for everybody at
    once: nobody waits, and those who were let in would fit all along."""
    queue, outlook = ledger.read(lambda reader: (load_all(reader, QueuedRun, keys.QUEUED), look_out(reader, host)))
    withdrawn = ledger.read(partial(_withdrawn, queue=queue))
    for run, cause in withdrawn.items():
        fenced(ledger, lease, partial(end_queued, run=run, cause=cause))
    queue = [one for one in queue if one.run not in withdrawn]
    while queue:
        going = ledger.read(lambda reader: load_all(reader, PermitRecord, keys.permits(reader.host, "run")))
        head = first(queue, going)
        if head is None:
            break  # Who waits for a place in its own group would not come in with more memory either.
        if not _admit(ledger, lease, life, head, host, outlook, now, log):
            return False
        queue.remove(head)
    return outlook.fits(host)[0] and outlook.has_places(host)


def look_out(reader: Reader, host: HostRecord) -> Outlook:
    """Everything that was let in, with what its agents use now."""
    profiles = by_key(load_all(reader, MemoryProfile, keys.PROFILES))
    outlook = Outlook(profiles, [])
    for permit in load_all(reader, PermitRecord, keys.permits(reader.host, "run")):
        run = permit.launch.run
        plan, record = load_plan(reader, run), load(reader, RunRecord, keys.run(run))
        if plan is None or record is None or record.over:
            continue
        used = host.readings.agents
        living = {
            agent.place: used[f"{run}/{agent.agent}"].rss_bytes
            for agent in load_all(reader, AgentRecord, keys.agents(run))
            if f"{run}/{agent.agent}" in used
        }
        outlook.going.append(Going(run, plan, record.phase, living))
    return outlook


def _withdrawn(reader: Reader, queue: Sequence[QueuedRun]) -> dict[str, str]:
    """The queued runs that the operator has ended, each with the cause."""
    found = {}
    ordered = set(reader.queues(orders_queue("")))
    for queued in queue:
        name = orders_queue(queued.run)
        for item in reader.items(name) if name in ordered else ():
            if not item.body["agent"]:
                found[queued.run] = str(item.body.get("cause") or "killed by the operator")
    return found


def _admit(
    ledger: Store,
    lease: Lease,
    life: Life,
    queued: QueuedRun,
    host: HostRecord,
    outlook: Outlook,
    now: Moment,
    log: Log,
) -> bool:
    """Asks for the run; True where it was let in, or was ended because it never can be."""
    plan = ledger.read(lambda reader: load_plan(reader, queued.run))
    if plan is None:
        fenced(ledger, lease, partial(end_queued, run=queued.run, cause="its plan on the ledger cannot be read"))
        return True
    new = run_forecast(queued.run, plan, outlook.profiles)
    launch = _launch(queued, plan, outlook.profiles, new)
    further = _further(host, outlook, new)

    def waits_on(reader: Reader) -> bool:
        waiting = load(reader, WaitRecord, keys.wait(reader.host, launch.holder))
        if waiting is None:
            return False
        answer = look(reader, launch, life, now, further)
        return answer.verdict == "hold" and gist(answer) == gist(waiting.answer)

    if ledger.read(waits_on):
        return False
    answer = fenced(ledger, lease, partial(admit, queued=queued, launch=launch, life=life, further=further))
    log.info("run_asked", run=queued.run, verdict=answer.verdict, reason=answer.reason)
    if answer.verdict == "admit":
        outlook.going.append(Going(queued.run, plan))
    return answer.verdict != "hold"


def _launch(queued: QueuedRun, plan: Plan, profiles: Profiles, new: RunForecast) -> Launch:
    """The run as the gate is asked for it."""
    return Launch(
        kind="run",
        holder=run_holder(queued.run),
        run=queued.run,
        heavy=any(is_heavy(demand_of(profiles, role.harness, plan.name, role.name)) for role in plan.roles),
        demand=heaviest(new.phases).demand,
        group=queued.group,
        ceiling=queued.ceiling,
        places=places(plan),
    )


def _further(host: HostRecord, outlook: Outlook, new: RunForecast) -> Further:
    """What the forecast has to say where no cap and no zone is in the way."""

    def further(at: Situation) -> Answer | None:
        if not any(permit.launch.kind == "run" for permit in at.permits):
            # Alone it may run, whatever is predicted: it would wait for ever.
            return None
        fits, why = outlook.fits(host, new)
        return None if fits else Answer(verdict="hold", reason=why, limit="forecast")

    return further
