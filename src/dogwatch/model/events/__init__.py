"""Every kind of event: which family of classes it belongs to. No class is loaded before it is used.

Each class is the snake case of its kind in camel case (`run_ended` is `RunEnded`), and its docstring is what the kind
means. Writers import a class from its family; readers may have a stored event decoded. The reference in the docs and
its JSON Schema are generated from the classes.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from dogwatch.model.events.base import Event

KINDS: dict[str, str] = {
    "run_created": "runs",
    "run_started": "runs",
    "phase_opened": "runs",
    "phase_ended": "runs",
    "phase_reopened": "runs",
    "milestone_reached": "runs",
    "run_ended": "runs",
    "run_cleared": "runs",
    "run_not_cleared": "runs",
    "run_quiet": "runs",
    "run_admitted": "admission",
    "launch_held": "admission",
    "zone_changed": "admission",
    "memory_low": "admission",
    "memory_critical": "admission",
    "agent_reclaimed": "admission",
    "reclaim_refused": "admission",
    "agent_staffed": "agents",
    "agent_spawn_intended": "agents",
    "agent_spawned": "agents",
    "agent_spawn_failed": "agents",
    "guard_proven": "agents",
    "agent_restarted": "agents",
    "agent_quarantined": "agents",
    "agent_replaced": "agents",
    "agent_probed": "agents",
    "agent_stalled": "agents",
    "stall_alert": "agents",
    "agent_unresponsive": "agents",
    "agent_recovered": "agents",
    "agent_nudged": "agents",
    "agent_interrupted": "agents",
    "turn_ended": "agents",
    "agent_error": "clients",
    "guard_denied": "clients",
    "screen_unknown": "clients",
    "context_low": "clients",
    "context_compacted": "clients",
    "usage_recorded": "clients",
    "heartbeat_received": "clients",
    "request_refused": "clients",
    "dispatch_dropped": "tasks",
    "dispatch_miscounted": "tasks",
    "task_sent": "tasks",
    "task_refused": "tasks",
    "task_dispatched": "tasks",
    "task_offered": "tasks",
    "task_claimed": "tasks",
    "task_reported": "tasks",
    "task_rescued": "tasks",
    "task_accepted": "tasks",
    "task_returned": "tasks",
    "task_released": "tasks",
    "task_failed": "tasks",
    "checkpoint_asked": "reviews",
    "checkpoint_answered": "reviews",
    "checkpoint_closed": "reviews",
    "checkpoint_reopened": "reviews",
    "gate_started": "gates",
    "phase_blocked": "gates",
    "gate_passed": "gates",
    "gate_failed": "gates",
    "subagent_started": "subagents",
    "subagent_ended": "subagents",
    "subagent_overdue": "subagents",
    "subagent_settled": "subagents",
    "message_sent": "mail",
    "message_held": "mail",
    "message_delivered": "mail",
    "message_retried": "mail",
    "message_read": "mail",
    "message_acknowledged": "mail",
    "message_expired": "mail",
    "instructions_changed": "instructions",
    "instructions_read": "instructions",
    "refresh_expired": "instructions",
    "alert_raised": "alerts",
    "alert_withdrawn": "alerts",
    "action_taken": "alerts",
    "action_verified": "alerts",
    "person_called": "alerts",
    "provider_held": "alerts",
    "fleet_held": "alerts",
    "self_check_failed": "alerts",
    "order_given": "operator",
    "check_in_asked": "operator",
    "check_in_answered": "operator",
    "check_in_failed": "operator",
    "notice_sent": "operator",
    "notice_failed": "operator",
    "crew_started": "crew",
    "crew_revived": "crew",
    "crew_lost": "crew",
    "crew_silent": "crew",
}
"""The module of each kind below this package, in the order of the reference."""


class Stored(Protocol):
    """An event as a ledger has kept it."""

    @property
    def kind(self) -> str: ...
    @property
    def run(self) -> str: ...
    @property
    def agent(self) -> str: ...
    @property
    def body(self) -> Mapping[str, Any]: ...


def event_class(kind: str) -> type[Event]:
    """The class of a kind; KeyError where there is none."""
    module = import_module(f"{__name__}.{KINDS[kind]}")
    found: type[Event] = getattr(module, "".join(word.capitalize() for word in kind.split("_")))
    return found


def decode_event(stored: Stored) -> Event | None:
    """The event that was stored, or None where this version does not know its kind.

    Unknown fields of newer writers are dropped. What an older writer did not write has its default, or the empty value
    of its type; so has what cannot be read as its type.
    """
    if stored.kind not in KINDS:
        return None
    from dogwatch.model.events.decoding import decode_as

    return decode_as(event_class(stored.kind), stored.body, run=stored.run, agent=stored.agent)
