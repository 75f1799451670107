"""From what was seen of an agent to what it means: a diagnosis with its evidence and a recommended action.

The order of the questions is the order of the sources: the process, the client's own hooks, its files, its screen.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from dogwatch.model.moment import Moment
from dogwatch.model.plan import Limits
from dogwatch.model.records import AgentRecord, OverdueSubagent
from dogwatch.model.sight import STATE_FILE, Sight, Wait
from dogwatch.policy.agent_memory import memory_words
from dogwatch.policy.diagnoses import Kind
from dogwatch.policy.diagnosis import CERTAIN, LIKELY, SURE, Case, Diagnosis, Owed, has_client
from dogwatch.policy.idle_prompt import idle
from dogwatch.policy.open_turn import LAP_WEIGHT, working
from dogwatch.policy.subagents import own_subagents
from dogwatch.policy.thresholds import retry_s

WORKING = Diagnosis(kind="working", evidence=("hooks: a turn is open, and its last event is fresh",))
RESTING = Diagnosis(kind="idle", evidence=("hooks: no turn is open, no task is held",))
PAUSING = Diagnosis(kind="idle", evidence=("hooks: the turn has only just ended",))
ALONE_S = 10.0
NONE_SET: Mapping[str, float] = MappingProxyType({})
NONE_LATE: Mapping[str, OverdueSubagent] = MappingProxyType({})


def plainly_well(sight: Sight, limits: Limits, now: Moment, *, owes: bool) -> Diagnosis | None:
    """What most agents are at most times, found without looking at everything: at work, or at rest with nothing to do.
    None where more must be looked at."""
    turn = sight.turn
    if sight.process != "alive" or turn.subagents or turn.dialog or turn.held or not sight.hooks:
        return None
    if turn.state == "working":
        may_loop = turn.repeats > 1 and turn.repeats * LAP_WEIGHT >= limits.repeats_max
        quiet_s = now.mono - turn.newest
        if quiet_s >= limits.nudge_s or may_loop or sight.screen != "busy":
            return None
        for tool in turn.tools.values():
            if now.mono - tool.since >= limits.long_tool_s:
                return None
        return WORKING
    if turn.state == "none" or sight.screen != "idle" or turn.compacting:
        return None
    if not owes:
        return RESTING
    quiet_s = now.mono - turn.newest
    return PAUSING if quiet_s < limits.nudge_s and quiet_s < limits.peek_s and not turn.failure else None


def diagnose(
    agent: AgentRecord,
    owed: Owed,
    sight: Sight,
    limits: Limits,
    now: Moment,
    awaited: Sequence[Wait] = (),
    ring: Sequence[str] = (),
    time_limits: Mapping[str, float] = NONE_SET,
    overdue: Mapping[str, OverdueSubagent] = NONE_LATE,
    coming: Wait | None = None,
) -> Diagnosis:
    """What the facts mean for this agent and what it owes."""
    case = Case(agent, owed, sight, limits, now, awaited, ring, time_limits, overdue, coming)
    if not agent.running:
        return Diagnosis(kind="starting", evidence=("the spawn is not confirmed yet",))
    if sight.process == "unknown":
        return Diagnosis(kind="unknown", confidence=0.0, evidence=("the process could not be looked at",))
    if sight.process == "dead":
        return _dead(case)
    if not sight.hooks:
        proof = "the process lives; its client has no hooks to tell more"
        return Diagnosis(kind="unknown", confidence=0.0, evidence=(proof,))
    if sight.turn.state == "none":
        return _starting(case)
    if not has_client(case) and (sight.screen == "shell" or _is_alone(case)):
        return _dead(case)
    return _asking(case) or (working(case) if sight.turn.state == "working" else idle(case))


def _is_alone(case: Case) -> bool:
    """Whether nothing runs any more below the agent's own process, which is not the client, and nothing was heard for a
    while: what a killed client leaves on its screen hides the prompt of the shell that started it."""
    tree = case.sight.tree
    return tree is not None and not tree.children and case.age(case.sight.turn.newest) >= ALONE_S


def _dead(case: Case) -> Diagnosis:
    sight, stall = case.sight, case.stall("dead")
    process = f"process: {case.agent.process} is gone"
    if sight.process == "alive":
        process = f"process: the client (pid {sight.turn.pid}) is gone, its launcher lives"
    if sight.outputs_fresh and sight.turn.state == "idle" and not own_subagents(case.duty, sight.turn, case.overdue):
        # It had ended its turn; had it or a sub-agent died in the middle of one, the files might be half written.
        proof = (process, "hooks: its turn had ended", "files: every expected output is newer than the dispatch")
        advice = "take the outputs as they are"
        return Diagnosis(
            kind="done_unreported", evidence=proof, action="RESCUE", advice=advice, stall=f"{stall}:rescue"
        )
    kind: Kind = "session_dead" if sight.session == "gone" else "exited"
    last_words = tuple(line for line in sight.lines if any(char.isalnum() for char in line))[-3:]
    seen = ("tmux: there is no such session",) if kind == "session_dead" else last_words
    return Diagnosis(
        kind=kind,
        confidence=CERTAIN,
        evidence=(process, *memory_words(sight.oom_kills, sight.oom_limit_bytes), *seen),
        action="RESTART",
        advice="start it again",
        stall=stall,
        own_fault=sight.own_fault,
    )


def _starting(case: Case) -> Diagnosis:
    assert case.agent.running is not None  # noqa: S101 - the caller has looked
    age = case.now.since(case.agent.running.since)
    if case.sight.screen == "dialog" and case.age(case.sight.screen_since) >= case.limits.dialog_s:
        return Diagnosis(
            kind="startup_dialog",
            confidence=case.shown,
            quiet_s=age,
            evidence=(f"{case.sight.source}: a dialog stands where the prompt should be", *case.sight.lines[-8:]),
            action="ESCALATE",
            advice="answer the dialog: dogwatch attach shows it",
            stall=case.stall("startup_dialog"),
        )
    if case.agent.settled is not None and case.agent.settled.stall == case.stall("startup_dialog"):
        # A person was called, and has just answered: only now can it start.
        age = min(age, case.age(case.sight.screen_since))
    if age < case.limits.startup_s or case.sight.screen == "dialog":
        return Diagnosis(kind="starting", quiet_s=age, evidence=("hooks: the client has not said that it started",))
    if case.sight.screen == "busy" and case.sight.source == STATE_FILE:
        proof = (f"{STATE_FILE}: the client is busy", "hooks: it has not said that it started")
        return Diagnosis(kind="working", confidence=case.shown, quiet_s=age, evidence=proof)
    return Diagnosis(
        kind="startup_stall",
        quiet_s=age,
        evidence=(f"hooks: no sign of a start within {case.limits.startup_s:g} s",),
        action="RESTART",
        advice="start it again",
        stall=case.stall("start"),
    )


def _asking(case: Case) -> Diagnosis | None:
    """What waits for somebody else, whether a turn is open or not: a person, the provider, the end of a loop."""
    turn, sight, limits = case.sight.turn, case.sight, case.limits
    if sight.screen == "permission" and case.age(sight.screen_since) >= limits.dialog_s:
        about = turn.dialog or "see its screen"
        return Diagnosis(
            kind="awaiting_permission",
            confidence=SURE if turn.dialog else case.shown,
            evidence=(f"{sight.source}: a dialog asks for permission ({about})",),
            action="ESCALATE",
            advice=f"a person must answer: {about}",
            stall=case.stall("permission", f"{turn.dialog_since or turn.newest:.3f}"),
            waits_for="a person",
        )
    if sight.screen == "permission" or (turn.dialog and sight.screen == "unknown"):
        # Asked for a moment ago; many such dialogs are answered by the client's own rules.
        return Diagnosis(kind="working", evidence=(f"hooks: permission was asked for ({turn.dialog})",))
    if sight.screen == "retry" and not (sight.tree and sight.tree.stopped):
        # Short ones are the client's own affair.
        lasts = case.age(sight.screen_since) >= retry_s(limits)
        return Diagnosis(
            kind="provider_wait",
            confidence=LIKELY,
            evidence=("screen: the client waits for its provider and tries again by itself",),
            action="HOLD" if lasts else "",
            advice="wait: it tries again by itself",
            stall=case.stall("retry", f"{turn.newest:.3f}"),
            waits_for="its provider",
        )
    if turn.compacting and case.age(turn.compacting) < limits.claim_s:
        proof = f"hooks: the context is being made shorter for {case.age(turn.compacting):.0f} s"
        return Diagnosis(kind="working", evidence=(proof,))
    if turn.stops > limits.stops_max and _is_held_again(case):
        times = f"hooks: {turn.stops} times in this turn it tried to stop after a hook had held it"
        return Diagnosis(
            kind="stop_loop",
            evidence=(f"{times}, for {case.age(turn.stops_since):.0f} s", f"screen: {sight.screen}"),
            action="" if case.agent.interrupt else "INTERRUPT",
            advice="wait: it was interrupted" if case.agent.interrupt else "interrupt the turn",
            stall=case.stall("stops", f"{turn.stops_since:.3f}"),
        )
    return None


def _is_held_again(case: Case) -> bool:
    """Whether its latest stop was held as well. One that was let through leaves a prompt, or a screen that is busy with
    sub-agents only; a further stop tells the same where the screen does not. In a tool it does what the hook asks for.
    """
    turn, sight = case.sight.turn, case.sight
    if turn.held:
        return True
    if turn.state != "idle" or sight.screen in ("idle", "error"):
        return False
    if sight.screen == "busy" and not turn.subagents:
        return True
    return turn.stops > case.limits.stops_max + 1 and case.age(turn.own) < case.limits.nudge_s
