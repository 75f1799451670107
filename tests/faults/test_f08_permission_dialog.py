"""F08: an agent asks for permission and nobody is there to answer. A person is called; nobody else presses a key."""

from __future__ import annotations

from dogwatch.world.processes import life
from faults.watching import (
    assert_unnoticed,
    assert_untouched,
    beside,
    decisions,
    on_dispatch,
    press,
    process_of,
    wait_seen,
)
from support.fleet import Fleet
from support.helpers import wait_for


def test_f08_a_permission_dialog_calls_a_person_once_and_is_answered_by_nobody_else(fleet: Fleet) -> None:
    limits = {"dialog_s": 1, "nudge_s": 2, "peek_s": 1, "claim_s": 4, "probe_s": 1, "tier1_s": 1, "tier2_s": 2}
    scenarios = {
        "writer": on_dispatch({"permission": "rm -rf build"}, "continue"),
        # Works for longer than any threshold: when it is done, whatever could have been done to the other would be.
        "clerk": {"work_s": 8},
    }
    run = fleet.launch(fleet.spec(beside("writer", "clerk", limits={**limits, "tier3_s": 3}), scenarios))
    seen = wait_seen(fleet, run, "writer", "awaiting_permission")
    assert seen.waits_for == "a person"
    process = process_of(fleet, run, "writer")
    called = fleet.wait_event("person_called", "writer")
    assert called.body["diagnosis"] == "awaiting_permission"
    assert "rm -rf build" in called.body["evidence"][0]
    wait_for(lambda: fleet.deeds("clerk", "report_exit"), 60, fleet.tail)
    assert life(process, fleet.boot) == "alive"
    assert not fleet.deeds("writer", "dialog_answer"), "no key was sent"
    assert len(fleet.deeds("writer", "prompt")) == 1
    press(fleet, run, "writer", "1")
    view = fleet.wait_over(run, 60)
    assert view.run.state == "COMPLETED", view.run.cause
    assert [deed["key"] for deed in fleet.deeds("writer", "dialog_answer")] == ["1"]
    assert len(fleet.events("person_called", "writer")) == 1, fleet.tail()
    alerts = fleet.events("alert_raised", "writer")
    assert [alert.body["diagnosis"] for alert in alerts] == ["awaiting_permission"], fleet.tail()
    assert decisions(fleet, run, "writer") == [("ESCALATE", "recovered")]
    assert_untouched(fleet, "writer")
    assert_unnoticed(fleet, "clerk")
