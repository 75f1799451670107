"""Who gets which task: one holder, all holders, any holder, a numbered agent, and the order of `after`."""

from __future__ import annotations

from typing import Any

from support.fleet import Fleet
from support.helpers import wait_for

QUICK: dict[str, Any] = {"work_s": 0.2}


def workers(count: int, *dispatches: dict[str, Any], path: str, **changes: Any) -> dict[str, Any]:
    return {
        "roles": {"worker": {"count": count}},
        "phases": [{"name": "work", "dispatches": list(dispatches)}],
        "deliverable": {"path": path},
        **changes,
    }


def dispatch(name: str, to: str, path: str, **more: Any) -> dict[str, Any]:
    return {
        "name": name,
        "to": to,
        "task": f"Do {name} as {{agent}} of {{role}} in {{run}}.",
        "outputs": [path],
        **more,
    }


def accepted(fleet: Fleet) -> list[tuple[str, str]]:
    return [(e.body["task"], e.agent) for e in fleet.events("task_accepted")]


def test_all_holders_get_a_task_each_with_their_own_names_filled_in(fleet: Fleet) -> None:
    text = workers(3, dispatch("survey", "all worker", "{agent}.csv"), path="worker-2.csv")
    fleet.cli("run", str(fleet.spec(text, {"worker": QUICK})))
    agents = ["worker-1", "worker-2", "worker-3"]
    assert sorted(accepted(fleet)) == [(f"survey.{agent}", agent) for agent in agents]
    assert sorted(p.name for p in (fleet.project / "out" / "t-1").iterdir()) == [f"{agent}.csv" for agent in agents]
    prompts = sorted(deed["text"].splitlines()[1] for deed in fleet.deeds("worker", "prompt"))
    assert prompts == [f"Do survey as {agent} of worker in t-1." for agent in agents]


def test_exactly_one_of_any_holders_gets_the_task_and_the_others_are_refused(fleet: Fleet) -> None:
    go = fleet.base / "go"
    until_go = {"tool": {"command": ["sh", "-c", f"until test -e {go}; do sleep 0.1; done"]}}
    text = workers(3, dispatch("collect", "any worker", "data.csv"), path="data.csv")
    rules = [{"on": "dispatch", "do": [until_go, "continue"]}]
    run = fleet.launch(fleet.spec(text, {"worker": {**QUICK, "rules": rules}}))
    wait_for(lambda: len(fleet.deeds("worker", "claim_exit")) >= 3, 60, fleet.tail)
    go.touch()
    assert fleet.wait_over(run).run.state == "COMPLETED"
    claims = fleet.events("task_claimed")
    assert len(claims) == 1
    assert accepted(fleet) == [("collect", claims[0].agent)]
    codes = sorted(deed["code"] for deed in fleet.deeds("worker", "claim_exit"))
    assert codes == [0, 77, 77]
    assert len(fleet.deeds("worker", "wrote")) == 1


def test_an_offered_task_whose_claimer_dies_is_done_all_the_same(fleet: Fleet) -> None:
    rules = [{"on": "dispatch", "incarnation": 1, "do": [{"crash": "SIGKILL"}]}]
    text = workers(2, dispatch("collect", "any worker", "data.csv"), path="data.csv")
    fleet.cli("run", str(fleet.spec(text, {"worker": {**QUICK, "rules": rules}})))
    assert len(accepted(fleet)) == 1
    deaths = len(fleet.deeds("worker", "crashed"))
    assert deaths >= 1
    assert [e.body["task"] for e in fleet.events("task_released")] == ["collect"] * deaths


def test_a_numbered_agent_gets_its_task_and_nobody_else(fleet: Fleet) -> None:
    text = workers(2, dispatch("audit", "worker-2", "audit.md"), path="audit.md")
    fleet.cli("run", str(fleet.spec(text, {"worker": QUICK})))
    assert accepted(fleet) == [("audit", "worker-2")]
    assert {deed["agent"] for deed in fleet.deeds("worker", "prompt")} == {"t-1/worker-2"}


def test_a_task_begins_only_when_what_it_comes_after_is_accepted(fleet: Fleet) -> None:
    text = workers(
        2,
        dispatch("last", "worker-1", "c.md", after=["middle"]),
        dispatch("middle", "worker-2", "b.md", after=["first"]),
        dispatch("first", "worker-1", "a.md"),
        path="c.md",
    )
    fleet.cli("run", str(fleet.spec(text, {"worker": QUICK})))
    order = [(e.kind, e.body["task"]) for e in fleet.events() if e.kind in ("task_dispatched", "task_accepted")]
    expected = [(kind, name) for name in ("first", "middle", "last") for kind in ("task_dispatched", "task_accepted")]
    assert order == expected


def test_what_comes_after_all_waits_for_every_holder(fleet: Fleet) -> None:
    text = workers(
        2,
        dispatch("survey", "all worker", "{agent}.csv"),
        dispatch("sum", "worker-1", "sum.md", after=["survey"]),
        path="sum.md",
        milestones={"surveyed": {"after": ["survey"]}},
    )
    fleet.cli("run", str(fleet.spec(text, {"worker": QUICK})))
    sent = next(e for e in fleet.events("task_dispatched") if e.body["task"] == "sum")
    surveys = [e for e in fleet.events("task_accepted") if e.body["task"].startswith("survey")]
    assert len(surveys) == 2
    assert all(e.at.mono <= sent.at.mono for e in surveys)
    assert [e.body["milestone"] for e in fleet.events("milestone_reached")] == ["surveyed"]
