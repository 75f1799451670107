"""Who calls at the door, and what a verb may look at before its transaction."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from dogwatch.errors import RefusedError, StaleError
from dogwatch.model.plan import Output
from dogwatch.model.records import AgentRecord
from dogwatch.model.redact import Redactor
from dogwatch.model.view import RunView
from dogwatch.values import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """The agent that calls, as the door has verified it, with its run as the ledger has it at that moment."""

    run: str
    agent: str
    incarnation: int
    view: RunView

    @property
    def record(self) -> AgentRecord:
        return self.view.agents[self.agent]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """What a verb may look at before its transaction."""

    caller: Callable[[], Caller]
    """Who calls, as the ledger has it now. Raises what the caller is refused with."""
    marker: Callable[[str, Sequence[Output]], Mapping[str, str]]
    """What the outputs in a folder look like now."""
    redactor: Redactor


def verified(view: RunView, run: Any, agent: str, incarnation: Any) -> Caller:
    """The caller, where it is what it says: the current incarnation of an agent of a run that is not over."""
    record = view.agents.get(agent)
    if record is None or run != view.run.run:
        raise RefusedError(
            f"{agent} is no agent of {view.run.run}", hint="leave DOGWATCH_RUN and DOGWATCH_ROLE as they were set"
        )
    if type(incarnation) is not int or incarnation != record.incarnation:
        raise StaleError(
            f"incarnation {incarnation} of {agent} is gone; {record.incarnation} is current",
            hint="this process belongs to a replaced agent and should end",
        )
    if record.successor:
        raise StaleError(f"{agent} was replaced by {record.successor}", hint="this process should end")
    if view.run.over:
        raise RefusedError(f"{view.run.run} is over ({view.run.state})")
    return Caller(run=view.run.run, agent=agent, incarnation=incarnation, view=view)
