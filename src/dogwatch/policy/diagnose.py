"""From what was seen of an agent to what it means: a diagnosis with its evidence and a recommended action."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from dogwatch.model.moment import Moment
from dogwatch.model.plan import Limits
from dogwatch.model.records import AgentRecord
from dogwatch.model.view import Duty, Sight

Kind = Literal[
    "spawning",
    "starting",
    "startup_stall",
    "working",
    "idle",
    "silent_turn",
    "done_unreported",
    "exited",
    "session_dead",
    "unknown",
]
Action = Literal["", "NUDGE", "RESCUE", "RESTART"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """What an agent is doing. `stall` names this very stall: it changes with any progress, so that one stall gives
    one alert. `action` is empty where nothing should be done; `own_fault` is whether the agent itself has failed."""

    kind: Kind
    evidence: tuple[str, ...] = ()
    quiet_s: float = 0.0
    action: Action = ""
    stall: str = ""
    own_fault: bool = True


def diagnose(agent: AgentRecord, duty: Duty | None, sight: Sight, limits: Limits, now: Moment) -> Diagnosis:
    """What the facts mean for this agent and what it owes."""
    if agent.process is None or agent.confirmed is None:
        return Diagnosis(kind="spawning", evidence=("the spawn is not confirmed yet",))
    if sight.process == "unknown":
        return Diagnosis(kind="unknown", evidence=("the process could not be looked at",))
    if sight.process == "dead":
        return _dead(agent, sight)
    if not sight.hooks:
        return Diagnosis(kind="unknown", evidence=("the process lives; its client has no hooks to tell more",))
    turn = sight.turn
    if turn.state == "none":
        return _starting(agent, limits, now)
    if turn.state == "working":
        return Diagnosis(kind="working", quiet_s=_age(now, turn.newest), evidence=("hooks: a turn is open",))
    if sight.screen in ("busy", "retry", "permission", "starting"):
        # Between two hooks, or waiting for a job of its own in the background: not idle, whatever the last hook said.
        return Diagnosis(kind="working", quiet_s=_age(now, turn.newest), evidence=(f"screen: {sight.screen}",))
    if duty is None or duty.delivered is None:
        return Diagnosis(
            kind="idle", quiet_s=_age(now, turn.newest), evidence=("hooks: no turn is open, no task is held",)
        )
    return _idle_with_duty(agent, duty, sight, limits, now)


def _dead(agent: AgentRecord, sight: Sight) -> Diagnosis:
    stall = f"#{agent.incarnation}:dead"
    process = f"process: {agent.process} is gone"
    if sight.outputs_fresh and sight.turn.state == "idle":
        # It had ended its turn; had it died in the middle of one, the files might be half written.
        proof = (process, "hooks: its turn had ended", "files: every expected output is newer than the dispatch")
        return Diagnosis(kind="done_unreported", evidence=proof, action="RESCUE", stall=f"{stall}:rescue")
    kind: Kind = "session_dead" if sight.session == "gone" else "exited"
    last_words = tuple(line for line in sight.lines if any(char.isalnum() for char in line))[-3:]
    seen = ("tmux: there is no such session",) if kind == "session_dead" else last_words
    return Diagnosis(kind=kind, evidence=(process, *seen), action="RESTART", stall=stall, own_fault=sight.own_fault)


def _starting(agent: AgentRecord, limits: Limits, now: Moment) -> Diagnosis:
    assert agent.confirmed is not None  # noqa: S101 - the caller has looked
    age = now.since(agent.confirmed)
    if age < limits.startup_s:
        return Diagnosis(kind="starting", quiet_s=age, evidence=("hooks: the client has not said that it started",))
    evidence = (f"hooks: no sign of a start within {limits.startup_s:g} s",)
    return Diagnosis(
        kind="startup_stall", quiet_s=age, evidence=evidence, action="RESTART", stall=f"#{agent.incarnation}:start"
    )


def _idle_with_duty(agent: AgentRecord, duty: Duty, sight: Sight, limits: Limits, now: Moment) -> Diagnosis:
    """The prompt is idle although work is open. Time counts from the message's delivery at the earliest."""
    assert duty.delivered is not None  # noqa: S101 - the caller has looked
    quiet_s = min(_age(now, sight.turn.newest), now.since(duty.delivered), _file_age(now, sight.outputs_changed))
    stall = f"#{agent.incarnation}:{duty.subject}:{sight.turn.newest:.3f}"
    idle = f"hooks: the turn ended {quiet_s:.1f} s ago, {duty.kind} {duty.subject} is open"
    if sight.outputs_fresh:
        if quiet_s < limits.peek_s:
            return Diagnosis(kind="idle", quiet_s=quiet_s, evidence=(idle,))
        evidence = (idle, "files: every expected output is newer than the dispatch")
        return Diagnosis(
            kind="done_unreported", quiet_s=quiet_s, evidence=evidence, action="RESCUE", stall=f"{stall}:rescue"
        )
    if quiet_s < limits.nudge_s:
        return Diagnosis(kind="idle", quiet_s=quiet_s, evidence=(idle,))
    return Diagnosis(kind="silent_turn", quiet_s=quiet_s, evidence=(idle,), action="NUDGE", stall=stall)


def _file_age(now: Moment, changed: float) -> float:
    """Seconds since the file changed. Files have wall times: one from the future says nothing of now."""
    return now.wall - changed if 0 < changed <= now.wall else 86400.0


def _age(now: Moment, mono: float) -> float:
    return max(0.0, now.mono - mono)
