"""What an agent's client, its guard and its own calls tell: errors, denials, context, tokens, heartbeats."""

from __future__ import annotations

from collections.abc import Mapping

from dogwatch.model.events.base import Event
from dogwatch.model.tally import ErrorType
from dogwatch.values import dataclass


class AgentError(Event):
    """The agent's client reported an error; `type` and `tool` say which, `count` how often in a row. `out_of_memory`
    comes from the kernel: it has killed a process of the agent."""

    incarnation: int
    severity: str
    count: int
    type: ErrorType
    tool: str
    message: str


class GuardDenied(Event):
    """The guard stopped the agent from running a command; `rule` and `reason` say why, `count` how often."""

    incarnation: int
    severity: str
    count: int
    rule: str
    tool: str
    reason: str
    command: str


class ScreenUnknown(Event):
    """No pattern matches the agent's screen; `lines` are the last ones on it. The agent is left alone."""

    incarnation: int
    harness: str
    tested: str
    turn: str
    lines: tuple[str, ...]


class ContextLow(Event):
    """The agent has used most of its context: its client will compact it, or the agent will run out."""

    incarnation: int
    used: float
    limit: float


class ContextCompacted(Event):
    """The agent's client compacted its context in the middle of its work."""

    incarnation: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenCounts:
    """Model calls and their tokens."""

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cache_creation_tokens: int = 0
    cache_read_tokens: int = 0


class UsageRecorded(Event):
    """What an incarnation has used, or the whole run where no agent is named: model calls and their tokens."""

    incarnation: int = 0
    calls: int
    input_tokens: int
    output_tokens: int
    cache_creation_tokens: int
    cache_read_tokens: int
    subagents: TokenCounts
    models: Mapping[str, TokenCounts]


class HeartbeatReceived(Event):
    """An agent said that it is alive."""

    task: str
    progress_percent: float | None


class RequestRefused(Event):
    """An agent's call was refused, for example because it came from a stale incarnation."""

    op: str
    incarnation: str
    code: str
    message: str
