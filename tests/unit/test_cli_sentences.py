"""Every kind of event has a sentence, whatever its body holds."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dogwatch.cli.sentences import LENGTH_MAX, QUIET_KINDS, SENTENCES, sentence
from dogwatch.ledger.api import StoredEvent
from dogwatch.model.events import KINDS
from dogwatch.model.moment import Moment

AT = Moment("boot", 1.0, 1.0)


def event(kind: str, agent: str = "writer", /, **body: Any) -> StoredEvent:
    return StoredEvent("1", kind, body, AT, "tide-1", agent, "")


def test_each_kind_has_one_sentence_and_no_sentence_is_left_over() -> None:
    assert set(SENTENCES) == set(KINDS)
    assert set(KINDS) >= QUIET_KINDS


@pytest.mark.parametrize("kind", KINDS)
def test_an_event_without_facts_still_has_a_sentence(kind: str) -> None:
    text = sentence(event(kind, ""))
    assert text == text.strip()
    assert 5 < len(text) < LENGTH_MAX


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        (event("agent_nudged", subject="plan", nudges=1), "writer sat at its prompt with plan open: nudged (1)"),
        (event("agent_nudged", nudges=2), "writer sat at its prompt with work open: nudged (2)"),
        (event("task_accepted", task="draft", took_s=72.5), "draft of writer was accepted after 1m 12s"),
        (event("agent_restarted", incarnation=2, reason="exited"), "writer is started again as #2: exited"),
        (event("run_ended", "", state="FAILED", cause="the tide"), "the run ended: FAILED: the tide"),
        (event("run_ended", "", state="COMPLETED", cause=""), "the run ended: COMPLETED"),
        (
            event("agent_spawned", name="calm-gull", incarnation=1, adopted=True),
            "writer was found running as calm-gull #1",
        ),
        (
            event("alert_raised", diagnosis="silent_turn", action="NUDGE", quiet_s=3.4),
            "writer: silent turn, quiet for 3s: NUDGE advised",
        ),
        (
            event("order_given", "", by="operator", agent="", cause="enough"),
            "the operator asked to end the run: enough",
        ),
        (
            event("run_created", "", spec="/p/a.yaml", agents=["w"], phases=["a", "b"]),
            "the run was made from a.yaml: 1 agent, 2 phases",
        ),
    ],
)
def test_the_key_facts_are_told(told: StoredEvent, expected: str) -> None:
    assert sentence(told) == expected


def test_a_kind_of_a_newer_version_is_shown_by_its_name() -> None:
    assert sentence(event("tide_turned")) == "writer tide turned"


VALUES = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.lists(st.text())


@given(
    kind=st.sampled_from(sorted(KINDS)),
    body=st.dictionaries(st.sampled_from("task note reason agents quiet_s took_s cause nudges spec".split()), VALUES),
)
def test_hostile_facts_make_one_printable_line_of_limited_length(kind: str, body: dict[str, Any]) -> None:
    text = sentence(event(kind, **body))
    assert text.isprintable()
    assert len(text) <= LENGTH_MAX
