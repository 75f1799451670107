"""F70: four pipelines at once on a machine for two, with agents that really take the memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from itertools import accumulate
from pathlib import Path
from typing import Any

from dogwatch.coordination.ledgers import open_home_ledger
from dogwatch.ledger.records import load, load_all, save
from dogwatch.model import keys
from dogwatch.model.admission import MemoryProfile, PermitRecord
from dogwatch.model.memory import HostRecord
from dogwatch.world.clock import SystemClock
from faults.pipelines import one_task
from support.fleet import Fleet
from support.helpers import wait_for

MB = 1024**2
TAKES_MB, CEILING_MB = 150, 600
"""With what a scripted agent takes itself, two are below the YELLOW line and three above the RED one."""
UNTIL_GO = {"tool": {"command": ["sh", "-c", 'until test -e "$DOGWATCH_PROJECT/go"; do sleep 0.1; done']}}
HUNGRY: dict[str, Any] = {
    "work_s": 0.2,
    "rules": [{"on": "dispatch", "do": [{"grow": {"mb": TAKES_MB, "seconds": 0.5}}, UNTIL_GO, "continue"]}],
}


def set_up(fleet: Fleet) -> None:
    """The machine counts as this large, and what an agent takes is learnt."""
    Path(fleet.home.path).mkdir(mode=0o700)
    Path(fleet.home.host).write_text(f"memory: {CEILING_MB} MB\n")
    peaks = {"all": tuple((TAKES_MB + 25 + more) * MB for more in range(6))}
    with closing(open_home_ledger(fleet.home, SystemClock())) as ledger:
        profile = MemoryProfile(harness="scripted", pipeline="t", role="writer", peaks=peaks)
        ledger.run(lambda tx: save(tx, profile))


def going(fleet: Fleet) -> Iterator[int]:
    """How many runs were there after each coming and going of one."""
    steps = [{"run_admitted": 1, "run_cleared": -1}.get(event.kind, 0) for event in fleet.events()]
    return accumulate(steps)


def test_f70_four_runs_on_a_machine_for_two_are_all_completed_and_memory_is_never_red(fleet: Fleet) -> None:
    set_up(fleet)
    spec = fleet.spec(one_task(), {"writer": HUNGRY})
    runs = [fleet.launch(spec) for _ in range(4)]

    def host() -> HostRecord | None:
        permits = fleet.ledger.read(lambda reader: load_all(reader, PermitRecord, "permit/"))
        for kind in ("run", "agent"):
            assert len([one for one in permits if one.launch.kind == kind]) <= 2
        return fleet.ledger.read(lambda reader: load(reader, HostRecord, keys.host(reader.host)))

    def both_are_large() -> bool:
        """Whether the dispatcher has seen what the first two really take, and what that leaves."""
        found = host()
        sizes = [one.rss_bytes for one in found.readings.agents.values()] if found is not None else []
        return len(sizes) == 2 and min(sizes) > TAKES_MB * MB

    wait_for(both_are_large, 120, fleet.tail)
    found = host()
    assert found is not None
    assert found.zone == "GREEN"
    assert found.readings.processes == 2
    assert found.readings.left_bytes is not None
    assert found.readings.left_bytes < (CEILING_MB - 2 * TAKES_MB) * MB
    assert [fleet.view(run).run.admitted is not None for run in runs] == [True, True, False, False]
    (fleet.project / "go").touch()
    wait_for(lambda: host() and all(fleet.view(run).run.cleared for run in runs), 240, fleet.tail)
    assert [fleet.view(run).run.state for run in runs] == ["COMPLETED"] * 4
    assert max(going(fleet)) == 2
    assert [event.run for event in fleet.events("run_admitted")] == runs, "in their order"
    held = [event for event in fleet.events("launch_held") if event.body["limit"] == "forecast"]
    assert {event.run for event in held} <= set(runs[2:])
    assert runs[2] in {event.run for event in held}
    assert "RED" not in [event.body["zone"] for event in fleet.events("zone_changed")]
    assert {event.body["incarnation"] for event in fleet.events("agent_spawned")} == {1}
    wait_for(lambda: not fleet.ledger.read(lambda reader: reader.scan("permit/")), 30, "the permits to be free")
    assert fleet.leftovers(runs) == []
