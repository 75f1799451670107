"""F36: captain, watchdog and dispatcher are killed with -9 at random instants; the run ends as if nothing had been."""

from __future__ import annotations

import os
import random
import threading

import pytest

from dogwatch.ledger.api import StoredEvent
from faults.pipelines import PLAIN, three_phases
from support.fleet import Fleet
from support.helpers import wait_for


def assert_done_once(fleet: Fleet) -> None:
    """The ground truth: no incarnation started twice, no message submitted twice, no gate passed over."""
    for agent in ("planner", "writer", "judge"):
        starts = [deed["incarnation"] for deed in fleet.deeds(agent, "started")]
        assert starts == [1], f"{agent} started as {starts}"
        prompts = [deed["sha256"] for deed in fleet.deeds(agent, "prompt")]
        assert len(prompts) == len(set(prompts)), f"{agent} was told twice"
    reports = [(e.agent, e.body["task"]) for e in fleet.events("task_reported")]
    assert sorted(reports) == [("planner", "plan"), ("writer", "draft"), ("writer", "final")]
    ends = [e for e in fleet.events() if e.kind in ("gate_passed", "phase_ended")]
    order = [(e.kind, e.body.get("gate") or e.body.get("phase")) for e in ends]
    assert order == [
        ("gate_passed", "plan-is-there"),
        ("phase_ended", "plan"),
        ("gate_passed", "counted"),
        ("phase_ended", "draft"),
        ("phase_ended", "final"),
    ]
    assert (fleet.project / "out" / "counted.log").exists()


@pytest.mark.parametrize("number", range(3))
def test_f36_any_crew_member_killed_at_random_instants_loses_nothing_and_repeats_nothing(
    fleet: Fleet, number: int
) -> None:
    seed = int(os.environ.get("DOGWATCH_TEST_SEED", 0)) or random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}: DOGWATCH_TEST_SEED={seed} repeats it")
    run, kills = run_under_kills(fleet, random.Random(seed))
    view = fleet.wait_over(run, 120)
    assert view.run.state == "COMPLETED", f"seed {seed}: {view.run.cause}\n{fleet.tail()}"
    assert kills >= 5
    assert_done_once(fleet)
    wait_for(lambda: not fleet.leftovers([run]), 30, "nothing left of the run")


def run_under_kills(fleet: Fleet, chance: random.Random, kills_max: int = 20) -> tuple[str, int]:
    """A run whose crew is killed again and again, each time after a random number of further events.

    Dispatcher and captain may die at one instant: then the command in the foreground is who notices.
    """
    fleet.start("run", str(fleet.spec(three_phases(), {"planner": PLAIN, "writer": PLAIN, "judge": PLAIN})))
    run = wait_for(lambda: next((e.run for e in fleet.events("run_created")), ""), 60, "the run")
    pause = threading.Event()
    kills = 0
    while not fleet.view(run).run.cleared and kills < kills_max:
        wait_for_work(fleet, run, chance.randrange(4))
        pause.wait(chance.uniform(0, 0.2))
        victim = chance.choice(["captain", "captain", "watchdog", "dispatcher"])
        process = fleet.crew(victim, "" if victim == "dispatcher" else run)
        if process is not None:
            fleet.kill(process)
            kills += 1
    return run, kills


def wait_for_work(fleet: Fleet, run: str, more: int) -> None:
    """Until so many further things have happened in the run, or it is over."""
    goal = len(work_events(fleet)) + more
    wait_for(lambda: len(work_events(fleet)) >= goal or fleet.view(run).run.cleared, 60, fleet.tail)


def work_events(fleet: Fleet) -> list[StoredEvent]:
    """What happened in the run itself, apart from the crew's own coming and going."""
    return [event for event in fleet.events() if not event.kind.startswith("crew_")]
