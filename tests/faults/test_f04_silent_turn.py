"""F04: an agent sits at its prompt although its task is unfinished, and is nudged. Idle without a task is healthy."""

from __future__ import annotations

from faults.watching import assert_unnoticed, assert_untouched, beside, decisions, on_dispatch, watch
from support.fleet import Fleet
from support.helpers import wait_for

NUDGE_S = 1.0


def test_f04_a_silent_turn_is_nudged_and_an_agent_without_a_task_is_left_alone_for_ever(fleet: Fleet) -> None:
    # For the one without work every threshold passes several times over.
    limits = {"nudge_s": NUDGE_S, "peek_s": 1, "claim_s": 1, "probe_s": 1, "tier1_s": 1, "tier2_s": 2, "tier3_s": 3}
    pipeline = beside("writer", idle=["reader"], limits=limits)
    # A client at work is given longer than one tick of the timer on its screen.
    pipeline["roles"]["writer"]["limits"] = {"claim_s": 60}
    run = fleet.launch(fleet.spec(pipeline, {"writer": on_dispatch("silent", work_s=5), "reader": {}}))
    wait_for(lambda: fleet.deeds("writer", "report_called"), 60, fleet.tail)
    seen = watch(fleet, run).agents["reader"]
    assert (seen.kind, seen.action, seen.tier) == ("idle", "", 0)
    view = fleet.wait_over(run, 60)
    assert view.run.state == "COMPLETED", view.run.cause
    nudged = fleet.events("agent_nudged", "writer")
    assert [event.body["diagnosis"] for event in nudged] == ["silent_turn"], fleet.tail()
    stopped = fleet.deeds("writer", "turn_end")[0]
    assert nudged[0].at.mono - stopped["mono"] >= NUDGE_S - 0.2
    assert decisions(fleet, run, "writer") == [("NUDGE", "recovered")]
    assert_untouched(fleet, "writer", but=["agent_nudged"])
    assert_unnoticed(fleet, "reader")
    assert not fleet.events("message_sent", "reader")
    assert not fleet.deeds("reader", "prompt")
    idle_s = fleet.deeds("writer", "report_called")[0]["mono"] - fleet.deeds("reader", "ready")[0]["mono"]
    assert idle_s > 3 * NUDGE_S
