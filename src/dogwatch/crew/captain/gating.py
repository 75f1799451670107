"""Runs a phase's gates: byte checks at once, commands as processes of their own. What is not a pass is a failure."""

from __future__ import annotations

from functools import partial

from dogwatch.coordination import gates
from dogwatch.coordination.launches import gate_launch
from dogwatch.crew.captain.admitting import admit, must_wait
from dogwatch.crew.captain.helm import Helm
from dogwatch.ledger.api import Tx
from dogwatch.model.plan import Gate
from dogwatch.model.records import GateRecord
from dogwatch.model.view import RunView
from dogwatch.policy.route import RunGate

ATTEMPTS_MAX = 10


def run_gate(helm: Helm, view: RunView, decision: RunGate) -> bool:
    """One step of the gate: it starts, or it is looked after; True when it has passed or failed."""
    plan = next(gate for gate in view.plan.phases[decision.phase].gates if gate.name == decision.gate)
    known = view.gates.get((decision.phase, plan.name))
    if plan.checks:
        reasons = [helm.world.eyes.failed_check(view.run.output, check)[0] for check in plan.checks]
        record = known or GateRecord(run=helm.run, phase=decision.phase, gate=plan.name)
        return _conclude(helm, record, "; ".join(reason for reason in reasons if reason), None)
    if known is None or known.process is None:
        return _start(helm, view, plan, decision.phase, known)
    result = helm.world.hands.gate_result(helm.run, decision.phase, plan, known.attempt)
    if result is not None:
        code, reason = result
        return _conclude(helm, known, f"exit code {code}" if reason and view.run.sensitive else reason, code)
    if helm.world.eyes.life(known.process) == "dead":
        # It may have written its result between the two looks.
        result = helm.world.hands.gate_result(helm.run, decision.phase, plan, known.attempt)
        return _start(helm, view, plan, decision.phase, known) if result is None else False
    if plan.partitions:
        _tell_blocked(helm, view, plan, known)
    return False


def _tell_blocked(helm: Helm, view: RunView, plan: Gate, known: GateRecord) -> None:
    """Which data the phase waits for is said whenever it changes; a person is called once."""
    words = helm.world.hands.gate_words(helm.run, known.phase, plan, known.attempt)
    if not words or words == known.reason:
        return
    phase = view.plan.phases[known.phase].name
    helm.record(partial(gates.block, record=known, phase=phase, reason=words))


def _start(helm: Helm, view: RunView, plan: Gate, phase: int, known: GateRecord | None) -> bool:
    """A new attempt is recorded before it is started: one that a killed captain had started is ended, not counted."""
    # An attempt that could not even be started is made again under its own number: it says nothing of the gate.
    attempt = 1 if known is None else known.attempt if known.process is None else known.attempt + 1
    if known is not None and attempt > ATTEMPTS_MAX * (view.run.returns + 1):
        return _conclude(helm, known, f"it did not come to an end in {known.attempt} attempts", None)
    record = GateRecord(run=helm.run, phase=phase, gate=plan.name, attempt=attempt)
    launch = gate_launch(record)

    def fn(tx: Tx) -> bool:
        if not admit(helm, tx, launch):
            return False
        gates.intend(tx, record)
        return True

    if must_wait(helm, launch) or not helm.record(fn):
        return False
    process = helm.world.hands.start_gate(view.run, phase, plan, attempt)
    helm.record(partial(gates.confirm, record=record, process=process))
    helm.world.eyes.watch_also(process)
    return False


def _conclude(helm: Helm, record: GateRecord, reason: str, code: int | None) -> bool:
    helm.record(partial(gates.conclude, record=record, reason=reason, code=code))
    return True
