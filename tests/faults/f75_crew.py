"""A run whose disk is full for a while, on a small file system of its own; prints what was seen as JSON."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from dogwatch.world.clock import SystemClock
from dogwatch.world.processes import life
from faults.pipelines import one_task
from support.fleet import Fleet
from support.helpers import wait_for


def main(folder: str) -> None:
    tempfile.tempdir = folder
    fleet = Fleet()
    try:
        waits = {"work_s": 0.2, "rules": [{"on": "dispatch", "do": [{"wait": 8}, "continue"]}]}
        run = fleet.launch(fleet.spec(one_task(), {"writer": waits}))
        fleet.wait_event("message_delivered")
        agent = fleet.view(run).agents["writer"].process
        assert agent is not None
        ballast = fill(folder)
        wait_for(lambda: silence_s(fleet, run) > 4, 60, "the captain's heartbeat to stop")
        facts: dict[str, object] = {
            "agent_while_full": life(agent, fleet.boot),
            "captain_while_full": bool(fleet.crew("captain", run)),
        }
        ballast.unlink()
        view = fleet.wait_over(run)
        facts |= {"state": view.run.state, "cause": view.run.cause, "incarnation": view.agents["writer"].incarnation}
        print(json.dumps(facts))
    finally:
        fleet.close()


def silence_s(fleet: Fleet, run: str) -> float:
    """How long the captain has not been able to renew its lease."""
    (lease,) = fleet.ledger.read(lambda reader: reader.leases(f"captain/{run}"))
    return SystemClock().now().since(lease.renewed)


def fill(folder: str) -> Path:
    """Takes all the space that is left."""
    ballast = Path(folder) / "ballast"
    with ballast.open("wb") as file:
        for size in (1 << 16, 1):
            try:
                while True:
                    os.write(file.fileno(), b"\0" * size)
            except OSError:
                continue
    return ballast


main(sys.argv[1])
