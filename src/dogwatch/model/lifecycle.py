"""All lifecycles, one table each: from a state to the states that may follow it.

An illegal step raises and nothing happens. The diagrams in the docs are generated from these tables.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from dogwatch.errors import IllegalTransitionError
from dogwatch.values import dataclass

RunEnd = Literal["COMPLETED", "PARTIAL", "FAILED", "NO_CONSENSUS"]


@dataclass(frozen=True)
class Lifecycle:
    """A named table of states; the first state is where things begin, a state without successors is an end."""

    name: str
    table: Mapping[str, tuple[str, ...]]

    @property
    def first(self) -> str:
        return next(iter(self.table))

    @property
    def ends(self) -> frozenset[str]:
        return frozenset(state for state, following in self.table.items() if not following)

    def step(self, state: str, following: str) -> str:
        """The state after the step; raises where the table has no such step."""
        if state not in self.table:
            raise IllegalTransitionError(f"{self.name}: there is no state {state!r}")
        if following not in self.table[state]:
            allowed = ", ".join(self.table[state]) or "nothing: it is an end"
            raise IllegalTransitionError(
                f"{self.name}: {state} cannot become {following}", hint=f"from {state} may follow {allowed}"
            )
        return following


RUN = Lifecycle(
    "run",
    {
        "SPAWN": ("RUNNING", "FAILED"),
        "RUNNING": ("REPORT", "FAILED"),
        "REPORT": ("ORCHESTRATING", "COMPLETED", "PARTIAL", "FAILED"),
        "ORCHESTRATING": ("COMPLETED", "PARTIAL", "FAILED", "NO_CONSENSUS"),
        "COMPLETED": (),
        "PARTIAL": (),
        "FAILED": (),
        "NO_CONSENSUS": (),
    },
)

AGENT = Lifecycle(
    "agent",
    {
        "CREATED": ("WAITING", "BUSY", "ERROR", "HANDED_OFF"),
        "WAITING": ("BUSY", "HANDED_OFF", "CREATED", "ERROR"),
        "BUSY": ("WAITING", "HANDED_OFF", "CREATED", "ERROR"),
        "HANDED_OFF": ("SUCCEEDED",),
        "SUCCEEDED": (),
        "ERROR": (),
    },
)

HEALTH = Lifecycle(
    "health",
    {
        "healthy": ("stalled",),
        "stalled": ("healthy", "unresponsive", "replaced"),
        "unresponsive": ("healthy", "replaced"),
        "replaced": (),
    },
)

MESSAGE = Lifecycle(
    "message",
    {
        "queued": ("delivered", "read", "expired"),
        "delivered": ("read", "acknowledged", "queued", "expired"),
        "read": ("acknowledged", "queued", "expired"),
        "acknowledged": (),
        "expired": (),
    },
)

TASK = Lifecycle(
    "task",
    {
        "pending": ("claimed", "failed"),
        "claimed": ("reported", "returned", "pending", "failed"),
        "reported": ("accepted", "returned", "failed"),
        "returned": ("claimed", "failed"),
        "accepted": ("returned",),
        "failed": (),
    },
)

CHECKPOINT = Lifecycle(
    "checkpoint",
    {
        "open": ("asked", "failed", "skipped"),
        "asked": ("approved", "revised", "failed", "skipped"),
        "revised": ("asked", "failed", "skipped"),
        "approved": ("revised",),
        "failed": (),
        "skipped": (),
    },
)

LIFECYCLES = (RUN, AGENT, HEALTH, MESSAGE, TASK, CHECKPOINT)
