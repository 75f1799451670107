"""Rounds: the runs that one command asks for, made in one transaction; what the ledger has of them already is kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from dogwatch.coordination.runs import create_run
from dogwatch.errors import RefusedError
from dogwatch.ledger.api import Reader, Tx
from dogwatch.ledger.records import load, save
from dogwatch.model import keys
from dogwatch.model.admission import QueuedRun
from dogwatch.model.folders import EVERYWHERE
from dogwatch.model.plan import Plan
from dogwatch.model.records import RunRecord, Stage

ATTEMPTS_MAX = 99


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """One run that is asked for. Without a name it is a new one, with the next number of its pipeline."""

    spec: str
    plan: Plan
    project: str
    name: str = ""
    rehearse: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Ingredients:
    """What a run is made of: its plan as it is executed, where its agents work, where its outputs go, its stage.
    `root` is the folder that other hosts may have somewhere else."""

    plan: Plan
    project: str
    output: str
    root: str = EVERYWHERE
    stage: Stage | None = None


def attempts_of(reader: Reader, want: Wanted) -> list[RunRecord]:
    """What the ledger has of the run, in the order of its attempts. RefusedError where it is another one."""
    found: list[RunRecord] = []
    while want.name and (record := load(reader, RunRecord, keys.run(attempt(want.name, len(found) + 1)))) is not None:
        _refuse_other(reader, want, record)
        found.append(record)
    return found


def attempt(name: str, number: int) -> str:
    """The name of the n-th attempt of a run."""
    return name if number == 1 else f"{name}-{number}"


def make_runs(
    tx: Tx,
    wants: Sequence[Wanted],
    known: Sequence[Sequence[str]],
    made_of: Mapping[int, Ingredients],
    group: str,
    ceiling: int,
) -> list[str]:
    """The names of all runs that were asked for; those with ingredients are made, at the end of the queue, the others
    are there. `known` is what the ledger had when that was decided."""
    names = []
    for number, want in enumerate(wants):
        attempts = attempts_of(tx, want)
        if [one.run for one in attempts] != list(known[number]):
            raise RefusedError(
                f"somebody else has just started {want.name}", hint="the same command again goes on with it"
            )
        if number not in made_of:
            names.append(attempts[-1].run)
            _change_ceiling(tx, names[-1], group, ceiling)
            continue
        if len(attempts) >= ATTEMPTS_MAX:
            raise RefusedError(f"{want.name} was tried {len(attempts)} times", hint="choose another --prefix")
        one = made_of[number]
        make = partial(create_run, tx, spec_path=want.spec, root=one.root, group=group, ceiling=ceiling)
        name = attempt(want.name, len(attempts) + 1) if want.name else ""
        names.append(make(plan=one.plan, project=one.project, output=one.output, stage=one.stage, name=name).run)
    return names


def _change_ceiling(tx: Tx, run: str, group: str, ceiling: int) -> None:
    """What is said now holds also for a run that was put into the queue before."""
    queued = load(tx, QueuedRun, keys.queued(run))
    if queued is not None and (queued.group, queued.ceiling) != (group, ceiling):
        save(tx, replace(queued, group=group, ceiling=ceiling))


def _refuse_other(reader: Reader, want: Wanted, record: RunRecord) -> None:
    difference = ""
    if record.spec != want.spec:
        difference = f"is of {record.spec}, not of {want.spec}"
    elif (record.stage is not None) != want.rehearse:
        difference = "is a rehearsal" if record.stage is not None else "is no rehearsal"
    elif not _is_same(load(reader, Plan, keys.plan(record.run)), want):
        difference = f"was made when {want.spec} or its settings were others"
    elif record.stage is None and record.project != want.project:
        difference = f"works in {record.project}, not in {want.project}"
    if difference:
        raise RefusedError(
            f"there is a run {record.run} already, and it {difference}",
            hint="the same files in the same order with the same settings go on; for others choose another --prefix",
        )


def _is_same(plan: Plan | None, want: Wanted) -> bool:
    if plan is None or not want.rehearse:
        return plan == want.plan
    return _unstaged(plan) == _unstaged(want.plan)


def _unstaged(plan: Plan) -> Plan:
    """The plan without what a rehearsal changes in it."""
    roles = tuple(replace(role, environment={}) for role in plan.roles)
    return replace(plan, roles=roles, notify=replace(plan.notify, on=()))
