"""Reviews on the real machine: approval, revision, refusal of the author, and several reviewers."""

from __future__ import annotations

from typing import Any

from support.fleet import Fleet

QUICK: dict[str, Any] = {"work_s": 0.2}
APPROVE: dict[str, Any] = {"on": "checkpoint", "do": ["approve"]}


def reviewed(count: int = 1, **changes: Any) -> dict[str, Any]:
    """A writer's draft, reviewed by the judges."""
    checkpoint = {
        "name": "review",
        "artifact": "draft.md",
        "reviewers": ["judge"],
        "question": "Good, {agent}?",
        **changes,
    }
    dispatch = {"name": "draft", "to": "writer", "task": "Write it.", "outputs": ["draft.md"]}
    return {
        "roles": {"writer": {}, "judge": {"count": count}},
        "phases": [{"name": "draft", "dispatches": [dispatch], "checkpoints": [checkpoint]}],
        "deliverable": {"path": "draft.md"},
    }


def judge(*rules: dict[str, Any]) -> dict[str, Any]:
    return {**QUICK, "rules": list(rules)}


def revise(note: str, **more: Any) -> dict[str, Any]:
    return {"on": "checkpoint", "do": [{"revise": {"note": note}}], **more}


def closed(fleet: Fleet) -> list[tuple[int, str]]:
    return [(e.body["round"], e.body["state"]) for e in fleet.events("checkpoint_closed")]


def test_an_approved_draft_completes_the_run(fleet: Fleet) -> None:
    fleet.cli("run", str(fleet.spec(reviewed(), {"writer": QUICK, "judge": QUICK})))
    assert closed(fleet) == [(1, "approved")]
    verdict = fleet.view("t-1").checkpoints["review"].verdicts["judge"]
    assert (verdict.approve, verdict.round) == (True, 1)
    asked = fleet.deeds("judge", "prompt")
    assert len(asked) == 1
    assert "Good, judge?" in asked[0]["text"]


def test_a_revision_reaches_the_author_with_its_note_and_a_second_round_is_asked(fleet: Fleet) -> None:
    note = 'add "sources"; see §2 — it\'s thin'
    fleet.cli("run", str(fleet.spec(reviewed(), {"writer": QUICK, "judge": judge(revise(note, times=1), APPROVE)})))
    assert closed(fleet) == [(1, "revised"), (2, "approved")]
    first, second = fleet.deeds("writer", "prompt")
    assert note not in first["text"]
    assert note in second["text"]
    assert [e.body["round"] for e in fleet.events("checkpoint_asked")] == [1, 2]
    assert [e.body["verdict"] for e in fleet.events("checkpoint_answered")] == ["revise", "approve"]
    assert len(fleet.events("task_accepted")) == 2


def test_a_draft_that_is_never_approved_fails_the_run_after_its_rounds(fleet: Fleet) -> None:
    text = reviewed(rounds_max=2)
    done = fleet.cli("run", str(fleet.spec(text, {"writer": QUICK, "judge": judge(revise("no"))})), check=False)
    assert done.returncode == 1
    assert closed(fleet) == [(1, "revised"), (2, "failed")]
    assert "checkpoint review failed" in fleet.view("t-1").run.cause
    assert fleet.leftovers(["t-1"]) == []


def test_neither_the_author_nor_a_stranger_may_approve(fleet: Fleet) -> None:
    slow = judge({"on": "checkpoint", "do": [{"wait": 60}]})
    text = reviewed()
    text["roles"]["passer"] = {}
    run = fleet.launch(fleet.spec(text, {"writer": QUICK, "judge": slow, "passer": QUICK}))
    early = fleet.as_agent(run, "writer", "checkpoint", "approve", "review")
    assert early.returncode == 77
    fleet.wait_event("checkpoint_asked")
    for agent, reason in (("writer", b"author"), ("passer", b"no reviewer")):
        done = fleet.as_agent(run, agent, "checkpoint", "approve", "review")
        assert done.returncode == 77
        assert reason in done.stderr
    assert fleet.view(run).checkpoints["review"].verdicts == {}
    assert fleet.events("checkpoint_answered") == []
    # The call carries the run's mark, so the end of the run may end it after its answer: its words count.
    assert b"noted" in fleet.as_agent(run, "judge", "checkpoint", "approve", "review").stdout
    assert fleet.wait_over(run).run.state == "COMPLETED"
    assert len(fleet.events("request_refused")) == 3


def test_both_holders_of_the_reviewing_role_must_approve(fleet: Fleet) -> None:
    rules = [{"on": "checkpoint", "do": [{"wait": 60}]}]
    run = fleet.launch(fleet.spec(reviewed(2), {"writer": QUICK, "judge": {**QUICK, "rules": rules}}))
    fleet.wait_event("checkpoint_asked")
    assert fleet.as_agent(run, "judge-1", "checkpoint", "approve", "review").returncode == 0
    again = fleet.as_agent(run, "judge-1", "checkpoint", "revise", "review", "--note", "changed my mind")
    assert fleet.view(run).checkpoints["review"].state == "asked", again.stdout
    assert not fleet.view(run).run.over
    assert b"noted" in fleet.as_agent(run, "judge-2", "checkpoint", "approve", "review").stdout
    assert fleet.wait_over(run).run.state == "COMPLETED"
    assert closed(fleet) == [(1, "approved")]


def test_a_revision_of_an_earlier_phases_artifact_is_made_by_its_author(fleet: Fleet) -> None:
    text = reviewed()
    review = text["phases"][0].pop("checkpoints")
    read = {"name": "read", "to": "judge", "task": "Read it.", "outputs": ["notes.md"]}
    text["phases"].append({"name": "review", "dispatches": [read], "checkpoints": review})
    fleet.cli("run", str(fleet.spec(text, {"writer": QUICK, "judge": judge(revise("more", times=1), APPROVE)})))
    assert closed(fleet) == [(1, "revised"), (2, "approved")]
    assert len(fleet.deeds("writer", "prompt")) == 2, "the author was not told"


def test_a_reviewer_that_keeps_dying_fails_the_review_with_its_name(fleet: Fleet) -> None:
    text = {**reviewed(), "limits": {"restarts_max": 1, "deadline_s": 20}}
    crash = {**QUICK, "rules": [{"on": "start", "do": [{"crash": "SIGKILL"}]}]}
    slow = {"work_s": 4}
    done = fleet.cli("run", str(fleet.spec(text, {"writer": slow, "judge": crash})), check=False, timeout_s=120)
    assert done.returncode == 1
    assert "judge" in fleet.view("t-1").run.cause or "review" in fleet.view("t-1").run.cause
    assert [e.body["member"] for e in fleet.events("crew_lost")] == []
