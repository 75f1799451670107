"""Staffing: the one way in which an agent gets its record, whether the plan names it, it takes another's place, or a
run needs one more: a helper, a mediator.

Whatever has a record is treated alike: the gate admits it, it is started, registered, watched and mended, and it is
gone when its run is over.
"""

from __future__ import annotations

from dataclasses import replace

from dogwatch.errors import NotFoundError, RefusedError, UsageError
from dogwatch.ledger.api import Tx
from dogwatch.ledger.records import load, save
from dogwatch.model.events.agents import AgentStaffed
from dogwatch.model.life import NotStarted
from dogwatch.model.names import NAME, RESERVED_ROLES, incarnation_name
from dogwatch.model.records import AgentRecord, RunRecord
from dogwatch.model.view import RunView


def staff(
    tx: Tx, view: RunView, name: str, role: str, *, reason: str = "", predecessor: AgentRecord | None = None
) -> AgentRecord:
    """A new agent with one of the plan's roles. It takes over how often its `predecessor` has failed: a new name is no
    new beginning. Where the plan does not name it and it succeeds nobody, an event says why it is there."""
    run = view.run.run
    first = incarnation_name(run, name, 1)
    record = AgentRecord(run=run, agent=name, role=role, incarnation=1, name=first, life=NotStarted())
    _check(tx, view, record)
    if predecessor is not None:
        inherited = replace(
            record,
            restarts=(*predecessor.restarts, tx.now),
            replaces=predecessor.place,
            replacement_count=predecessor.replacement_count + 1,
        )
        return save(tx, inherited)
    if view.plan_role_of(name) is None:
        _check_name(name)
        tx.append(AgentStaffed(role=role, reason=reason, run=run, agent=name), f"staffed:{record.key}")
    return save(tx, record)


def _check(tx: Tx, view: RunView, record: AgentRecord) -> None:
    """RefusedError where the run cannot have such an agent, by what the ledger says in this very transaction."""
    run = load(tx, RunRecord, view.run.key)
    if run is None:
        raise NotFoundError(f"there is no run {record.run}", hint="dogwatch status lists the runs")
    if run.over:
        raise RefusedError(f"{record.run} is over ({run.state}): nobody joins it", hint="dogwatch run starts another")
    if view.plan.role(record.role) is None:
        known = ", ".join(role.name for role in view.plan.roles)
        raise RefusedError(f"{view.plan.name} has no role {record.role!r}", hint=f"its roles are: {known}")
    if load(tx, AgentRecord, record.key) is not None:
        raise RefusedError(f"{record.run} has an agent {record.agent!r} already", hint="choose another name")


def _check_name(name: str) -> None:
    """The pipeline file's own names are checked where it is read."""
    if not NAME.fullmatch(name) or name in RESERVED_ROLES:
        reserved = ", ".join(RESERVED_ROLES)
        message = f"{name!r} is no name for an agent"
        raise UsageError(message, hint=f"a-z, 0-9, _ and -, at most 32 characters; reserved are {reserved}")
