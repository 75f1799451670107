"""The watchdog: one for each run. It looks at every agent and says what it means; it has no code to touch one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, partial

from dogwatch.coordination import crew, watching
from dogwatch.crew.shared.fenced import fenced
from dogwatch.crew.shared.log import Log
from dogwatch.crew.shared.membership import BEAT_S, Reviver, keep_dispatcher, renew
from dogwatch.crew.shared.worlds import WatchdogWorld
from dogwatch.crew.watchdog.books import Books
from dogwatch.crew.watchdog.strangers import Strangers
from dogwatch.ledger.api import Lease, Store
from dogwatch.ledger.records import load_run
from dogwatch.model.events.alerts import AlertRaised
from dogwatch.model.moment import Moment
from dogwatch.model.plan import Limits
from dogwatch.model.records import AgentRecord, AgentWatch, WatchRecord
from dogwatch.model.sight import Sight
from dogwatch.model.view import RunView
from dogwatch.policy import alerts
from dogwatch.policy.diagnosis import Diagnosis
from dogwatch.policy.doubt import Doubt
from dogwatch.policy.judge import judge_all
from dogwatch.policy.subagents import count
from dogwatch.policy.thresholds import overdue
from dogwatch.policy.waits import WaitGraph, waits

REWRITE_S = 20.0
"""How old the record of what was seen may become while nothing changes but numbers."""


class Watchdog:
    """Holds its lease, the memory of its latest start and of its latest look; everything else is on the ledger."""

    def __init__(self, run: str, lease: Lease, log: Log) -> None:
        self.run = run
        self.lease = lease
        self.log = log
        self._dispatcher = Reviver()
        self._doubt = Doubt()
        self._books = Books()
        self._strangers = Strangers()
        self._seen: WatchRecord | None = None
        self._gist: object = None
        self._told: set[str] = set()

    def step(self, world: WatchdogWorld, ledger: Store, now: Moment) -> float | None:
        self.lease = renew(ledger, self.lease, now)
        view = ledger.read(lambda reader: load_run(reader, self.run))
        if view.run.cleared:
            ledger.run(partial(crew.leave, lease=self.lease))
            return None
        # Captain and dispatcher may have been killed at one instant: then this is who is left to notice.
        dispatcher = keep_dispatcher(world.eyes, world.starter, ledger, self._dispatcher, self.lease.holder, now)
        running = {agent.agent: agent.running.process for agent in view.agents.values() if agent.running}
        world.eyes.watch([*running.values()] + ([dispatcher.process] if dispatcher is not None else []))
        if not view.run.over:
            self._sweep(world, ledger, view, list(running), now)
        return min(view.plan.limits.sweep_s, BEAT_S)

    def _sweep(self, world: WatchdogWorld, ledger: Store, view: RunView, names: list[str], now: Moment) -> None:
        """All agents at one go: what was seen, what it means, and what must be said of it."""
        sights = world.eyes.look(view, names, screens=True)
        held = self._doubt.about(sights, view.plan.limits, now)
        found = judge_all(view, sights, now)
        # Only where it will be told: most sweeps find nothing new.
        graph = cache(lambda: waits(view, sights, now))
        self._remember(ledger, found, sights, graph, view, held, now)
        self._books.keep(ledger, self.lease, view, world.eyes.tallies(view, names), sights, now)
        self._strangers.look(ledger, self.lease, view, sights, now)
        if held:
            self._tell_doubt(ledger, held)
            return
        for name, diagnosis in found.items():
            self._report(ledger, view, sights[name], diagnosis, graph, view.agents[name], now)

    def _report(
        self,
        ledger: Store,
        view: RunView,
        sight: Sight,
        found: Diagnosis,
        graph: Callable[[], WaitGraph],
        agent: AgentRecord,
        now: Moment,
    ) -> None:
        """What must be said of an agent: what asks for an action, a silence that is serious, work that is late."""
        limits = view.limits_of(agent.agent)
        level = alerts.tier_of(found, limits)
        late = self._late(view, agent.agent, now)
        self._tell_context(ledger, agent, sight, limits)
        self._tell_memory(ledger, agent, sight)
        if not (found.action or level or late):
            return
        told = alerts.raised(agent, found, sight, graph().chain(agent.agent), level, limits, now)
        if found.action and not agent.was_alerted(found.stall, now):
            self._alert(ledger, agent, told)
        elif level:
            self._tell(ledger, agent, told, f"{found.stall}:{level}")
        for line, occasion in late:
            advice = found.advice if found.action else f"wait: it is {found.kind}"
            overdue_alert = told.but(tier=max(2, level), evidence=(line, *told.evidence), advice=advice)
            self._tell(ledger, agent, overdue_alert, f"#{agent.incarnation}:{occasion}")

    def _late(self, view: RunView, agent: str, now: Moment) -> list[tuple[str, str]]:
        """A dispatch that takes much longer than expected is spoken of, whatever its holder is doing."""
        task = view.task_of(agent)
        if task is None or task.dispatched is None:
            return []
        late_s = now.since(task.dispatched)
        times = overdue(late_s, task.expect_s)
        line = f"ledger: {task.task} was sent {late_s:.0f} s ago, {task.expect_s:g} s were expected"
        return [(line, f"overdue:{task.task}:{task.sends}:{times}")] if times else []

    def _remember(
        self,
        ledger: Store,
        found: Mapping[str, Diagnosis],
        sights: Mapping[str, Sight],
        graph: Callable[[], WaitGraph],
        view: RunView,
        held: str,
        now: Moment,
    ) -> None:
        """Keeps what was seen for `dogwatch status` and its like; written only when it says something new."""
        tiers = {name: alerts.tier_of(one, view.limits_of(name)) for name, one in found.items()}
        subagents = {name: count(sights[name], now) for name in found}
        gist = held, tiers, subagents, [_gist(one, sights[name]) for name, one in found.items()]
        if self._seen is not None and self._gist == gist and now.since(self._seen.at) < REWRITE_S:
            return
        before = self._seen.agents if self._seen is not None else {}
        agents = {}
        for name, diagnosis in found.items():
            old = before.get(name)
            same = old is not None and (old.kind, old.stall) == (diagnosis.kind, diagnosis.stall)
            tree = sights[name].tree
            agents[name] = AgentWatch(
                kind=diagnosis.kind,
                since=old.since if old is not None and same else now,
                confidence=diagnosis.confidence,
                evidence=diagnosis.evidence,
                quiet_s=round(diagnosis.quiet_s, 3),
                action=diagnosis.action,
                advice=diagnosis.advice,
                stall=diagnosis.stall,
                tier=tiers[name],
                screen=sights[name].screen,
                source=diagnosis.source,
                waits_for=diagnosis.waits_for,
                rss_bytes=tree.rss_bytes if tree is not None else 0,
                context=sights[name].context,
                heard=sights[name].turn.newest,
                subagents=subagents[name],
            )
        written = max((sight.outputs_changed for sight in sights.values() if sight.outputs), default=0.0)
        record = WatchRecord(run=self.run, at=now, written=written, agents=agents, held=held, waits=graph().waits)
        self._seen, self._gist = record, gist
        fenced(ledger, self.lease, partial(watching.keep, record=record))

    def _alert(self, ledger: Store, agent: AgentRecord, told: AlertRaised) -> None:
        if fenced(ledger, self.lease, partial(watching.raise_alert, agent=agent, told=told)):
            self._log(told)

    def _tell(self, ledger: Store, agent: AgentRecord, told: AlertRaised, occasion: str) -> None:
        """An alert for people: recorded once for each occasion, and settled by nobody."""
        alert = f"{agent.agent}{occasion}"
        if alert in self._told:
            return
        is_new = fenced(ledger, self.lease, partial(watching.tell, agent=agent, told=told, alert=alert))
        if is_new is not None:
            # What did not stand is looked at again in the next sweep.
            self._told.add(alert)
        if is_new:
            self._log(told)

    def _tell_context(self, ledger: Store, agent: AgentRecord, sight: Sight, limits: Limits) -> None:
        """That the context runs out, as long as it does; and that it was made shorter."""
        is_low = sight.context is not None and sight.context >= limits.context_max
        if not sight.turn.compacted and not is_low:
            return
        occasion = f"{agent.key}:{agent.incarnation}:{sight.turn.compacted:.3f}"
        if sight.turn.compacted and self._is_new(f"compacted:{occasion}"):
            ledger.run(partial(watching.tell_compacted, agent=agent, sight=sight))
        if is_low and self._is_new(f"context:{occasion}"):
            ledger.run(partial(watching.tell_context_low, agent=agent, sight=sight, limit=limits.context_max))

    def _tell_memory(self, ledger: Store, agent: AgentRecord, sight: Sight) -> None:
        if sight.oom_kills and self._is_new(f"oom:{agent.key}:{agent.incarnation}:{sight.oom_kills}"):
            ledger.run(partial(watching.tell_out_of_memory, agent=agent, sight=sight))

    def _is_new(self, occasion: str) -> bool:
        """Whether this is the first time that it is asked for."""
        if occasion in self._told:
            return False
        self._told.add(occasion)
        return True

    def _tell_doubt(self, ledger: Store, held: str) -> None:
        tell = partial(watching.tell_doubt, run=self.run, number=self._doubt.number, why=held)
        if fenced(ledger, self.lease, tell):
            self.log.error("fleet_held", why=held)

    def _log(self, told: AlertRaised) -> None:
        self.log.info("alert_raised", agent=told.agent, diagnosis=told.diagnosis, action=told.action, tier=told.tier)


def _gist(found: Diagnosis, sight: Sight) -> object:
    """What a change of is worth writing down: not that a number of seconds has grown."""
    said = (found.kind, found.stall, found.action, found.advice, found.waits_for, found.confidence)
    return *said, sight.screen
