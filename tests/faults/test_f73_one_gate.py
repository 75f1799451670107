"""F73: while memory is RED, no path that starts a process goes past the gate; afterwards all of them go on."""

from __future__ import annotations

from typing import Any

from dogwatch.ledger.records import load_all
from dogwatch.model.admission import WaitRecord
from faults.pipelines import PLAIN, one_task
from faults.shortage import set_up, until, wait_zone
from support.fleet import Fleet
from support.helpers import wait_for

HOG_MB, MACHINE_MB = 580, 640
HOG: dict[str, Any] = {
    "work_s": 0.2,
    "rules": [
        {
            "on": "dispatch",
            "do": [
                {"grow": {"mb": HOG_MB, "seconds": 0.5}},
                until("red"),
                {"subagent": {"type": "helper", "seconds": 1}},
                until("go"),
                "release",
                "continue",
            ],
        }
    ],
}
OTHER: dict[str, Any] = {
    "work_s": 0.2,
    "rules": [{"on": "dispatch", "incarnation": 1, "do": [until("go"), "continue"]}],
}


def two_tasks() -> dict[str, Any]:
    tasks = [{"name": name, "to": name, "task": "Write.", "outputs": [f"{name}.md"]} for name in ("hog", "other")]
    return {
        "roles": {"hog": {}, "other": {}},
        "phases": [{"name": "work", "dispatches": tasks}],
        "deliverable": {"path": "hog.md"},
    }


def test_f73_in_red_neither_a_run_nor_a_restart_nor_a_check_in_nor_a_sub_agent_starts(fleet: Fleet) -> None:
    set_up(fleet, MACHINE_MB, idle_s=600)
    first = fleet.launch(fleet.spec(two_tasks(), {"hog": HOG, "other": OTHER}))
    wait_zone(fleet, "RED")
    second = fleet.launch(fleet.spec(one_task(), {"writer": dict(PLAIN)}))
    victim = fleet.view(first).agents["other"].process
    assert victim is not None
    fleet.kill(victim)
    fleet.start("check-in", f"{first}/hog", "How far are you?")
    (fleet.project / "red").touch()
    wanted = {f"run:{second}", f"agent:{first}/other"}

    def held() -> dict[str, WaitRecord]:
        waits = fleet.ledger.read(lambda reader: load_all(reader, WaitRecord, "waits/"))
        found = {wait.launch.holder: wait for wait in waits}
        kinds = {wait.launch.kind for wait in waits}
        return found if wanted <= found.keys() and len(found) == len(wanted) + 1 and len(kinds) == 3 else {}

    waiting = wait_for(held, 60, fleet.tail)
    assert {wait.answer.limit for wait in waiting.values()} == {"zone"}, waiting
    denied = wait_for(lambda: fleet.deeds("hog", "tool_denied"), 60, fleet.tail)
    assert "memory is RED" in denied[0]["reason"], denied
    assert not fleet.deeds("hog", "subagent_start")
    assert len(fleet.events("agent_spawned")) == 2, "nothing was started since"
    assert not fleet.events("check_in_answered")
    (fleet.project / "go").touch()
    assert [fleet.wait_over(run).run.state for run in (first, second)] == ["COMPLETED", "COMPLETED"]
    fleet.wait_event("check_in_answered", "hog")
    view = fleet.view(first)
    assert {name: agent.incarnation for name, agent in view.agents.items()} == {"hog": 1, "other": 2}
    assert fleet.leftovers([first, second]) == []
