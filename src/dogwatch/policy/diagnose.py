"""From what was seen of an agent to what it means: a diagnosis with its evidence and a recommended action.

The order of the questions is the order of the sources: the process, the client's own hooks, its files, its screen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from dogwatch.model.moment import Moment
from dogwatch.model.plan import Limits
from dogwatch.model.records import AgentRecord
from dogwatch.model.sight import Child, Sight, ToolCall, Turn
from dogwatch.model.view import Duty
from dogwatch.policy.thresholds import claim_s

Kind = Literal[
    "starting",
    "startup_stall",
    "startup_dialog",
    "working",
    "long_tool",
    "silent_turn",
    "stalled",
    "looping",
    "stop_loop",
    "provider_wait",
    "awaiting_permission",
    "context_exhausted",
    "checkpoint_deadlock",
    "subagent_overdue",
    "waiting",
    "deadlock",
    "done_unreported",
    "wrong_path",
    "exited",
    "session_dead",
    "idle",
    "unknown",
]
Action = Literal["", "NUDGE", "RESCUE", "PROBE", "RESTART", "INTERRUPT", "HOLD", "ESCALATE"]

CERTAIN, SURE, LIKELY = 1.0, 0.95, 0.7
"""How sure a diagnosis is that rests on the process, on the client's hooks, on its screen alone."""
CONTEXT_FULL = "context_full"
"""The failure of a turn into whose context nothing more fits."""
IDLE_CORES = 0.05
"""Who uses less cpu than this only waits."""


# Not frozen, though nobody changes one: a frozen one takes three times as long to make, for every agent in every sweep.
@dataclass(slots=True, kw_only=True)
class Diagnosis:
    """What an agent is doing. `stall` names this very stall: it changes with any progress, so that one stall gives
    one alert. `action` is empty where nothing should be done, and `advice` says the same in words. `own_fault` is
    whether the agent itself has failed; `waits_for` is whom or what it waits for."""

    kind: Kind
    confidence: float = SURE
    evidence: tuple[str, ...] = ()
    quiet_s: float = 0.0
    action: Action = ""
    advice: str = "nothing to do"
    stall: str = ""
    own_fault: bool = True
    waits_for: str = ""


@dataclass(slots=True)
class Case:
    """All that a diagnosis rests on. `awaited` is who has not acknowledged this agent's mail, `ring` the agents that
    wait for one another, this one included."""

    agent: AgentRecord
    duty: Duty | None
    sight: Sight
    limits: Limits
    now: Moment
    awaited: Sequence[str] = ()
    ring: Sequence[str] = ()

    def age(self, mono: float) -> float:
        """Seconds since then."""
        return max(0.0, self.now.mono - mono)

    def stall(self, *parts: object) -> str:
        """The name of a stall of this incarnation."""
        return f"#{self.agent.incarnation}:" + ":".join(str(part) for part in parts)

    def approval(self, duty: Duty) -> str:
        """What was approved, and what has come of it."""
        return f"ledger: {duty.approved} was approved, and nothing of {duty.subject} is written since"

    @property
    def chain(self) -> str:
        """The ring in words."""
        return " waits for ".join((*self.ring, self.ring[0]))

    @property
    def next_in_ring(self) -> str:
        """Whom this agent waits for there."""
        return self.ring[(list(self.ring).index(self.agent.agent) + 1) % len(self.ring)]


WORKING = Diagnosis(kind="working", evidence=("hooks: a turn is open, and its last event is fresh",))
RESTING = Diagnosis(kind="idle", evidence=("hooks: no turn is open, no task is held",))
PAUSING = Diagnosis(kind="idle", evidence=("hooks: the turn has only just ended",))


def plainly_well(sight: Sight, limits: Limits, now: Moment, *, owes: bool) -> Diagnosis | None:
    """What most agents are at most times, found without looking at everything: at work, or at rest with nothing to do.
    None where more must be looked at."""
    turn = sight.turn
    if sight.process != "alive" or turn.subagents or turn.dialog or not sight.hooks:
        return None
    quiet_s = now.mono - turn.newest
    if turn.state == "working":
        if quiet_s >= limits.nudge_s or is_loop(turn, limits) or sight.screen != "busy":
            return None
        is_young = not turn.tools or all(now.mono - tool.since < limits.long_tool_s for tool in turn.tools.values())
        return WORKING if is_young else None
    if turn.state == "none" or sight.screen != "idle" or turn.stops >= limits.stops_max or turn.compacting:
        return None
    if not owes:
        return RESTING
    return PAUSING if quiet_s < limits.nudge_s and quiet_s < limits.peek_s and not turn.failure else None


def is_loop(turn: Turn, limits: Limits) -> bool:
    """Whether its latest calls only repeat themselves. Several that come again in the same order do so less often by
    chance than a single one: of these, two thirds as many laps are enough."""
    return turn.repeats * (1.5 if turn.period > 1 else 1.0) >= limits.repeats_max


def diagnose(
    agent: AgentRecord,
    duty: Duty | None,
    sight: Sight,
    limits: Limits,
    now: Moment,
    awaited: Sequence[str] = (),
    ring: Sequence[str] = (),
) -> Diagnosis:
    """What the facts mean for this agent and what it owes."""
    case = Case(agent, duty, sight, limits, now, awaited, ring)
    if agent.process is None or agent.confirmed is None:
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
    if sight.screen == "shell" and not _has_client(case):
        return _dead(case)
    return _asking(case) or (_working(case) if sight.turn.state == "working" else _idle(case))


def _dead(case: Case) -> Diagnosis:
    sight, stall = case.sight, case.stall("dead")
    process = f"process: {case.agent.process} is gone"
    if sight.process == "alive":
        process = f"process: the client (pid {sight.turn.pid}) is gone, its launcher lives"
    if sight.outputs_fresh and sight.turn.state == "idle":
        # It had ended its turn; had it died in the middle of one, the files might be half written.
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
        evidence=(process, *seen),
        action="RESTART",
        advice="start it again",
        stall=stall,
        own_fault=sight.own_fault,
    )


def _starting(case: Case) -> Diagnosis:
    assert case.agent.confirmed is not None  # noqa: S101 - the caller has looked
    age = case.now.since(case.agent.confirmed)
    if case.sight.screen == "dialog" and case.age(case.sight.screen_since) >= case.limits.dialog_s:
        return Diagnosis(
            kind="startup_dialog",
            confidence=LIKELY,
            quiet_s=age,
            evidence=("screen: a dialog stands where the prompt should be", *case.sight.lines[-8:]),
            action="ESCALATE",
            advice="answer the dialog: dogwatch attach shows it",
            stall=case.stall("startup_dialog"),
        )
    if age < case.limits.startup_s or case.sight.screen == "dialog":
        return Diagnosis(kind="starting", quiet_s=age, evidence=("hooks: the client has not said that it started",))
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
            confidence=SURE if turn.dialog else LIKELY,
            evidence=(f"screen: a dialog asks for permission ({about})",),
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
        lasts = case.age(sight.screen_since) >= 3 * limits.nudge_s
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
    if turn.stops >= limits.stops_max and case.age(turn.newest) < limits.nudge_s and sight.screen != "idle":
        return Diagnosis(
            kind="stop_loop",
            evidence=(f"hooks: it tried to stop {turn.stops} times in a row",),
            action="INTERRUPT",
            advice="interrupt the turn",
            stall=case.stall("stops", f"{turn.since:.3f}"),
        )
    return None


def _working(case: Case) -> Diagnosis:
    turn, sight, limits = case.sight.turn, case.sight, case.limits
    progress = _file_mono(case)
    quiet_s = case.age(max(turn.newest, progress, sight.life, sight.watched_since))
    if is_loop(turn, limits) and progress < turn.repeats_since:
        again = f"hooks: {turn.repeats} times in a row, for {case.age(turn.repeats_since):.0f} s"
        return Diagnosis(
            kind="looping",
            evidence=(f"{again}: {turn.call}", "files: no new output meanwhile"),
            quiet_s=case.age(turn.repeats_since),
            action="ESCALATE",
            advice="look at what it repeats; interrupt it if that cannot succeed",
            stall=case.stall("loop", f"{turn.repeats_since:.3f}"),
        )
    overdue = [one for one in turn.subagents.values() if case.age(one.since) > limits.subagent_s]
    if overdue:
        return _subagent_overdue(case, overdue[0].type, overdue[0].since)
    tool = max(turn.tools.values(), key=lambda call: case.age(call.since), default=None)
    if sight.screen == "idle" and _tool_child(case) is None and case.age(sight.screen_since) >= limits.nudge_s:
        return _open_at_the_prompt(case, case.age(max(turn.newest, progress)))
    if tool is not None and case.age(tool.since) >= limits.long_tool_s and sight.screen != "idle" and _is_alive(case):
        return _vain_tool(case, tool) or _long_tool(case, tool)
    limit_s = claim_s(case.duty.risk if case.duty else "normal", limits)
    if quiet_s < limit_s or _is_alive(case):
        proof = f"hooks: a turn is open for {case.age(turn.since):.0f} s" + (f", in {tool}" if tool else "")
        return Diagnosis(kind="working", quiet_s=quiet_s, evidence=(proof,))
    return _stalled(case, quiet_s)


def _open_at_the_prompt(case: Case, quiet_s: float) -> Diagnosis:
    """The hooks have not told of the turn's end, and the prompt stands there: interrupted by a person, for example. The
    screen alone says so, so it is acted on later than where the hooks do."""
    if quiet_s < case.limits.nudge_s or case.duty is None or case.duty.delivered is None:
        proof = "hooks: a turn is open, the screen shows a prompt"
        return Diagnosis(kind="working", quiet_s=quiet_s, evidence=(proof,))
    is_due = quiet_s >= case.limits.tier2_s
    return Diagnosis(
        kind="silent_turn",
        confidence=LIKELY,
        quiet_s=quiet_s,
        evidence=(
            f"screen: the prompt is idle for {case.age(case.sight.screen_since):.0f} s",
            f"hooks: nothing for {quiet_s:.0f} s, the end of the turn was not told",
        ),
        action="NUDGE" if is_due else "",
        advice="ask it to go on" if is_due else f"wait until {case.limits.tier2_s:g} s: only the screen says so",
        stall=case.stall("prompt", f"{case.sight.turn.newest:.3f}"),
    )


def _stalled(case: Case, quiet_s: float) -> Diagnosis:
    """A turn is open, and nothing at all comes from it: no hook, no cpu, no child, a screen that stands still."""
    tree = case.sight.tree
    state = "its process is stopped by a signal" if tree and tree.stopped else "no cpu, no tool"
    open_ = "a turn is open" if case.sight.turn.state == "working" else "no turn is open, the screen shows work"
    return Diagnosis(
        kind="stalled",
        evidence=(f"hooks: {open_}, nothing for {quiet_s:.0f} s", f"process: {state}", "screen: it stands still"),
        quiet_s=quiet_s,
        action="PROBE",
        advice="ask for a sign of life, then start it again",
        stall=case.stall("hang", f"{case.sight.turn.newest:.3f}"),
    )


def _vain_tool(case: Case, tool: ToolCall) -> Diagnosis | None:
    """A tool that lives and waits for what cannot come: for one who waits for this agent, or for an approval that was
    given. Its words and its idleness say so, not the client, so nothing is done but call a person."""
    runs = f"hooks: {tool} runs for {case.age(tool.since):.0f} s"
    if case.ring:
        return Diagnosis(
            kind="deadlock",
            confidence=LIKELY,
            evidence=(runs, f"ledger: {case.chain}"),
            action="ESCALATE",
            advice="each waits for what another should write: interrupt one of the tools",
            stall=case.stall("tool", f"{tool.since:.3f}", "ring"),
            waits_for=case.next_in_ring,
        )
    duty, tree = case.duty, case.sight.tree
    is_idle = tree is not None and tree.cores is not None and tree.cores < IDLE_CORES
    if duty is None or duty.approved_at is None or not is_idle or any_new(case.sight):
        return None
    if min(case.age(tool.since), case.now.since(duty.approved_at)) < case.limits.checkpoint_s:
        return None
    return Diagnosis(
        kind="checkpoint_deadlock",
        confidence=LIKELY,
        evidence=(f"{runs} and uses no cpu", case.approval(duty)),
        action="ESCALATE",
        advice=f"{case.agent.agent} should have acted: see what its tool waits for",
        stall=case.stall("tool", f"{tool.since:.3f}", "approved"),
    )


def _long_tool(case: Case, tool: ToolCall) -> Diagnosis:
    tree, age = case.sight.tree, case.age(tool.since)
    child = _tool_child(case)
    cores = f", {tree.cores:.0%} of a core" if tree and tree.cores is not None else ""
    process = f"process: {child.name} (pid {child.pid}) for {child.age_s:.0f} s{cores}" if child else f"process{cores}"
    what = f"{child.name} (pid {child.pid})" if child else str(tool)
    over = 0 < case.limits.tool_max_s <= age
    return Diagnosis(
        kind="long_tool",
        evidence=(f"hooks: {tool} runs for {age:.0f} s", process),
        action="INTERRUPT" if over else "",
        advice=f"interrupt it: tool_max_s is {case.limits.tool_max_s:g} s" if over else "wait: the tool lives",
        stall=case.stall("tool", f"{tool.since:.3f}"),
        waits_for=what,
    )


def _idle(case: Case) -> Diagnosis:
    turn, sight, duty = case.sight.turn, case.sight, case.duty
    quiet_s = case.age(turn.newest)
    if turn.subagents:
        oldest = min(turn.subagents.values(), key=lambda one: one.since)
        if case.age(oldest.since) > case.limits.subagent_s:
            return _subagent_overdue(case, oldest.type, oldest.since)
        proof = f"hooks: sub-agent {oldest.type} runs for {case.age(oldest.since):.0f} s"
        return Diagnosis(kind="waiting", evidence=(proof,), waits_for=f"sub-agent {oldest.type}")
    alone_s = case.age(max(turn.newest, sight.life, sight.watched_since))
    if sight.screen == "busy" and alone_s >= claim_s(duty.risk if duty else "normal", case.limits):
        return _stalled(case, alone_s)
    if sight.screen in ("busy", "starting", "dialog"):
        # Between two hooks, or waiting for a job of its own in the background: not idle, whatever the last hook said.
        return Diagnosis(kind="working", quiet_s=quiet_s, evidence=(f"screen: {sight.screen}",))
    if duty is None or duty.delivered is None:
        proof = "hooks: no turn is open, no task is held"
        return Diagnosis(kind="idle", quiet_s=quiet_s, evidence=(proof,))
    return _idle_with_duty(case, duty)


def _idle_with_duty(case: Case, duty: Duty) -> Diagnosis:
    """The prompt is idle although work is open. Time counts from the message's delivery at the earliest."""
    assert duty.delivered is not None  # noqa: S101 - the caller has looked
    sight, turn, limits = case.sight, case.sight.turn, case.limits
    quiet_s = min(case.age(max(turn.newest, _file_mono(case))), case.now.since(duty.delivered))
    stall = case.stall(duty.subject, f"{turn.newest:.3f}")
    idle = f"hooks: the turn ended {quiet_s:.1f} s ago, {duty.kind} {duty.subject} is open"
    if sight.outputs_fresh and quiet_s >= limits.peek_s:
        return Diagnosis(
            kind="done_unreported",
            quiet_s=quiet_s,
            evidence=(idle, "files: every expected output is newer than the dispatch"),
            action="RESCUE",
            advice="take the outputs as they are",
            stall=f"{stall}:rescue",
        )
    if turn.failure == CONTEXT_FULL and not sight.outputs_fresh:
        return Diagnosis(
            kind="context_exhausted",
            quiet_s=quiet_s,
            evidence=("hooks: the turn has ended because its context is full", idle),
            action="RESTART",
            advice="start it again with an empty context, and give it its task",
            stall=f"{stall}:context",
        )
    if turn.failure and not sight.outputs_fresh:
        return Diagnosis(
            kind="provider_wait",
            quiet_s=quiet_s,
            evidence=(f"hooks: the provider ended the turn ({turn.failure})", idle),
            action="HOLD" if quiet_s < limits.hold_s else "NUDGE",
            advice=f"wait {limits.hold_s:g} s, then ask it to go on",
            stall=f"{stall}:failure",
            waits_for="its provider",
        )
    if sight.outputs_fresh or (quiet_s < limits.nudge_s and not case.awaited):
        return Diagnosis(kind="idle", quiet_s=quiet_s, evidence=(idle,))
    if case.ring and quiet_s >= limits.nudge_s:
        return Diagnosis(
            kind="deadlock",
            quiet_s=quiet_s,
            evidence=(idle, f"mail: {case.chain}"),
            action="NUDGE",
            advice="break the youngest wait",
            stall=f"{stall}:ring",
            waits_for=case.next_in_ring,
        )
    if case.awaited:
        proof = f"mail: {', '.join(case.awaited)} has not acknowledged its mail"
        return Diagnosis(kind="waiting", quiet_s=quiet_s, evidence=(idle, proof), waits_for=case.awaited[0])
    if sight.elsewhere:
        return Diagnosis(
            kind="wrong_path",
            quiet_s=quiet_s,
            evidence=(idle, *(f"files: found at {path}" for path in sight.elsewhere)),
            action="NUDGE",
            advice="tell it where the output belongs",
            stall=f"{stall}:path",
        )
    if duty.approved_at and case.now.since(duty.approved_at) >= limits.checkpoint_s and not any_new(sight):
        return Diagnosis(
            kind="checkpoint_deadlock",
            quiet_s=quiet_s,
            evidence=(idle, case.approval(duty)),
            action="NUDGE",
            advice=f"{case.agent.agent} should have acted: ask it to go on",
            stall=f"{stall}:approved",
        )
    compacted = ("hooks: its context was made shorter since it got the task",) if is_compacted(duty, sight) else ()
    return Diagnosis(
        kind="silent_turn",
        quiet_s=quiet_s,
        evidence=(idle, *compacted),
        action="NUDGE",
        advice="give it its task again" if compacted else "ask it to go on",
        stall=stall,
    )


def is_compacted(duty: Duty, sight: Sight) -> bool:
    """Whether the agent may have forgotten what it was told."""
    return duty.delivered is not None and sight.turn.compacted > duty.delivered.mono


def any_new(sight: Sight) -> bool:
    """Whether any expected output was written since the dispatch."""
    return any(output.is_new for output in sight.outputs)


def _subagent_overdue(case: Case, kind: str, since: float) -> Diagnosis:
    return Diagnosis(
        kind="subagent_overdue",
        evidence=(
            f"hooks: sub-agent {kind} runs for {case.age(since):.0f} s, {case.limits.subagent_s:g} s are allowed",
        ),
        action="NUDGE",
        advice="ask its parent to start it again or to document the skip",
        stall=case.stall("subagent", f"{since:.3f}"),
        waits_for=f"sub-agent {kind}",
    )


def _is_alive(case: Case) -> bool:
    """Whether there is a sign of life under an open turn: a tool's process, cpu time, a screen that changes."""
    tree = case.sight.tree
    if tree is not None and tree.stopped:
        return False
    return (
        _tool_child(case) is not None or case.age(max(case.sight.life, case.sight.watched_since)) < case.limits.nudge_s
    )


def _tool_child(case: Case) -> Child | None:
    """The oldest process that was started since the oldest open tool call was. What earlier calls have left running
    says nothing of this one."""
    tree, tools = case.sight.tree, case.sight.turn.tools.values()
    if tree is None or not tools:
        return None
    begun_s = max(case.age(tool.since) for tool in tools)
    mine = (child for child in tree.children if child.pid != case.sight.turn.pid)
    return next((child for child in mine if child.age_s <= begun_s + 1.0), None)


def _has_client(case: Case) -> bool:
    """Whether the process that the hooks name is still there; true where that cannot be told."""
    tree, pid = case.sight.tree, case.sight.turn.pid
    if tree is None or not pid or case.agent.process is None:
        return True
    return pid == case.agent.process.pid or any(child.pid == pid for child in tree.children)


def _file_mono(case: Case) -> float:
    """When an output last changed, on the monotonic clock. Files have wall times: one from the future says nothing."""
    changed = case.sight.outputs_changed
    return case.now.mono - (case.now.wall - changed) if 0 < changed <= case.now.wall else 0.0
