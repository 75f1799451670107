"""What came of a queue of runs, read from real ledgers and from nothing else."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from dogwatch.cli.outcome import gather, words, zone_shares
from dogwatch.coordination.runs import create_run
from dogwatch.ledger.api import Store
from dogwatch.ledger.records import save
from dogwatch.model.folders import folder_at
from dogwatch.model.memory import HostRecord
from dogwatch.model.moment import Moment
from dogwatch.model.plan import Output
from dogwatch.model.records import RunRecord, TaskRecord
from dogwatch.testing.events import PlainEvent
from dogwatch.world.clock import SystemClock
from support.cli_ledgers import PLAN, add_run, admit_run, end_run

REFERENCE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "json.md"


def at(seconds: float, boot: str = "boot") -> Moment:
    return Moment(boot, 1000.0 + seconds, 5000.0 + seconds)


def a_run(created: float, start: float | None, end: float | None) -> RunRecord:
    admitted, ended = (None if s is None else at(s) for s in (start, end))
    return RunRecord(
        run="r",
        spec="/a",
        project_folder=folder_at("/p"),
        output_folder=folder_at("/o"),
        created=at(created),
        admitted=admitted,
        ended=ended,
    )


def test_before_the_first_change_the_zone_is_green_and_time_counts_from_the_first_admission() -> None:
    runs = [a_run(0, 100, 300), a_run(0, 300, 500)]
    assert zone_shares([], runs, at(900)) == {"GREEN": 1.0, "YELLOW": 0.0, "RED": 0.0}
    changes = [(at(200), "YELLOW"), (at(400), "RED"), (at(440), "YELLOW"), (at(450), "GREEN"), (at(700), "RED")]
    assert zone_shares(changes, runs, at(900)) == {"GREEN": 0.375, "YELLOW": 0.525, "RED": 0.1}


def test_a_change_before_the_runs_holds_until_the_next() -> None:
    assert zone_shares([(at(-50), "RED"), (at(-10), "YELLOW")], [a_run(0, 0, 10)], at(90)) == {
        "GREEN": 0.0,
        "YELLOW": 1.0,
        "RED": 0.0,
    }


def test_a_pause_in_which_no_run_was_wanted_does_not_count_but_a_wait_in_the_queue_does() -> None:
    runs = [a_run(0, 0, 100), a_run(0, None, 100), a_run(1000, 1050, 1100)]
    changes = [(at(90), "RED"), (at(1010), "GREEN")]
    assert zone_shares(changes, runs, at(2000)) == {"GREEN": 0.9, "YELLOW": 0.0, "RED": 0.1}


def test_a_run_that_goes_on_counts_until_now_and_without_an_admission_there_are_no_shares() -> None:
    assert zone_shares([(at(50), "YELLOW")], [a_run(0, 0, None)], at(100)) == {"GREEN": 0.5, "YELLOW": 0.5, "RED": 0.0}
    assert zone_shares([(at(50), "YELLOW")], [a_run(0, None, 20)], at(100)) is None


def test_after_a_reboot_the_wall_clock_counts() -> None:
    changes = [(Moment("next", 3.0, 5000.0 + 60), "YELLOW")]
    run = replace(a_run(0, 0, None), ended=Moment("next", 43.0, 5000.0 + 100))
    assert zone_shares(changes, [run], at(0)) == {"GREEN": 0.6, "YELLOW": 0.4, "RED": 0.0}


def look(store: Store, *names: str, prefix: str = "") -> dict[str, Any]:
    now = SystemClock().now()
    return store.read(lambda reader: gather(reader, names, now, prefix))


def tell(store: Store, run: str, kind: str, body: Mapping[str, Any], times: int = 1) -> None:
    for _ in range(times):
        store.run(lambda tx: tx.append(PlainEvent(kind, body, run=run)))


def test_stalls_memory_interventions_and_checkpoints_are_counted_by_run(store: Store) -> None:
    one, two = add_run(store), add_run(store)
    for tier in (0, 1, 2, 3):
        tell(store, one, "alert_raised", {"tier": tier})
    for limit in ("zone", "forecast", "ceiling", "parallel", "role"):
        tell(store, one, "launch_held", {"limit": limit, "holder": "run:x", "reason": ""})
    tell(store, two, "agent_reclaimed", {}, 3)
    tell(store, two, "checkpoint_answered", {"verdict": "approve"}, 4)
    found = look(store, one, two)
    assert [list(run["counts"].values()) for run in found["runs"]] == [[2, 2, 0], [0, 3, 4]]
    assert found["counts"] == {"stall_detections": 2, "memory_interventions": 5, "checkpoint_interactions": 4}


def test_the_zone_is_known_also_where_it_has_never_changed(store: Store) -> None:
    run = add_run(store)
    admit_run(store, run)
    assert look(store, run)["zones"] == {"GREEN": 1.0, "YELLOW": 0.0, "RED": 0.0}
    store.run(lambda tx: save(tx, HostRecord(host=tx.host, at=tx.now, since=tx.now, zone="YELLOW")))
    assert look(store, run)["zones"] == {"GREEN": 0.0, "YELLOW": 1.0, "RED": 0.0}
    end_run(store, run)
    store.run(lambda tx: tx.append(PlainEvent("zone_changed", {"zone": "YELLOW", "before": "RED"})))
    assert look(store, run)["zones"] == {"GREEN": 0.0, "YELLOW": 0.0, "RED": 1.0}


def test_files_are_those_of_accepted_tasks_each_once_and_by_kind(store: Store) -> None:
    run = add_run(store)
    task = TaskRecord(run=run, task="draft", dispatch="draft", phase=0, holders=("writer",), text="", agent="writer")
    outputs = (Output(path="draft.md", kind="report"), Output(path="data/a.csv"), Output(path="./data/a.csv"))
    audit = replace(task, state="accepted", outputs=(Output(path="{agent}.md", kind="audit"),))

    def fill(tx: Any) -> None:
        save(tx, replace(task, state="accepted", outputs=outputs))
        save(tx, replace(task, task="lost", state="failed", outputs=(Output(path="never.md"),)))
        for agent in ("auditor-1", "auditor-2"):
            save(tx, replace(audit, task=f"audit.{agent}", agent=agent))

    store.run(fill)
    found = look(store, run)["runs"][0]
    assert (found["files"], found["artifacts"]) == (4, {"audit": 2, "file": 1, "report": 1})


def test_of_several_attempts_the_last_counts_and_all_are_shown(store: Store) -> None:
    names = ["ct-t1-r1", "ct-t2-r1", "ct-t2-r1-2"]
    for name in names:
        store.run(partial(create_run, plan=PLAN, project="/p", output="/p/out", spec_path="/a", name=name))
        admit_run(store, name)
    end_run(store, names[0])
    end_run(store, names[1], "FAILED", "interrupted by the operator")
    end_run(store, names[2], "PARTIAL", "one task failed")
    found = look(store, *names, prefix="ct")
    assert (found["delivered"], found["of"]) == (2, 2)
    text = words(found, [names[0]], colour=False, width=None)
    assert [line.split()[:2] for line in text[1:4]] == [
        [names[0], "COMPLETED"],
        [names[1], "FAILED"],
        [names[2], "PARTIAL"],
    ]
    assert [text[1].endswith("done before"), text[2].endswith("interrupted by the operator")] == [True, True]
    assert text[5] == "stall detections: 0, memory interventions: 0, checkpoint interactions: 0"
    assert text[6].startswith("memory zones: GREEN 100%, YELLOW 0%, RED 0% of ")
    assert text[7:] == ["outputs: /p/out", "delivered 2/2"]


def test_a_queued_run_has_no_time_and_says_that_it_is_queued(store: Store) -> None:
    found = look(store, add_run(store))
    assert (found["runs"][0]["queued"], found["runs"][0]["duration_s"], found["zones"]) == (True, None, None)
    text = words(found, (), colour=False, width=None)
    assert text[1].split()[:3] == ["tide-1", "QUEUED", "-"]
    assert text[-1] == "delivered 0/1"


def test_the_outcome_is_json_and_every_key_of_it_is_documented(store: Store) -> None:
    run = add_run(store)
    admit_run(store, run)
    end_run(store, run)
    found = json.loads(json.dumps(look(store, run)))
    text = REFERENCE.read_text()
    keys = {*found, *found["runs"][0], *found["counts"]}
    assert sorted(key for key in keys if f"`{key}`" not in text) == []
