"""Runs a phase's gates: byte checks at once, commands as jobs. What is not a pass is a failure."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from dogwatch.coordination import gates
from dogwatch.coordination.launches import gate_launch
from dogwatch.crew.captain.helm import Helm
from dogwatch.crew.captain.jobs import Attempts, Ended, Job, advance
from dogwatch.ledger.api import Tx
from dogwatch.model.admission import Launch
from dogwatch.model.plan import Gate
from dogwatch.model.process import ProcessId
from dogwatch.model.records import GateRecord
from dogwatch.model.view import RunView
from dogwatch.policy.route import RunGate

ATTEMPTS_MAX = 10
Failure = tuple[str, int | None]
"""Why a gate has failed (empty: it has passed), and its command's exit code where there is one."""


def run_gate(helm: Helm, view: RunView, decision: RunGate) -> bool:
    """One step of the gate: it starts, or it is looked after; True when it has passed or failed."""
    plan = next(gate for gate in view.plan.phases[decision.phase].gates if gate.name == decision.gate)
    known = view.gates.get((decision.phase, plan.name))
    job = GateJob(helm, view, plan, decision.phase)
    if plan.checks:
        reasons = [helm.world.eyes.failed_check(view.run.output, check)[0] for check in plan.checks]
        job.conclude(known or job.attempt(1), ("; ".join(reason for reason in reasons if reason), None))
        return True
    return advance(helm, job, known)


@dataclass(frozen=True, slots=True)
class GateJob(Job[GateRecord, Failure]):
    """A gate's command. An attempt of a captain that was killed is ended, and what came of it is not believed."""

    helm: Helm
    view: RunView
    plan: Gate
    phase: int

    @property
    def attempts(self) -> Attempts:
        return Attempts(attempts_max=ATTEMPTS_MAX * (self.view.run.returns + 1))

    def attempt(self, number: int) -> GateRecord:
        return GateRecord(run=self.helm.run, phase=self.phase, gate=self.plan.name, attempt=number)

    def launch(self, record: GateRecord) -> Launch:
        return gate_launch(record)

    def intend(self, tx: Tx, record: GateRecord) -> None:
        gates.intend(tx, record)

    def start(self, record: GateRecord) -> ProcessId:
        return self.helm.world.hands.start_gate(self.view.run, self.phase, self.plan, record.attempt)

    def result(self, record: GateRecord) -> Ended[Failure] | None:
        if record.process is None:
            return None
        found = self.helm.world.hands.gate_result(self.helm.run, self.phase, self.plan, record.attempt)
        if found is None:
            return None
        code, reason = found
        return Ended((f"exit code {code}" if reason and self.view.run.sensitive else reason, code))

    def lost(self, record: GateRecord) -> Failure:
        return f"it did not come to an end in {record.attempt} attempts", None

    def accompany(self, record: GateRecord) -> None:
        """Which data the phase waits for is said whenever it changes."""
        if not self.plan.partitions:
            return
        words = self.helm.world.hands.gate_words(self.helm.run, self.phase, self.plan, record.attempt)
        if words and words != record.reason:
            phase = self.view.plan.phases[self.phase].name
            self.helm.record(partial(gates.block, record=record, phase=phase, reason=words))

    def conclude(self, record: GateRecord, result: Failure) -> None:
        reason, code = result
        self.helm.record(partial(gates.conclude, record=record, reason=reason, code=code))
