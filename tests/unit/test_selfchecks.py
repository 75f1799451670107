"""The captain's self-checks, each on the state that it is made for: it says what is wrong, and is quiet elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from dogwatch.model.folders import folder_at
from dogwatch.model.life import GivenUp
from dogwatch.model.memory import HostRecord, Zone
from dogwatch.model.moment import Moment
from dogwatch.model.plan import ByteCheck, Dispatch, Output, Phase, Plan, Role
from dogwatch.model.process import ProcessId
from dogwatch.model.records import CheckResult, RunRecord, TaskRecord
from dogwatch.model.sight import OutputSight, Sight, Turn
from dogwatch.model.view import RunView
from dogwatch.policy.admission import BLIND_S
from dogwatch.policy.selfchecks import Facts, run_checks
from support.records import living_agent, running

NOW = Moment("boot", 10_000.0, 50_000.0)
DRAFT, FINAL = Output(path="draft.md"), Output(path="final.md")
PLAN = Plan(
    name="r",
    roles=(Role(name="writer", harness="scripted"), Role(name="judge", harness="scripted")),
    phases=(
        Phase(
            name="draft",
            dispatches=(
                Dispatch(name="draft", to="writer", task="Write.", outputs=(DRAFT,)),
                Dispatch(name="final", to="judge", task="Finish.", outputs=(FINAL,)),
            ),
        ),
    ),
    deliverable=ByteCheck(path="final.md"),
)
RUN = RunRecord(
    run="r-1",
    spec="/p.yaml",
    project_folder=folder_at("/p"),
    output_folder=folder_at("/out"),
    created=NOW.plus(-900),
    state="RUNNING",
    started=NOW,
)
WRITER = living_agent(since=NOW.plus(-900), incarnation=2)
JUDGE = replace(
    WRITER, agent="judge", role="judge", incarnation=1, life=running(NOW.plus(-900), ProcessId("boot", 43, 8))
)
CLAIMED = TaskRecord(
    run="r-1",
    task="draft",
    dispatch="draft",
    phase=0,
    holders=("writer",),
    text="Write.",
    outputs=(DRAFT,),
    expect_s=600.0,
    state="claimed",
    agent="writer",
    incarnation=2,
    dispatched=NOW.plus(-60),
)
ACCEPTED = replace(
    CLAIMED,
    task="final",
    dispatch="final",
    holders=("judge",),
    outputs=(FINAL,),
    state="accepted",
    agent="judge",
    incarnation=1,
)
VIEW = RunView(
    plan=PLAN,
    run=RUN,
    agents={"writer": WRITER, "judge": JUDGE},
    tasks={"draft": CLAIMED, "final": ACCEPTED},
)
WELL = Sight(process="alive", session="alive", turn=Turn("working", NOW.mono - 60, NOW.mono - 5))
HOST = HostRecord(host="", at=NOW.plus(-2), since=NOW.plus(-900))
HEALTHY = Facts(view=VIEW, sights={"writer": WELL, "judge": WELL}, now=NOW, host=HOST)


def results(facts: Facts) -> dict[str, CheckResult]:
    return {one.name: one for one in run_checks(facts)}


def found(facts: Facts, name: str) -> tuple[str, str]:
    one = results(facts)[name]
    return one.result, one.detail


def with_sights(**sights: Sight) -> Facts:
    return replace(HEALTHY, sights={**HEALTHY.sights, **sights})


def with_task(**changes: object) -> Facts:
    """The draft is changed."""
    task = replace(CLAIMED, **changes)  # type: ignore[arg-type]
    return replace(HEALTHY, view=replace(VIEW, tasks={**VIEW.tasks, "draft": task}))


def with_writer(**changes: object) -> Facts:
    """The writer is changed."""
    writer = replace(WRITER, **changes)  # type: ignore[arg-type]
    return replace(HEALTHY, view=replace(VIEW, agents={**VIEW.agents, "writer": writer}))


def test_their_names_and_numbers_stay() -> None:
    """Scripts and people know them by these."""
    assert [(one.number, one.name) for one in run_checks(HEALTHY)] == [
        (1, "AGENT_SESSIONS_ALIVE"),
        (2, "AGENT_PROCESSES_ALIVE"),
        (3, "OUTPUTS_FRESH"),
        (4, "MEMORY_HEADROOM"),
        (5, "CONTEXT_HEADROOM"),
        (6, "MAIL_ACKNOWLEDGED"),
        (7, "SUBAGENTS_IN_TIME"),
        (8, "PARTITION_LIVENESS"),
        (9, "CLAIMS_VALID"),
        (10, "RESERVATIONS_RESPECTED"),
        (11, "DISPATCH_MARKERS"),
        (12, "PHASE_GATE"),
        (13, "WATCHDOG_TIER3_OUTPUT_PEEK"),
        (14, "WATCHDOG_ALIVE"),
    ]


def test_a_healthy_run_fails_none() -> None:
    checked = results(HEALTHY)
    not_applicable = {"CONTEXT_HEADROOM", "PARTITION_LIVENESS", "RESERVATIONS_RESPECTED"}
    assert {name for name, one in checked.items() if one.result == "not applicable"} == not_applicable
    assert {one.result for name, one in checked.items() if name not in not_applicable} == {"ok"}
    assert all(checked[name].detail for name in not_applicable), "what cannot be checked says why"


def test_an_agent_without_a_session_is_named() -> None:
    gone = with_sights(judge=replace(WELL, session="gone"))
    assert found(gone, "AGENT_SESSIONS_ALIVE") == ("failed", "judge has no session")
    both = with_sights(writer=replace(WELL, session="gone"), judge=replace(WELL, session="gone"))
    assert found(both, "AGENT_SESSIONS_ALIVE") == ("failed", "writer has no session; judge has no session")


def test_while_tmux_does_not_answer_no_session_counts_as_gone() -> None:
    blind = with_sights(writer=replace(WELL, session="unknown"), judge=replace(WELL, session="gone"))
    assert found(blind, "AGENT_SESSIONS_ALIVE") == ("unknown", "tmux does not answer")


def test_an_agent_whose_process_has_ended_is_named() -> None:
    dead = with_sights(judge=replace(WELL, process="dead", session="dead"))
    assert found(dead, "AGENT_PROCESSES_ALIVE") == ("failed", "judge is dead")
    assert found(dead, "AGENT_SESSIONS_ALIVE")[0] == "ok", "its session is still there"


def test_a_process_that_could_not_be_looked_at_does_not_count_as_dead() -> None:
    blind = with_sights(writer=replace(WELL, process="unknown"), judge=replace(WELL, process="dead"))
    assert found(blind, "AGENT_PROCESSES_ALIVE") == ("unknown", "writer could not be looked at")


def test_a_task_past_its_time_with_nothing_written_fails_with_both_times() -> None:
    late = with_task(dispatched=NOW.plus(-700))
    assert found(late, "OUTPUTS_FRESH") == ("failed", "draft: nothing new for 700 s, 600 s were expected")


@pytest.mark.parametrize(("is_new", "result"), [(True, "ok"), (False, "failed")])
def test_only_what_was_written_since_the_dispatch_counts_as_an_output(is_new: bool, result: str) -> None:
    late = with_task(dispatched=NOW.plus(-700))
    written = replace(WELL, outputs=(OutputSight("draft.md", 9, NOW.wall - 50, is_new),))
    assert found(replace(late, sights={"writer": written}), "OUTPUTS_FRESH")[0] == result


@pytest.mark.parametrize(
    "changes",
    [
        {"dispatched": NOW.plus(-600)},
        {"dispatched": NOW.plus(-700), "state": "reported"},
        {"dispatched": None},
        {"dispatched": NOW.plus(-700), "outputs": ()},
    ],
    ids=["in time", "reported", "not dispatched", "without outputs"],
)
def test_a_task_that_owes_nothing_yet_is_not_late(changes: Mapping[str, object]) -> None:
    assert found(with_task(**changes), "OUTPUTS_FRESH") == ("ok", "")


@pytest.mark.parametrize(
    ("zone", "said"),
    [
        ("GREEN", ("ok", "memory is GREEN")),
        ("YELLOW", ("failed", "MEMORY_LOW: 2 GB are left")),
        ("RED", ("failed", "MEMORY_CRITICAL: 2 GB are left")),
    ],
)
def test_the_memory_check_follows_the_zone_and_says_why(zone: Zone, said: tuple[str, str]) -> None:
    facts = replace(HEALTHY, host=replace(HOST, zone=zone, why="2 GB are left"))
    assert found(facts, "MEMORY_HEADROOM") == said


@pytest.mark.parametrize("host", [None, replace(HOST, at=NOW.plus(-BLIND_S - 1))], ids=["never seen", "too old"])
def test_memory_that_nobody_looks_at_is_neither_enough_nor_too_little(host: HostRecord | None) -> None:
    blind = replace(HEALTHY, host=host)
    assert found(blind, "MEMORY_HEADROOM") == ("unknown", "the dispatcher has not looked at the memory")


def test_a_claim_of_an_earlier_incarnation_is_invalid() -> None:
    stale = with_task(incarnation=1)
    assert found(stale, "CLAIMS_VALID") == ("failed", "draft is held by incarnation 1 of writer, which is gone")


def test_a_claim_of_an_agent_that_was_given_up_is_invalid() -> None:
    given_up = ("failed", "draft is held by writer, who was given up")
    assert found(with_writer(life=GivenUp(cause="x")), "CLAIMS_VALID") == given_up
    without = replace(HEALTHY, view=replace(VIEW, agents={"judge": JUDGE}))
    assert found(without, "CLAIMS_VALID") == given_up


@pytest.mark.parametrize("state", ["reported", "accepted", "returned", "failed"])
def test_a_task_that_nobody_works_on_needs_no_holder(state: str) -> None:
    assert found(with_task(state=state, incarnation=1), "CLAIMS_VALID") == ("ok", "")


def test_an_accepted_artifact_that_is_missing_is_named_with_its_task() -> None:
    lost = replace(HEALTHY, missing={"final": "final.md does not exist", "draft": "draft.md is empty"})
    assert found(lost, "PHASE_GATE") == ("failed", "final: final.md does not exist; draft: draft.md is empty")


def test_work_that_is_written_and_not_reported_is_named() -> None:
    idle = replace(WELL, turn=Turn("idle", NOW.mono - 5, NOW.mono - 5), outputs_fresh=True)
    assert found(with_sights(writer=idle), "WATCHDOG_TIER3_OUTPUT_PEEK") == (
        "failed",
        "draft of writer is written and not reported",
    )
    assert found(with_sights(writer=replace(idle, outputs_fresh=False)), "WATCHDOG_TIER3_OUTPUT_PEEK")[0] == "ok"
    busy = replace(WELL, outputs_fresh=True)
    assert found(with_sights(writer=busy), "WATCHDOG_TIER3_OUTPUT_PEEK")[0] == "ok", "it may still write"
    reported = replace(with_task(state="reported"), sights={"writer": idle})
    assert found(reported, "WATCHDOG_TIER3_OUTPUT_PEEK")[0] == "ok"
