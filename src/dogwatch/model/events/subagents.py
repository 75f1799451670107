"""The sub-agents that agents start."""

from __future__ import annotations

from typing import Literal

from dogwatch.model.events.base import Event


class SubagentStarted(Event):
    """A sub-agent began; `type` says which, `rss_bytes` how much memory its agent uses."""

    id: str
    type: str
    incarnation: int
    rss_bytes: int


class SubagentEnded(Event):
    """A sub-agent ended after `seconds`: `ended` by itself, or `lost` with its client's session."""

    id: str
    type: str
    incarnation: int
    rss_bytes: int
    how: str
    seconds: float
    verdict: Literal["", "disagree"]


class SubagentOverdue(Event):
    """A sub-agent has run past its time without output; its parent gets mail until it is settled."""

    id: str
    type: str
    incarnation: int
    ran_s: float
    limit_s: float


class SubagentSettled(Event):
    """An overdue sub-agent is no longer open; `how` is started_again, skipped, ended, lost or run_ended."""

    id: str
    type: str
    incarnation: int
    how: str
    note: str
    open_s: float
