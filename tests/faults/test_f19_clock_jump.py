"""F19: the wall clock steps by hours, or the machine is suspended and wakes up. No deadline passes for it, the jump is
an event, and whatever really is wrong afterwards is mended.

The clock of the machine belongs to everybody. So the processes of this fleet read a wall clock of their own: a
`sitecustomize` on their path adds what stands in a file. Only the fast hook and the files keep the machine's time.
"""

from __future__ import annotations

import re
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from dogwatch.model.process import ProcessId
from dogwatch.world.processes import crew_processes, identify, life, marked
from faults.watching import assert_unnoticed, beside, on_dispatch, process_of, watch
from support.fleet import Fleet
from support.helpers import wait_for

HOUR_S = 3600.0
MASS_HOLD_S = 3.0
CLAIM_S = 4.0
SILENT_S = 8.0
UNTIL_GO = {"tool": {"command": ["sh", "-c", 'until test -e "$DOGWATCH_PROJECT/go"; do sleep 0.1; done']}}

SITECUSTOMIZE = """
import pathlib, time
_machine_time, _step = time.time, pathlib.Path(__file__).with_name("step_s")
time.time = lambda: _machine_time() + float(_step.read_text())
"""


class ClockedFleet(Fleet):
    """A fleet whose wall clock can be set."""

    def __init__(self) -> None:
        super().__init__()
        self._clock = self.base / "clock"
        self._clock.mkdir()
        (self._clock / "sitecustomize.py").write_text(SITECUSTOMIZE)
        self.step_wall(0.0)

    @property
    def environment(self) -> dict[str, str]:
        before = super().environment
        return {**before, "PYTHONPATH": f"{self._clock}:{before['PYTHONPATH']}"}

    def step_wall(self, seconds: float) -> None:
        """From now on the wall clock is ahead of the machine's by so much, for all processes at one instant."""
        text = self._clock / "next"
        text.write_text(str(seconds))
        text.rename(self._clock / "step_s")

    def go(self) -> None:
        """Whoever waits for it goes on."""
        (self.project / "go").touch()


@pytest.fixture
def fleet() -> Iterator[ClockedFleet]:
    clocked = ClockedFleet()
    try:
        yield clocked
    finally:
        clocked.close()


def jumped_s(fleet: Fleet) -> float:
    """By how much the one event of the hold says that the clock has jumped."""
    held = fleet.events("fleet_held")
    assert len(held) == 1, fleet.tail()
    found = re.fullmatch(r"the clock jumped by (-?\d+) s", held[0].body["why"])
    assert found is not None, held[0].body
    return float(found[1])


@pytest.mark.parametrize("step_s", [3 * HOUR_S, -3 * HOUR_S], ids=["forward", "back"])
def test_f19_a_wall_clock_that_steps_by_hours_passes_no_deadline_and_is_told_once(
    fleet: ClockedFleet, step_s: float
) -> None:
    # All limits are below the step: a duration taken from the wall clock would be beyond every one of them.
    limits = {"mass_hold_s": MASS_HOLD_S, "claim_s": 60, "tier1_s": 60, "tier2_s": 90, "tier3_s": 120}
    pipeline = beside("writer", "clerk", "doomed", idle=["reader"], limits={**limits, "run_quiet_s": 150})
    scenarios = {
        "writer": on_dispatch(UNTIL_GO, "continue"),
        "clerk": on_dispatch({"wait": 8}, "continue"),
        "doomed": on_dispatch({"wait": 600}, incarnation=1),
        "reader": {},
    }
    run = fleet.launch(fleet.spec(pipeline, scenarios))
    workers = ("writer", "clerk", "doomed")
    wait_for(lambda: all(fleet.deeds(name, "turn_start") for name in workers), 60, fleet.tail)
    wait_for(lambda: set(workers) <= set(watch(fleet, run).agents), 60, "a first look")
    victim = process_of(fleet, run, "doomed")
    fleet.step_wall(step_s)
    held = fleet.wait_event("fleet_held", timeout_s=30)
    fleet.kill(victim)
    restarted = fleet.wait_event("agent_restarted", "doomed", 60)
    assert restarted.at.since(held.at) >= MASS_HOLD_S - 0.5, "nothing is done for a while but to look"
    wait_for(lambda: not watch(fleet, run).held, 30, "the end of the hold")
    fleet.go()
    view = fleet.wait_over(run, 60)
    assert view.run.state == "COMPLETED", view.run.cause
    assert abs(jumped_s(fleet) - step_s) < 10
    before = fleet.events("run_started")[0].at
    assert abs((held.at.wall - before.wall) - (held.at.mono - before.mono) - step_s) < 10, "the clock really stepped"
    assert_unnoticed(fleet, "writer", "clerk", "reader")
    assert [deed["incarnation"] for deed in fleet.deeds("doomed", "report_called")] == [2]
    for kind in ("run_quiet", "crew_lost", "crew_silent", "message_retried", "message_expired"):
        assert not [event for event in fleet.events(kind) if event.agent != "doomed"], kind


def test_f19_a_run_that_moves_is_not_ended_for_want_of_progress_after_the_clock_was_set_back(
    fleet: ClockedFleet,
) -> None:
    chain = [f"part-{number}" for number in range(1, 5)]
    dispatches = [
        {"name": name, "to": "writer", "task": "Write it.", "outputs": [f"{name}.md"], "expect_s": 5, "after": before}
        for name, before in zip(chain, [[], *([name] for name in chain)], strict=False)
    ]
    pipeline = {
        "roles": {"writer": {}},
        "phases": [{"name": "work", "dispatches": dispatches}],
        "deliverable": {"path": "part-4.md"},
        "limits": {"run_quiet_s": 10, "run_grace_s": 1, "mass_hold_s": 1},
    }
    # Each part takes three seconds: something moves long before the ten are over, and all of it takes longer.
    run = fleet.launch(fleet.spec(pipeline, {"writer": on_dispatch({"wait": 3}, "continue")}))
    wait_for(lambda: fleet.deeds("writer", "turn_start"), 60, fleet.tail)
    wait_for(lambda: watch(fleet, run).agents, 60, "a first look")
    fleet.step_wall(-3 * HOUR_S)
    fleet.wait_event("fleet_held", timeout_s=30)
    view = fleet.wait_over(run, 90)
    assert view.run.state == "COMPLETED", view.run.cause
    assert view.run.ended is not None
    assert view.run.started is not None
    assert view.run.ended.since(view.run.started) > 11, "longer than any silence that is allowed"
    assert not fleet.events("run_quiet"), fleet.tail()
    assert_unnoticed(fleet, "writer")


@contextmanager
def asleep(fleet: Fleet, run: str) -> Iterator[list[ProcessId]]:
    """Crew, tmux server, agents and tools stand still, as they do in a machine that sleeps; yields who does so."""
    agents = fleet.view(run).agents.values()
    crew = [found for pid in crew_processes(fleet.home.path) if (found := identify(pid, fleet.boot)) is not None]
    servers = {agent.server for agent in agents if agent.server is not None}
    lasting = [*crew, *servers, *(agent.process for agent in agents if agent.process is not None)]
    everybody = [*lasting, *(process for process, _ in marked(fleet.boot, fleet.home.path, run))]
    try:
        for process in everybody:
            send(fleet, process, signal.SIGSTOP)
        wait_for(lambda: all(is_still(process) for process in everybody), 10, "everybody to stand still")
        yield lasting
    finally:
        for process in everybody:
            send(fleet, process, signal.SIGCONT)


def send(fleet: Fleet, process: ProcessId, number: signal.Signals) -> None:
    """Signals the process; a tool's child may have ended by itself."""
    with suppress(ProcessLookupError):
        fleet.kill(process, number)


def is_still(process: ProcessId) -> bool:
    try:
        return Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0] in "TZ"
    except (FileNotFoundError, ProcessLookupError):
        return True


@pytest.mark.parametrize(
    ("step_s", "still_s"),
    [(8 * HOUR_S, CLAIM_S + 2), (0.0, SILENT_S + 2)],
    ids=["suspended", "frozen"],
)
def test_f19_whoever_slept_together_with_the_crew_is_not_taken_for_stalled_when_all_wake_up(
    fleet: ClockedFleet, step_s: float, still_s: float
) -> None:
    """Suspended: the wall clock is hours ahead. Frozen (a paused container): both clocks go on and nobody runs."""
    fleet.settings(silent_s=SILENT_S)
    limits = {"nudge_s": 2, "claim_s": CLAIM_S, "probe_s": 2, "mass_hold_s": 2 * MASS_HOLD_S}
    scenarios = {
        "writer": on_dispatch(UNTIL_GO, "continue"),
        # No hook and no tool: all that moves is the timer on its screen.
        "thinker": on_dispatch({"wait": still_s + 8}, "continue"),
        "reader": {},
    }
    run = fleet.launch(fleet.spec(beside("writer", "thinker", idle=["reader"], limits=limits), scenarios))
    wait_for(lambda: fleet.deeds("writer", "tool_start") and fleet.deeds("thinker", "turn_start"), 60, fleet.tail)
    wait_for(lambda: set(scenarios) <= set(watch(fleet, run).agents), 60, "a first look")
    with asleep(fleet, run) as sleepers:
        fleet.step_wall(step_s)
        threading.Event().wait(still_s)
    wait_for(lambda: fleet.deeds("thinker", "report_called"), 60, fleet.tail)
    for kind in ("crew_lost", "crew_silent"):
        assert not fleet.events(kind), f"{kind}: nobody was dead or silent for longer than everybody else"
    assert {life(process, fleet.boot) for process in sleepers} == {"alive"}
    fleet.go()
    view = fleet.wait_over(run, 60)
    assert view.run.state == "COMPLETED", view.run.cause
    if step_s:
        assert abs(jumped_s(fleet) - step_s) < 10
    assert_unnoticed(fleet, *scenarios)
    assert not fleet.events("run_quiet")
