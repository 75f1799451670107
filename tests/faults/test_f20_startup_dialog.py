"""F20: a client stands in its first-run dialog. It is noticed with the dialog's text, and a person is called."""

from __future__ import annotations

from dogwatch.world.processes import life
from faults.watching import assert_unnoticed, assert_untouched, beside, decisions, press, process_of
from support.fleet import Fleet
from support.helpers import wait_for

STARTUP_S = 3.0


def test_f20_a_startup_dialog_calls_a_person_with_its_text_and_is_neither_answered_nor_restarted(fleet: Fleet) -> None:
    # The startup deadline passes while the dialog stands there: that is no reason to start the client again.
    limits = {"dialog_s": 1, "nudge_s": 2, "claim_s": 4, "probe_s": 1}
    scenarios = {
        "writer": {"work_s": 0.3, "rules": [{"on": "start", "do": ["startup_dialog"]}]},
        "clerk": {"work_s": 6},
    }
    pipeline = beside("writer", "clerk", limits=limits)
    pipeline["roles"]["writer"]["limits"] = {"startup_s": STARTUP_S}
    run = fleet.launch(fleet.spec(pipeline, scenarios))
    alert = fleet.wait_event("alert_raised", "writer")
    assert alert.body["diagnosis"] == "startup_dialog"
    assert alert.body["action"] == "ESCALATE"
    assert "Do you trust the files in this folder?" in "\n".join(alert.body["evidence"])
    process = process_of(fleet, run, "writer")
    wait_for(lambda: fleet.deeds("clerk", "report_exit"), 60, fleet.tail)
    opened = fleet.deeds("writer", "dialog_open")[0]
    assert fleet.deeds("clerk", "report_exit")[0]["mono"] - opened["mono"] > STARTUP_S, "beyond the startup deadline"
    assert life(process, fleet.boot) == "alive"
    assert not fleet.deeds("writer", "dialog_answer"), "no key was sent"
    press(fleet, run, "writer", "2")
    view = fleet.wait_over(run, 60)
    assert view.run.state == "COMPLETED", view.run.cause
    assert [deed["key"] for deed in fleet.deeds("writer", "dialog_answer")] == ["2"]
    called = fleet.events("person_called", "writer")
    assert [event.body["diagnosis"] for event in called] == ["startup_dialog"], fleet.tail()
    assert len(fleet.events("alert_raised", "writer")) == 1, fleet.tail()
    assert decisions(fleet, run, "writer") == [("ESCALATE", "recovered")]
    assert_untouched(fleet, "writer")
    assert_unnoticed(fleet, "clerk")
