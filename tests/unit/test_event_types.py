"""Events are types: frozen, by keyword, encoded as ever, and read back whatever version has written them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from dogwatch.ledger.api import START, StoredEvent
from dogwatch.model.events import KINDS, decode_event, event_class
from dogwatch.model.events.agents import AgentSpawned
from dogwatch.model.events.alerts import AlertRaised
from dogwatch.model.events.clients import TokenCounts, UsageRecorded
from dogwatch.model.events.gates import GateFailed
from dogwatch.model.events.instructions import InstructionsChanged
from dogwatch.model.events.mail import MessageSent
from dogwatch.model.events.reviews import CheckpointAnswered
from dogwatch.model.events.runs import RunEnded
from dogwatch.model.events.tasks import TaskDispatched, TaskFailed
from dogwatch.model.moment import Moment
from dogwatch.model.process import ProcessId
from dogwatch.sim.scenarios import Setup
from dogwatch.sim.simulation import Simulation
from support.event_schema import schema, wrong_events


@dataclass(frozen=True)
class Stored:
    """An event as a ledger has kept it."""

    kind: str
    body: Mapping[str, Any] = field(default_factory=dict)
    run: str = "tide-1"
    agent: str = "writer"


def test_the_kind_is_the_class_s_name_and_run_and_agent_are_no_part_of_the_body() -> None:
    event = RunEnded(state="FAILED", cause="enough", sha256="", run="tide-1")
    assert (event.kind, event.run, event.agent) == ("run_ended", "tide-1", "")
    assert event.body == {"state": "FAILED", "cause": "enough", "sha256": ""}


def test_an_event_is_frozen_and_refuses_missing_and_unknown_fields() -> None:
    event = RunEnded(state="FAILED", cause="", sha256="")
    with pytest.raises(AttributeError, match="frozen"):
        event.cause = "another"  # type: ignore[misc]
    with pytest.raises(AttributeError, match="frozen"):
        del event.cause
    with pytest.raises(TypeError, match=r"missing fields \['cause'\]"):
        RunEnded(state="FAILED", sha256="")  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"unknown fields \['reason'\]"):
        RunEnded(state="FAILED", cause="", sha256="", reason="")  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        TaskFailed("t", "n")  # type: ignore[call-arg]


def test_the_type_checker_refuses_wrong_values() -> None:
    # Without an error here mypy would call the comment unused.
    RunEnded(state="OVER", cause="", sha256="")  # type: ignore[arg-type]
    GateFailed(gate="g", attempt="1", exit_code=None, reason="")  # type: ignore[arg-type]


def test_equal_events_are_equal_and_another_value_or_class_is_not() -> None:
    one = RunEnded(state="FAILED", cause="", sha256="", run="tide-1")
    assert one == RunEnded(state="FAILED", cause="", sha256="", run="tide-1")
    assert hash(one) == hash(RunEnded(state="FAILED", cause="", sha256="", run="tide-1", agent=""))
    assert one != one.but(cause="enough")
    assert one.but(cause="enough").cause == "enough"
    assert one.but(cause="enough").run == "tide-1"
    assert "cause='enough'" in repr(one.but(cause="enough"))


def test_fields_stand_in_the_body_under_the_names_that_readers_know() -> None:
    sent = MessageSent(message="m1", kind_="mail", subject="s", sender="captain", bytes=3)
    assert sent.body == {"message": "m1", "kind": "mail", "subject": "s", "sender": "captain", "bytes": 3}
    changed = InstructionsChanged(role="writer", path="w.md", from_="1", to="2")
    assert changed.body == {"role": "writer", "path": "w.md", "from": "1", "to": "2"}


def test_a_field_with_a_default_is_written_only_where_it_says_something() -> None:
    answer = CheckpointAnswered(checkpoint="c", verdict="approve", round=1, note="")
    assert answer.body == {"checkpoint": "c", "verdict": "approve", "round": 1, "note": ""}
    assert list(answer.but(by="planner").body) == ["checkpoint", "verdict", "round", "by", "note"]
    assert "by" not in CheckpointAnswered(checkpoint="c", verdict="approve", round=1, by="", note="").body


def test_nested_values_are_plain_json_and_come_back_as_what_they_were() -> None:
    spawned = AgentSpawned(
        incarnation=1,
        name="quick-gull",
        role="writer",
        session="s",
        process=ProcessId("boot", 12, 34),
        adopted=False,
        sandboxed=True,
        limit_bytes=0,
        run="tide-1",
        agent="writer",
    )
    assert spawned.body["process"] == {"boot": "boot", "pid": 12, "start_ticks": 34}
    assert decode_event(Stored("agent_spawned", spawned.body)) == spawned
    counts = TokenCounts(calls=1, input_tokens=2, output_tokens=3, cache_creation_tokens=4, cache_read_tokens=5)
    used = UsageRecorded(
        calls=1,
        input_tokens=2,
        output_tokens=3,
        cache_creation_tokens=4,
        cache_read_tokens=5,
        subagents=TokenCounts(),
        models={"large": counts},
        run="tide-1",
    )
    assert used.body["models"] == {"large": {**used.body["subagents"], **counts_of(used.body)}}
    assert decode_event(Stored("usage_recorded", used.body, agent="")) == used


def counts_of(body: Mapping[str, Any]) -> dict[str, int]:
    return {name: number for name, number in body.items() if isinstance(number, int)}


def test_unknown_fields_of_a_newer_writer_are_dropped_and_an_unknown_kind_is_none() -> None:
    body = {"task": "t", "note": "n", "weather": "fair"}
    failed = TaskFailed(task="t", note="n", run="tide-1", agent="writer")
    assert decode_event(Stored("task_failed", body)) == failed
    assert decode_event(Stored("whale_sighted", body)) is None


@pytest.mark.parametrize("kind", KINDS)
def test_an_older_writer_s_missing_fields_have_empty_values_of_their_types(kind: str) -> None:
    event = decode_event(Stored(kind))
    assert event is not None
    assert (event.kind, event.run, event.agent) == (kind, "tide-1", "writer")
    assert list(Draft202012Validator({**schema(), **schema()["$defs"][kind]}).iter_errors(event.body)) == []


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("value", [None, 7, "text", [1], {"a": 1}])
def test_a_value_of_another_type_stops_nobody(kind: str, value: object) -> None:
    assert decode_event(Stored(kind, dict.fromkeys(event_class(kind).keys.values(), value))) is not None


def test_an_older_dispatch_has_no_sender() -> None:
    event = decode_event(Stored("task_dispatched", {"task": "t", "outputs": ["a", "b"]}))
    assert isinstance(event, TaskDispatched)
    assert (event.sender, event.outputs, event.expect_s) == ("", ("a", "b"), 0.0)


def test_an_alert_s_body_names_its_agent_as_ever() -> None:
    event = decode_event(Stored("alert_raised", {"agent": "writer", "tier": 2}))
    assert isinstance(event, AlertRaised)
    assert event.tier == 2
    assert next(iter(event.body.items())) == ("agent", "writer")


@pytest.mark.parametrize("seed", [3, 17, 41, 53])
def test_all_events_of_a_simulation_are_as_the_schema_has_them_and_come_back_the_same(seed: int) -> None:
    simulation = Simulation(Setup(seed=seed, runs=0, agents=0, hours=1.0))
    simulation.run()
    events = simulation.ledger.since(START, 1_000_000)
    assert len({event.kind for event in events}) > 20
    assert wrong_events(events) == []
    decoded = [decode_event(event) for event in events]
    assert [one.body for one in decoded if one is not None] == [event.body for event in events]


def test_the_schema_refuses_what_is_not_so() -> None:
    at = Moment("boot", 1.0, 1.0)
    right = {"state": "FAILED", "cause": "", "sha256": ""}
    for body in (
        {**right, "state": "OVER"},
        {"state": "FAILED", "cause": ""},
        {**right, "cause": 1},
        {**right, "x": 1},
    ):
        assert wrong_events([StoredEvent("1", "run_ended", body, at, "tide-1", "", "")]) != []
    assert wrong_events([StoredEvent("1", "run_ended", right, at, "tide-1", "", "")]) == []
    assert wrong_events([StoredEvent("1", "whale_sighted", {}, at, "tide-1", "", "")]) != []
