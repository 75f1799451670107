"""The captain checks its run in virtual time: what it sees for each check, and what it tells of it, and how often."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from dogwatch.crew.captain.captain import Captain
from dogwatch.crew.captain.helm import Helm
from dogwatch.crew.captain.selfchecking import CHECK_S, REWRITE_S, check
from dogwatch.crew.shared.log import Log
from dogwatch.crew.shared.membership import renew
from dogwatch.ledger import open_store
from dogwatch.ledger.api import Store
from dogwatch.ledger.records import change, load
from dogwatch.model import keys
from dogwatch.model.life import GivenUp
from dogwatch.model.memory import HostRecord
from dogwatch.model.plan import Dispatch, Output, Phase, Plan
from dogwatch.model.records import AgentRecord, CheckResult, ChecksRecord, TaskRecord
from dogwatch.model.sight import Turn
from dogwatch.sim.berths import CaptainWorld
from dogwatch.testing.clock import ManualClock
from support.cli_ledgers import short_home
from support.commands import SOURCE, call
from support.virtual import Machine, VirtualHands
from unit.test_virtual_world import DRAFT, FINAL, LIMITS, begin, finish, plan

RUN = "v-1"
JUDGED = Dispatch(name="judged", to="judge", task="Judge.", outputs=(Output(path="judged.md"),))
TWO_PHASES = plan(
    Phase(name="draft", dispatches=(DRAFT,)), Phase(name="final", dispatches=(FINAL, JUDGED)), path="final.md"
)
PATIENT = replace(LIMITS, nudge_s=5000.0, peek_s=5000.0, deadline_s=9000.0)
"""Nobody acts on what the checks find."""


def at_work(ledger: Store, clock: ManualClock, what: Plan = TWO_PHASES) -> Machine:
    """The draft is accepted, and both agents are at work in the second phase."""
    machine = begin(ledger, clock, replace(what, limits=PATIENT))
    machine.run_until(lambda: bool(machine.events("task_accepted")), 60)
    machine.work_s = 2000.0
    machine.run_until(lambda: all(len(machine.agents[name].prompts) > n for name, n in (("writer", 1), ("judge", 0))))
    return machine


def captain_of(machine: Machine) -> Helm:
    """The captain's own means, as in one of its steps."""
    berth = machine.berth("captain", RUN)
    assert berth is not None
    assert isinstance(berth.member, Captain)
    berth.member.lease = renew(machine.ledger, berth.member.lease, machine.now)
    world = CaptainWorld(berth.eyes, VirtualHands(machine, "captain", RUN), berth.door)
    return Helm(world, machine.ledger, berth.member.lease, RUN, machine.now, Log("captain", RUN, write=machine.note))


def later(machine: Machine) -> Helm:
    """The captain one round later, in a crew that lives and has done nothing meanwhile."""
    machine.clock.advance(CHECK_S)
    for berth in machine.crew:
        berth.eyes.pulse()
    return captain_of(machine)


def kept(machine: Machine) -> dict[str, CheckResult]:
    """The latest round that is on the ledger."""
    record = machine.ledger.read(lambda reader: load(reader, ChecksRecord, f"checks/{RUN}"))
    return {one.name: one for one in record.results} if record is not None else {}


def told(machine: Machine) -> list[dict[str, str]]:
    return [dict(event.body) for event in machine.events("self_check_failed")]


def loses_its_session(machine: Machine) -> None:
    machine.agents["judge"].has_session = False


def dies(machine: Machine) -> None:
    machine.kill(machine.agents["judge"].process)


def writes_nothing_in_time(machine: Machine) -> None:
    sent = machine.now.plus(CHECK_S - 2400)
    machine.ledger.run(
        lambda tx: change(tx, TaskRecord, f"task/{RUN}/judged", lambda task: replace(task, dispatched=sent))
    )


def runs_short_of_memory(machine: Machine) -> None:
    machine.ledger.run(
        lambda tx: change(
            tx, HostRecord, keys.host(tx.host), lambda h: replace(h, at=tx.now, zone="RED", why="1 GB is left")
        )
    )


def is_given_up_over_its_claim(machine: Machine) -> None:
    """Nobody expects its process to live any more."""
    machine.kill(machine.agents["judge"].process)
    machine.ledger.run(
        lambda tx: change(tx, AgentRecord, f"agent/{RUN}/judge", lambda a: replace(a, life=GivenUp(cause="it failed")))
    )


def loses_an_accepted_artifact(machine: Machine) -> None:
    del machine.files[f"/out/{RUN}/draft.md"]


def does_not_report(machine: Machine) -> None:
    judge, mono = machine.agents["judge"], machine.now.mono
    machine.write(f"/out/{RUN}/judged.md", b"judged")
    judge.turn = Turn("idle", mono, mono, judge.process.pid, judge.turn.receipts)


CASES: dict[str, tuple[Callable[[Machine], None], str]] = {
    "AGENT_SESSIONS_ALIVE": (loses_its_session, "judge has no session"),
    "AGENT_PROCESSES_ALIVE": (dies, "judge is dead"),
    "OUTPUTS_FRESH": (writes_nothing_in_time, "judged: nothing new for 2400 s, 1800 s were expected"),
    "MEMORY_HEADROOM": (runs_short_of_memory, "MEMORY_CRITICAL: 1 GB is left"),
    "CLAIMS_VALID": (is_given_up_over_its_claim, "judged is held by judge, who was given up"),
    "PHASE_GATE": (loses_an_accepted_artifact, "draft: draft.md is not written"),
    "WATCHDOG_TIER3_OUTPUT_PEEK": (does_not_report, "judged of judge is written and not reported"),
}


@pytest.mark.parametrize("name", CASES)
def test_what_the_captain_sees_fails_that_check_alone_and_is_told_once(
    ledger: Store, clock: ManualClock, name: str
) -> None:
    machine = at_work(ledger, clock)
    helm = captain_of(machine)
    well = check(helm, helm.view(), None)
    assert {one.name for one in well.results if one.result == "failed"} == set()
    cause, detail = CASES[name]
    cause(machine)
    helm = later(machine)
    ill = check(helm, helm.view(), well)
    assert [(one.name, one.detail) for one in ill.results if one.result == "failed"] == [(name, detail)]
    assert (kept(machine)[name].result, kept(machine)[name].detail) == ("failed", detail)
    assert kept(machine)[name].since == helm.now
    assert told(machine) == [{"check": name, "detail": detail}]
    for _ in range(int(REWRITE_S / CHECK_S)):
        again = later(machine)
        ill = check(again, again.view(), ill)
    assert ill.at == again.now, "it was written anew"
    successor = later(machine)
    check(successor, successor.view(), None)
    assert kept(machine)[name].since == helm.now, "it has been so since then"
    assert told(machine) == [{"check": name, "detail": detail}], "also a captain that takes over tells it once"


@pytest.fixture
def home() -> Iterator[Path]:
    with short_home() as folder:
        yield folder


@pytest.fixture
def home_ledger(home: Path, clock: ManualClock) -> Iterator[Store]:
    """A ledger where the command line finds it."""
    store = open_store(str(home / "ledger.db"), clock)
    yield store
    store.close()


def test_a_failure_is_told_once_each_time_it_comes_and_the_command_line_shows_it(
    home: Path, home_ledger: Store, clock: ManualClock
) -> None:
    machine = at_work(home_ledger, clock)
    path = f"/out/{RUN}/draft.md"
    said = {"check": "PHASE_GATE", "detail": "draft: draft.md is not written"}

    def becomes(result: str) -> None:
        machine.run_until(lambda: kept(machine)["PHASE_GATE"].result == result, 2 * CHECK_S)

    def shown() -> tuple[int, list[tuple[int, str]]]:
        done = call(["status", RUN, "--checks", "--json"], {"DOGWATCH_HOME": str(home), "PYTHONPATH": SOURCE}, home)
        assert done.stdout, done.stderr
        checks = json.loads(done.stdout)["checks"]
        return done.returncode, [(one["number"], one["detail"]) for one in checks if one["result"] == "failed"]

    machine.run_until(lambda: bool(kept(machine)), 2 * CHECK_S)
    becomes("ok")
    assert shown() == (0, [])
    content = machine.files.pop(path)
    becomes("failed")
    assert shown() == (1, [(12, said["detail"])])
    until = machine.now.mono + 3 * REWRITE_S
    machine.run_until(lambda: machine.now.mono > until, 4 * REWRITE_S)
    assert told(machine) == [said], "as long as it lasts"
    machine.files[path] = content
    becomes("ok")
    assert shown() == (0, [])
    del machine.files[path]
    becomes("failed")
    assert told(machine) == [said, said], "it has come back"


def test_a_healthy_run_fails_no_check_from_its_beginning_to_its_end(ledger: Store, clock: ManualClock) -> None:
    machine = begin(ledger, clock, TWO_PHASES)
    machine.work_s = 5 * CHECK_S
    seen: set[tuple[str, str]] = set()

    def is_over() -> bool:
        seen.update((one.name, one.result) for one in kept(machine).values())
        return machine.view(RUN).run.cleared

    machine.run_until(is_over, 600)
    assert finish(machine) == ("COMPLETED", "")
    assert told(machine) == []
    not_applicable = {name for name, result in seen if result == "not applicable"}
    assert not_applicable == {"CONTEXT_HEADROOM", "PARTITION_LIVENESS", "RESERVATIONS_RESPECTED"}
    assert {name for name, result in seen if result == "ok"} == set(kept(machine)) - not_applicable
    assert {result for _, result in seen} == {"ok", "not applicable"}
