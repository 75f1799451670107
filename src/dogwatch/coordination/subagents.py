"""Sub-agents that run past their time: each stays open until something has settled it."""

from __future__ import annotations

from dataclasses import replace

from dogwatch.errors import RefusedError
from dogwatch.ledger.api import Tx
from dogwatch.ledger.records import change
from dogwatch.model.events.subagents import SubagentSettled
from dogwatch.model.records import AgentRecord, OverdueSubagent
from dogwatch.model.view import RunView


def settle(tx: Tx, known: OverdueSubagent, how: str, note: str = "") -> None:
    """It is open no more."""

    def fn(record: OverdueSubagent) -> OverdueSubagent:
        return record if record.settled else replace(record, settled=how, note=note)

    change(tx, OverdueSubagent, known.key, fn)
    event = SubagentSettled(
        id=known.id,
        type=known.type,
        incarnation=known.incarnation,
        how=how,
        note=note,
        open_s=round(tx.now.since(known.opened), 3),
        run=known.run,
        agent=known.agent,
    )
    tx.append(event, f"settled:{known.key}")


def skip(tx: Tx, view: RunView, agent: AgentRecord, kind: str, note: str) -> int:
    """The parent goes on without its overdue sub-agents of that type or id, and says why. Returns how many they are."""
    own = view.overdue_of(agent.agent).values()
    found = [one for one in own if kind in (one.type, one.id)]
    if not found:
        open_ones = ", ".join(one.type for one in own if not one.settled)
        raise RefusedError(f"no sub-agent {kind!r} of {agent.agent} is overdue", hint=f"overdue: {open_ones or 'none'}")
    for one in found:
        if not one.settled:
            settle(tx, one, "skipped", note)
    return len(found)
