"""What an agent is doing whose turn has ended: it rests, or waits, or its work is open and nobody does it."""

from __future__ import annotations

from dogwatch.model.sight import Sight
from dogwatch.model.view import Duty
from dogwatch.policy.diagnosis import (
    CONTEXT_FULL,
    Case,
    Diagnosis,
    any_new,
    file_mono,
    stalled,
)
from dogwatch.policy.subagents import own_subagents, subagent_overdue, waiting_for
from dogwatch.policy.thresholds import claim_s
from dogwatch.policy.waits import SENT


def idle(case: Case) -> Diagnosis:
    turn, sight, duty = case.sight.turn, case.sight, case.duty
    quiet_s = case.age(turn.newest)
    if subagents := own_subagents(duty, turn, case.overdue):
        return subagent_overdue(case) or waiting_for(case, subagents[0])
    alone_s = case.age(max(turn.newest, sight.life, sight.watched_since))
    # With a sub-agent of earlier work in the background, a screen that looks busy says nothing of the agent itself.
    screen = "idle" if turn.subagents and sight.screen == "busy" else sight.screen
    if screen == "busy" and alone_s >= claim_s(duty.risk if duty else "normal", case.limits):
        return stalled(case, alone_s)
    if screen in ("busy", "starting", "dialog"):
        # Between two hooks, or waiting for a job of its own in the background: not idle, whatever the last hook said.
        return Diagnosis(kind="working", quiet_s=quiet_s, evidence=(f"{sight.source}: {screen}",))
    if duty is None or duty.delivered is None:
        proof = "hooks: no turn is open, no task is held"
        return Diagnosis(kind="idle", quiet_s=quiet_s, evidence=(proof,))
    return _idle_with_duty(case, duty)


def _idle_with_duty(case: Case, duty: Duty) -> Diagnosis:
    """The prompt is idle although work is open. Time counts from the message's delivery at the earliest."""
    assert duty.delivered is not None  # noqa: S101 - the caller has looked
    sight, turn, limits = case.sight, case.sight.turn, case.limits
    quiet_s = min(case.age(max(turn.newest, file_mono(case))), case.now.since(duty.delivered))
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
        return Diagnosis(
            kind="waiting",
            quiet_s=quiet_s,
            evidence=(idle, *_open_with_others(case)),
            stall=f"{stall}:mail",
            waits_for=case.awaited[0].target,
        )
    if case.coming is not None and case.coming.age_s < limits.nudge_s:
        # The mail itself will wake it: to nudge it now would be to nudge somebody who waits for good reason.
        return Diagnosis(
            kind="waiting",
            quiet_s=quiet_s,
            evidence=(idle, f"mail: {case.coming.what}"),
            stall=f"{stall}:mail",
            waits_for=case.coming.target,
        )
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
    ended = (f"ledger: its turn was interrupted ({turn.ended})",) if turn.ended else ()
    return Diagnosis(
        kind="silent_turn",
        quiet_s=quiet_s,
        evidence=(idle, *compacted, *ended),
        action="NUDGE",
        advice="give it its task again" if compacted else "ask it to go on",
        retell=bool(compacted),
        stall=stall,
    )


def _open_with_others(case: Case) -> tuple[str, ...]:
    letters = dict.fromkeys(wait.target for wait in case.awaited if not wait.what.startswith(SENT))
    mail = (f"mail: {', '.join(letters)} has not acknowledged its mail",) if letters else ()
    sent = [wait for wait in case.awaited if wait.what.startswith(SENT)]
    return (*mail, *(f"ledger: {wait.target} has not finished the {wait.what}" for wait in sent))


def is_compacted(duty: Duty, sight: Sight) -> bool:
    """Whether the agent may have forgotten what it was told. When that was, the captain notes a moment later: what the
    agent has forgotten until then counts too."""
    since = duty.asked or duty.delivered
    return duty.delivered is not None and since is not None and sight.turn.compacted > since.mono
