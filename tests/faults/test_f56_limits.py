"""F56: an agent that takes too much memory meets its own limit; everybody else goes on, and the cause is named."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from dogwatch.model.process import ProcessId
from dogwatch.world import groups
from faults.watching import beside, on_dispatch
from support.fleet import Fleet
from support.helpers import wait_for

LIMIT_MB = 192
LIMIT_BYTES = LIMIT_MB * 1024**2
TOO_MUCH_MB = 400
GREEDY = f"import os; data = b'1' * ({TOO_MUCH_MB} << 20); os.write(2, b'{TOO_MUCH_MB} MB taken')"


def group(pid: int) -> str:
    return Path(f"/proc/{pid}/cgroup").read_text()


def crew_of(fleet: Fleet, run: str) -> list[ProcessId | None]:
    members = fleet.view(run).crew
    return [members["captain"].process, members["watchdog"].process, fleet.crew("dispatcher")]


def test_f56_the_kernel_ends_what_exceeds_its_limit_and_nobody_else(fleet: Fleet) -> None:
    place = groups.place(groups.group_name(fleet.home))
    doctor = json.loads(fleet.cli("doctor", "--json", check=False).stdout)["findings"]
    told = next(finding for finding in doctor if finding["subject"] == "agent memory")
    tool = {"tool": {"command": [sys.executable, "-I", "-S", "-c", GREEDY]}}
    scenarios = {
        "hog": on_dispatch({"grow": {"mb": TOO_MUCH_MB}}, "continue", incarnation=1),
        "neighbour": on_dispatch(tool, "continue", incarnation=1),
    }
    spec = beside("hog", "neighbour", limits={"restarts_max": 3})
    # The operator's limit holds for both, also for the one whose role wants more.
    os.makedirs(fleet.home.path, mode=0o700)
    Path(fleet.home.host).write_text(f"agent_memory: {LIMIT_MB} MB\n")
    spec["roles"]["hog"] = {"memory_max_gb": 1}
    run = fleet.launch(fleet.spec(spec, scenarios))
    spawned = [fleet.wait_event("agent_spawned", agent) for agent in scenarios]
    if place.obstacle:
        assert told["level"] == "warning"
        assert place.obstacle in told["text"]
        assert told["fix"]
        assert [event.body["limit_bytes"] for event in spawned] == [0, 0]
        assert fleet.wait_over(run).run.state == "COMPLETED"
        return
    assert told["level"] == "ok"
    assert [event.body["limit_bytes"] for event in spawned] == [LIMIT_BYTES] * 2

    name = groups.group_name(fleet.home)
    wait_for(lambda: "watchdog" in fleet.view(run).crew, what="the watchdog")
    server = wait_for(lambda: fleet.view(run).agents["hog"].server, what="the tmux server")
    crew = crew_of(fleet, run)
    for process in (server, *crew):
        assert process is not None
        assert name not in group(process.pid)

    death = fleet.wait_event("agent_restarted", "hog")
    cause = f"kernel: it ended a process of the agent: its limit of {LIMIT_MB} MB was reached"
    assert death.body["reason"] == "exited"
    assert cause in death.body["evidence"]

    def told_of_the_neighbour() -> list[str]:
        errors = fleet.events("agent_error", "neighbour")
        return [event.body["message"] for event in errors if event.body["type"] == "out_of_memory"]

    assert wait_for(told_of_the_neighbour, what="the end of its tool") == [cause]
    again = wait_for(lambda: fleet.events("agent_spawned", "hog")[1:], what="the next incarnation")
    assert again[0].body["limit_bytes"] == LIMIT_BYTES

    end = fleet.wait_over(run)
    assert end.run.state == "COMPLETED"
    assert end.agents["hog"].incarnation == 2
    # Version 2 ends all of an agent together, so that none of it is left half alive.
    assert end.agents["neighbour"].incarnation == (1 if place.version == 1 else 2)
    assert crew_of(fleet, run) == crew
    assert {agent.server for agent in end.agents.values()} == {server}
    assert not groups.noted(fleet.home, run)
    assert not os.path.exists(f"{place.folder}/{name}")
