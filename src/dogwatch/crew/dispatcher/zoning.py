"""The dispatcher's look at memory: sensors, zone, and the record of both that every gate reads."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from statistics import median

from dogwatch.coordination import hosts
from dogwatch.crew.shared.fenced import fenced
from dogwatch.crew.shared.log import Log
from dogwatch.crew.shared.worlds import CrewEyes
from dogwatch.ledger.api import Lease, Reader, Store
from dogwatch.ledger.records import load, load_all
from dogwatch.model import keys
from dogwatch.model.admission import MemoryProfile
from dogwatch.model.memory import GB, HostRecord, Readings
from dogwatch.model.moment import Moment
from dogwatch.model.process import ProcessId
from dogwatch.model.records import AgentRecord, WatchRecord
from dogwatch.policy.admission import BLIND_S
from dogwatch.policy.forecast import CLIENT, agent_bytes, by_key
from dogwatch.policy.growth import Growth
from dogwatch.policy.reclaim import ASKED_AGAIN_S
from dogwatch.policy.zones import ZoneState, next_state

LOOK_S = 5.0
WRITE_S = 20.0
"""How old the record may become while nothing changes that matters."""
SMALLEST_BYTES = 64 * 1024**2
"""No agent counts as smaller than this when it is asked how many the machine holds."""
LARGEST_BYTES = int(2 * CLIENT.mean_bytes)
"""Nor as larger than this before its size is learnt."""


class MemoryWatch:
    """Looks at the sensors every few seconds. What it keeps is growth, and since when it has been calm; one that
    starts anew takes the zone from the ledger."""

    def __init__(self) -> None:
        self._growth = Growth()
        self._calm_since: Moment | None = None
        self._host: HostRecord | None = None
        self._written: HostRecord | None = None
        self._runs: frozenset[str] = frozenset()
        self._asked: dict[tuple[str, str, int], Moment] = {}

    def look(
        self, eyes: CrewEyes, ledger: Store, lease: Lease, runs: Sequence[str], now: Moment, log: Log
    ) -> HostRecord:
        """The host as it is now, or as it was a moment ago. A run that is gone has left room: whoever waits for it must
        not be told of the agents that were there."""
        has_left = not self._runs.issubset(runs)
        self._runs = frozenset(runs)
        if self._host is not None and now.since(self._host.at) < LOOK_S and not has_left:
            return self._host
        before = self._host or ledger.read(lambda r: load(r, HostRecord, keys.host(r.host)))
        settings, problem = eyes.settings()
        is_unset = bool(problem) and (before is None or before.is_unset)
        if problem and before is not None:
            # A dispatcher that starts anew has not seen the last that were right.
            settings = before.settings
        roots, subagents = ledger.read(lambda reader: watched_agents(reader, runs))
        profiles = by_key(ledger.read(lambda reader: load_all(reader, MemoryProfile, keys.PROFILES)))
        readings = eyes.memory(roots, settings.memory_bytes)
        self._growth.note_all(readings, now.mono, roots)
        readings = _with_subagents(readings, subagents)
        # Who has just started is small: until it is learnt, an agent counts as large as they have been seen to become.
        size = agent_bytes(profiles) or max(_usual(readings), before.agent_bytes if before is not None else 0)
        state = ZoneState(calm_since=self._calm_since)
        if before is not None:
            state = ZoneState(zone=before.zone, sensor=before.sensor, why=before.why, calm_since=self._calm_since)
        after = next_state(state, readings, size, now, settings.calm_s)
        self._calm_since = after.calm_since
        has_changed = before is None or before.zone != after.zone
        host = HostRecord(
            host=ledger.host,
            at=now,
            zone=after.zone,
            since=now if before is None or has_changed else before.since,
            sensor=after.sensor,
            why=after.why,
            readings=readings,
            agent_bytes=size,
            settings=settings,
            problem=problem,
            is_unset=is_unset,
            zone_s=_added(before, now),
            spacious=before.spacious if before is not None else True,
            coming=before.coming if before is not None else 0,
            reclaimed=before.reclaimed if before is not None else None,
        )
        if problem and (before is None or before.problem != problem):
            log.error("host_settings_refused", problem=problem)
        self._write(ledger, lease, before, host, runs)
        return host

    def note_space(self, ledger: Store, lease: Lease, spacious: bool, coming: int) -> None:
        """Whether everybody fits at once, and how many sub-agents are to be expected; every gate reads it."""
        if self._host is not None and (self._host.spacious, self._host.coming) != (spacious, coming):
            self._host = self._written = replace(self._rated(self._host), spacious=spacious, coming=coming)
            fenced(ledger, lease, partial(hosts.keep, host=self._host))

    @property
    def is_calming(self) -> bool:
        """Whether memory is better than its zone says, and only has to stay so for a while."""
        return self._calm_since is not None

    def asked(self, now: Moment) -> Collection[tuple[str, str, int]]:
        """The incarnations that were to rest a while ago: those that still live have been refused."""
        self._asked = {key: at for key, at in self._asked.items() if now.since(at) < ASKED_AGAIN_S}
        return self._asked.keys()

    def note_asked(self, incarnation: tuple[str, str, int], now: Moment) -> None:
        """This one is to rest: run, agent and number."""
        self._asked[incarnation] = now

    def shown(self) -> HostRecord | None:
        """The host for the record."""
        return self._rated(self._host) if self._host is not None else None

    def note_reclaim(self, at: Moment) -> None:
        """A reclaim was ordered then, and is on the host's record."""
        if self._host is not None:
            self._host = self._written = replace(self._rated(self._host), reclaimed=at)

    def _rated(self, host: HostRecord) -> HostRecord:
        """With the growth of each agent: only for the record, because to find it out costs more than the look. What was
        written of this look has it already."""
        return (
            host
            if host is self._written
            else replace(host, readings=self._growth.rated(host.readings, host.settings.growth_s))
        )

    def _write(
        self, ledger: Store, lease: Lease, before: HostRecord | None, host: HostRecord, runs: Sequence[str]
    ) -> None:
        if self._written is not None and not _is_news(self._written, host):
            self._host = host
            return
        host = self._rated(host)
        # Where the ledger cannot be written, the next look tells of the change.
        fenced(ledger, lease, partial(hosts.keep_look, before=before, host=host, runs=runs))
        self._host = self._written = host


def _is_news(before: HostRecord, host: HostRecord) -> bool:
    """Whether the record on the ledger would mislead who reads it."""
    old, new = before.readings, host.readings
    if (before.zone, before.settings, before.problem) != (host.zone, host.settings, host.problem):
        return True
    if old.processes != new.processes or old.agents.keys() != new.agents.keys():
        return True
    moved = abs((old.left_bytes or 0) - (new.left_bytes or 0))
    return moved > 0.01 * (new.size_bytes or GB) or host.at.since(before.at) >= WRITE_S


def watched_agents(reader: Reader, runs: Sequence[str]) -> tuple[dict[str, ProcessId], dict[str, int]]:
    """The living agents of these runs, and how many sub-agents their clients have told of."""
    roots: dict[str, ProcessId] = {}
    subagents: dict[str, int] = {}
    for run in runs:
        watch = load(reader, WatchRecord, keys.watch(run))
        for agent in load_all(reader, AgentRecord, keys.agents(run)):
            if agent.process is not None and not agent.is_given_up:
                roots[f"{run}/{agent.agent}"] = agent.process
                seen = watch.agents.get(agent.agent) if watch is not None else None
                subagents[f"{run}/{agent.agent}"] = seen.subagents if seen is not None else 0
    return roots, subagents


def _with_subagents(readings: Readings, subagents: Mapping[str, int]) -> Readings:
    agents = dict(readings.agents)
    for name, number in subagents.items():
        if number and name in agents:
            agents[name] = replace(agents[name], processes=1 + number)
    return replace(readings, processes=readings.processes + sum(subagents.values()), agents=agents)


def _usual(readings: Readings) -> int:
    """How large an agent's process usually is on this machine. What one of them takes for a moment says nothing of the
    others, and a tool nothing of the clients."""
    sizes = [agent.rss_bytes // agent.processes for agent in readings.agents.values()]
    return max(SMALLEST_BYTES, min(LARGEST_BYTES, int(median(sizes)))) if sizes else 0


def _added(before: HostRecord | None, now: Moment) -> Mapping[str, float]:
    if before is None:
        return {}
    # What was while nobody looked is not known.
    passed_s = round(min(now.since(before.at), BLIND_S), 3)
    return {**before.zone_s, before.zone: round(before.zone_s.get(before.zone, 0.0) + passed_s, 3)}
