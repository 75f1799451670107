"""F71: an agent starts ten sub-agents at once, which are real processes."""

from __future__ import annotations

import os
import signal
from functools import partial

from dogwatch.ledger.records import load_all
from dogwatch.model import keys
from dogwatch.model.admission import WaitRecord
from faults.pipelines import PLAIN, one_task
from faults.shortage import host, set_up, until, wait_zone
from support.fleet import Fleet
from support.helpers import wait_for

FAN = 10
"""On a machine of this size up to three agents and sub-agents are GREEN, and more than four are RED."""


def test_f71_ten_sub_agents_pause_launches_and_nobody_is_ended(fleet: Fleet) -> None:
    set_up(fleet, memory_mb=2000, agent_mb=600)
    fan_out = [{"subagent": {"type": "reviewer", "never": True}} for _ in range(FAN)]
    rule = {"on": "dispatch", "do": [*fan_out, until("go"), "continue"]}
    first = fleet.launch(fleet.spec(one_task(), {"writer": {"work_s": 0.2, "rules": [rule]}}))
    # Those that are asked for when it is RED already are denied; how many that are, is a matter of milliseconds.
    denied = partial(fleet.deeds, "writer", "tool_denied")
    started = partial(fleet.deeds, "writer", "subagent_start")
    wait_for(lambda: len(started()) + len(denied()) == FAN, 120, fleet.tail)
    assert len(started()) >= 4
    assert all("memory is RED" in deed["reason"] for deed in denied())
    assert wait_zone(fleet, "RED").sensor == "processes"
    second = fleet.launch(fleet.spec(one_task(), {"writer": dict(PLAIN)}))

    def waits() -> list[WaitRecord]:
        return fleet.ledger.read(lambda reader: load_all(reader, WaitRecord, keys.wait(reader.host, f"run:{second}")))

    assert wait_for(waits, 60, fleet.tail)[0].answer.limit == "zone"
    wait_for(lambda: host(fleet).readings.processes == 1 + len(started()), 60, fleet.tail)
    assert fleet.view(second).run.admitted is None
    assert not fleet.deeds("writer", "subagent_end"), "all of them still run"
    for deed in started():
        os.kill(deed["child"], signal.SIGTERM)
    wait_for(lambda: fleet.view(second).run.admitted is not None, 120, fleet.tail)
    # Some of them may be on their way out when there is room for another.
    wait_for(lambda: len(fleet.deeds("writer", "subagent_end")) >= len(started()), 60, fleet.tail)
    assert len(fleet.deeds("writer", "subagent_end")) == len(started())
    assert host(fleet).zone == "GREEN"
    (fleet.project / "go").touch()
    assert [fleet.wait_over(run).run.state for run in (first, second)] == ["COMPLETED", "COMPLETED"]
    assert {event.body["incarnation"] for event in fleet.events("agent_spawned")} == {1}
    assert not fleet.events("agent_reclaimed")
    assert fleet.leftovers([first, second]) == []
