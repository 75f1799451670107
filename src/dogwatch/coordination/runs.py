"""How a run comes into being: its plan, its record and its agents, in one transaction."""

from __future__ import annotations

from dogwatch.coordination.staffing import staff
from dogwatch.errors import RefusedError
from dogwatch.ledger.api import Tx
from dogwatch.ledger.records import save
from dogwatch.model.admission import QueuedRun
from dogwatch.model.codec import encode
from dogwatch.model.events.runs import RunCreated
from dogwatch.model.plan import Plan
from dogwatch.model.records import RunRecord, Stage
from dogwatch.model.view import RunView


def create_run(
    tx: Tx,
    plan: Plan,
    project: str,
    output: str,
    spec_path: str,
    stage: Stage | None = None,
    *,
    name: str = "",
    group: str = "",
    ceiling: int = 0,
) -> RunRecord:
    """A new run at the end of the queue, a rehearsal where it has a stage. `output` is the folder that holds all runs'
    outputs. Without a name it gets that of its pipeline and the next free number; of a group only `ceiling` run at
    once (0: no such limit)."""
    number = _next(tx, f"counter/{plan.name}")
    if name and tx.get(f"run/{name}") is not None:
        raise RefusedError(f"there is a run {name} already", hint="dogwatch status shows it; choose another --prefix")
    while not name or tx.get(f"run/{name}") is not None:
        name = f"{plan.name}-{number}"
        number += 1
    run = RunRecord(
        run=name,
        spec=spec_path,
        project=project,
        output=f"{output}/{name}",
        created=tx.now,
        sensitive=plan.sensitive,
        deadline_s=plan.limits.deadline_s,
        stage=stage,
    )
    tx.put(f"plan/{name}", encode(plan), 0)
    tx.put(f"active/{name}", {}, 0)
    save(tx, QueuedRun(run=name, number=_next(tx, "queue"), group=group, ceiling=ceiling))
    save(tx, run)
    view = RunView(plan=plan, run=run)
    for role in plan.roles:
        for agent in role.agents():
            staff(tx, view, agent, role.name)
    event = RunCreated(
        spec=spec_path,
        agents=tuple(plan.agents()),
        phases=tuple(phase.name for phase in plan.phases),
        output=run.output,
        rehearsal=stage is not None,
        run=name,
    )
    tx.append(event, f"created:{name}")
    return run


def _next(tx: Tx, key: str) -> int:
    counter = tx.get(key)
    number = int(counter.body["last"]) + 1 if counter else 1
    tx.put(key, {"last": number})
    return number
