"""F72: one agent's memory grows and grows, for real."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from faults.shortage import QUICK, set_up, until, wait_zone
from support.fleet import Fleet
from support.helpers import wait_for

MACHINE_MB, LEAK_MB, LEAK_S, GROWTH_S = 1200, 1080, 45, 10
"""Growth is known after five looks, one every five seconds; RED, with a tenth of the machine left, comes later."""
QUICK_WORK = {"work_s": 0.2}
LEAKER: dict[str, Any] = {
    **QUICK_WORK,
    "rules": [
        {"on": "dispatch", "do": [{"grow": {"mb": LEAK_MB, "seconds": LEAK_S}}, until("go"), "release", "continue"]}
    ],
}
WORKER: dict[str, Any] = {**QUICK_WORK, "rules": [{"on": "dispatch", "do": [until("go"), "continue"]}]}


def pipeline() -> dict[str, Any]:
    """Two at work, and two helpers whose work comes later."""
    return {
        "roles": {"leaker": {}, "worker": {}, "helper": {"count": 2}},
        "phases": [
            {
                "name": "work",
                "dispatches": [
                    {"name": "leak", "to": "leaker", "task": "Leak.", "outputs": ["leak.md"], "expect_s": 600},
                    {"name": "work", "to": "worker", "task": "Work.", "outputs": ["work.md"], "expect_s": 600},
                ],
            },
            {
                "name": "help",
                "dispatches": [{"name": "help", "to": "all helper", "task": "Help.", "outputs": ["{agent}.md"]}],
            },
        ],
        "deliverable": {"path": "helper-1.md"},
    }


def test_f72_a_leaker_is_named_with_its_growth_and_only_idle_workers_rest_until_they_are_needed(fleet: Fleet) -> None:
    set_up(fleet, MACHINE_MB, growth_s=GROWTH_S)
    run = fleet.launch(fleet.spec(pipeline(), {"leaker": LEAKER, "worker": WORKER, "helper": dict(QUICK_WORK)}))
    red = wait_zone(fleet, "RED")
    assert red.sensor == "available"
    told = fleet.wait_event("memory_critical")
    assert told.run == run
    assert f"{run}/leaker grows by " in told.body["leaker"], told.body

    def reclaimed() -> list[Any]:
        return fleet.events("agent_reclaimed") if len(fleet.events("agent_reclaimed")) == 2 else []

    rested = wait_for(reclaimed, 60, fleet.tail)
    assert sorted(event.agent for event in rested) == ["helper-1", "helper-2"]
    assert all(later.at.since(earlier.at) >= QUICK["cycle_s"] - 1 for earlier, later in pairwise(rested))
    view = fleet.view(run)
    assert [view.agents[name].incarnation for name in ("leaker", "worker")] == [1, 1], "who works is left alone"
    assert {event.agent for event in fleet.events("agent_spawned")} == {"leaker", "worker", "helper-1", "helper-2"}
    (fleet.project / "go").touch()
    view = fleet.wait_over(run)
    assert view.run.state == "COMPLETED"
    assert [view.agents[name].incarnation for name in ("helper-1", "helper-2")] == [2, 2]
    for name in ("leaker", "worker"):
        assert [deed["incarnation"] for deed in fleet.deeds(name, "report_called")] == [1], "it did its own work"
    assert not any(agent.restarts for agent in view.agents.values()), "to rest is no failure"
    assert not fleet.events("crew_lost")
    assert fleet.leftovers([run]) == []
