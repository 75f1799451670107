"""What has come of an interrupt: the turn has ended, or runs dry, or goes on."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from dogwatch.model.folders import folder_at
from dogwatch.model.life import Interrupt
from dogwatch.model.moment import Moment
from dogwatch.model.plan import ByteCheck, Limits, Plan
from dogwatch.model.records import DecisionRecord, RunRecord
from dogwatch.model.sight import Sight, Subagent, ToolCall, Turn
from dogwatch.model.view import RunView
from dogwatch.policy.interrupts import Effect, effect
from dogwatch.policy.verify import outcome
from support.records import living_agent

NOW = Moment("boot", 10_000.0, 50_000.0)
LIMITS = Limits(probe_s=30)


def seen(
    *, screen: str = "busy", since_s: float = 0.0, heard_s: float = 0.0, process: Any = "alive", **turn: Any
) -> Sight:
    """A loop whose screen is like this since then, and whose last event was so long ago."""
    looping = replace(Turn("idle", 1.0, NOW.mono - heard_s, 42, own=NOW.mono - heard_s, stops=5), **turn)
    return Sight(process=process, screen=screen, screen_since=NOW.mono - since_s, turn=looping)


def found(sight: Sight, *pressed_s: float) -> Effect:
    pressed = Interrupt(diagnosis="stop_loop", presses=tuple(NOW.plus(-one) for one in pressed_s))
    return effect(pressed, sight, LIMITS, NOW)


def test_the_turn_has_run_dry_when_the_prompt_stands_there_and_the_hooks_are_quiet() -> None:
    assert found(seen(screen="idle", since_s=2, heard_s=2), 3) == "drained"
    assert found(seen(screen="idle", since_s=0.5, heard_s=2), 3) == "waiting", "the prompt has only just come"
    assert found(seen(screen="idle", since_s=2, heard_s=0.5), 3) == "waiting", "a hook was still under way"
    assert found(seen(screen="busy", since_s=2, heard_s=2), 3) == "waiting"


def test_a_tool_has_ended_when_the_hooks_say_so_and_run_dry_when_the_prompt_is_there() -> None:
    tools = {"t1": ToolCall("Bash", "make all", NOW.mono - 600)}
    pressed = Interrupt(diagnosis="long_tool", presses=(NOW.plus(-3),))
    busy = seen(state="working", stops=0, tools=tools, heard_s=600)
    assert effect(pressed, busy, LIMITS, NOW) == "waiting"
    dry = seen(state="working", stops=0, tools=tools, heard_s=600, screen="idle", since_s=2)
    assert effect(pressed, dry, LIMITS, NOW) == "drained"
    assert effect(pressed, seen(stops=0), LIMITS, NOW) == "ended"


def test_a_new_prompt_tells_of_the_end_by_itself() -> None:
    assert found(seen(stops=0, state="working"), 3) == "ended"


def test_the_key_is_sent_once_more_at_half_time() -> None:
    assert found(seen(), 14) == "waiting"
    assert found(seen(), 16) == "again"
    assert found(seen(), 16, 1) == "waiting"


def test_a_loop_that_goes_on_until_the_end_has_ignored_it() -> None:
    assert found(seen(), 29, 14) == "waiting"
    assert found(seen(), 31, 16) == "ignored"
    assert found(seen(screen="unknown", heard_s=1), 31, 16) == "ignored", "the hooks tell of it"


@pytest.mark.parametrize(
    "sight",
    [
        seen(screen="unknown", heard_s=31),
        seen(screen="permission", heard_s=31),
        seen(screen="busy", heard_s=31, subagents={"a1": Subagent("researcher", 1.0)}),
    ],
    ids=["unknown", "dialog", "sub-agent"],
)
def test_silence_is_not_taken_for_a_turn_that_goes_on(sight: Sight) -> None:
    assert found(sight, 31, 16) == "drained"


@pytest.mark.parametrize("process", ["dead", "unknown"])
def test_of_a_process_that_is_not_seen_nothing_is_said(process: str) -> None:
    assert found(seen(process=process), 100, 50) == "waiting"


def test_an_interrupt_has_helped_when_the_turn_has_ended_not_when_the_loop_is_heard_of() -> None:
    agent = living_agent(since=NOW, run="r")
    run = RunRecord(run="r", spec="", project_folder=folder_at(""), output_folder=folder_at(""), created=NOW)
    plan = Plan(name="r", roles=(), phases=(), deliverable=ByteCheck(path="x"))
    view = RunView(plan=plan, run=run, agents={"writer": agent})
    decision = DecisionRecord(
        run="r",
        id="d",
        agent="writer",
        incarnation=1,
        action="INTERRUPT",
        diagnosis="stop_loop",
        alert="a",
        at=NOW.plus(-3),
        verify_by=NOW.plus(30),
    )
    assert outcome(decision, view, seen(), NOW) is None
    helped = outcome(decision, view, seen(stops=0, ended="stop_loop"), NOW)
    assert helped is not None
    assert helped.outcome == "recovered"
