"""After acting: every action's effect is looked for, and who owes a sign of life is watched until it has given one."""

from __future__ import annotations

from functools import partial

from dogwatch.coordination.alerts import warn_of_quiet
from dogwatch.coordination.decisions import conclude
from dogwatch.coordination.recovery import declare_stalled, declare_unresponsive, note_recovery
from dogwatch.crew.captain.helm import Helm
from dogwatch.crew.captain.interrupting import tend_interrupt
from dogwatch.crew.captain.routing import end_run
from dogwatch.ledger.records import load, load_all
from dogwatch.model import keys
from dogwatch.model.moment import Moment
from dogwatch.model.records import AgentRecord, DecisionRecord, WatchRecord
from dogwatch.model.sight import Sight
from dogwatch.model.view import RunView
from dogwatch.policy.needs import waits_at_gate
from dogwatch.policy.route import quiet
from dogwatch.policy.verify import outcome

PROGRESS = ("task_reported", "checkpoint_answered", "phase_opened", "gate_passed")
"""Events after which a run has moved; the times of its tasks count as well."""


def verify(helm: Helm, view: RunView) -> None:
    """Looks at every agent about which something was decided or asked."""
    decisions = helm.ledger.read(lambda reader: load_all(reader, DecisionRecord, keys.open_decisions(helm.run)))
    probed = {agent.agent for agent in view.agents.values() if agent.probed is not None}
    interrupted = {one.agent for one in view.agents.values() if one.interrupt is not None}
    wanted = {view.current(one.agent) for one in decisions} | probed | interrupted
    wanted |= {agent.agent for agent in view.agents.values() if agent.stalled and not agent.successor}
    names = [name for name in wanted if view.agents[name].running]
    sights = helm.world.eyes.look(view, names, screens=bool(probed or interrupted)) if names else {}
    for decision in decisions:
        found = outcome(decision, view, sights.get(view.current(decision.agent)), helm.now)
        if found is not None:
            helm.record(partial(conclude, decision=decision, found=found))
    for name in sorted(wanted):
        if name in sights and name in interrupted:
            tend_interrupt(helm, view, view.agents[name], sights[name])
        elif name in sights:
            _tend(helm, view, view.agents[name], sights[name])


def _tend(helm: Helm, view: RunView, agent: AgentRecord, sight: Sight) -> None:
    """Two stages: who was asked and gave no sign of life has stalled; who stays so is unresponsive."""
    limits = view.limits_of(agent.agent)
    if agent.probed is not None:
        beaten = agent.last_heartbeat is not None and agent.probed.is_before(agent.last_heartbeat)
        if beaten or max(sight.turn.newest, sight.life) > agent.probed.mono:
            helm.record(lambda tx: note_recovery(tx, agent))
        elif helm.now.since(agent.probed) >= limits.probe_s and sight.process == "alive":
            helm.record(lambda tx: declare_stalled(tx, view, agent, sight))
    elif agent.stalled is not None:
        if sight.turn.newest > (agent.stalled.mono if agent.stalled.boot == helm.now.boot else 0.0):
            helm.record(lambda tx: note_recovery(tx, agent))
        elif agent.health == "stalled" and helm.now.since(agent.stalled) >= limits.unresponsive_s:
            helm.record(lambda tx: declare_unresponsive(tx, agent))


def look_for_progress(helm: Helm, view: RunView) -> bool:
    """The run itself: where nothing has moved for long a person is called, and then it ends with that as its cause,
    whatever each part of it looks like. True where it was ended."""
    limits = view.plan.limits
    if helm.now.since(view.latest(helm.now)) < limits.run_quiet_s or waits_at_gate(view):
        return False
    latest = _latest_progress(helm, view)
    beyond_s = quiet(view.run, view.tasks.values(), latest, limits, helm.now)
    if beyond_s < 0:
        return False
    quiet_s = helm.now.since(latest)
    if beyond_s >= limits.run_grace_s:
        holders = sorted({task.agent for task in view.tasks.values() if task.state == "claimed"})
        blocked = f"; open with {', '.join(holders)}" if holders else ""
        return end_run(helm, "FAILED", f"no progress for {quiet_s:.0f} s{blocked}")
    ends_in_s = limits.run_grace_s - beyond_s
    helm.record(lambda tx: warn_of_quiet(tx, helm.run, quiet_s, ends_in_s, latest))
    return False


def _latest_progress(helm: Helm, view: RunView) -> Moment:
    """When something last moved: a step of the run on the ledger, or an output that was written."""
    moments = [view.latest(helm.now)]
    latest, seen = helm.ledger.read(
        lambda reader: (reader.recent(1, helm.run, PROGRESS), load(reader, WatchRecord, keys.watch(helm.run)))
    )
    moments += [event.at for event in latest]
    if seen is not None and 0 < seen.written <= helm.now.wall:
        moments.append(helm.now.plus(seen.written - helm.now.wall))
    return min(moments, key=helm.now.since)
