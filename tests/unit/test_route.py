"""What the captain decides on snapshots made by hand: each decision, failing closed, and nothing for what is over."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from dogwatch.model.delivery import Delivered
from dogwatch.model.folders import folder_at
from dogwatch.model.life import GivenUp, NotStarted, Starting
from dogwatch.model.moment import Moment
from dogwatch.model.plan import ByteCheck, Checkpoint, Dispatch, Gate, Limits, Output, Phase, Plan, Role
from dogwatch.model.records import (
    AgentRecord,
    CheckpointRecord,
    GateRecord,
    RunRecord,
    TaskRecord,
    Verdict,
)
from dogwatch.model.view import RunView
from dogwatch.policy import route
from dogwatch.policy.route import decide
from support.records import living_agent, message_record, running

NOW = Moment("boot", 1000.0, 2000.0)
DRAFT = Dispatch(name="draft", to="writer", task="Write.", outputs=(Output(path="draft.md"),))
POLISH = Dispatch(name="polish", to="writer", task="Polish.", after=("draft",))
COLLECT = Dispatch(name="collect", to="worker", address="any", task="Collect.")
REVIEW = Checkpoint(name="review", artifact="draft.md", author="draft", reviewers=("judge",), rounds_max=2)
COUNTED, LINTED = Gate(name="counted", command=("true",)), Gate(name="linted", checks=(ByteCheck(path="draft.md"),))
ROLES = (Role(name="writer"), Role(name="judge"), Role(name="worker", count=2))
PHASE = Phase(name="draft", dispatches=(DRAFT,), checkpoints=(REVIEW,), gates=(COUNTED, LINTED))


def plan(*phases: Phase, **changes: Any) -> Plan:
    return Plan(name="p", roles=ROLES, phases=phases or (PHASE,), deliverable=ByteCheck(path="draft.md"), **changes)


def agent(name: str, role: str = "", **changes: Any) -> AgentRecord:
    return living_agent(name, since=NOW, run="p-1", role=role or name, **changes)


AGENTS = {
    a.agent: a for a in (agent("writer"), agent("judge"), agent("worker-1", "worker"), agent("worker-2", "worker"))
}
LOST: dict[str, Any] = {"life": GivenUp(cause="exited: it failed 3 times")}


def task(name: str = "draft", state: str = "pending", **changes: Any) -> TaskRecord:
    facts: dict[str, Any] = {"run": "p-1", "task": name, "dispatch": name, "phase": 0, "holders": ("writer",)}
    return TaskRecord(**{**facts, "text": "Write.", "state": state, **changes})


def review(state: str = "open", round_: int = 0, **verdicts: bool) -> dict[str, CheckpointRecord]:
    given = {
        name: Verdict(approve=good, note="" if good else "too short", round=round_) for name, good in verdicts.items()
    }
    return {
        "review": CheckpointRecord(run="p-1", checkpoint="review", phase=0, state=state, round=round_, verdicts=given)
    }


def view(what: Plan | None = None, state: str = "RUNNING", phase: int = 0, **changes: Any) -> RunView:
    run = RunRecord(
        run="p-1", spec="", project_folder=folder_at(""), output_folder=folder_at("/out"),
        created=NOW, started=NOW, state=state, phase=phase, deadline_s=(what or plan()).limits.deadline_s,
    )  # fmt: skip
    tasks = {record.task: record for record in changes.pop("tasks", ())}
    return RunView(**{"plan": what or plan(), "run": run, "agents": AGENTS, "tasks": tasks, **changes})


def done(**changes: Any) -> RunView:
    """The phase's task is accepted."""
    return view(**{"tasks": [task(state="accepted")], "checkpoints": review(), **changes})


@pytest.mark.parametrize("state", ["COMPLETED", "PARTIAL", "FAILED", "NO_CONSENSUS"])
def test_nothing_is_decided_for_a_run_that_is_over(state: str) -> None:
    assert decide(view(state=state), NOW.plus(10**9)) == ()


def test_agents_without_a_process_are_spawned_before_work_begins() -> None:
    new = {name: replace(a, life=NotStarted()) for name, a in AGENTS.items()}
    found = decide(view(state="SPAWN", agents=new), NOW)
    assert found == tuple(route.SpawnAgent(name, 1) for name in AGENTS)


def test_work_begins_when_every_agent_is_there_or_given_up() -> None:
    agents = {**AGENTS, "judge": agent("judge", **LOST)}
    assert decide(view(state="SPAWN", agents=agents), NOW) == (route.BeginWork(),)


def test_work_does_not_begin_while_a_spawn_is_unconfirmed() -> None:
    agents = {**AGENTS, "judge": agent("judge", life=Starting(since=NOW))}
    assert decide(view(state="SPAWN", agents=agents), NOW) == (route.SpawnAgent("judge", 1),)


def test_an_agent_waits_for_its_backoff_and_not_longer_than_the_boot() -> None:
    waiting = agent("writer", life=NotStarted(not_before=NOW.plus(5)))
    agents = {**AGENTS, "writer": waiting}
    assert decide(view(state="SPAWN", agents=agents), NOW) == ()
    assert decide(view(state="SPAWN", agents=agents), NOW.plus(5)) == (route.SpawnAgent("writer", 1),)
    assert decide(view(state="SPAWN", agents=agents), Moment("other", 1.0, NOW.wall)) == (
        route.SpawnAgent("writer", 1),
    )


def test_a_phase_is_opened_when_its_tasks_are_not_on_the_ledger() -> None:
    assert decide(view(), NOW) == (route.OpenPhase(0),)


def test_a_phase_with_part_of_its_tasks_is_opened_again() -> None:
    both = plan(Phase(name="draft", dispatches=(DRAFT, POLISH)))
    assert decide(view(both, tasks=[task()]), NOW) == (route.OpenPhase(0),)


def test_a_phase_of_only_checkpoints_is_opened() -> None:
    what = plan(Phase(name="draft", dispatches=(DRAFT,)), Phase(name="review", checkpoints=(REVIEW,)))
    assert decide(view(what, phase=1, tasks=[task(state="accepted")]), NOW) == (route.OpenPhase(1),)


def test_a_task_goes_to_its_holder_when_that_is_free() -> None:
    assert decide(view(tasks=[task()], checkpoints=review()), NOW) == (route.SendTask("draft", "writer"),)


def test_a_task_is_not_sent_to_an_agent_that_is_not_there() -> None:
    gone = {**AGENTS, "writer": agent("writer", life=NotStarted(not_before=NOW.plus(9)))}
    assert decide(view(tasks=[task()], agents=gone, checkpoints=review()), NOW) == ()


def test_two_tasks_for_one_agent_go_one_after_the_other() -> None:
    both = plan(Phase(name="draft", dispatches=(DRAFT, replace(POLISH, after=()))))
    assert decide(view(both, tasks=[task(), task("polish")]), NOW) == (route.SendTask("draft", "writer"),)
    busy = [task(state="claimed", agent="writer"), task("polish")]
    assert decide(view(both, tasks=busy), NOW) == ()


def test_after_is_waited_for_until_it_is_accepted() -> None:
    both = plan(Phase(name="draft", dispatches=(DRAFT, POLISH)))
    for state in ("pending", "claimed", "reported", "returned"):
        found = decide(view(both, tasks=[task(state=state, agent="writer"), task("polish")]), NOW)
        assert route.SendTask("polish", "writer") not in found
    assert decide(view(both, tasks=[task(state="accepted"), task("polish")]), NOW) == (
        route.SendTask("polish", "writer"),
    )


def test_what_depends_on_a_failed_task_fails_too_in_a_partial_run() -> None:
    both = plan(Phase(name="draft", dispatches=(DRAFT, POLISH)), on_task_failure="partial")
    found = decide(view(both, tasks=[task(state="failed"), task("polish")]), NOW)
    assert found == (route.FailTask("polish", "it needs draft, which failed"),)


def test_a_report_is_judged() -> None:
    reported = [task(state="reported", agent="writer")]
    assert decide(view(tasks=reported, checkpoints=review()), NOW) == (route.JudgeReport("draft"),)


def test_a_task_whose_only_holder_is_given_up_fails_with_its_cause() -> None:
    agents = {**AGENTS, "writer": agent("writer", **LOST)}
    found = decide(view(tasks=[task(state="returned", agent="writer")], agents=agents, checkpoints=review()), NOW)
    assert found == (route.FailTask("draft", "exited: it failed 3 times"),)


def any_task(state: str = "pending", **changes: Any) -> TaskRecord:
    return task("collect", state, holders=("worker-1", "worker-2"), **changes)


ANY = plan(Phase(name="collect", dispatches=(COLLECT,)))


def test_a_task_for_any_holder_is_offered_to_all_that_are_free() -> None:
    found = decide(view(ANY, tasks=[any_task()]), NOW)
    assert found == (route.OfferTask("collect", "worker-1"), route.OfferTask("collect", "worker-2"))


def test_an_offer_is_made_once_to_an_incarnation_and_again_to_the_next() -> None:
    about = {"kind": "offer", "subject": "collect", "queued": NOW, "delivery": Delivered(at=NOW)}
    offer = message_record(run="p-1", to="worker-1", **about)
    once = view(ANY, tasks=[any_task()], messages={"m1": offer})
    assert decide(once, NOW) == (route.OfferTask("collect", "worker-2"),)
    agents = {**AGENTS, "worker-1": agent("worker-1", "worker", incarnation=2)}
    again = decide(replace(once, agents=agents), NOW)
    assert again == (route.OfferTask("collect", "worker-1"), route.OfferTask("collect", "worker-2"))


def test_a_returned_task_goes_back_to_its_last_holder_when_that_is_free() -> None:
    found = decide(view(ANY, tasks=[any_task("returned", agent="worker-2")]), NOW)
    assert found == (route.SendTask("collect", "worker-2"),)


def test_a_task_whose_holder_is_gone_is_not_offered_again_but_sent_to_who_is_free() -> None:
    released = replace(any_task(), former="worker-2", sends=1)
    assert decide(view(ANY, tasks=[released]), NOW) == (route.SendTask("collect", "worker-2"),)
    away = {**AGENTS, "worker-2": agent("worker-2", "worker", **LOST)}
    assert decide(view(ANY, tasks=[released], agents=away), NOW) == (route.SendTask("collect", "worker-1"),)


def test_nothing_is_sent_or_offered_to_an_agent_that_was_given_up() -> None:
    agents = {**AGENTS, "worker-1": agent("worker-1", "worker", **LOST)}
    returned = decide(view(ANY, tasks=[any_task("returned", agent="worker-1")], agents=agents), NOW)
    assert returned == (route.SendTask("collect", "worker-2"),)
    pending = decide(view(ANY, tasks=[any_task()], agents=agents), NOW)
    assert pending == (route.OfferTask("collect", "worker-2"),)


def test_an_agent_that_was_given_up_is_dismissed_and_gets_nothing_in_the_same_breath() -> None:
    """All of these are carried out on one snapshot: whoever is sent away must not be sent a task."""
    agents = {**AGENTS, "worker-1": agent("worker-1", "worker", life=GivenUp(cause="exited", last=running(NOW)))}
    returned = decide(view(ANY, tasks=[any_task("returned", agent="worker-1")], agents=agents), NOW)
    assert returned == (route.DismissAgent("worker-1"), route.SendTask("collect", "worker-2"))
    pending = decide(view(ANY, tasks=[any_task()], agents=agents), NOW)
    assert pending == (route.DismissAgent("worker-1"), route.OfferTask("collect", "worker-2"))


def test_the_review_is_asked_when_the_work_is_accepted() -> None:
    assert decide(done(), NOW) == (route.AskCheckpoint("review", 1),)


def test_nothing_is_decided_while_a_reviewer_thinks() -> None:
    assert decide(done(checkpoints=review("asked", 1)), NOW) == ()


def test_an_approved_review_is_closed() -> None:
    found = decide(done(checkpoints=review("asked", 1, judge=True)), NOW)
    assert found == (route.CloseCheckpoint("review", "approved"),)


def test_a_verdict_of_an_earlier_round_does_not_count() -> None:
    old = review("asked", 1, judge=True)
    assert decide(done(checkpoints={"review": replace(old["review"], round=2)}), NOW) == ()


def test_every_reviewer_must_approve() -> None:
    phase = replace(PHASE, checkpoints=(replace(REVIEW, reviewers=("worker-1", "worker-2")),))
    votes = {"worker-1": True}
    assert decide(done(what=plan(phase), checkpoints=review("asked", 1, **votes)), NOW) == ()
    votes["worker-2"] = False
    found = decide(done(what=plan(phase), checkpoints=review("asked", 1, **votes)), NOW)
    assert found == (route.CloseCheckpoint("review", "revised", "too short"),)


def test_a_revision_in_the_last_round_fails_the_review_and_then_the_run() -> None:
    found = decide(done(checkpoints=review("asked", 2, judge=False)), NOW)
    assert found == (route.CloseCheckpoint("review", "failed", "not approved in 2 rounds: too short"),)
    (ended,) = decide(done(checkpoints=review("failed", 2)), NOW)
    assert isinstance(ended, route.EndRun)
    assert ended.state == "FAILED"


def test_a_reviewer_that_was_given_up_fails_the_review_also_before_it_was_asked() -> None:
    agents = {**AGENTS, "judge": agent("judge", **LOST)}
    for checkpoints in (review(), review("asked", 1)):
        (found,) = decide(done(checkpoints=checkpoints, agents=agents), NOW)
        assert isinstance(found, route.CloseCheckpoint)
        assert found.state in ("failed", "skipped")


def test_a_reviewer_that_was_given_up_after_a_round_fails_the_next_one() -> None:
    """Its verdict was of the round before; to ask it again and again would never end."""
    agents = {**AGENTS, "judge": agent("judge", **LOST)}
    (found,) = decide(done(checkpoints=review("revised", 1, judge=False), agents=agents), NOW)
    assert isinstance(found, route.CloseCheckpoint)
    assert found.state == "failed"
    assert "judge is lost" in found.notes


def test_a_review_of_work_that_failed_is_skipped() -> None:
    what = plan(PHASE, on_task_failure="partial")
    found = decide(view(what, tasks=[task(state="failed")], checkpoints=review()), NOW)
    assert found == (route.CloseCheckpoint("review", "skipped", "draft failed"),)


def test_a_run_that_a_review_sent_back_does_the_work_again_and_then_passes_on() -> None:
    first, second = (
        Phase(name="draft", dispatches=(DRAFT,)),
        Phase(name="polish", dispatches=(POLISH,), checkpoints=(REVIEW,)),
    )
    both = plan(first, second)
    polished = task("polish", "accepted", phase=1)
    tasks = [task(state="returned", agent="writer"), polished]
    assert decide(view(both, phase=0, tasks=tasks, checkpoints=review("revised", 1)), NOW) == (
        route.SendTask("draft", "writer"),
    )
    tasks = [task(state="accepted", agent="writer"), polished]
    assert decide(view(both, phase=0, tasks=tasks, checkpoints=review("revised", 1)), NOW) == (route.EndPhase(0),)
    assert decide(view(both, phase=1, tasks=tasks, checkpoints=review("revised", 1)), NOW) == (
        route.AskCheckpoint(REVIEW.name, 2),
    )


def approved(**gates: GateRecord) -> RunView:
    return done(checkpoints=review("approved", 1), gates={(0, name): record for name, record in gates.items()})


def test_gates_run_one_after_another_and_only_then_the_phase_ends() -> None:
    def gate(name: str, state: str) -> GateRecord:
        return GateRecord(run="p-1", phase=0, gate=name, state=state)

    assert decide(approved(), NOW) == (route.RunGate(0, "counted"),)
    assert decide(approved(counted=gate("counted", "intended")), NOW) == (route.RunGate(0, "counted"),)
    first = gate("counted", "passed")
    assert decide(approved(counted=first), NOW) == (route.RunGate(0, "linted"),)
    assert decide(approved(counted=first, linted=gate("linted", "passed")), NOW) == (route.EndPhase(0),)


def test_a_failed_gate_ends_the_run_with_its_reason() -> None:
    failed = GateRecord(run="p-1", phase=0, gate="counted", state="failed", reason="exit code 3")
    assert decide(approved(counted=failed), NOW) == (route.EndRun("FAILED", "gate counted failed: exit code 3"),)


def test_a_gate_of_the_same_name_in_an_earlier_phase_does_not_count() -> None:
    again = plan(PHASE, Phase(name="more", gates=(COUNTED,)))
    passed = {(0, "counted"): GateRecord(run="p-1", phase=0, gate="counted", state="passed")}
    assert decide(view(again, phase=1, gates=passed, tasks=[task(state="accepted")]), NOW) == (
        route.RunGate(1, "counted"),
    )


def test_a_failed_task_ends_the_run_unless_it_may_be_partial() -> None:
    failed = [task(state="failed", note="no source")]
    assert decide(view(tasks=failed), NOW) == (route.EndRun("FAILED", "task draft failed: no source"),)
    reported = view(plan(PHASE, on_task_failure="partial"), "REPORT", 1, tasks=failed)
    assert decide(reported, NOW) == (route.VerifyDeliverable("task draft failed: no source"),)


def test_the_deliverable_is_read_when_all_phases_are_done() -> None:
    assert decide(view(state="REPORT", phase=1, tasks=[task(state="accepted")]), NOW) == (route.VerifyDeliverable(""),)


@pytest.mark.parametrize("state", ["SPAWN", "RUNNING", "REPORT"])
def test_the_deadline_ends_a_run_in_any_state(state: str) -> None:
    what = plan(PHASE, limits=Limits(deadline_s=10.0))
    late = decide(view(what, state), NOW.plus(10.5))
    assert late == (route.EndRun("FAILED", "deadline: not finished within 10 s"),)
    assert late != decide(view(what, state), NOW.plus(9.5))


def test_a_lost_agent_without_work_is_staffed_again_while_the_others_work() -> None:
    agents = {**AGENTS, "judge": agent("judge", life=NotStarted(), incarnation=2)}
    found = decide(view(tasks=[task()], checkpoints=review(), agents=agents), NOW)
    assert found == (route.SpawnAgent("judge", 2), route.SendTask("draft", "writer"))
