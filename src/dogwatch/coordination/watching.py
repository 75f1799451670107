"""What the watchdog has seen: its record for people, the alerts that it raises, and what it tells once."""

from __future__ import annotations

from dogwatch.coordination.notices import push_notice
from dogwatch.ledger.api import Reader, Tx
from dogwatch.ledger.records import load, save
from dogwatch.model import keys
from dogwatch.model.events.alerts import AlertRaised, FleetHeld
from dogwatch.model.events.clients import AgentError, ContextCompacted, ContextLow, ScreenUnknown
from dogwatch.model.keys import alerts_queue
from dogwatch.model.records import AgentRecord, RunRecord, WatchRecord
from dogwatch.model.sight import Sight
from dogwatch.model.tally import Failure
from dogwatch.policy import alerts
from dogwatch.policy.agent_memory import memory_words


def keep(tx: Tx, record: WatchRecord) -> None:
    """What was seen of all agents of a run, for `dogwatch status` and its like."""
    save(tx, record)


def raise_alert(tx: Tx, agent: AgentRecord, told: AlertRaised) -> bool:
    """Once for each stall until the captain has settled it: the same stall has the same id, also for a watchdog that
    starts anew. False where it was raised before, or `agent` is not what the ledger has any more."""
    item_id = f"{agent.agent}{told.stall}/{agent.alerts}"
    if not _stands(tx, agent) or tx.push(alerts_queue(agent.run), told.body, item_id) is None:
        return False
    return tx.append(told.but(alert=item_id))


def tell(tx: Tx, agent: AgentRecord, told: AlertRaised, alert: str) -> bool | None:
    """An alert for people: recorded once under its id, and settled by nobody. None where `agent` is not what the ledger
    has any more."""
    event = told.but(alert=alert)
    if not _stands(tx, agent):
        return None
    if told.tier == len(alerts.TIERS) - 1:
        title = f"{agent.agent}: {told.diagnosis}, quiet for {told.quiet_s:.0f} s"
        text = "\n".join(alerts.words(event.body))
        push_notice(tx, agent.run, "escalation", alert, title, text, agent.agent)
    return tx.append(event, f"alert:{agent.run}:{alert}")


def tell_doubt(tx: Tx, run: str, number: str, why: str) -> bool:
    """All agents at once: one alert for all of them. `number` names the occasion, which is told once."""
    push_notice(tx, run, "held", f"doubt:{number}", "nothing is done for now", why)
    return tx.append(FleetHeld(why=why, run=run), f"held:{run}:{number}")


def tell_compacted(tx: Tx, agent: AgentRecord, sight: Sight) -> bool:
    """That the agent's context was made shorter, once each time."""
    event = ContextCompacted(incarnation=agent.incarnation, run=agent.run, agent=agent.agent)
    return tx.append(event, f"compacted:{_context(agent, sight)}")


def tell_context_low(tx: Tx, agent: AgentRecord, sight: Sight, limit: float) -> bool:
    """That the agent's context runs out, once until it was made shorter."""
    event = ContextLow(
        incarnation=agent.incarnation,
        used=round(sight.context or 0.0, 3),
        limit=limit,
        run=agent.run,
        agent=agent.agent,
    )
    return tx.append(event, f"context:{_context(agent, sight)}")


def tell_out_of_memory(tx: Tx, agent: AgentRecord, sight: Sight) -> bool:
    """That the kernel has ended a process of the agent: its client may live on and not know why its tool died."""
    failure = Failure("out_of_memory", message=" ".join(memory_words(sight.oom_kills, sight.oom_limit_bytes)))
    event = AgentError(
        incarnation=agent.incarnation,
        severity=failure.severity,
        count=sight.oom_kills,
        type=failure.type,
        tool=failure.tool,
        message=failure.message,
        run=agent.run,
        agent=agent.agent,
    )
    return tx.append(event, f"oom:{agent.key}:{agent.incarnation}:{sight.oom_kills}")


def tell_unknown_screen(tx: Tx, agent: AgentRecord, sight: Sight, harness: str, tested: str, shape: str) -> bool:
    """A screen that no pattern of the client's harness knows, once for each shape. `tested` is the version of the
    client that the harness was tested with."""
    event = ScreenUnknown(
        incarnation=agent.incarnation,
        harness=harness,
        tested=tested,
        turn=sight.turn.state,
        lines=tuple(sight.lines),
        run=agent.run,
        agent=agent.agent,
    )
    return tx.append(event, f"strange:{agent.key}:{agent.incarnation}:{shape}")


def _context(agent: AgentRecord, sight: Sight) -> str:
    """The stretch of the agent's context since it was last made shorter."""
    return f"{agent.key}:{agent.incarnation}:{sight.turn.compacted:.3f}"


def _stands(reader: Reader, agent: AgentRecord) -> bool:
    """Whether what was looked at is still what the ledger has. Where not, the captain was at it meanwhile: it was not a
    stall that was seen, but the captain's act."""
    run = load(reader, RunRecord, keys.run(agent.run))
    return run is not None and not run.over and load(reader, AgentRecord, agent.key) == agent
