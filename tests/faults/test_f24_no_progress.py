"""F24: everything looks alive and nothing moves. A person is called, then the run ends with that as its cause."""

from __future__ import annotations

from faults.watching import assert_untouched, beside, on_dispatch, watch
from support.fleet import Fleet

RUN_QUIET_S, RUN_GRACE_S = 4.0, 3.0
LIMITS = {"run_quiet_s": RUN_QUIET_S, "run_grace_s": RUN_GRACE_S}


def test_f24_a_run_that_lives_and_does_not_move_is_escalated_and_then_ended_with_a_named_cause(fleet: Fleet) -> None:
    pipeline = beside("writer", limits=LIMITS)
    pipeline["phases"][0]["dispatches"][0]["expect_s"] = 1
    run = fleet.launch(fleet.spec(pipeline, {"writer": on_dispatch({"wait": 600})}))
    quiet = fleet.wait_event("run_quiet", timeout_s=60)
    assert watch(fleet, run).agents["writer"].kind == "working", "it looks alive"
    assert not fleet.view(run).run.over
    view = fleet.wait_over(run, 60)
    assert view.run.state == "FAILED"
    assert "no progress" in view.run.cause
    assert "writer" in view.run.cause
    assert len(fleet.events("run_quiet")) == 1, fleet.tail()
    delivered = fleet.events("message_delivered", "writer")[0]
    ended = fleet.events("run_ended")[0]
    assert quiet.at.since(delivered.at) >= RUN_QUIET_S
    assert ended.at.since(delivered.at) >= RUN_QUIET_S + RUN_GRACE_S
    assert_untouched(fleet, "writer")
    assert fleet.leftovers([run]) == []


def test_f24_a_run_that_moves_again_during_the_grace_period_goes_on(fleet: Fleet) -> None:
    pipeline = beside("writer", limits={"run_quiet_s": 3, "run_grace_s": 30})
    pipeline["phases"][0]["dispatches"][0]["expect_s"] = 1
    run = fleet.launch(fleet.spec(pipeline, {"writer": on_dispatch({"wait": 5}, "continue")}))
    view = fleet.wait_over(run, 60)
    assert view.run.state == "COMPLETED", view.run.cause
    delivered = fleet.events("message_delivered", "writer")[0]
    # On a slow machine the start alone may take that long; what counts is the silence of the work.
    quiet = [event for event in fleet.events("run_quiet") if delivered.at.is_before(event.at)]
    assert len(quiet) == 1, fleet.tail()
    assert_untouched(fleet, "writer")
