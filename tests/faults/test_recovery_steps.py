"""Single steps of captain and watchdog on a machine made of stubs: what they see, and what fails, is set by hand."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from dogwatch.actions.spawn import Spawned
from dogwatch.coordination.crew import LEASE_S
from dogwatch.coordination.runs import create_run
from dogwatch.coordination.usage import AgentTally
from dogwatch.crew.captain.captain import FAILURES_MAX, Captain
from dogwatch.crew.shared.log import Log
from dogwatch.crew.shared.membership import BEAT_S, join
from dogwatch.crew.shared.worlds import Request
from dogwatch.crew.watchdog.watchdog import Watchdog
from dogwatch.ledger.api import START, Lease, StoredEvent
from dogwatch.ledger.records import change, load_run
from dogwatch.ledger.sqlite import SqliteStore
from dogwatch.model.memory import SILENT_S, HostSettings, Readings
from dogwatch.model.moment import Moment
from dogwatch.model.plan import ByteCheck, Dispatch, Gate, Limits, Notify, Output, Phase, Plan, Role
from dogwatch.model.process import ProcessId
from dogwatch.model.records import AgentRecord, MessageRecord, RunRecord
from dogwatch.model.sight import Sight, Turn
from dogwatch.model.view import RunView
from dogwatch.policy.ladder import LOOK_AGAIN_S
from dogwatch.testing.clock import ManualClock
from support.helpers import open_gate

WORKING = Sight(process="alive", session="alive", turn=Turn("working", 1000.0, 1000.0), screen="busy")
DEAD = Sight(process="dead", session="dead", turn=Turn("working", 1000.0, 1000.0))
CREW = ProcessId("boot-1", 10, 10)
WATCHDOG = ProcessId("boot-1", 11, 11)
DRAFT = Phase(
    name="draft",
    dispatches=(Dispatch(name="draft", to="writer", task="Write it.", outputs=(Output(path="draft.md"),)),),
)
CHECK = Phase(name="check", gates=(Gate(name="lint", command=("lint",)),))


class Eyes:
    """Sees what it was told to see."""

    def __init__(self) -> None:
        self.sight = WORKING
        self.living = {CREW, WATCHDOG}
        self.error: Exception | None = None
        self.meanwhile: Callable[[], object] | None = None

    def look(self, view: RunView, agents: Sequence[str], *, screens: bool) -> dict[str, Sight]:
        if self.error is not None:
            raise self.error
        meanwhile, self.meanwhile = self.meanwhile, None
        if meanwhile is not None:
            meanwhile()
        return dict.fromkeys(agents, self.sight)

    def life(self, process: ProcessId) -> str:
        return "alive" if process in self.living else "dead"

    def silence_s(self, member: str, run: str, now: Moment) -> float | None:
        return 0.0

    def pulse(self) -> None:
        pass

    def watch(self, processes: Sequence[ProcessId]) -> None:
        pass

    def watch_also(self, process: ProcessId) -> None:
        pass

    def memory(self, agents: Mapping[str, ProcessId], ceiling_bytes: int) -> Readings:
        return Readings()

    def settings(self) -> tuple[HostSettings, str]:
        return HostSettings(), ""

    def tallies(self, view: RunView, agents: Sequence[str]) -> dict[str, AgentTally]:
        return {}

    def version(self, path: str) -> None:
        return None

    def read_at(self, view: RunView, agent: str, path: str, lines: int) -> float:
        return 0.0

    def marker(self, folder: str, outputs: Sequence[Output]) -> dict[str, str]:
        return {output.path: "" for output in outputs}

    def unwritten(self, folder: str, outputs: Sequence[Output], before: Mapping[str, str]) -> str:
        return ""

    def failed_check(self, folder: str, check: ByteCheck) -> tuple[str, str]:
        return "", "0" * 64


class Hands:
    """Does nothing, and fails where it was told to."""

    def __init__(self) -> None:
        self.spawned: list[int] = []
        self.gates: list[int] = []
        self.gate_errors: list[OSError] = []
        self.clear_error: Exception | None = None

    def prepare(self, run: RunRecord) -> None:
        pass

    def spawn(self, run: RunRecord, plan: Plan, agent: AgentRecord) -> Spawned:
        self.spawned.append(agent.incarnation)
        return Spawned(ProcessId("boot-1", 100 + agent.incarnation, 1), "%1", None, adopted=False)

    def dismiss(self, agent: AgentRecord) -> None:
        pass

    def paste(self, agent: AgentRecord, message: MessageRecord, text: str) -> bool:
        return True

    def put_in_box(self, agent: AgentRecord, message: MessageRecord, text: str) -> None:
        raise AssertionError("no agent here has a post box")

    def take_from_box(self, agent: AgentRecord, message: MessageRecord) -> bool:
        raise AssertionError("no agent here has a post box")

    def press(self, agent: AgentRecord, keys: Sequence[str]) -> bool:
        return True

    def keep_model(self, run: RunRecord) -> None:
        pass

    def end_turn(self, agent: AgentRecord, turn: Turn, ended: str) -> bool:
        return True

    def gate_words(self, run: str, phase: int, plan: Gate, attempt: int) -> str:
        return ""

    def ways(self, notify: Notify) -> Notify:
        return notify

    def start_notice(self, run: str, item: str, notice: Mapping[str, str], attempt: int, ways: Notify) -> ProcessId:
        raise AssertionError("no notice is expected")

    def start_check_in(
        self, run: RunRecord, plan: Plan, agent: AgentRecord, item: str, question: str, attempt: int
    ) -> ProcessId:
        raise AssertionError("nobody is asked here")

    def check_in_result(self, run: str, item: str, attempt: int) -> tuple[int, str, str] | None:
        raise AssertionError("nobody is asked here")

    def forget_check_in(self, run: str, item: str, attempts: int) -> None:
        raise AssertionError("nobody is asked here")

    def notice_result(self, run: str, item: str, attempt: int) -> list[tuple[str, str]] | None:
        raise AssertionError("no notice is expected")

    def start_gate(self, run: RunRecord, phase: int, plan: Gate, attempt: int) -> ProcessId:
        if self.gate_errors:
            raise self.gate_errors.pop()
        self.gates.append(attempt)
        return ProcessId("boot-1", 500 + attempt, 1)

    def gate_result(self, run: str, phase: int, plan: Gate, attempt: int) -> tuple[int, str] | None:
        return (0, "") if attempt in self.gates else None

    def clear(self, run: str, servers: Sequence[ProcessId]) -> int:
        if self.clear_error is not None:
            raise self.clear_error
        return 0

    def start_crew(self, member: str, run: str = "") -> None:
        pass

    def hold_launches(self, run: str, why: str) -> None:
        pass

    def end_silent_crew(self, process: ProcessId) -> None:
        raise AssertionError("nobody is silent here")


class Door:
    """Nobody calls."""

    def requests(self) -> Sequence[Request]:
        return []


@dataclass(frozen=True)
class World:
    eyes: Eyes = field(default_factory=Eyes)
    hands: Hands = field(default_factory=Hands)
    door: Door = field(default_factory=Door)

    @property
    def starter(self) -> Hands:
        return self.hands


class Bench:
    """One run with its captain and its watchdog, stepped by hand."""

    def __init__(self, path: Path, phase: Phase, limits: Limits) -> None:
        self.clock = ManualClock()
        self.ledger = SqliteStore(str(path / "ledger.db"), self.clock)
        self.world = World()
        role = Role(name="writer", harness="scripted", script="writer.json")
        plan = Plan(name="t", roles=(role,), phases=(phase,), deliverable=ByteCheck(path="draft.md"), limits=limits)
        self.run = self.ledger.run(lambda tx: create_run(tx, plan, "/p", "/p/out", "/p/t.yaml")).run
        log = Log("test", self.run, write=lambda line: None)
        self.captain = Captain(self.run, self._join("captain", CREW), log)
        self.watchdog = Watchdog(self.run, self._join("watchdog", WATCHDOG), log)

    def _join(self, member: str, process: ProcessId) -> Lease:
        lease = join(self.ledger, member, self.run, process, self.world.eyes.life, self.clock.now())
        assert lease is not None
        return lease

    def command(self) -> float | None:
        """One step of the captain."""
        open_gate(self.ledger)
        return self.captain.step(self.world, self.ledger, self.clock.now())

    def watch(self) -> float | None:
        """One step of the watchdog."""
        return self.watchdog.step(self.world, self.ledger, self.clock.now())

    def view(self) -> RunView:
        return self.ledger.read(lambda reader: load_run(reader, self.run))

    def events(self, kind: str) -> list[StoredEvent]:
        return [event for event in self.ledger.since(START, 1000) if event.kind == kind]


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path, DRAFT, Limits())
    yield made
    made.ledger.close()


@pytest.fixture
def gated(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path, CHECK, Limits())
    yield made
    made.ledger.close()


# Alerts.


def test_an_alert_that_was_withdrawn_is_raised_again_when_the_stall_lasts(bench: Bench) -> None:
    bench.command()
    assert bench.world.hands.spawned == [1]
    bench.world.eyes.sight = DEAD
    bench.watch()
    bench.watch()
    assert len(bench.events("alert_raised")) == 1, "one stall, one alert"
    # At the moment of acting it looks alive: a mistaken look of either, whichever it was.
    bench.world.eyes.sight = WORKING
    bench.command()
    assert len(bench.events("alert_withdrawn")) == 1
    bench.world.eyes.sight = DEAD
    bench.watch()
    assert len(bench.events("alert_raised")) == 1, "not at once"
    bench.clock.advance(LOOK_AGAIN_S + 0.1)
    bench.watch()
    assert len(bench.events("alert_raised")) == 2
    bench.command()
    assert [event.body["reason"] for event in bench.events("agent_restarted")] == ["exited"]
    assert bench.world.hands.spawned == [1, 2]


def test_what_the_captain_did_while_the_watchdog_looked_is_no_stall(bench: Bench) -> None:
    bench.command()
    bench.world.eyes.sight = DEAD

    def end() -> None:
        bench.ledger.run(lambda tx: change(tx, RunRecord, f"run/{bench.run}", lambda run: replace(run, state="FAILED")))

    bench.world.eyes.meanwhile = end
    bench.watch()
    assert bench.events("alert_raised") == []


def test_an_agent_that_gets_a_new_incarnation_while_the_watchdog_looks_has_no_stall(bench: Bench) -> None:
    bench.command()
    bench.world.eyes.sight = DEAD
    key = f"agent/{bench.run}/writer"

    def order() -> None:
        bench.ledger.run(lambda tx: change(tx, AgentRecord, key, lambda agent: replace(agent, incarnation=2)))

    bench.world.eyes.meanwhile = order
    bench.watch()
    assert bench.events("alert_raised") == []
    bench.watch()
    assert [event.body["incarnation"] for event in bench.events("alert_raised")] == [2]


def test_a_stall_that_is_withdrawn_again_and_again_is_raised_again_and_again(bench: Bench) -> None:
    bench.command()
    for number in range(1, 8):
        bench.world.eyes.sight = DEAD
        bench.watch()
        assert len(bench.events("alert_raised")) == number
        bench.world.eyes.sight = WORKING
        bench.command()
        assert len(bench.events("alert_withdrawn")) == number
        bench.clock.advance(LOOK_AGAIN_S + 0.1)
    assert bench.world.hands.spawned == [1]
    assert len({event.body["alert"] for event in bench.events("alert_raised")}) == 7


def test_the_alert_about_one_incarnation_does_not_silence_that_about_the_next(bench: Bench) -> None:
    bench.command()
    bench.world.eyes.sight = DEAD
    for number in (1, 2):
        bench.watch()
        assert len(bench.events("alert_raised")) == number
        bench.command()
        bench.clock.advance(1.5)
        bench.command()
        assert len(bench.events("agent_restarted")) == number


# The sign of life.


@pytest.mark.parametrize("sweep_s", [0.3, 2.0, 40.0, 600.0])
def test_no_sweep_is_so_rare_that_its_member_looks_silent(tmp_path: Path, sweep_s: float) -> None:
    assert min(SILENT_S, LEASE_S) > 2 * BEAT_S
    bench = Bench(tmp_path, DRAFT, Limits(sweep_s=sweep_s))
    try:
        for _ in range(30):
            for wait_s in (bench.command(), bench.watch()):
                assert wait_s is not None
                assert wait_s <= BEAT_S
            bench.clock.advance(1.0)
    finally:
        bench.ledger.close()


# Steps that cannot be made.


def test_a_run_whose_steps_cannot_be_made_ends_with_what_was_wrong(bench: Bench) -> None:
    bench.command()
    bench.world.eyes.error = RuntimeError("the eyes are shut")
    for _ in range(FAILURES_MAX - 1):
        assert bench.command() is not None
        bench.clock.advance(1.0)
    assert not bench.view().run.over, "it is tried so many times"
    bench.command()
    run = bench.view().run
    assert (run.state, run.cause) == ("FAILED", "the captain could not go on: RuntimeError: the eyes are shut")
    assert bench.command() is None
    assert bench.view().run.cleared


def test_a_step_that_is_made_after_all_starts_the_count_anew(bench: Bench) -> None:
    bench.command()
    for _ in range(3):
        bench.world.eyes.error = RuntimeError("the eyes are shut")
        for _ in range(FAILURES_MAX - 1):
            bench.command()
            bench.clock.advance(1.0)
        bench.world.eyes.error = None
        bench.command()
    assert not bench.view().run.over


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN])
def test_what_the_machine_lacks_for_a_while_is_waited_for_and_ends_no_run(bench: Bench, number: int) -> None:
    bench.command()
    bench.world.eyes.error = OSError(number, "for a while")
    for _ in range(FAILURES_MAX * 3):
        with pytest.raises(OSError, match="for a while"):
            bench.command()
        bench.clock.advance(1.0)
    bench.world.eyes.error = None
    bench.command()
    assert not bench.view().run.over


def test_a_run_that_cannot_be_cleared_is_let_go_in_the_end(bench: Bench) -> None:
    bench.command()
    bench.world.eyes.error = RuntimeError("the eyes are shut")
    bench.world.hands.clear_error = RuntimeError("it will not go away")
    for _ in range(2 * FAILURES_MAX):
        assert not bench.view().run.cleared
        bench.command()
        bench.clock.advance(1.0)
    run = bench.view().run
    assert run.cleared
    assert "the eyes are shut" in run.cause
    # It is not said that nothing is left when that is not known.
    assert len(bench.events("run_not_cleared")) == 1
    assert not bench.events("run_cleared")


def command_to_the_end(bench: Bench) -> None:
    """Steps as the crew's loop makes them: what fails for want of the machine is made again a second later."""
    for _ in range(100):
        try:
            if bench.command() is None:
                return
        except OSError as error:
            assert error.errno == errno.EAGAIN  # noqa: PT017 - nothing else is to be waited for
        bench.clock.advance(1.0)
    raise AssertionError(f"no end: {bench.view().run}")


def test_a_gate_that_cannot_be_started_for_a_while_is_no_gate_that_failed(gated: Bench) -> None:
    gated.world.hands.gate_errors = [OSError(errno.EAGAIN, "no process left")] * 15
    command_to_the_end(gated)
    assert gated.view().run.state == "COMPLETED", gated.view().run.cause
    assert len(gated.world.hands.gates) == 1


def test_a_gate_that_can_never_be_started_fails_with_what_was_wrong(gated: Bench) -> None:
    gated.world.hands.gate_errors = [OSError(errno.ENOTDIR, "not a folder", "/p/out/t-1")] * 100
    command_to_the_end(gated)
    run = gated.view().run
    assert run.state == "FAILED"
    assert "/p/out/t-1" in run.cause, f"the cause does not say what was wrong: {run.cause}"
