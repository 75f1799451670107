"""What the facts about an agent mean: each diagnosis, and above all which facts never lead to an action."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dogwatch.model.delivery import Delivered, Queued
from dogwatch.model.folders import folder_at
from dogwatch.model.life import NotStarted, Starting
from dogwatch.model.moment import Moment
from dogwatch.model.plan import ByteCheck, Limits, Plan
from dogwatch.model.records import AgentRecord, CheckpointRecord, MessageRecord, RunRecord, TaskRecord
from dogwatch.model.sight import OutputSight, Sight, Turn
from dogwatch.model.view import Duty, RunView
from dogwatch.policy.diagnose import diagnose
from dogwatch.policy.diagnosis import Diagnosis
from support.records import living_agent, message_record, running

NOW = Moment("boot", 1000.0, 5000.0)
LONG_AGO = NOW.plus(-900)
LIMITS = Limits(nudge_s=30, peek_s=20, startup_s=60)
AGENT = living_agent(since=LONG_AGO, incarnation=3)
DUTY = Duty("task", "draft", LONG_AGO)


def sight(state: str = "idle", quiet_s: float = 500.0, **changes: Any) -> Sight:
    turn = Turn(state, NOW.mono - quiet_s, NOW.mono - quiet_s, 42)  # type: ignore[arg-type]
    life = {"watched_since": 1.0, "life": NOW.mono, "screen_since": 1.0}
    return Sight(**{"process": "alive", "session": "alive", "turn": turn, **life, **changes})


def written(age_s: float) -> tuple[OutputSight, ...]:
    return (OutputSight("draft.md", 10, NOW.wall - age_s, is_new=True),)


def found(seen: Sight, duty: Duty | None = DUTY, agent: AgentRecord = AGENT) -> Diagnosis:
    result = diagnose(agent, duty, seen, LIMITS, NOW)
    assert result.action in ("", *result.traits.actions), "the table says what may be advised"
    return result


@pytest.mark.parametrize(
    ("seen", "duty", "kind"),
    [
        (sight("working"), DUTY, "working"),
        (sight("working"), None, "working"),
        (sight("idle"), None, "idle"),
        (sight("idle"), Duty("task", "draft", None), "idle"),
        (sight("idle", 5), DUTY, "idle"),
        (sight("idle", 5, outputs_fresh=True), DUTY, "idle"),
        (sight("idle"), Duty("task", "draft", NOW), "idle"),
    ],
)
def test_what_is_healthy_gets_no_action(seen: Sight, duty: Duty | None, kind: str) -> None:
    result = found(seen, duty)
    assert (result.kind, result.action) == (kind, "")
    assert result.evidence


@pytest.mark.parametrize("session", ["alive", "dead", "gone", "unknown"])
@pytest.mark.parametrize("state", ["none", "idle", "working"])
def test_a_process_that_could_not_be_looked_at_leads_to_nothing(session: str, state: str) -> None:
    result = found(sight(state, process="unknown", session=session, outputs_fresh=True))
    assert (result.kind, result.action) == ("unknown", "")


@pytest.mark.parametrize("session", ["dead", "gone", "unknown"])
def test_a_session_that_is_not_seen_says_nothing_while_the_process_lives(session: str) -> None:
    assert found(sight("working", session=session)).action == ""


def test_a_spawn_that_is_not_confirmed_is_left_alone() -> None:
    for life in (NotStarted(), Starting(since=LONG_AGO)):
        agent = replace(AGENT, life=life)
        result = found(sight(process="dead", session="gone"), agent=agent)
        assert (result.kind, result.action) == ("starting", "")


def test_a_client_has_its_time_to_start() -> None:
    fresh = replace(AGENT, life=running(NOW.plus(-59)))
    assert found(sight("none"), agent=fresh).action == ""
    late = found(sight("none"), agent=replace(AGENT, life=running(NOW.plus(-61))))
    assert (late.kind, late.action, late.stall) == ("startup_stall", "RESTART", "#3:start")


def test_a_dead_process_is_replaced_with_the_last_lines_as_evidence() -> None:
    result = found(sight("working", process="dead", session="dead", lines=("one", "two", "three", "four")))
    assert (result.kind, result.action) == ("exited", "RESTART")
    assert result.evidence == ("process: 42@7 is gone", "two", "three", "four")


def test_a_dead_process_without_a_session_is_told_apart() -> None:
    assert found(sight(process="dead", session="gone")).kind == "session_dead"
    assert found(sight(process="dead", session="unknown")).kind == "exited"


def test_a_dead_process_that_has_written_everything_is_rescued_first() -> None:
    result = found(sight(process="dead", session="dead", outputs_fresh=True))
    assert (result.kind, result.action) == ("done_unreported", "RESCUE")


def test_a_process_that_died_in_the_middle_of_its_turn_may_have_left_half_a_file() -> None:
    assert found(sight("working", process="dead", session="dead", outputs_fresh=True)).action == "RESTART"


@pytest.mark.parametrize("state", ["none", "idle", "working"])
def test_a_client_without_hooks_is_never_judged_by_its_silence(state: str) -> None:
    assert found(sight(state, 10**6, hooks=False)).action == ""
    assert found(sight(state, process="dead", session="dead", hooks=False)).action == "RESTART"


@pytest.mark.parametrize("screen", ["busy", "starting", "dialog"])
def test_an_idle_turn_behind_a_screen_that_works_is_not_silent(screen: str) -> None:
    assert found(sight("idle", 500, screen=screen)).action == ""


def test_a_file_that_has_just_changed_is_a_sign_of_life() -> None:
    assert found(sight("idle", 500, outputs=written(3))).action == ""
    assert found(sight("idle", 500, outputs=written(-900))).action == "NUDGE"


def test_an_idle_agent_with_open_work_is_nudged_and_each_stall_once() -> None:
    first = found(sight("idle", 31))
    assert (first.kind, first.action) == ("silent_turn", "NUDGE")
    assert found(sight("idle", 31)).stall == first.stall
    assert found(sight("idle", 30.5)).stall != first.stall
    assert found(sight("idle", 31), Duty("task", "other", LONG_AGO)).stall != first.stall
    assert found(sight("idle", 31), agent=replace(AGENT, incarnation=4)).stall != first.stall


def test_an_idle_agent_that_has_written_everything_is_rescued_not_nudged() -> None:
    result = found(sight("idle", 21, outputs_fresh=True))
    assert (result.kind, result.action) == ("done_unreported", "RESCUE")


def test_time_counts_from_the_delivery_at_the_earliest() -> None:
    told = Duty("task", "draft", NOW.plus(-10))
    assert found(sight("idle", 500), told).quiet_s == pytest.approx(10)


def test_a_step_of_the_wall_clock_makes_nobody_late() -> None:
    later = Moment(NOW.boot, NOW.mono, NOW.wall + 86400)
    result = diagnose(AGENT, Duty("task", "draft", NOW.plus(-5)), sight("idle", 5), LIMITS, later)
    assert result.action == ""


@given(
    process=st.sampled_from(["alive", "unknown"]),
    state=st.sampled_from(["idle", "working"]),
    session=st.sampled_from(["alive", "dead", "gone", "unknown"]),
    quiet_s=st.floats(0, 1e6),
    told=st.booleans(),
)
def test_no_living_or_unknown_process_is_ever_restarted_once_it_has_started(
    process: str, state: str, session: str, quiet_s: float, told: bool
) -> None:
    seen = sight(state, quiet_s, process=process, session=session)
    assert found(seen, DUTY if told else None).action != "RESTART"


PLAN = Plan(name="r", roles=(), phases=(), deliverable=ByteCheck(path="x"))
RUN = RunRecord(run="r-1", spec="", project_folder=folder_at(""), output_folder=folder_at(""), created=LONG_AGO)


def asked(message: str, delivered: Moment | None) -> MessageRecord:
    delivery = Delivered(at=delivered) if delivered else Queued()
    about = {"kind": "checkpoint", "subject": "review", "queued": LONG_AGO, "incarnation": 3}
    return message_record(id=message, **about, delivery=delivery)


@pytest.mark.parametrize("ids", [("m1", "m2"), ("m2", "m1")])
def test_a_review_of_a_second_round_counts_from_its_own_request_not_from_the_first(ids: tuple[str, str]) -> None:
    """A request that is still on its way cannot be late."""
    first, second = ids
    requests = [replace(asked(first, LONG_AGO), queued=LONG_AGO), replace(asked(second, None), queued=NOW)]
    record = CheckpointRecord(run="r-1", checkpoint="review", phase=0, state="asked", round=2)
    view = RunView(
        plan=PLAN,
        run=RUN,
        agents={"writer": AGENT},
        checkpoints={"review": record},
        messages={m.id: m for m in sorted(requests, key=lambda m: m.id)},
    )
    duty = view.duty_of("writer")
    assert duty is not None
    assert duty.delivered is None
    assert found(sight("idle", 500), duty).action == ""


def test_an_agent_owes_its_task_before_anything_else_and_nothing_when_it_has_voted() -> None:
    task = TaskRecord(
        run="r-1",
        task="draft",
        dispatch="draft",
        phase=0,
        holders=("writer",),
        text="",
        state="claimed",
        agent="writer",
    )
    record = CheckpointRecord(run="r-1", checkpoint="review", phase=0, state="approved", round=1)
    view = RunView(
        plan=PLAN,
        run=RUN,
        agents={"writer": AGENT},
        tasks={"draft": task},
        checkpoints={"review": record},
        messages={"m1": asked("m1", LONG_AGO)},
    )
    assert view.duty_of("writer") == Duty("task", "draft", None, "normal", 1800.0)
    assert replace(view, tasks={"draft": replace(task, state="reported")}).duty_of("writer") is None
