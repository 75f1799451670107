"""F07: the provider refuses work. That is no crash: nobody is started again, and an account is held once for all."""

from __future__ import annotations

from faults.watching import assert_untouched, beside, on_dispatch, wait_seen
from support.fleet import Fleet


def test_f07_clients_that_try_again_by_themselves_are_held_once_and_left_alone(fleet: Fleet) -> None:
    # The retries last for longer than any threshold.
    limits = {"nudge_s": 2, "claim_s": 4, "probe_s": 1, "tier1_s": 1, "tier2_s": 2, "tier3_s": 3, "hold_s": 60}
    retrying = on_dispatch({"provider_error": {"code": 429, "retries": 7, "seconds": 1}}, "continue")
    spec = fleet.spec(beside("writer", "editor", limits=limits), {"writer": retrying, "editor": retrying})
    run = fleet.launch(spec)
    for agent in ("writer", "editor"):
        seen = wait_seen(fleet, run, agent, "provider_wait")
        assert seen.waits_for == "its provider"
        assert seen.advice.startswith("wait")
    view = fleet.wait_over(run, 60)
    assert view.run.state == "COMPLETED", view.run.cause
    held = fleet.events("provider_held")
    assert [event.body["account"] for event in held] == ["scripted"], fleet.tail()
    assert {event.body["diagnosis"] for event in fleet.events("alert_raised")} == {"provider_wait"}
    assert not fleet.events("person_called"), fleet.tail()
    assert_untouched(fleet, "writer", "editor")
    for agent in ("writer", "editor"):
        assert len(fleet.deeds(agent, "prompt")) == 1
        assert fleet.deeds(agent, "provider_ok")


def test_f07_a_turn_that_the_provider_ended_goes_on_by_a_nudge_when_the_hold_is_over(fleet: Fleet) -> None:
    hold_s = 4.0
    limits = {"nudge_s": 1, "peek_s": 1, "claim_s": 60, "hold_s": hold_s}
    failing = on_dispatch({"provider_error": {"code": 529, "retries": 1, "seconds": 0.2, "final": True}}, "continue")
    run = fleet.launch(fleet.spec(beside("writer", "editor", limits=limits), {"writer": failing, "editor": failing}))
    held = fleet.wait_event("provider_held")
    assert "overloaded" in held.body["evidence"][0] or "tries again" in held.body["evidence"][0]
    view = fleet.wait_over(run, 60)
    assert view.run.state == "COMPLETED", view.run.cause
    assert len(fleet.events("provider_held")) == 1, fleet.tail()
    for agent in ("writer", "editor"):
        assert fleet.deeds(agent, "stop_failure")
        nudged = fleet.events("agent_nudged", agent)
        assert len(nudged) == 1, fleet.tail()
        assert nudged[0].at.since(held.at) >= hold_s, "not while the account is held"
    assert_untouched(fleet, "writer", "editor", but=["agent_nudged"])
