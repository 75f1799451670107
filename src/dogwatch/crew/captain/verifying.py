"""After acting: every action's effect is looked for, and who owes a sign of life is watched until it has given one."""

from __future__ import annotations

from dataclasses import replace

from dogwatch.coordination.agents import replace_agent, restart
from dogwatch.coordination.decisions import decide
from dogwatch.coordination.mail import send
from dogwatch.coordination.notices import push_notice
from dogwatch.crew.captain.helm import Helm
from dogwatch.crew.captain.interrupting import tend_interrupt
from dogwatch.crew.captain.routing import end_run
from dogwatch.ledger.api import Tx
from dogwatch.ledger.records import change, load, load_all, save
from dogwatch.model import brief
from dogwatch.model.events.agents import AgentRecovered, AgentStalled, AgentUnresponsive, StallAlert
from dogwatch.model.events.alerts import ActionVerified
from dogwatch.model.events.runs import RunQuiet
from dogwatch.model.lifecycle import AGENT, HEALTH
from dogwatch.model.moment import Moment
from dogwatch.model.records import OPEN_DECISION, AgentRecord, DecisionRecord, WatchRecord
from dogwatch.model.sight import Sight
from dogwatch.model.view import RunView
from dogwatch.policy.needs import waits_at_gate
from dogwatch.policy.route import quiet
from dogwatch.policy.verify import Outcome, outcome
from dogwatch.policy.waits import waiters

PROGRESS = ("task_reported", "checkpoint_answered", "phase_opened", "gate_passed")
"""Events after which a run has moved; the times of its tasks count as well."""


def verify(helm: Helm, view: RunView) -> None:
    """Looks at every agent about which something was decided or asked."""
    decisions = helm.ledger.read(lambda reader: load_all(reader, DecisionRecord, f"{OPEN_DECISION}/{helm.run}/"))
    probed = {agent.agent for agent in view.agents.values() if agent.probed is not None}
    interrupted = {one.agent for one in view.agents.values() if one.interrupts and one.state != "ERROR"}
    wanted = {view.current(one.agent) for one in decisions} | probed | interrupted
    wanted |= {agent.agent for agent in view.agents.values() if agent.stalled and not agent.successor}
    names = [name for name in wanted if view.agents[name].process is not None]
    sights = helm.world.eyes.look(view, names, screens=bool(probed or interrupted)) if names else {}
    for decision in decisions:
        found = outcome(decision, view, sights.get(view.current(decision.agent)), helm.now)
        if found is not None:
            _conclude(helm, decision, found)
    for name in wanted:
        if name in sights and name in interrupted:
            tend_interrupt(helm, view, view.agents[name], sights[name])
        elif name in sights:
            _tend(helm, view, view.agents[name], sights[name])


def _conclude(helm: Helm, decision: DecisionRecord, found: Outcome) -> None:
    def fn(tx: Tx) -> None:
        tx.delete(decision.key)
        save(tx, replace(decision, outcome=found.outcome, seen=found.seen))
        event = ActionVerified(
            decision=decision.id,
            action=decision.action,
            outcome=found.outcome,
            seen=found.seen,
            run=helm.run,
            agent=decision.agent,
        )
        tx.append(event, f"verified:{decision.run}:{decision.id}")

    helm.record(fn)


def _tend(helm: Helm, view: RunView, agent: AgentRecord, sight: Sight) -> None:
    """Two stages: who was asked and gave no sign of life has stalled; who stays so is unresponsive."""
    limits = view.limits_of(agent.agent)
    if agent.probed is not None:
        beaten = agent.last_heartbeat is not None and agent.probed.is_before(agent.last_heartbeat)
        if beaten or max(sight.turn.newest, sight.life) > agent.probed.mono:
            helm.record(lambda tx: _recovered(tx, agent))
        elif helm.now.since(agent.probed) >= limits.probe_s and sight.process == "alive":
            helm.record(lambda tx: _stalled(tx, view, agent, sight))
    elif agent.stalled is not None:
        if sight.turn.newest > (agent.stalled.mono if agent.stalled.boot == helm.now.boot else 0.0):
            helm.record(lambda tx: _recovered(tx, agent))
        elif agent.health == "stalled" and helm.now.since(agent.stalled) >= limits.unresponsive_s:
            helm.record(lambda tx: _unresponsive(tx, agent))


def _recovered(tx: Tx, agent: AgentRecord) -> None:
    health = agent.health if agent.health == "healthy" else HEALTH.step(agent.health, "healthy")
    change(tx, AgentRecord, agent.key, lambda a: replace(a, probed=None, stalled=None, health=health))
    tx.append(AgentRecovered(incarnation=agent.incarnation, run=agent.run, agent=agent.agent))


def _stalled(tx: Tx, view: RunView, agent: AgentRecord, sight: Sight) -> None:
    """Its claims go back, its first stall is told, and it gets a new incarnation."""
    evidence = [f"hooks: no sign of life for {tx.now.mono - sight.turn.newest:.0f} s, although it was asked for one"]
    event = AgentStalled(
        incarnation=agent.incarnation,
        stalls=agent.stall_count + 1,
        evidence=tuple(evidence),
        run=agent.run,
        agent=agent.agent,
    )
    tx.append(event)
    if not agent.stall_count:
        _tell_of_stall(tx, view, agent)
    health = agent.health if agent.health != "healthy" else HEALTH.step(agent.health, "stalled")
    stalled = save(tx, replace(agent, health=health, probed=None, stalled=tx.now, stall_count=agent.stall_count + 1))
    alert = f"{agent.agent}#{agent.incarnation}:unanswered"
    if agent.stall_count and not agent.replaces:
        decide(tx, view, agent, "REPLACE", "stalled", evidence, alert)
        replace_agent(tx, view, stalled, "stalled again after a restart", evidence)
    else:
        decide(tx, view, agent, "RESTART", "stalled", evidence, alert)
        restart(tx, view, stalled, "stalled", evidence)


def _tell_of_stall(tx: Tx, view: RunView, agent: AgentRecord) -> None:
    """An event for all; a letter only to those that wait for it: each letter costs its reader a turn."""
    watch = load(tx, WatchRecord, f"watch/{agent.run}")
    told = []
    for name in waiters(view, agent.agent, watch.waits if watch is not None else ()):
        # One that was started again in this very step has another incarnation than the view says.
        other = load(tx, AgentRecord, f"agent/{agent.run}/{name}")
        if other is not None and other.state not in AGENT.ends and not other.resting:
            text = brief.stall_alert(agent.agent, "no sign of life")
            send(tx, other, "mail", "stall_alert", text, key=f"stall:{agent.agent}:{agent.incarnation}")
            told.append(name)
    event = StallAlert(incarnation=agent.incarnation, told=tuple(told), run=agent.run, agent=agent.agent)
    tx.append(event, f"stall_alert:{agent.key}")


def _unresponsive(tx: Tx, agent: AgentRecord) -> None:
    change(tx, AgentRecord, agent.key, lambda a: replace(a, health=HEALTH.step(a.health, "unresponsive")))
    tx.append(AgentUnresponsive(incarnation=agent.incarnation, run=agent.run, agent=agent.agent))


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

    def fn(tx: Tx) -> bool:
        event = RunQuiet(quiet_s=round(quiet_s, 3), ends_in_s=round(limits.run_grace_s - beyond_s, 3), run=helm.run)
        if tx.append(event, f"quiet:{helm.run}:{latest.mono:.3f}"):
            title = f"the run has made no progress for {quiet_s:.0f} s"
            text = f"It will be ended in {limits.run_grace_s - beyond_s:.0f} s unless it moves."
            push_notice(tx, helm.run, "escalation", f"quiet:{latest.mono:.3f}", title, text)
        return True

    helm.record(fn)
    return False


def _latest_progress(helm: Helm, view: RunView) -> Moment:
    """When something last moved: a step of the run on the ledger, or an output that was written."""
    moments = [view.latest(helm.now)]
    latest, seen = helm.ledger.read(
        lambda reader: (reader.recent(1, helm.run, PROGRESS), load(reader, WatchRecord, f"watch/{helm.run}"))
    )
    moments += [event.at for event in latest]
    if seen is not None and 0 < seen.written <= helm.now.wall:
        moments.append(helm.now.plus(seen.written - helm.now.wall))
    return min(moments, key=helm.now.since)
