"""Every diagnosis with its traits: one table, which policy, the crew, the command line, the backtest and the docs read.

A new diagnosis is its name and its row here, the function that finds it, and a test.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Final, Literal, cast

from dogwatch.model.plan import NoticeKind
from dogwatch.values import dataclass

Kind = Literal[
    "exited",
    "session_dead",
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
    "waiting",
    "deadlock",
    "checkpoint_deadlock",
    "context_exhausted",
    "subagent_overdue",
    "done_unreported",
    "wrong_path",
    "idle",
    "unknown",
]
Action = Literal["", "NUDGE", "RESCUE", "PROBE", "RESTART", "INTERRUPT", "HOLD", "ESCALATE"]
Over = Literal["heard", "answered", "other_calls", "let_stop", "subagent_ended"]
"""What shows that a stall is over: any hook of the agent's own, also the mail that it waited for, a call that it has
not repeated, a stop that no hook holds, the end of its sub-agent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Traits:
    """What holds for every agent with this diagnosis. `meaning`, `actions` and `follows` are shown to people: what was
    seen, what may be done about it, and what comes of that. Where `actions` has both NUDGE and RESTART,
    nudges that have not helped lead to a restart."""

    meaning: str
    actions: tuple[Action, ...] = ()
    follows: str
    silence_counts: bool = False
    """Whether its silence has tiers; otherwise it stands still."""
    is_death: bool = False
    at_rest: bool = False
    """Whether the agent may be stopped to make room."""
    is_ring: bool = False
    """Whether it is about several agents that wait for one another: all of them are looked at again before anything is
    done, and only one of them is asked to go on."""
    needs_a_person: bool = False
    """Whether only a person's answer ends it: an agent that goes on was answered."""
    notice: NoticeKind = "escalation"
    """The kind of notice with which a person is called."""
    never_restarted: bool = False
    """What the agent waits for is not its own fault, and a new incarnation would wait for the same."""
    waits_for_account: bool = False
    """Whether the agent is not nudged while its account is held: the provider would refuse that as well."""
    nudge_tells_why: bool = False
    """Whether a nudge quotes the evidence: the agent cannot know it by itself."""
    forgets: bool = False
    """Whether a restart begins a new conversation, not the old one."""
    interrupts_turn: bool = False
    """Whether an interrupt must end a turn whose stop is held, not a tool: if the turn goes on, a restart follows."""
    over: Over = "heard"
    why_not: Mapping[str, str] = field(default_factory=dict)
    """Why another action is out of the question, where there is a better reason than the usual one."""


DIAGNOSES: Final[dict[Kind, Traits]] = {
    "exited": Traits(
        meaning="the process is gone; its session is still there",
        actions=("RESTART",),
        follows="at once",
        is_death=True,
        why_not={"NUDGE": "there is nobody to be nudged", "PROBE": "its death is certain"},
    ),
    "session_dead": Traits(
        meaning="the process is gone, and its session too",
        actions=("RESTART",),
        follows="at once",
        is_death=True,
        why_not={"NUDGE": "there is nobody to be nudged", "PROBE": "its death is certain"},
    ),
    "starting": Traits(
        meaning="it has just been started, and its client has not said so yet",
        follows="nothing, until `startup_s` is over",
    ),
    "startup_stall": Traits(
        meaning="no hook within `startup_s` of the start",
        actions=("RESTART",),
        follows="a new start",
    ),
    "startup_dialog": Traits(
        meaning="a dialog stands where the prompt should be",
        actions=("ESCALATE",),
        follows="a person is called; no key is sent",
        needs_a_person=True,
    ),
    "working": Traits(
        meaning="a turn is open, and hooks, cpu, a tool or a changing screen show life",
        follows="nothing",
    ),
    "long_tool": Traits(
        meaning="a tool has run for `long_tool_s`; its process is named",
        actions=("INTERRUPT",),
        follows="nothing; it is interrupted only where `tool_max_s` says so",
    ),
    "silent_turn": Traits(
        meaning="the turn has ended, work is open, silence for `nudge_s`",
        actions=("NUDGE", "RESTART"),
        follows="after `nudges_max` nudges RESTART. A letter or an offer is asked about as often and then left: it may"
        " need no answer",
        silence_counts=True,
    ),
    "stalled": Traits(
        meaning="a turn is open and nothing comes from it: no hook, no cpu, no tool, a screen that stands still",
        actions=("PROBE",),
        follows="a probe after `claim_s`; without an answer within `probe_s` RESTART",
        silence_counts=True,
    ),
    "looping": Traits(
        meaning="the same tool call `repeats_max` times in a row, or two to four that take turns, and no new output",
        actions=("ESCALATE",),
        follows="a person is called",
        silence_counts=True,
        over="other_calls",
    ),
    "stop_loop": Traits(
        meaning="in one turn a hook has held its stop more than `stops_max` times (those with `stop_hook_active`"
        " count), and the turn goes on",
        actions=("INTERRUPT",),
        follows="when its prompt is free and the hooks are quiet, the captain itself records the turn's end, and open"
        " work is nudged; if the turn is still open after `probe_s`, the agent is restarted",
        interrupts_turn=True,
        over="let_stop",
    ),
    "provider_wait": Traits(
        meaning="the provider has refused: the client tries again by itself, or its turn has ended",
        actions=("HOLD", "NUDGE", "ESCALATE"),
        follows="nobody on the account is started for `hold_s`; then a nudge where the turn had ended; never a restart:"
        " where nudges do not help, a person is called",
        never_restarted=True,
        waits_for_account=True,
    ),
    "awaiting_permission": Traits(
        meaning="a permission dialog stands on the screen",
        actions=("ESCALATE",),
        follows="a person is called; no key is sent",
        needs_a_person=True,
        notice="permission",
        why_not={"NUDGE": "keys would answer the dialog", "RESTART": "it would ask the same again"},
    ),
    "waiting": Traits(
        meaning="its mail is not acknowledged, mail for it is coming, or a sub-agent of its own runs",
        follows="nothing: whom it waits for is looked at",
        silence_counts=True,
        over="answered",
    ),
    "deadlock": Traits(
        meaning="agents wait for one another in a ring: for mail, or in tools that have long been looking for mail or"
        " for another's file",
        actions=("NUDGE", "RESTART", "ESCALATE"),
        follows="a nudge for the one whose wait is the youngest; a person is called where it is in a tool",
        silence_counts=True,
        is_ring=True,
        nudge_tells_why=True,
    ),
    "checkpoint_deadlock": Traits(
        meaning="an approval was given, and nothing was written for `checkpoint_s`",
        actions=("NUDGE", "RESTART", "ESCALATE"),
        follows="a nudge; a person is called where a tool that uses no cpu runs since then",
        silence_counts=True,
        nudge_tells_why=True,
    ),
    "context_exhausted": Traits(
        meaning="the turn has ended because the client's context is full",
        actions=("RESTART",),
        follows="a new start with an empty context, and the task again",
        forgets=True,
    ),
    "subagent_overdue": Traits(
        meaning="a sub-agent has run for longer than its type may, without output",
        actions=("NUDGE", "ESCALATE"),
        follows="mail for its parent, then a person is called; never a restart ([sub-agents](subagents.md))",
        never_restarted=True,
        over="subagent_ended",
    ),
    "done_unreported": Traits(
        meaning="every expected file was written since the dispatch; the agent died after its turn had ended, or is"
        " silent for `peek_s`",
        actions=("RESCUE",),
        follows="the work counts as reported",
        silence_counts=True,
    ),
    "wrong_path": Traits(
        meaning="the output lies in another place",
        actions=("NUDGE", "RESTART"),
        follows="a nudge that names the place",
        silence_counts=True,
        nudge_tells_why=True,
    ),
    "idle": Traits(
        meaning="its turn has ended, and nothing is owed, or it ended only just now",
        follows="nothing, for ever",
        at_rest=True,
    ),
    "unknown": Traits(
        meaning="its process could not be looked at, or its client has no hooks that could tell more",
        follows="nothing, ever",
    ),
}
UNLISTED: Final = Traits(meaning="this version has no such diagnosis", follows="nothing")
"""For names in the ledger that another version has written."""


def traits_of(name: str) -> Traits:
    """The traits of a diagnosis by its name in the ledger."""
    return DIAGNOSES.get(cast("Kind", name), UNLISTED)
