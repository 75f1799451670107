"""F37: the machine reboots in the middle of a run; `dogwatch up` finds out what is lost and goes on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import uuid

from dogwatch.model import keys
from dogwatch.model.process import ProcessId
from dogwatch.world.processes import life, marked
from faults.pipelines import three_phases
from support.fleet import Fleet
from support.helpers import wait_for

SLOW_FIRST = {"work_s": 0.3, "rules": [{"on": "dispatch", "incarnation": 1, "do": [{"work": 600}]}]}
FAST = {"work_s": 0.3}


def test_f37_after_a_reboot_up_goes_on_with_the_run(fleet: Fleet) -> None:
    spec = fleet.spec(three_phases(), {"planner": FAST, "writer": SLOW_FIRST, "judge": FAST})
    run = fleet.launch(spec)
    wait_for(lambda: fleet.deeds("writer", "turn_start"), 60, fleet.tail)
    power_off(fleet, run)
    rebooted = up_with_another_boot_id(fleet)
    view = fleet.wait_over(run)
    assert view.run.state == "COMPLETED", view.run.cause
    # Every agent was declared lost and started anew; the finished plan was not done again, the draft was.
    assert {agent.incarnation for agent in view.agents.values()} == {2}
    assert [event.body["attempt"] for event in fleet.events("task_dispatched", "planner")] == [1]
    assert len(fleet.events("task_accepted")) == 3
    assert {agent.process.boot for agent in view.agents.values() if agent.process} == {rebooted}
    end_dispatcher(fleet)


def power_off(fleet: Fleet, run: str) -> None:
    """Everything ends at one instant: the crew is stopped first, so that nobody has time to revive anybody."""
    members = [fleet.crew("dispatcher"), fleet.crew("captain", run), fleet.crew("watchdog", run)]
    crew = [process for process in members if process is not None]
    assert len(crew) == 3
    for number in (signal.SIGSTOP, signal.SIGKILL):
        for process in crew:
            fleet.kill(process, number)
    server = subprocess.run(
        ["tmux", "-S", fleet.home.tmux(run), "display-message", "-p", "#{pid}"], capture_output=True, check=True
    )
    os.kill(int(server.stdout), 9)
    wait_for(lambda: all_dead(fleet, run), 30, "power off")


def all_dead(fleet: Fleet, run: str) -> bool:
    left = [process for process, _ in marked(fleet.boot, fleet.home.path, run)]
    for process in left:
        fleet.kill(process)
    return not left


def up_with_another_boot_id(fleet: Fleet) -> str:
    """`dogwatch up` in a mount namespace in which the kernel's boot id is another one, as after a reboot."""
    boot = str(uuid.uuid4())
    file = fleet.base / "boot_id"
    file.write_text(boot + "\n")
    script = 'mount --bind "$0" /proc/sys/kernel/random/boot_id && exec "$1" -m dogwatch up'
    subprocess.run(
        ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script, str(file), sys.executable],
        env=fleet.environment,
        cwd=fleet.project,
        check=True,
        capture_output=True,
        timeout=120,
    )
    return boot


def end_dispatcher(fleet: Fleet) -> None:
    """The dispatcher of the other boot; by this test's own clock it would count as dead already."""
    document = fleet.ledger.read(lambda reader: reader.get(keys.dispatcher(reader.host)))
    assert document is not None
    body = document.body["process"]
    process = ProcessId(fleet.boot, body["pid"], body["start_ticks"])
    assert life(process, fleet.boot) == "alive"
    fleet.kill(process)
