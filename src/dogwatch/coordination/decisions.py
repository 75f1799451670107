"""The record of each action: why this one, what else could have been done, until when its effect must show, and what
came of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dogwatch.coordination.agents import BACKOFF_S_MAX
from dogwatch.ledger.api import Tx
from dogwatch.ledger.records import save
from dogwatch.model.events.alerts import ActionTaken, ActionVerified
from dogwatch.model.records import AgentRecord, DecisionRecord
from dogwatch.model.view import RunView
from dogwatch.policy.ladder import ONCE_S
from dogwatch.policy.verify import Outcome, alternatives


def decide(
    tx: Tx,
    view: RunView,
    agent: AgentRecord,
    action: str,
    diagnosis: str,
    evidence: Sequence[str],
    alert: str,
    subject: str = "",
) -> None:
    """The record of an action: why this one, and until when its effect must show."""
    limits = view.limits_of(agent.agent)
    started_s = limits.startup_s + BACKOFF_S_MAX
    verify_s = {"ESCALATE": ONCE_S, "RESTART": started_s, "REPLACE": started_s, "PROBE": 2 * limits.probe_s}
    verify_s["INTERRUPT"] = limits.probe_s + limits.receipt_s
    decision = DecisionRecord(
        run=agent.run,
        id=alert.replace("/", "."),
        agent=agent.agent,
        incarnation=agent.incarnation,
        action=action,
        diagnosis=diagnosis,
        alert=alert,
        subject=subject,
        evidence=tuple(evidence),
        alternatives=alternatives(action, diagnosis),
        at=tx.now,
        verify_by=tx.now.plus(verify_s.get(action, 2 * limits.nudge_s + limits.receipt_s)),
    )
    save(tx, decision)
    event = ActionTaken(
        decision=decision.id,
        action=action,
        diagnosis=diagnosis,
        evidence=decision.evidence,
        alternatives=decision.alternatives,
        alert=alert,
        run=agent.run,
        agent=agent.agent,
    )
    tx.append(event, f"action:{decision.run}:{decision.id}")


def conclude(tx: Tx, decision: DecisionRecord, found: Outcome) -> None:
    """The action's effect was looked for: the decision is open no more."""
    tx.delete(decision.key)
    save(tx, replace(decision, outcome=found.outcome, seen=found.seen))
    event = ActionVerified(
        decision=decision.id,
        action=decision.action,
        outcome=found.outcome,
        seen=found.seen,
        run=decision.run,
        agent=decision.agent,
    )
    tx.append(event, f"verified:{decision.run}:{decision.id}")
