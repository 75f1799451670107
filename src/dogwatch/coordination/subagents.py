"""Sub-agents that run past their time: each stays open until something has settled it."""

from __future__ import annotations

from dataclasses import replace

from dogwatch.ledger.api import Tx
from dogwatch.ledger.records import change
from dogwatch.model.events.subagents import SubagentSettled
from dogwatch.model.records import OverdueSubagent


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
