"""Gates: jobs that end in a pass, or in a failure with its reason."""

from __future__ import annotations

from dataclasses import replace

from dogwatch.coordination import jobs
from dogwatch.coordination.admission import release
from dogwatch.coordination.launches import gate_launch
from dogwatch.coordination.notices import push_notice
from dogwatch.ledger.api import Tx
from dogwatch.ledger.records import save
from dogwatch.model.events.gates import GateFailed, GatePassed, GateStarted, PhaseBlocked
from dogwatch.model.records import GateRecord


def intend(tx: Tx, record: GateRecord) -> None:
    """This attempt is about to be started."""
    jobs.intend(tx, record)
    event = GateStarted(gate=record.gate, attempt=record.attempt, run=record.run)
    tx.append(event, f"gate:{record.key}:{record.attempt}")


def block(tx: Tx, record: GateRecord, phase: str, reason: str) -> None:
    """Which data the phase waits for is said whenever it changes; a person is called once for each attempt."""
    save(tx, replace(record, reason=reason))
    tx.append(PhaseBlocked(phase=phase, gate=record.gate, reason=reason, run=record.run))
    title = f"phase {phase} waits for its data"
    push_notice(tx, record.run, "escalation", f"{record.key}:{record.attempt}", title, reason)


def conclude(tx: Tx, record: GateRecord, reason: str, code: int | None) -> None:
    """The gate has passed, or has failed for this reason."""
    save(tx, replace(record, state="failed" if reason else "passed", reason=reason, exit_code=code))
    release(tx, gate_launch(record).holder)
    ended = GateFailed if reason else GatePassed
    event = ended(gate=record.gate, attempt=record.attempt, exit_code=code, reason=reason, run=record.run)
    tx.append(event, f"gate:{record.key}:{record.attempt}:end")


def reset(tx: Tx, gate: GateRecord) -> None:
    """Whatever has passed has passed for earlier work: the gate must be passed again."""
    save(tx, GateRecord(run=gate.run, phase=gate.phase, gate=gate.gate, attempt=gate.attempt + 1))
