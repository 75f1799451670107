"""F56: an agent that takes too much memory meets its own limit; everybody else goes on, and the cause is named."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from dogwatch.world import groups
from faults.watching import beside, on_dispatch
from fleet import Fleet
from helpers import wait_for

LIMIT_GB = 0.1875
LIMIT_BYTES = int(LIMIT_GB * 1024**3)
TOO_MUCH_MB = 400
GREEDY = f"import os; data = b'1' * ({TOO_MUCH_MB} << 20); os.write(2, b'{TOO_MUCH_MB} MB taken')"


def group(pid: int) -> str:
    return Path(f"/proc/{pid}/cgroup").read_text()


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
    for role in scenarios:
        spec["roles"][role] = {"memory_max_gb": LIMIT_GB}
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
    view = fleet.view(run)
    server = view.agents["hog"].server
    assert server is not None
    crew = [view.crew["captain"].process, view.crew["watchdog"].process, fleet.crew("dispatcher")]
    for process in (server, *crew):
        assert process is not None
        assert name not in group(process.pid)

    death = fleet.wait_event("agent_restarted", "hog")
    cause = f"kernel: it ended a process of the agent: its limit of {LIMIT_GB * 1024:.0f} MB was reached"
    assert death.body["reason"] == "exited"
    assert cause in death.body["evidence"]
    error = fleet.wait_event("agent_error", "neighbour")
    assert (error.body["type"], error.body["message"]) == ("out_of_memory", cause)
    again = wait_for(lambda: fleet.events("agent_spawned", "hog")[1:], what="the next incarnation")
    assert again[0].body["limit_bytes"] == LIMIT_BYTES

    end = fleet.wait_over(run)
    assert end.run.state == "COMPLETED"
    assert end.agents["hog"].incarnation == 2
    # Version 2 ends all of an agent together, so that none of it is left half alive.
    assert end.agents["neighbour"].incarnation == (1 if place.version == 1 else 2)
    assert [end.crew["captain"].process, end.crew["watchdog"].process, fleet.crew("dispatcher")] == crew
    assert {agent.server for agent in end.agents.values()} == {server}
    assert not groups.noted(fleet.home, run)
    assert not os.path.exists(f"{place.folder}/{name}")
