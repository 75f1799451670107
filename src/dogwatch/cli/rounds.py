"""Which runs a command asks for, and what the ledger has of them already: `PREFIX-tN-rM`, and `-2`, `-3` … behind it
for further attempts."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from dogwatch.coordination.runs import create_run
from dogwatch.errors import RefusedError, UsageError
from dogwatch.ledger.api import Reader, Tx
from dogwatch.ledger.records import load, save
from dogwatch.model.admission import QueuedRun
from dogwatch.model.plan import Plan
from dogwatch.model.records import RunRecord, Stage

NAME_LENGTH_MAX = 40
"""What `DOGWATCH_HOME` leaves room for in the paths of a run's sockets."""
ATTEMPTS_MAX = 99
DELIVERED = ("COMPLETED", "PARTIAL")

_PREFIX = re.compile(r"[a-z][a-z0-9_-]*")


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
    """What a run is made of: its plan as it is executed, where its agents work, where its outputs go, its stage."""

    plan: Plan
    project: str
    output: str
    stage: Stage | None = None


def wanted(
    files: Sequence[tuple[str, Plan]], rounds: int, prefix: str, project: str, rehearse: bool = False
) -> list[Wanted]:
    """The runs in their order: all files of the first round, then all of the second …"""
    if prefix:
        check_prefix(prefix, len(files), rounds)
    return [
        Wanted(
            spec=spec,
            plan=plan,
            project=project,
            name=f"{prefix}-t{number}-r{turn}" if prefix else "",
            rehearse=rehearse,
        )
        for turn in range(1, rounds + 1)
        for number, (spec, plan) in enumerate(files, 1)
    ]


def check_prefix(prefix: str, files: int, rounds: int) -> None:
    """UsageError where names that begin so cannot be names of runs."""
    if not _PREFIX.fullmatch(prefix):
        raise UsageError(
            f"--prefix {prefix!r} cannot begin a run's name",
            hint="lower-case letters, digits, - and _, the first one a letter: for example --prefix ct-v6",
        )
    room = NAME_LENGTH_MAX - len(f"-t{files}-r{rounds}-{ATTEMPTS_MAX}")
    if len(prefix) > room:
        raise UsageError(
            f"--prefix {prefix!r} is too long: it has {len(prefix)} characters, {room} fit",
            hint=f"a run's name has at most {NAME_LENGTH_MAX} characters, with -t{files}-r{rounds} and its attempt",
        )


def attempts_of(reader: Reader, want: Wanted) -> list[RunRecord]:
    """What the ledger has of the run, in the order of its attempts. RefusedError where it is another one."""
    found: list[RunRecord] = []
    while want.name and (record := load(reader, RunRecord, f"run/{attempt(want.name, len(found) + 1)}")) is not None:
        _refuse_other(reader, want, record)
        found.append(record)
    return found


def attempt(name: str, number: int) -> str:
    """The name of the n-th attempt of a run."""
    return name if number == 1 else f"{name}-{number}"


def is_kept(attempts: Sequence[RunRecord]) -> bool:
    """Whether nothing has to be made: the latest attempt has delivered, or still lives."""
    return bool(attempts) and (not attempts[-1].over or attempts[-1].state in DELIVERED)


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
        make = partial(create_run, tx, spec_path=want.spec, group=group, ceiling=ceiling)
        name = attempt(want.name, len(attempts) + 1) if want.name else ""
        one = made_of[number]
        names.append(make(plan=one.plan, project=one.project, output=one.output, stage=one.stage, name=name).run)
    return names


def runs_with(reader: Reader, prefix: str) -> list[str]:
    """All runs that were made with the prefix, in their order: by round, file and attempt."""
    shape = re.compile(re.escape(prefix) + r"-t(\d+)-r(\d+)(?:-(\d+))?")
    found = []
    for document in reader.scan(f"run/{prefix}-t"):
        name = document.key.removeprefix("run/")
        if matched := shape.fullmatch(name):
            number, turn, again = (int(part or 1) for part in matched.groups())
            found.append(((turn, number, again), name))
    return [name for _, name in sorted(found)]


def first_attempt(name: str, prefix: str) -> str:
    """The name under which the run was asked for."""
    shape = re.compile(f"({re.escape(prefix)}-t\\d+-r\\d+)-\\d+")
    matched = shape.fullmatch(name) if prefix else None
    return matched.group(1) if matched else name


def _change_ceiling(tx: Tx, run: str, group: str, ceiling: int) -> None:
    """What is said now holds also for a run that was put into the queue before."""
    queued = load(tx, QueuedRun, f"queued/{run}")
    if queued is not None and (queued.group, queued.ceiling) != (group, ceiling):
        save(tx, replace(queued, group=group, ceiling=ceiling))


def _refuse_other(reader: Reader, want: Wanted, record: RunRecord) -> None:
    difference = ""
    if record.spec != want.spec:
        difference = f"is of {record.spec}, not of {want.spec}"
    elif (record.stage is not None) != want.rehearse:
        difference = "is a rehearsal" if record.stage is not None else "is no rehearsal"
    elif not _is_same(load(reader, Plan, f"plan/{record.run}"), want):
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
