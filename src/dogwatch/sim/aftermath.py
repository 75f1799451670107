"""What the record shows of an agent after some time, and what that says of a threshold that would have struck then."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from dogwatch.policy.diagnoses import traits_of
from dogwatch.sim.recording import Recording, Said

Change = Literal["earlier", "later", "never", "new", "graver", "milder"]
Verdict = Literal["right", "wrong", "late", "unknown"]

NEEDED = {
    "agent_nudged": "a nudge",
    "agent_probed": "a probe",
    "agent_interrupted": "an interrupt",
    "agent_restarted": "a restart",
    "agent_replaced": "a replacement",
    "agent_quarantined": "to be given up",
    "agent_reclaimed": "a rest",
    "task_rescued": "a rescue",
}
"""What is done to an agent, as people call it."""
OWN_CALLS = frozenset(
    {
        "task_reported",
        "task_claimed",
        "task_sent",
        "checkpoint_answered",
        "heartbeat_received",
        "message_read",
        "message_acknowledged",
    }
)
"""What an agent itself does at the door."""
PROGRESS = frozenset({"task_reported", "task_accepted", "checkpoint_answered", "phase_opened", "gate_passed"})


@dataclass(frozen=True, slots=True)
class Aftermath:
    """What came next: it went on by itself, or it needed something, or was told something else, or was ended."""

    seconds: float
    by_itself: bool = False
    needed: str = ""
    told: str = ""
    answered: bool = False
    ended: str = ""

    def judge(self, change: Change) -> tuple[Verdict, str]:
        """Whether the change is for the better, in words."""
        after = f"after {span(self.seconds)}"
        is_sooner = change in ("earlier", "new", "graver")
        if self.by_itself:
            return ("wrong" if is_sooner else "right"), f"it went on by itself {after}"
        if self.needed and self.answered:
            return "unknown", f"it was probed {after} and gave a sign of life"
        if self.needed and is_sooner:
            return "right", f"it needed {self.needed}" + (f" {span(self.seconds)} later" if self.seconds >= 1 else "")
        if self.needed:
            return "late", f"it needed {self.needed}, and would have stood still for longer"
        if self.told:
            return "unknown", f"it was told something else {after} ({self.told})"
        if self.ended:
            return "unknown", f"it was ended {after} ({self.ended})"
        return "unknown", "the record ends here"


def aftermath(recording: Recording, agent: str, kind: str, t: float) -> Aftermath:
    """What came after that time for an agent with this diagnosis, or without a name for the run: the first sign of its
    own, or the first thing that was done to it."""
    if not agent:
        return _of_the_run(recording, t)
    found: list[tuple[float, int, Aftermath]] = []
    for past in recording.events[bisect_right(recording.events, t, key=lambda past: past.t) :]:
        event, after_s = past.event, past.t - t
        if event.kind == "run_ended":
            found.append((past.t, 2, Aftermath(after_s, ended=f"the run is {event.body['state']}")))
            break
        if event.agent == agent and event.kind in NEEDED:
            found.append((past.t, 0, _deed(recording, event.kind, event.body, agent, after_s, past.t)))
            break
        if event.agent == agent and event.kind in OWN_CALLS:
            found.append((past.t, 1, Aftermath(after_s, by_itself=True)))
            break
    for (name, _), voice in recording.voices.items():
        later = voice.said[bisect_right(voice.said, t, key=lambda said: said.t) :] if name == agent else ()
        said = next((one for one in later if _says(one, kind)), None)
        if said is not None:
            told = "" if said.is_own else ", ".join(said.messages) or "a prompt"
            is_answer = traits_of(kind).over == "answered" and "mail" in said.messages
            found.append((said.t, 1, Aftermath(said.t - t, by_itself=said.is_own or is_answer, told=told)))
    first = min(found, key=lambda one: one[:2])[2] if found else Aftermath(recording.end - t)
    if first.by_itself and traits_of(kind).needs_a_person:
        return replace(first, by_itself=False, needed="a person")
    return first


def _says(said: Said, kind: str) -> bool:
    """Whether a line of the spool says how a stall of this kind went on. One that repeats itself, or waits for a
    sub-agent, is heard of all the time."""
    turn = said.turn
    if said.event == "UserPromptSubmit":
        return True
    match traits_of(kind).over:
        case "heard" | "answered":
            return said.is_own
        case "other_calls":
            return said.is_own and (turn.state == "idle" or turn.repeats <= 1)
        case "let_stop":
            return said.is_own and not turn.stops
        case "subagent_ended":
            return said.event == "SubagentStop"


def _deed(recording: Recording, kind: str, body: Mapping[str, Any], agent: str, after_s: float, t: float) -> Aftermath:
    if kind == "agent_reclaimed":
        return Aftermath(after_s, ended="to make room")
    if body.get("reason") == "killed by the operator":
        return Aftermath(after_s, ended="by the operator")
    answered = False
    if kind == "agent_probed":
        mine = (past.event.kind for past in recording.events if past.event.agent == agent and past.t > t)
        answered = next((one for one in mine if one in ("agent_recovered", "agent_stalled")), "") == "agent_recovered"
    return Aftermath(after_s, needed=NEEDED[kind], answered=answered)


def _of_the_run(recording: Recording, t: float) -> Aftermath:
    for past in recording.events:
        if past.t > t and past.event.kind in PROGRESS:
            return Aftermath(past.t - t, by_itself=True)
        if past.t >= t and past.event.kind == "run_ended":
            is_delivered = past.event.body["state"] in ("COMPLETED", "PARTIAL")
            return Aftermath(past.t - t, by_itself=is_delivered, needed="" if is_delivered else "to be ended")
    return Aftermath(0.0)


def span(seconds: float) -> str:
    """A length of time, as people say it."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"
