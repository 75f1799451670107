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
    one alert. `action` is empty where nothing should be done."""

    kind: Kind
    evidence: tuple[str, ...] = ()
    quiet_s: float = 0.0
    action: Action = ""
    stall: str = ""


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
    if duty is None or duty.delivered is None:
        return Diagnosis(
            kind="idle", quiet_s=_age(now, turn.newest), evidence=("hooks: no turn is open, no task is held",)
        )
    return _idle_with_duty(agent, duty, sight, limits, now)


def _dead(agent: AgentRecord, sight: Sight) -> Diagnosis:
    stall = f"#{agent.incarnation}:dead"
    process = f"process: {agent.process} is gone"
    if sight.outputs_fresh:
        evidence = (process, "files: every expected output is newer than the dispatch")
        return Diagnosis(kind="done_unreported", evidence=evidence, action="RESCUE", stall=f"{stall}:rescue")
    if sight.session == "gone":
        evidence = (process, "tmux: there is no such session")
        return Diagnosis(kind="session_dead", evidence=evidence, action="RESTART", stall=stall)
    return Diagnosis(kind="exited", evidence=(process, *sight.lines[-3:]), action="RESTART", stall=stall)


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
    quiet_s = min(_age(now, sight.turn.newest), now.since(duty.delivered))
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


def _age(now: Moment, mono: float) -> float:
    return max(0.0, now.mono - mono)
