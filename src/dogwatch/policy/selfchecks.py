"""The captain's own fourteen checks of its run, each with a name, what it catches, and a result.

They are a layer of their own: they look at the ledger and the machine directly, not at what the watchdog says of them.
Where the machinery for one is not there, it says `not applicable` and why.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field

from dogwatch.model.memory import HostRecord
from dogwatch.model.moment import Moment
from dogwatch.model.records import CheckResult
from dogwatch.model.sight import Sight
from dogwatch.model.view import RunView
from dogwatch.policy.admission import BLIND_S
from dogwatch.policy.diagnosis import Case
from dogwatch.policy.route import expected_tasks
from dogwatch.policy.subagents import late_subagents
from dogwatch.values import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What the checks rest on. `missing` is why an accepted task's outputs are not there any more, by task;
    `host` its memory as the dispatcher saw it last, `watchdog` is empty or what is wrong."""

    view: RunView
    sights: Mapping[str, Sight]
    now: Moment
    missing: Mapping[str, str] = field(default_factory=dict)
    host: HostRecord | None = None
    watchdog: str = ""
    miscounts: Sequence[str] = ()
    """Dispatches that are neither finished nor open, with the figures."""


Verdict = tuple[str, str]
OK: Verdict = ("ok", "")


def run_checks(facts: Facts) -> tuple[CheckResult, ...]:
    """All checks, in their order."""
    results = []
    for number, (name, (what, check)) in enumerate(CHECKS.items(), 1):
        result, detail = check(facts)
        results.append(CheckResult(number=number, name=name, what=what, result=result, detail=detail))
    return tuple(results)


def _listed(found: list[str]) -> Verdict:
    return ("failed", "; ".join(found)) if found else OK


def _sessions(facts: Facts) -> Verdict:
    if any(sight.session == "unknown" for sight in facts.sights.values()):
        return "unknown", "tmux does not answer"
    return _listed([f"{name} has no session" for name, sight in facts.sights.items() if sight.session == "gone"])


def _processes(facts: Facts) -> Verdict:
    unknown = [name for name, sight in facts.sights.items() if sight.process == "unknown"]
    if unknown:
        return "unknown", f"{', '.join(unknown)} could not be looked at"
    return _listed([f"{name} is dead" for name, sight in facts.sights.items() if sight.process == "dead"])


def _outputs(facts: Facts) -> Verdict:
    late = []
    for task in facts.view.tasks.values():
        sight = facts.sights.get(task.agent)
        if task.state != "claimed" or task.dispatched is None or sight is None or not task.outputs:
            continue
        late_s = facts.now.since(task.dispatched)
        if late_s > task.expect_s and not any(output.is_new for output in sight.outputs):
            late.append(f"{task.task}: nothing new for {late_s:.0f} s, {task.expect_s:g} s were expected")
    return _listed(late)


def _memory(facts: Facts) -> Verdict:
    host = facts.host
    if host is None or facts.now.since(host.at) > BLIND_S:
        return "unknown", "the dispatcher has not looked at the memory"
    if host.zone == "GREEN":
        return "ok", "memory is GREEN"
    return "failed", f"{'MEMORY_CRITICAL' if host.zone == 'RED' else 'MEMORY_LOW'}: {host.why}"


def _context(facts: Facts) -> Verdict:
    used = {name: sight.context for name, sight in facts.sights.items() if sight.context is not None}
    if not used:
        return "not applicable", "no client of this run tells its context use"
    low = [f"{n} has used {share:.0%}" for n, share in used.items() if share >= facts.view.limits_of(n).context_max]
    return _listed(low)


def _mail(facts: Facts) -> Verdict:
    limit_s = facts.view.plan.limits.tier1_s
    late = [
        f"{message.to} has not acknowledged {message.id} of {message.sender}"
        for message in facts.view.messages.values()
        if message.kind == "mail" and message.state != "acknowledged" and facts.now.since(message.queued) > limit_s
    ]
    return _listed(late)


def _subagents(facts: Facts) -> Verdict:
    view, late = facts.view, {}
    for name, sight in facts.sights.items():
        if not sight.turn.subagents:
            continue
        case = Case(
            view.agents[name],
            view.duty_of(name),
            sight,
            view.limits_of(name),
            facts.now,
            time_limits=view.plan.time_limits,
            overdue=view.overdue_of(name),
        )
        for one in late_subagents(case):
            late[name, one.subagent.id] = f"{one.subagent.type} of {name} runs for {one.ran_s:.0f} s"
    for known in view.overdue:
        if not known.settled and (known.agent, known.id) not in late:
            told_s = facts.now.since(known.opened)
            late[known.agent, known.id] = f"{known.type} of {known.agent}: told {told_s:.0f} s ago, and not settled"
    return _listed(list(late.values()))


def _partitions(facts: Facts) -> Verdict:
    gates = [(index, gate) for index, phase in enumerate(facts.view.plan.phases) for gate in phase.gates]
    declared = [(index, gate.name) for index, gate in gates if gate.partitions]
    if not declared:
        return "not applicable", "the pipeline declares no partitions"
    records = [facts.view.gates[key] for key in declared if key in facts.view.gates]
    if blocked := [record.reason for record in records if record.reason and record.state != "passed"]:
        return _listed(blocked)
    if len(records) == len(declared) and all(record.state == "passed" for record in records):
        return OK
    return "ok", "not all phases that need data have begun"


def _claims(facts: Facts) -> Verdict:
    bad = []
    for task in facts.view.tasks.values():
        agent = facts.view.agents.get(task.agent)
        if task.state != "claimed":
            continue
        if agent is None or agent.is_given_up:
            bad.append(f"{task.task} is held by {task.agent}, who was given up")
        elif task.incarnation != agent.incarnation:
            bad.append(f"{task.task} is held by incarnation {task.incarnation} of {task.agent}, which is gone")
    return _listed(bad)


def _markers(facts: Facts) -> Verdict:
    phase = facts.view.phase
    tasks = facts.view.phase_tasks()
    if phase is None or not tasks:
        return "not applicable", "no phase is open"
    expected = expected_tasks(facts.view, phase)
    missing = sorted(expected - {task.task for task in tasks})
    counts = f"{len(expected) - len(missing)} of {len(expected)} dispatches are there"
    dropped = [f"{counts}; dropped: {', '.join(missing)}"] if missing else []
    return _listed([*dropped, *facts.miscounts])


def _artifacts(facts: Facts) -> Verdict:
    return _listed([f"{task}: {why}" for task, why in facts.missing.items()])


def _peek(facts: Facts) -> Verdict:
    done = []
    for task in facts.view.tasks.values():
        sight = facts.sights.get(task.agent)
        if task.state == "claimed" and sight is not None and sight.outputs_fresh and sight.turn.state == "idle":
            done.append(f"{task.task} of {task.agent} is written and not reported")
    return _listed(done)


def _watchdog(facts: Facts) -> Verdict:
    return ("failed", facts.watchdog) if facts.watchdog else OK


def _not_yet(why: str) -> Callable[[Facts], Verdict]:
    return lambda facts: ("not applicable", why)


CHECKS: Mapping[str, tuple[str, Callable[[Facts], Verdict]]] = {
    "AGENT_SESSIONS_ALIVE": ("an agent whose tmux session is gone", _sessions),
    "AGENT_PROCESSES_ALIVE": ("an agent whose process has ended", _processes),
    "OUTPUTS_FRESH": ("a task past its time without anything written", _outputs),
    "MEMORY_HEADROOM": ("a machine that runs out of memory", _memory),
    "CONTEXT_HEADROOM": ("an agent that runs out of context", _context),
    "MAIL_ACKNOWLEDGED": ("mail that nobody answers", _mail),
    "SUBAGENTS_IN_TIME": ("a sub-agent that takes too long", _subagents),
    "PARTITION_LIVENESS": ("a data partition that is empty or stale", _partitions),
    "CLAIMS_VALID": ("a task whose holder is gone", _claims),
    "RESERVATIONS_RESPECTED": ("a write without a reservation", _not_yet("the pipeline has no reservations")),
    "DISPATCH_MARKERS": ("a dispatch that was dropped, or is not accounted for", _markers),
    "PHASE_GATE": ("an accepted artifact that is missing", _artifacts),
    "WATCHDOG_TIER3_OUTPUT_PEEK": ("work that is finished and not reported", _peek),
    "WATCHDOG_ALIVE": ("a watchdog that is dead or silent", _watchdog),
}
