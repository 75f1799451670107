"""The lifecycle tables: every state can be reached, ends are ends, and an illegal step changes nothing."""

from __future__ import annotations

import pytest

from dogwatch.errors import IllegalTransitionError
from dogwatch.model.lifecycle import AGENT, CHECKPOINT, HEALTH, LIFECYCLES, MESSAGE, RUN, TASK, Lifecycle

ALL = pytest.mark.parametrize("lifecycle", LIFECYCLES, ids=lambda lifecycle: lifecycle.name)


@ALL
def test_every_successor_is_a_state_of_the_table(lifecycle: Lifecycle) -> None:
    named = {state for following in lifecycle.table.values() for state in following}
    assert named <= set(lifecycle.table)


@ALL
def test_every_state_is_reached_from_the_first(lifecycle: Lifecycle) -> None:
    reached, waiting = set(), [lifecycle.first]
    while waiting:
        state = waiting.pop()
        if state not in reached:
            reached.add(state)
            waiting += lifecycle.table[state]
    assert reached == set(lifecycle.table)


@ALL
def test_an_end_is_reached_from_every_state(lifecycle: Lifecycle) -> None:
    """Nothing may be stuck in its lifecycle for ever."""
    ending = set(lifecycle.ends)
    while more := {s for s, following in lifecycle.table.items() if s not in ending and ending & set(following)}:
        ending |= more
    assert ending == set(lifecycle.table)


@ALL
def test_a_step_is_legal_exactly_where_the_table_has_it(lifecycle: Lifecycle) -> None:
    for state, allowed in lifecycle.table.items():
        for following in lifecycle.table:
            if following in allowed:
                assert lifecycle.step(state, following) == following
            else:
                with pytest.raises(IllegalTransitionError, match=f"{state} cannot become {following}"):
                    lifecycle.step(state, following)


@ALL
def test_a_state_never_follows_itself(lifecycle: Lifecycle) -> None:
    assert all(state not in following for state, following in lifecycle.table.items())


@ALL
def test_an_unknown_state_is_named_in_the_error(lifecycle: Lifecycle) -> None:
    with pytest.raises(IllegalTransitionError, match="no state 'lost'"):
        lifecycle.step("lost", lifecycle.first)
    with pytest.raises(IllegalTransitionError):
        lifecycle.step(lifecycle.first, "lost")


def test_the_hint_says_what_may_follow() -> None:
    with pytest.raises(IllegalTransitionError) as caught:
        TASK.step("pending", "accepted")
    assert caught.value.hint == "from pending may follow claimed, failed"
    with pytest.raises(IllegalTransitionError) as caught:
        RUN.step("FAILED", "RUNNING")
    assert "it is an end" in caught.value.hint


def test_ends_are_those_of_the_design() -> None:
    assert RUN.ends == {"COMPLETED", "PARTIAL", "FAILED", "NO_CONSENSUS"}
    assert AGENT.ends == {"SUCCEEDED", "ERROR"}
    assert HEALTH.ends == {"replaced"}
    assert MESSAGE.ends == {"acknowledged", "expired"}
    assert TASK.ends == {"failed"}
    assert CHECKPOINT.ends == {"failed", "skipped"}


def test_a_run_that_is_not_over_can_fail_whatever_it_does() -> None:
    assert all("FAILED" in RUN.table[state] for state in RUN.table if state not in RUN.ends)
