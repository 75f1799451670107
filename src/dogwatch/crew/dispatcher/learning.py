"""What each role's memory was: the dispatcher keeps the peaks of living incarnations, and writes down those that are
over.

What is kept here is lost with the dispatcher: the peaks of the last seconds, and for those who live on what they had
reached before; a successor begins with what it sees. A forecast loses a sample by that, and nothing else.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial

from dogwatch.coordination import memory
from dogwatch.coordination.memory import Peak
from dogwatch.crew.shared.fenced import fenced
from dogwatch.ledger.api import Lease, Store
from dogwatch.model.memory import AgentMemory
from dogwatch.model.moment import Moment
from dogwatch.model.plan import Plan
from dogwatch.model.records import AgentRecord, RunRecord
from dogwatch.policy.forecast import ALL, Profiles, processes_of

KEEP_S = 20.0
"""So often at most the ledger is written."""
GONE_S = 15.0
"""An incarnation that was not seen for so long is gone; a single look may fail."""
BRIEF_S = 60.0
"""What was shorter than this and saw no work teaches nothing: a client takes its memory while it works."""
WAITING_MAX = 1000
"""Peaks that wait for a ledger that cannot be written; the newest count."""


@dataclass(slots=True)
class _Stretch:
    """A life, or a phase of it."""

    began: Moment
    peak_bytes: int = 0
    processes: int = 1
    worked: bool = False

    def note(self, rss_bytes: int, processes: int, worked: bool) -> None:
        self.peak_bytes = max(self.peak_bytes, rss_bytes)
        self.processes = max(self.processes, processes)
        self.worked = self.worked or worked

    def teaches(self, end: Moment) -> bool:
        return self.peak_bytes > 0 and (self.worked or end.since(self.began) >= BRIEF_S)


@dataclass(slots=True)
class _Life:
    incarnation: int
    owner: Peak
    """Whose it is; the phase is the present one."""
    life: _Stretch
    phase: _Stretch
    seen: Moment
    is_busy: bool = False
    told: int = 0
    """How many processes of it in this phase the ledger knows of."""

    @property
    def shown(self) -> int:
        """How many processes it has shown in this phase; 0 while it may only not have begun with sub-agents yet."""
        number = self.phase.processes
        is_sure = number > 1 or (self.phase.worked and self.seen.since(self.phase.began) >= BRIEF_S)
        return number if is_sure else 0


class Peaks:
    """The peaks of everybody who lives, and of those who were there a moment ago."""

    def __init__(self) -> None:
        self._lives: dict[tuple[str, str], _Life] = {}
        self._over: deque[Peak] = deque(maxlen=WAITING_MAX)
        self._kept: Moment | None = None

    def see(
        self,
        run: RunRecord,
        plan: Plan,
        agents: Iterable[AgentRecord],
        memory: Mapping[str, AgentMemory],
        now: Moment,
    ) -> None:
        """Notes everybody of a run; `memory` is by `run/agent`, as in the readings. A rehearsal teaches nothing: its
        model is a script, and its clients never have much to remember."""
        if run.stage is not None:
            return
        phase = plan.phases[run.phase].name if run.phase < len(plan.phases) else ""
        roles = {role.name: role for role in plan.roles}
        for agent in agents:
            found = memory.get(f"{run.run}/{agent.agent}")
            if found is None or agent.process is None or agent.role not in roles:
                continue
            self.note(
                run.run,
                agent.agent,
                agent.incarnation,
                agent.role,
                roles[agent.role].harness,
                plan.name,
                phase,
                found.rss_bytes,
                now=now,
                count=roles[agent.role].count,
                processes=found.processes,
                worked=agent.busy and not agent.is_over,
            )

    def note(
        self,
        run: str,
        agent: str,
        incarnation: int,
        role: str,
        harness: str,
        pipeline: str,
        phase: str,
        rss_bytes: int,
        *,
        now: Moment,
        count: int = 1,
        processes: int = 1,
        worked: bool = False,
    ) -> None:
        """What an agent's processes use now. Another phase ends the last one, another incarnation the last life."""
        if phase == ALL:
            # Whole lives are kept under that name.
            phase = ""
        place = (run, agent)
        known = self._lives.get(place)
        if known is not None and known.incarnation != incarnation:
            self._end(place)
            known = None
        if known is None:
            owner = Peak(harness, pipeline, role, phase, count)
            known = _Life(incarnation, owner, _Stretch(now), _Stretch(now), now)
            self._lives[place] = known
        elif known.owner.phase != phase:
            self._teach(known.owner, known.phase, now)
            known.owner, known.phase, known.told = replace(known.owner, phase=phase), _Stretch(now), 0
        known.seen, known.is_busy = now, worked
        known.life.note(rss_bytes, processes, worked)
        known.phase.note(rss_bytes, processes, worked)

    def coming(self, profiles: Profiles, now: Moment) -> int:
        """How many sub-agents are still to be expected of those who work or were only just started: so many as their
        roles had earlier in this phase, less those that they have had already."""
        found = 0
        for life in self._lives.values():
            owner = life.owner
            if life.seen == now and (life.is_busy or now.since(life.life.began) < BRIEF_S):
                expected = processes_of(
                    profiles, owner.harness, owner.pipeline, owner.role, owner.phase, count=owner.count
                )
                found += max(0, expected - life.phase.processes)
        return found

    def keep(self, ledger: Store, lease: Lease, now: Moment) -> int:
        """To be called after each look: writes down what is over, once in a while and in one transaction. How many
        peaks that were; those that could not be written are tried again the next time."""
        if not self.due(now):
            return 0
        shown = [(life.owner, life.shown) for life in self._lives.values() if life.shown > life.told]
        learnt = fenced(ledger, lease, partial(memory.learn, peaks=tuple(self._over), shown=shown))
        self.forget(now)
        return learnt

    def due(self, now: Moment) -> bool:
        """Whether there is something to write down, and the last time is long enough ago."""
        for place in [place for place, life in self._lives.items() if now.since(life.seen) > GONE_S]:
            self._end(place)
        if any(life.shown > life.told for life in self._lives.values()):
            return True
        return bool(self._over) and (self._kept is None or now.since(self._kept) >= KEEP_S)

    def forget(self, now: Moment) -> None:
        """What was learnt is on the ledger."""
        self._over.clear()
        for life in self._lives.values():
            life.told = life.shown
        self._kept = now

    def _end(self, place: tuple[str, str]) -> None:
        life = self._lives.pop(place)
        self._teach(life.owner, life.phase, life.seen)
        self._teach(replace(life.owner, phase=ALL), life.life, life.seen)

    def _teach(self, owner: Peak, stretch: _Stretch, end: Moment) -> None:
        if owner.phase and stretch.teaches(end):
            self._over.append(replace(owner, peak_bytes=stretch.peak_bytes, processes=stretch.processes))
