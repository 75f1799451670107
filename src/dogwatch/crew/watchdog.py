"""The watchdog: one for each run. It looks at every agent and says what it means; it has no code to touch one."""

from __future__ import annotations

from dogwatch.crew.log import Log
from dogwatch.crew.membership import BEAT_S, Reviver, keep_dispatcher, renew
from dogwatch.crew.queues import alerts_queue
from dogwatch.crew.worlds import WatchdogWorld
from dogwatch.ledger.api import Lease, Store, Tx
from dogwatch.ledger.records import load, load_run
from dogwatch.model.moment import Moment
from dogwatch.model.records import AgentRecord, RunRecord
from dogwatch.model.view import RunView
from dogwatch.policy.diagnose import Diagnosis, diagnose


class Watchdog:
    """Holds its lease and the memory of its latest start; everything else is on the ledger."""

    def __init__(self, run: str, lease: Lease, log: Log) -> None:
        self.run = run
        self.lease = lease
        self.log = log
        self._dispatcher = Reviver()

    def step(self, world: WatchdogWorld, ledger: Store, now: Moment) -> float | None:
        self.lease = renew(ledger, self.lease, now)
        view = ledger.read(lambda reader: load_run(reader, self.run))
        if view.run.cleared:
            ledger.run(lambda tx: tx.release(self.lease))
            return None
        # Captain and dispatcher may have been killed at one instant: then this is who is left to notice.
        dispatcher = keep_dispatcher(world.eyes, world.starter, ledger, self._dispatcher, self.lease.holder, now)
        spawned = [agent for agent in view.agents.values() if agent.process is not None and agent.state != "ERROR"]
        watched = [agent.process for agent in spawned if agent.process is not None]
        world.eyes.watch(watched + ([dispatcher.process] if dispatcher is not None else []))
        if not view.run.over:
            self._sweep(world, ledger, view, spawned, now)
        return min(view.plan.limits.sweep_s, BEAT_S)

    def _sweep(
        self, world: WatchdogWorld, ledger: Store, view: RunView, agents: list[AgentRecord], now: Moment
    ) -> None:
        """All agents cheaply; those that seem to need something once more, with what stands on their screens."""
        first = self._diagnosed(world, view, [agent.agent for agent in agents], now)
        suspects = [name for name, found in first.items() if found.action]
        for name, found in self._diagnosed(world, view, suspects, now, screens=True).items():
            if found.action and not view.agents[name].was_alerted(found.stall, now):
                self._alert(ledger, view.agents[name], found)

    def _diagnosed(
        self, world: WatchdogWorld, view: RunView, names: list[str], now: Moment, *, screens: bool = False
    ) -> dict[str, Diagnosis]:
        if not names:
            return {}
        sights = world.eyes.look(view, names, screens=screens)
        limits = view.plan.limits
        return {name: diagnose(view.agents[name], view.duty_of(name), sights[name], limits, now) for name in names}

    def _alert(self, ledger: Store, agent: AgentRecord, found: Diagnosis) -> None:
        """Once for each stall until the captain has settled it: the same stall has the same id, also for a watchdog
        that starts anew."""
        body = {
            "agent": agent.agent,
            "incarnation": agent.incarnation,
            "diagnosis": found.kind,
            "action": found.action,
            "stall": found.stall,
            "quiet_s": round(found.quiet_s, 3),
            "evidence": list(found.evidence),
        }
        item_id = f"{agent.agent}{found.stall}/{agent.alerts}"

        def fn(tx: Tx) -> bool:
            tx.check(self.lease)
            run = load(tx, RunRecord, f"run/{self.run}")
            if run is None or run.over or load(tx, AgentRecord, agent.key) != agent:
                # The captain was at it while this was looking: it was not a stall that was seen, but the captain's act.
                return False
            if tx.push(alerts_queue(self.run), body, item_id) is None:
                return False
            return tx.append("alert_raised", {**body, "alert": item_id}, run=self.run, agent=agent.agent)

        if ledger.run(fn):
            self.log.info("alert_raised", agent=agent.agent, diagnosis=found.kind, action=found.action)
