"""Signs of life that agents give at the door."""

from __future__ import annotations

from dataclasses import replace

from dogwatch.ledger.api import Tx
from dogwatch.ledger.records import change
from dogwatch.model.events.clients import HeartbeatReceived
from dogwatch.model.records import AgentRecord
from dogwatch.model.view import RunView


def beat(tx: Tx, view: RunView, agent: AgentRecord, progress_percent: float | None, op_id: str) -> None:
    """The agent says that it lives, and perhaps how far it is."""
    held = view.task_of(agent.agent)
    event = HeartbeatReceived(
        task=held.task if held else "", progress_percent=progress_percent, run=agent.run, agent=agent.agent
    )
    if tx.append(event, op_id) and progress_percent is not None:
        change(tx, AgentRecord, agent.key, lambda a: replace(a, progress_percent=float(progress_percent)))


def note_life(tx: Tx, agent: AgentRecord) -> None:
    """Whatever an agent asks for, it lives."""
    change(tx, AgentRecord, agent.key, lambda a: replace(a, last_heartbeat=tx.now))
