"""The ladder: what is done about each diagnosis, and that the harshest act is never what is left over."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import pytest

import dogwatch.policy
from dogwatch.model.plan import Limits
from dogwatch.model.records import TaskRecord
from dogwatch.model.sight import Subagent
from dogwatch.model.view import Duty
from dogwatch.policy.diagnoses import DIAGNOSES, Action, Kind
from dogwatch.policy.diagnosis import Diagnosis, Late
from dogwatch.policy.ladder import (
    LOOK_AGAIN_S,
    ONCE_S,
    CallPerson,
    Facts,
    HoldAccount,
    Interrupt,
    LeaveAlone,
    Nudge,
    NudgeParent,
    Probe,
    Rescue,
    Restart,
    Step,
    again_s,
    decide,
)

KINDS: tuple[Kind, ...] = get_args(Kind)
ROWS = {kind: traits.actions for kind, traits in DIAGNOSES.items()}
ACTIONS: tuple[Action, ...] = get_args(Action)
DUTY = Duty("task", "draft", None)
TASK = TaskRecord(run="v-1", task="draft", dispatch="draft", phase=0, holders=("writer",), text="Write.")
LATE = (Late(Subagent(id="a1", type="Explore", since=1.0), 2000.0, 1800.0),)
RESTART = Restart(counts=True, forgets=False)


def taken(kind: Kind, action: Action, **facts: object) -> Step:
    """The step about an alert that was raised for the same diagnosis."""
    given = Facts(alerted=kind, nudges_max=2, duty=DUTY, task=TASK)
    return decide(Diagnosis(kind=kind, action=action), replace(given, **facts))  # type: ignore[arg-type]


def steps(kind: Kind, action: Action) -> Iterator[Step]:
    """What can come of it, whatever the facts are."""
    for nudges in (0, 1, 2, 9):
        for late in ((), LATE):
            for is_so in (False, True):
                for duty in (DUTY, None):
                    flags = {"is_nudge_queued": is_so, "is_account_held": is_so, "is_probed": is_so}
                    yield taken(kind, action, nudges=nudges, late=late, duty=duty, **flags)


def test_every_diagnosis_has_its_row_and_every_action_stands_in_one() -> None:
    assert set(ROWS) == set(KINDS)
    assert {action for row in ROWS.values() for action in row} == set(ACTIONS) - {""}


@pytest.mark.parametrize("kind", KINDS)
def test_what_a_row_does_not_list_leaves_the_agent_alone(kind: Kind) -> None:
    for action in set(ACTIONS) - set(ROWS[kind]):
        assert set(steps(kind, action)) == {LeaveAlone()}, action


@pytest.mark.parametrize("kind", KINDS)
def test_only_a_diagnosis_whose_row_says_so_can_cost_an_incarnation(kind: Kind) -> None:
    found = [step for action in ACTIONS for step in steps(kind, action)]
    assert any(isinstance(step, Restart) for step in found) == ("RESTART" in ROWS[kind])


def test_neither_work_nor_rest_nor_a_look_that_says_nothing_is_acted_on() -> None:
    for kind in ("starting", "working", "waiting", "idle", "unknown"):
        assert ROWS[kind] == ()
    for kind, traits in DIAGNOSES.items():
        assert not (traits.never_restarted and "RESTART" in ROWS[kind])


def test_an_action_that_nobody_has_listed_does_nothing() -> None:
    assert set(steps("exited", "EXPLODE")) == {LeaveAlone()}  # type: ignore[arg-type]


def test_every_action_that_a_diagnosis_is_made_with_stands_in_its_row() -> None:
    """A row that was forgotten would make the alert a dead letter."""
    made: set[tuple[Any, Any]] = set()
    for path in Path(dogwatch.policy.__path__[0]).glob("*.py"):
        for call in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(call, ast.Call) and getattr(call.func, "id", "") == "Diagnosis":
                given = {keyword.arg: keyword.value for keyword in call.keywords}
                kinds = [one.value for one in ast.walk(given["kind"]) if isinstance(one, ast.Constant)]
                actions = ast.walk(given["action"]) if "action" in given else ()
                words = [one.value for one in actions if isinstance(one, ast.Constant)]
                made |= {(kind, word) for kind in kinds for word in words if word in ACTIONS and word}
    assert {("silent_turn", "NUDGE"), ("stalled", "PROBE"), ("stop_loop", "INTERRUPT")} <= made, "it was looked for"
    assert not [(kind, action) for kind, action in made if action not in ROWS[kind]]


def test_each_action_leads_to_its_step() -> None:
    assert taken("done_unreported", "RESCUE") == Rescue(TASK)
    assert taken("silent_turn", "NUDGE") == Nudge(DUTY)
    assert taken("stalled", "PROBE") == Probe()
    assert taken("stop_loop", "INTERRUPT") == Interrupt()
    assert taken("provider_wait", "HOLD") == HoldAccount()
    assert taken("awaiting_permission", "ESCALATE") == CallPerson(())
    assert taken("exited", "RESTART") == RESTART


def test_nudges_that_have_not_helped_lead_to_a_restart_where_the_row_says_so() -> None:
    assert taken("silent_turn", "NUDGE", nudges=1) == Nudge(DUTY)
    assert taken("silent_turn", "NUDGE", nudges=2) == RESTART
    assert taken("deadlock", "NUDGE", nudges=2) == RESTART
    assert taken("provider_wait", "NUDGE", nudges=2) == LeaveAlone()


def test_nobody_is_nudged_twice_at_once_or_for_nothing_or_while_its_account_is_held() -> None:
    assert taken("silent_turn", "NUDGE", is_nudge_queued=True) == LeaveAlone()
    assert taken("silent_turn", "NUDGE", is_nudge_queued=True, nudges=9) == LeaveAlone(), "the last one is on its way"
    assert taken("silent_turn", "NUDGE", duty=None) == LeaveAlone()
    assert taken("provider_wait", "NUDGE", is_account_held=True) == LeaveAlone()
    assert taken("silent_turn", "NUDGE", is_account_held=True) == Nudge(DUTY), "it does not wait for its provider"


def test_late_sub_agents_are_their_parent_s_affair_and_then_a_person_s() -> None:
    assert taken("subagent_overdue", "NUDGE", late=LATE, nudges=9, is_nudge_queued=True) == NudgeParent(LATE)
    assert taken("subagent_overdue", "ESCALATE", late=LATE) == CallPerson(LATE)


def test_who_was_asked_for_a_sign_of_life_is_not_asked_again() -> None:
    assert taken("stalled", "PROBE", is_probed=True) == LeaveAlone()


def test_only_the_turn_that_was_reported_is_interrupted() -> None:
    assert taken("long_tool", "INTERRUPT", alerted="stop_loop") == LeaveAlone()


def test_nothing_can_be_rescued_without_a_task() -> None:
    assert taken("done_unreported", "RESCUE", task=None) == LeaveAlone()


def test_a_full_context_is_forgotten_and_a_death_by_others_does_not_count() -> None:
    assert taken("context_exhausted", "RESTART") == Restart(counts=True, forgets=True)
    died = Diagnosis(kind="exited", action="RESTART", own_fault=False)
    assert decide(died, Facts(alerted="exited", nudges_max=2)) == Restart(counts=False, forgets=False)


def test_the_same_stall_is_reported_again_after_what_was_done_has_had_its_time() -> None:
    limits = Limits(nudge_s=30.0, hold_s=60.0)
    assert again_s(LeaveAlone(), limits) == LOOK_AGAIN_S
    assert again_s(CallPerson(()), limits) == ONCE_S
    assert again_s(HoldAccount(), limits) == 60.0
    others: tuple[Step, ...] = (Rescue(TASK), Nudge(DUTY), NudgeParent(LATE), Probe(), Interrupt(), RESTART)
    assert {again_s(step, limits) for step in others} == {30.0}
