"""The start of an agent's incarnation: intended before it is made, confirmed with its process, dismissed in the end."""

from __future__ import annotations

from dataclasses import replace

from dogwatch.coordination.admission import Life, note_process
from dogwatch.coordination.agents import admit
from dogwatch.coordination.launches import agent_holder
from dogwatch.ledger.api import Tx
from dogwatch.ledger.records import change
from dogwatch.model.events.agents import AgentSpawned, AgentSpawnIntended
from dogwatch.model.life import GivenUp, NotStarted, Resting, Running, Starting
from dogwatch.model.process import ProcessId
from dogwatch.model.records import AgentRecord
from dogwatch.model.view import RunView


def intend(tx: Tx, view: RunView, agent: AgentRecord, life: Life) -> AgentRecord | None:
    """The agent's current incarnation is about to be started; None where the gate does not let it in yet, and then its
    record says why."""
    if not admit(tx, view, agent, life):
        return None
    event = AgentSpawnIntended(incarnation=agent.incarnation, run=agent.run, agent=agent.agent)
    tx.append(event, f"spawn:{agent.key}:{agent.incarnation}")

    def intended(record: AgentRecord) -> AgentRecord:
        if not isinstance(record.life, NotStarted | Resting):
            return record
        return replace(record.become(Starting(since=tx.now)), host=tx.host)

    return change(tx, AgentRecord, agent.key, intended)


def confirm(
    tx: Tx,
    agent: AgentRecord,
    *,
    process: ProcessId,
    pane: str,
    server: ProcessId | None,
    adopted: bool,
    sandboxed: bool,
    limit_bytes: int,
) -> None:
    """The incarnation was started as this process, or was found as it where it is `adopted`."""
    event = AgentSpawned(
        incarnation=agent.incarnation,
        name=agent.name,
        role=agent.role,
        session=agent.session,
        process=process,
        adopted=adopted,
        sandboxed=sandboxed,
        limit_bytes=limit_bytes,
        run=agent.run,
        agent=agent.agent,
    )
    tx.append(event, f"spawned:{agent.key}:{agent.incarnation}")
    note_process(tx, agent_holder(agent.run, agent.agent), process)
    life = Running(since=tx.now, process=process, pane=pane, sandboxed=sandboxed)
    change(tx, AgentRecord, agent.key, lambda a: replace(a.become(life), server=server))


def dismiss(tx: Tx, agent: AgentRecord) -> None:
    """What was left of a given-up agent was ended."""

    def dismissed(record: AgentRecord) -> AgentRecord:
        life = record.life
        return replace(record, life=replace(life, dismissed=True)) if isinstance(life, GivenUp) else record

    change(tx, AgentRecord, agent.key, dismissed)
