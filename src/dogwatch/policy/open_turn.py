"""What an agent is doing whose turn is open: it works, or loops, or its tool takes long, or nothing comes of it."""

from __future__ import annotations

from dogwatch.model.plan import Limits
from dogwatch.model.sight import Child, ToolCall, Turn
from dogwatch.policy.diagnosis import (
    IDLE_CORES,
    LIKELY,
    Case,
    Diagnosis,
    any_new,
    file_mono,
    is_alive,
    stalled,
    tool_child,
)
from dogwatch.policy.subagents import own_subagents, subagent_overdue, waiting_for
from dogwatch.policy.thresholds import claim_s

LAP_WEIGHT = 1.5


def is_loop(turn: Turn, limits: Limits) -> bool:
    """Whether its latest calls only repeat themselves. Several that come again in the same order do so less often by
    chance than a single one: of these, two thirds as many laps are enough."""
    return turn.repeats * (LAP_WEIGHT if turn.period > 1 else 1.0) >= limits.repeats_max


def working(case: Case) -> Diagnosis:
    turn, sight, limits = case.sight.turn, case.sight, case.limits
    if is_loop(turn, limits) and file_mono(case, sight.changed_beside_the_loop) < turn.repeats_since:
        again = f"hooks: {turn.repeats} times in a row, for {case.age(turn.repeats_since):.0f} s"
        return Diagnosis(
            kind="looping",
            evidence=(f"{again}: {turn.call}", "files: no new output meanwhile"),
            quiet_s=case.age(turn.repeats_since),
            action="ESCALATE",
            advice="look at what it repeats; interrupt it if that cannot succeed",
            stall=case.stall("loop", f"{turn.repeats_since:.3f}"),
        )
    if turn.subagents and (subagents := own_subagents(case.duty, turn, case.overdue)):
        if late := subagent_overdue(case):
            return late
        if sight.screen == "idle":
            # A client may look idle while it waits for one.
            return waiting_for(case, subagents[0])
    tool = min(turn.tools.values(), key=lambda call: call.since, default=None)
    child = tool_child(case)
    if sight.screen == "idle" and child is None and case.age(sight.screen_since) >= limits.nudge_s:
        return _open_at_the_prompt(case, case.age(max(turn.newest, file_mono(case))))
    is_long = tool is not None and case.age(tool.since) >= limits.long_tool_s and sight.screen != "idle"
    if tool is not None and is_long and is_alive(case, child):
        return _vain_tool(case, tool) or _long_tool(case, tool, child)
    quiet_s = case.age(max(turn.newest, file_mono(case), sight.life, sight.watched_since))
    limit_s = claim_s(case.duty.risk if case.duty else "normal", limits)
    if quiet_s < limit_s or is_alive(case, child):
        proof = f"hooks: a turn is open for {case.age(turn.since):.0f} s" + (f", in {tool}" if tool else "")
        return Diagnosis(kind="working", quiet_s=quiet_s, evidence=(proof,))
    return stalled(case, quiet_s)


def _open_at_the_prompt(case: Case, quiet_s: float) -> Diagnosis:
    """The hooks have not told of the turn's end, and the prompt stands there: interrupted by a person, for example. The
    screen alone says so, so it is acted on later than where the hooks do."""
    if quiet_s < case.limits.nudge_s or case.duty is None or case.duty.delivered is None:
        proof = f"hooks: a turn is open, the {case.sight.source} shows a prompt"
        return Diagnosis(kind="working", quiet_s=quiet_s, evidence=(proof,))
    is_due, source = quiet_s >= case.limits.tier2_s, case.sight.source
    return Diagnosis(
        kind="silent_turn",
        confidence=case.shown,
        quiet_s=quiet_s,
        evidence=(
            f"{source}: the prompt is idle for {case.age(case.sight.screen_since):.0f} s",
            f"hooks: nothing for {quiet_s:.0f} s, the end of the turn was not told",
        ),
        action="NUDGE" if is_due else "",
        advice="ask it to go on" if is_due else f"wait until {case.limits.tier2_s:g} s: only the {source} says so",
        stall=case.stall("prompt", f"{case.sight.turn.newest:.3f}"),
    )


def _vain_tool(case: Case, tool: ToolCall) -> Diagnosis | None:
    """A tool that lives and waits for what cannot come: for one who waits for this agent, or for an approval that was
    given. Its words and its idleness say so, not the client, so nothing is done but call a person."""
    tree = case.sight.tree
    is_idle = tree is not None and tree.cores is not None and tree.cores < IDLE_CORES
    if not case.ring and not is_idle:
        return None
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
    duty = case.duty
    if duty is None or duty.approved_at is None or any_new(case.sight):
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


def _long_tool(case: Case, tool: ToolCall, child: Child | None) -> Diagnosis:
    tree, age = case.sight.tree, case.age(tool.since)
    cores = f", {tree.cores:.0%} of a core" if tree and tree.cores is not None else ""
    process = f"process: {child.name} (pid {child.pid}) for {child.age_s:.0f} s{cores}" if child else f"process{cores}"
    what = f"{child.name} (pid {child.pid})" if child else str(tool)
    over = 0 < case.limits.tool_max_s <= age and not case.agent.interrupt
    return Diagnosis(
        kind="long_tool",
        evidence=(f"hooks: {tool} runs for {age:.0f} s", process),
        action="INTERRUPT" if over else "",
        advice=f"interrupt it: tool_max_s is {case.limits.tool_max_s:g} s" if over else "wait: the tool lives",
        stall=case.stall("tool", f"{tool.since:.3f}"),
        waits_for=what,
    )
