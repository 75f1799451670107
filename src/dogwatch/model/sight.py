"""What was seen of an agent at one instant. `unknown` and None mean that a look failed, never that nothing is there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from types import MappingProxyType
from typing import Any, Literal

from dogwatch.values import dataclass

SCREEN, STATE_FILE = "screen", "state file"
"""Where it is seen what a client is doing, beside its hooks."""
_NONE: Mapping[str, Any] = MappingProxyType({})


def _none() -> Mapping[str, Any]:
    """One empty mapping for all: with five of its own, every turn would be twice as large, and a sweep over thousands
    would wait for memory."""
    return _NONE


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool call that the client has begun and not ended, since when on the monotonic clock."""

    name: str
    what: str
    since: float

    def __str__(self) -> str:
        return f"{self.name} {self.what}".strip()


@dataclass(frozen=True, slots=True)
class Subagent:
    """A sub-agent that the client has started and that has not ended; `wrote` is when it last wrote a file, 0 for
    never."""

    type: str
    since: float
    id: str = ""
    wrote: float = 0.0


@dataclass(frozen=True, slots=True)
class Turn:
    """What the client's own hooks say: none (not started), idle or working, and since when on the monotonic clock.

    `receipts` are the ids of dogwatch's messages that the client has submitted, with the time. `call` is the latest
    tool call, or the latest few that take turns, `period` how many, and `repeats` how often they were made in a row,
    beginning at `repeats_since`; `calls` and `laps` are what that is counted with. `newest` is the newest event of all,
    `own` that of the agent itself, not of a sub-agent. `stops` counts how often the client has tried to stop again in
    this turn after a hook had held it, since `stops_since`; `held` is whether the client itself has told that its
    latest stop was, and no tool was called since; `ended` is why the captain itself has ended the last turn,
    empty where the client did. `failure` is the provider's error that ended the last turn, `dialog` the question that
    waits for a person's answer; `compacting` is since when the context is being made shorter (0: it is not),
    `compacted` when that was last done; `wrote` are the latest files that its tools were to write, and `transcript` is
    the client's own file of its conversation. `begun` is when a sub-agent was last started, by type; `announced` are
    those that are about to start, by the tool call that is to start them.
    """

    state: Literal["none", "idle", "working"] = "none"
    since: float = 0.0
    newest: float = 0.0
    pid: int = 0
    receipts: Mapping[str, float] = field(default_factory=_none)
    tools: Mapping[str, ToolCall] = field(default_factory=_none)
    subagents: Mapping[str, Subagent] = field(default_factory=_none)
    begun: Mapping[str, float] = field(default_factory=_none)
    announced: Mapping[str, Subagent] = field(default_factory=_none)
    calls: tuple[tuple[str, str, str], ...] = ()
    laps: tuple[tuple[int, float], ...] = ()
    call: str = ""
    period: int = 1
    repeats: int = 0
    repeats_since: float = 0.0
    own: float = 0.0
    stops: int = 0
    held: bool = False
    stops_since: float = 0.0
    ended: str = ""
    failure: str = ""
    dialog: str = ""
    dialog_since: float = 0.0
    compacting: float = 0.0
    compacted: float = 0.0
    wrote: tuple[str, ...] = ()
    transcript: str = ""


@dataclass(frozen=True, slots=True)
class Child:
    """A process below the agent's own: a tool, or what a tool has left running."""

    pid: int
    name: str
    age_s: float
    cpu_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Tree:
    """The agent's process and all below it. `cores` is the cpu time used since the look before, for each second; None
    where there was none. `stopped` is whether the agent's own process, or the client below it, was stopped by a
    signal."""

    cores: float | None = None
    rss_bytes: int = 0
    stopped: bool = False
    children: tuple[Child, ...] = ()


@dataclass(frozen=True, slots=True)
class OutputSight:
    """An expected output as it lies there; `is_new` where it was written since the dispatch."""

    path: str
    size: int
    changed: float
    is_new: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """Everything that was seen of an agent.

    `own_fault` is whether a death can be the agent's own failure: a reboot is nobody's. Without `hooks` the client
    says nothing of its turns: whatever it does looks alike. `screen` is what the client shows that it is doing, by
    `source`: its own state file where it has one, else its screen. It has been so since `screen_since`, and the whole
    incarnation is looked at since `watched_since`. `life` is the newest sign of life that is no progress, on the
    monotonic clock: cpu time, a screen that changes, a process that comes or goes; 0 for none so far. A screen is
    `strange` where something stands on it and no pattern knows it, whatever the client says elsewhere. `elsewhere` are
    files with the name of a missing output that were written since the dispatch in other places. `context` is the used
    share of what the client can keep in mind, None where it does not tell. `oom_kills` counts the processes of this
    incarnation that the kernel has ended for memory, `oom_limit_bytes` is the agent's own limit where that was reached.
    """

    process: Literal["alive", "dead", "unknown"] = "unknown"
    session: Literal["alive", "dead", "gone", "unknown"] = "unknown"
    own_fault: bool = True
    hooks: bool = True
    turn: Turn = Turn()
    tree: Tree | None = None
    screen: str = "unknown"
    source: str = SCREEN
    screen_since: float = 0.0
    watched_since: float = 0.0
    life: float = 0.0
    composer: str | None = None
    strange: bool = False
    lines: tuple[str, ...] = ()
    outputs: tuple[OutputSight, ...] = ()
    outputs_fresh: bool = False
    elsewhere: tuple[str, ...] = ()
    context: float | None = None
    oom_kills: int = 0
    oom_limit_bytes: int = 0
    attached: bool = False
    """Whether a person looks at its terminal."""

    @property
    def outputs_changed(self) -> float:
        """The wall time of the latest change of any output; 0 where there is none."""
        return max((output.changed for output in self.outputs), default=0.0)

    @property
    def changed_beside_the_loop(self) -> float:
        """The same without what the repeated calls write: that is always the same."""
        again = tuple(f"/{path.lstrip('/')}" for _, _, path in self.turn.calls[-self.turn.period :] if path)
        changed = (one.changed for one in self.outputs if not any(path.endswith(f"/{one.path}") for path in again))
        return max(changed, default=0.0)


@dataclass(frozen=True, slots=True)
class Wait:
    """`waiter` waits for `target`, because of `what`, for so many seconds."""

    waiter: str
    target: str
    what: str
    age_s: float

    def __str__(self) -> str:
        return f"{self.waiter} waits for {self.target} ({self.what}), {self.age_s:.0f} s"
