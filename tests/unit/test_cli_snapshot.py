"""What `status` knows of runs, on real ledgers."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from dogwatch.cli.details import detail
from dogwatch.cli.snapshot import take
from dogwatch.coordination.runs import create_run
from dogwatch.ledger.api import Store, Tx
from dogwatch.ledger.records import change, save
from dogwatch.model.admission import Answer, Launch, PermitRecord, WaitRecord
from dogwatch.model.moment import Moment
from dogwatch.model.plan import Limits
from dogwatch.model.records import TaskRecord
from dogwatch.world.clock import SystemClock
from support.cli_ledgers import PLAN, add_run, admit_run, end_run, go_halfway

REFERENCE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "json.md"


def look(store: Store, *runs: str, ended_max: int = 20, now: Moment | None = None) -> dict[str, Any]:
    at = now or SystemClock().now()
    return store.read(lambda reader: take(reader, list(runs) or None, at, ended_max))


def test_an_empty_ledger_has_no_runs_and_no_dispatcher(store: Store) -> None:
    found = look(store)
    assert (found["runs"], found["more"], found["dispatcher"]) == ([], 0, None)


def test_a_new_run_is_shown_with_its_plan(store: Store) -> None:
    run = look(store, add_run(store))["runs"][0]
    assert (run["run"], run["state"], run["over"], run["cleared"]) == ("tide-1", "SPAWN", False, False)
    assert (run["phase"], run["phase_number"], run["phases"]) == ("draft", 1, 2)
    assert run["progress"] == {"accepted": 0, "tasks": 3, "milestones": [], "milestones_total": 2}
    assert [agent["agent"] for agent in run["agents"]] == ["writer", "auditor-1", "auditor-2"]
    assert all(agent["pid"] is None and agent["age_s"] is None for agent in run["agents"])


def test_a_run_under_way_is_shown_with_everything_it_has(store: Store) -> None:
    name = add_run(store)
    go_halfway(store, name, os.getpid())
    found = look(store, name)
    run = found["runs"][0]
    assert (run["phase"], run["phase_number"]) == ("audit", 2)
    assert run["progress"] == {"accepted": 1, "tasks": 3, "milestones": ["drafted"], "milestones_total": 2}
    writer, first, second = run["agents"]
    assert (writer["task"], first["task"], second["task"]) == ("", "audit.auditor-1", "review")
    assert (first["incarnation"], first["restarts"], first["nudges"]) == (2, 1, 1)
    assert first["pid"] == os.getpid()
    assert first["session"] == "tide-1-auditor-1"
    assert [(task["task"], task["phase"], task["state"]) for task in run["tasks"]] == [
        ("draft", 1, "accepted"),
        ("audit.auditor-1", 2, "claimed"),
    ]
    assert run["checkpoints"][0]["verdicts"] == {"auditor-1": {"approve": True, "note": "fine", "round": 1}}
    assert run["gates"][0]["state"] == "passed"


def test_crew_members_are_alive_or_dead_by_their_process_and_have_a_heartbeat_by_their_lease(store: Store) -> None:
    name = add_run(store)
    go_halfway(store, name, os.getpid())
    found = look(store, name)
    captain, watchdog = found["runs"][0]["crew"]
    assert (captain["member"], captain["alive"], captain["starts"]) == ("captain", True, 2)
    assert captain["heartbeat_age_s"] >= 0
    assert (watchdog["alive"], watchdog["heartbeat_age_s"]) == (False, None)
    assert (found["dispatcher"]["alive"], found["dispatcher"]["pid"]) == (True, os.getpid())


def test_ages_count_on_the_monotonic_clock_within_a_boot(store: Store) -> None:
    name = add_run(store)
    go_halfway(store, name, os.getpid())
    now = SystemClock().now()
    later = Moment(now.boot, now.mono + 100, now.wall - 86400)
    run = look(store, name, now=later)["runs"][0]
    assert 100 <= run["age_s"] < 160
    assert 100 <= run["agents"][1]["age_s"] < 160


def test_unfinished_runs_come_first_and_of_each_kind_the_newest(store: Store) -> None:
    names = [add_run(store) for _ in range(6)]
    for name in (names[3], names[0], names[5]):
        end_run(store, name)
    found = look(store)
    assert [run["run"] for run in found["runs"]] == [names[i] for i in (4, 2, 1, 5, 0, 3)]
    assert found["more"] == 0


def test_ended_runs_beyond_the_limit_are_counted_not_shown(store: Store) -> None:
    names = [add_run(store) for _ in range(5)]
    for name in names[:4]:
        end_run(store, name, "FAILED", "the tide")
    found = look(store, ended_max=2)
    assert [run["run"] for run in found["runs"]] == [names[4], names[3], names[2]]
    assert found["more"] == 2
    assert found["runs"][1]["cause"] == "the tide"
    assert len(look(store, ended_max=1_000_000)["runs"]) == 5


def test_an_ended_run_keeps_its_time_and_loses_its_crew(store: Store) -> None:
    name = add_run(store)
    go_halfway(store, name, os.getpid())
    end_run(store, name)
    now = SystemClock().now()
    run = look(store, name, now=now.plus(1000))["runs"][0]
    assert run["age_s"] < 600
    assert run["ended_age_s"] >= 1000
    assert (run["over"], run["cleared"], run["crew"]) == (True, True, [])


def test_a_queued_run_says_what_it_waits_for_until_it_is_let_in(store: Store) -> None:
    first, second = add_run(store), add_run(store)
    waits = {run["run"]: (run["queued"], run["waits_for"]) for run in look(store)["runs"]}
    assert waits == {first: (True, "it is the next one"), second: (True, f"{first} is before it")}
    answer = Answer(verdict="hold", reason=f"{first} waits: memory is YELLOW", limit="zone")
    launch = Launch(kind="run", holder=f"run:{first}", run=first)
    store.run(lambda tx: save(tx, WaitRecord(host=tx.host, launch=launch, since=tx.now, answer=answer)))
    assert look(store, first)["runs"][0]["waits_for"] == "memory is YELLOW"
    admit_run(store, first)
    run = look(store, first)["runs"][0]
    assert (run["queued"], run["waits_for"], run["state"]) == (False, "", "SPAWN")
    assert look(store, second)["runs"][0]["waits_for"] == "it is the next one"


def test_a_group_at_its_ceiling_is_in_nobodys_way(store: Store) -> None:
    def make(tx: Tx, group: str = "g", ceiling: int = 1) -> str:
        return create_run(tx, PLAN, "/p", "/o", "/s", group=group, ceiling=ceiling).run

    going, waiting = store.run(make), store.run(make)
    other = store.run(lambda tx: make(tx, "", 0))
    assert look(store, waiting)["runs"][0]["waits_for"] == f"{going} is before it"
    admit_run(store, going)
    launch = Launch(kind="run", holder=f"run:{going}", run=going, group="g", ceiling=1)
    store.run(lambda tx: save(tx, PermitRecord(host=tx.host, launch=launch, granted=tx.now)))
    found = [run["waits_for"] for run in look(store, waiting, other)["runs"]]
    assert found == ["no more than 1 of its group may run at once", "it is the next one"]


def test_the_time_of_a_run_counts_from_its_admission(store: Store) -> None:
    name = add_run(store)
    admit_run(store, name)
    end_run(store, name)
    body = store.read(lambda reader: reader.get(f"run/{name}"))
    assert body is not None
    created = {**body.body["created"], "mono": body.body["created"]["mono"] - 500}
    store.run(lambda tx: tx.put(f"run/{name}", {**body.body, "created": created}))
    assert look(store, name)["runs"][0]["age_s"] < 400


def test_an_agent_has_an_id_and_says_how_far_it_is(store: Store) -> None:
    name = add_run(store)
    go_halfway(store, name, os.getpid())
    writer, first, _ = look(store, name)["runs"][0]["agents"]
    assert (writer["agent_id"], writer["progress_percent"]) == ("writer@tide-1", None)
    assert (first["agent_id"], first["progress_percent"]) == ("auditor-1@tide-1", 62.5)


def test_a_claim_is_shown_with_its_beginning_its_expiry_and_how_far_its_holder_is(store: Store) -> None:
    name = add_run(store)
    go_halfway(store, name, os.getpid())
    done, held = look(store, name)["runs"][0]["tasks"]
    body = store.read(lambda reader: reader.get(f"task/{name}/audit.auditor-1"))
    assert body is not None
    assert held["claimed_at"] == body.body["dispatched"]
    assert (held["claim_expiry_seconds"], held["progress_percent"]) == (300.0, 62.5)
    assert done["progress_percent"] is None, "it is done"
    store.run(lambda tx: change(tx, TaskRecord, f"task/{name}/audit.auditor-1", _given_back))
    held = look(store, name)["runs"][0]["tasks"][1]
    assert (held["claimed_at"], held["progress_percent"]) == (None, None), "nobody has it"
    store.run(lambda tx: change(tx, TaskRecord, f"task/{name}/audit.auditor-1", _given_up))
    assert look(store, name)["runs"][0]["tasks"][1]["claimed_at"] is None, "nobody had it when it failed"


def _given_back(task: TaskRecord) -> TaskRecord:
    return replace(task, state="returned")


def _given_up(task: TaskRecord) -> TaskRecord:
    return replace(task, state="failed", agent="", former=task.agent, finished=task.dispatched)


def test_a_claim_expires_by_its_risk_and_by_the_limits_of_its_dispatch_and_role(store: Store) -> None:
    limits = Limits(claim_high_s=60.0)
    (own, audit), roles = PLAN.phases, PLAN.roles
    draft = replace(own.dispatches[0], limits={"claim_critical_s": 40.0})
    plan = replace(
        PLAN,
        limits=limits,
        phases=(replace(own, dispatches=(draft,)), audit),
        roles=(replace(roles[0], limits={"claim_critical_s": 50.0, "claim_s": 30.0}), roles[1]),
    )
    run = store.run(lambda tx: create_run(tx, plan, "/p", "/o", "/s")).run

    def put(tx: Tx) -> None:
        for dispatch, holder, risk in (
            ("draft", "writer", "normal"),
            ("draft", "writer", "high"),
            ("draft", "writer", "critical"),
            ("audit", "auditor-2", "critical"),
        ):
            name = f"{dispatch}.{risk}"
            task = TaskRecord(run=run, task=name, dispatch=dispatch, phase=0, holders=(holder,), text="", risk=risk)
            save(tx, task)

    store.run(put)
    found = {task["task"]: task["claim_expiry_seconds"] for task in look(store, run)["runs"][0]["tasks"]}
    assert found == {"draft.normal": 30.0, "draft.high": 60.0, "draft.critical": 40.0, "audit.critical": 900.0}


def test_progress_and_claims_stand_in_the_tables(store: Store) -> None:
    name = add_run(store)
    go_halfway(store, name, os.getpid())
    run = look(store, name)["runs"][0]
    lines = detail(run, (), SystemClock().now(), colour=False, width=None)
    agents = next(n for n, line in enumerate(lines) if line.startswith("AGENT "))
    writer, first = lines[agents + 1 : agents + 3]
    column = lines[agents].index("PROGRESS")
    assert (writer[column:].split()[0], first[column : column + 4]) == ("-", "62 %")
    tasks = next(n for n, line in enumerate(lines) if line.startswith("TASK "))
    claimed = time.strftime("%H:%M:%S", time.localtime(run["tasks"][1]["claimed_at"]["wall"]))
    title, row = lines[tasks], lines[tasks + 2]
    for heading, value in (("PROGRESS", "62 %"), ("CLAIMED", claimed), ("EXPIRY", "5m 00s")):
        assert row[title.index(heading) :].startswith(value), row


def test_a_name_without_a_run_is_left_out_and_a_prefix_is_no_name(store: Store) -> None:
    add_run(store)
    assert look(store, "tide", "tide-11", "nothing")["runs"] == []


def test_the_snapshot_is_json_and_every_key_of_it_is_documented(store: Store) -> None:
    name = add_run(store)
    go_halfway(store, name, os.getpid())
    found = json.loads(json.dumps(look(store, name)))
    text = REFERENCE.read_text()
    missing = sorted(key for key in set(_keys(found)) if f"`{key}`" not in text and f'"{key}"' not in text)
    assert missing == []


def _keys(value: Any) -> Iterator[str]:
    if isinstance(value, list):
        for item in value:
            yield from _keys(item)
    if isinstance(value, dict):
        for key, item in value.items():
            if not key.startswith("auditor-"):
                yield key
            yield from _keys(item)
