"""What is counted of an agent: its calls of the model with their tokens, its errors, and what the guard has denied."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, fields
from typing import Literal, get_args

from dogwatch.model import keys
from dogwatch.values import dataclass

ErrorType = Literal[
    "api_timeout",
    "rate_limited",
    "overloaded",
    "api_error",
    "auth_failed",
    "context_exhausted",
    "validation_failure",
    "tool_failed",
    "tool_interrupted",
    "permission_denied",
    "out_of_memory",
]
ERROR_TYPES: tuple[str, ...] = get_args(ErrorType)
INFO, WARNING, CRITICAL = "info", "warning", "critical"
SEVERITIES: Mapping[str, str] = {"tool_failed": INFO, "tool_interrupted": INFO, "auth_failed": CRITICAL}
"""Of errors; what is not named here is a warning."""


@dataclass(frozen=True, slots=True)
class Failure:
    """An error that a client has told of: its type, the tool that it is about, and what was said."""

    type: ErrorType
    tool: str = ""
    message: str = ""

    @property
    def severity(self) -> str:
        return SEVERITIES.get(self.type, WARNING)


@dataclass(frozen=True, slots=True)
class Denial:
    """What the guard did not let an agent do."""

    rule: str
    severity: str
    reason: str = ""
    tool: str = ""
    command: str = ""


@dataclass(frozen=True, slots=True)
class Tokens:
    """Calls of a model and what they have cost."""

    calls: int = 0
    input: int = 0
    output: int = 0
    cache_creation: int = 0
    cache_read: int = 0

    def plus(self, other: Tokens) -> Tokens:
        return Tokens(*(getattr(self, one.name) + getattr(other, one.name) for one in fields(Tokens)))

    def minus(self, other: Tokens) -> Tokens:
        return Tokens(*(getattr(self, one.name) - getattr(other, one.name) for one in fields(Tokens)))

    def larger(self, other: Tokens) -> Tokens:
        """The larger of each number."""
        return Tokens(*(max(getattr(self, one.name), getattr(other, one.name)) for one in fields(Tokens)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Lives:
    """Sub-agents of one type: how many began, told of their end, were lost, and how long they took together."""

    started: int = 0
    ended: int = 0
    lost: int = 0
    seconds: float = 0.0

    def plus(self, other: Lives) -> Lives:
        return Lives(
            started=self.started + other.started,
            ended=self.ended + other.ended,
            lost=self.lost + other.lost,
            seconds=self.seconds + other.seconds,
        )

    def larger(self, other: Lives) -> Lives:
        """The larger of each number."""
        return Lives(
            started=max(self.started, other.started),
            ended=max(self.ended, other.ended),
            lost=max(self.lost, other.lost),
            seconds=max(self.seconds, other.seconds),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCall:
    """One line of a transcript that tells of a call. A call may stand in several: `id` tells them apart, and the
    largest numbers count. `at` is its wall time."""

    id: str
    model: str
    at: float
    tokens: Tokens
    subagent: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """One line of a transcript that tells of a tool call which was refused before it began."""

    id: str
    at: float
    failure: Failure


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """The counts of one incarnation: tokens by model, of its own and of its sub-agents; errors by type, denials by
    rule, sub-agents by type."""

    own: Mapping[str, Tokens] = field(default_factory=dict)
    subagents: Mapping[str, Tokens] = field(default_factory=dict)
    errors: Mapping[str, int] = field(default_factory=dict)
    denied: Mapping[str, int] = field(default_factory=dict)
    lives: Mapping[str, Lives] = field(default_factory=dict)
    unread: Mapping[str, int] = field(default_factory=dict)
    """What its hooks have told and nobody understands, by event."""

    def larger(self, other: Tally) -> Tally:
        """The larger of each number: what was counted once stays counted, also when its file is gone."""
        return Tally(
            own=_larger(self.own, other.own),
            subagents=_larger(self.subagents, other.subagents),
            errors=_more(self.errors, other.errors),
            denied=_more(self.denied, other.denied),
            lives={key: self._lives(key).larger(other._lives(key)) for key in {**self.lives, **other.lives}},
            unread=_more(self.unread, other.unread),
        )

    def plus(self, other: Tally) -> Tally:
        return Tally(
            own=_sum(self.own, other.own),
            subagents=_sum(self.subagents, other.subagents),
            errors={key: self.errors.get(key, 0) + other.errors.get(key, 0) for key in {**self.errors, **other.errors}},
            denied={key: self.denied.get(key, 0) + other.denied.get(key, 0) for key in {**self.denied, **other.denied}},
            lives={key: self._lives(key).plus(other._lives(key)) for key in {**self.lives, **other.lives}},
            unread={key: self.unread.get(key, 0) + other.unread.get(key, 0) for key in {**self.unread, **other.unread}},
        )

    def _lives(self, kind: str) -> Lives:
        return self.lives.get(kind, Lives())

    @property
    def models(self) -> Mapping[str, Tokens]:
        """All calls by model, those of sub-agents too."""
        return _sum(self.own, self.subagents)


@dataclass(frozen=True, slots=True, kw_only=True)
class TallyRecord:
    """What was counted of an agent, by incarnation."""

    run: str
    agent: str
    incarnations: Mapping[str, Tally] = field(default_factory=dict)

    @property
    def key(self) -> str:
        return keys.tally(self.run, self.agent)

    @property
    def sum(self) -> Tally:
        """All incarnations together."""
        whole = Tally()
        for one in self.incarnations.values():
            whole = whole.plus(one)
        return whole


def total(models: Mapping[str, Tokens]) -> Tokens:
    """All models together."""
    whole = Tokens()
    for one in models.values():
        whole = whole.plus(one)
    return whole


def figures(tokens: Tokens) -> dict[str, int]:
    """The numbers under the names that events and `status --json` have for them."""
    return {
        "calls": tokens.calls,
        "input_tokens": tokens.input,
        "output_tokens": tokens.output,
        "cache_creation_tokens": tokens.cache_creation,
        "cache_read_tokens": tokens.cache_read,
    }


def usage(tally: Tally) -> dict[str, object]:
    """What was used: of all calls, of those of sub-agents alone, and by model."""
    models = {name: figures(one) for name, one in sorted(tally.models.items())}
    return {**figures(total(tally.models)), "subagents": figures(total(tally.subagents)), "models": models}


def _larger(one: Mapping[str, Tokens], other: Mapping[str, Tokens]) -> dict[str, Tokens]:
    return {key: one.get(key, Tokens()).larger(other.get(key, Tokens())) for key in {**one, **other}}


def _sum(one: Mapping[str, Tokens], other: Mapping[str, Tokens]) -> dict[str, Tokens]:
    return {key: one.get(key, Tokens()).plus(other.get(key, Tokens())) for key in {**one, **other}}


def _more(one: Mapping[str, int], other: Mapping[str, int]) -> dict[str, int]:
    return {key: max(one.get(key, 0), other.get(key, 0)) for key in {**one, **other}}
