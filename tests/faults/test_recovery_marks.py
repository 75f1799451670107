"""Processes whose mark is garbage: they disturb neither the search for marks nor the run that they name."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from dogwatch.actions.kill import end_marked
from dogwatch.model.process import ProcessId
from dogwatch.world.home import Home
from dogwatch.world.processes import boot_id, identify, life, marked
from faults.pipelines import one_task
from support.fleet import Fleet
from support.helpers import wait_for

BOOT = boot_id()
GARBAGE = [b"", b"x", b"-1", b"+1", b" 1", b"1 ", b"1_0", b"1e3", b"\xff\xfe", "²".encode(), "١".encode(), b"9" * 5000]


class Sleepers:
    """Processes with a home, a run, a role and an incarnation of one's choice in their environment."""

    def __init__(self) -> None:
        self._children: list[subprocess.Popen[bytes]] = []

    def start(self, home: str, run: str, incarnation: bytes | None, role: str = "writer") -> ProcessId:
        environment = {b"DOGWATCH_HOME": home.encode(), b"DOGWATCH_RUN": run.encode(), b"DOGWATCH_ROLE": role.encode()}
        if incarnation is not None:
            environment[b"DOGWATCH_INCARNATION"] = incarnation
        child = subprocess.Popen(["/bin/sleep", "300"], env=environment, start_new_session=True)
        self._children.append(child)
        # In the middle of an exec there is no environment to be seen.
        wait_for(lambda: b"DOGWATCH_HOME=" in Path(f"/proc/{child.pid}/environ").read_bytes(), 30, "the start")
        found = identify(child.pid, BOOT)
        assert found is not None
        return found

    def close(self) -> None:
        for child in self._children:
            child.kill()
            child.wait()


@pytest.fixture
def sleepers() -> Iterator[Sleepers]:
    started = Sleepers()
    yield started
    started.close()


@pytest.mark.parametrize("incarnation", [None, *GARBAGE], ids=lambda value: repr(value)[:12])
def test_a_garbage_incarnation_does_not_disturb_the_search_for_marks(
    tmp_path: Path, sleepers: Sleepers, incarnation: bytes | None
) -> None:
    home = str(tmp_path)
    stranger = sleepers.start(home, "t-1", incarnation)
    real = sleepers.start(home, "t-1", b"3")
    found = dict(marked(BOOT, home, "t-1"))
    assert found[real] == 3
    # A mark that was tampered with hides nobody; without one, a process is none of ours.
    assert found.get(stranger) == (None if incarnation is None else 0)
    assert end_marked(Home(home), BOOT, "t-1", "writer", before=4) == len(found)
    assert life(real, BOOT) == "dead"
    assert life(stranger, BOOT) == ("alive" if incarnation is None else "dead")


def test_a_run_is_not_disturbed_by_a_process_with_a_garbage_mark_of_its_agent(fleet: Fleet, sleepers: Sleepers) -> None:
    first = {"on": "dispatch", "incarnation": 1, "do": [{"wait": 600}]}
    run = fleet.launch(fleet.spec(one_task(), {"writer": {"work_s": 0.3, "rules": [first]}}))
    wait_for(lambda: fleet.deeds("writer", "turn_start"), 60, fleet.tail)
    for incarnation in (b"", b"\xff", "²".encode(), b"none"):
        sleepers.start(fleet.home.path, run, incarnation)
    process = fleet.view(run).agents["writer"].process
    assert process is not None
    fleet.kill(process)
    view = fleet.wait_over(run, 60)
    assert view.run.state == "COMPLETED", view.run.cause
    assert view.agents["writer"].incarnation == 2
    assert not fleet.events("crew_lost")
