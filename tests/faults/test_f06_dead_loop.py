"""F06: an agent burns cpu and repeats the same tool call without any output. A person is called, and it lives on."""

from __future__ import annotations

from faults.watching import assert_unnoticed, assert_untouched, beside, on_dispatch, process_of, wait_seen
from support.fleet import Fleet


def test_f06_a_dead_loop_calls_a_person_once_with_the_repeated_call_and_kills_nobody(fleet: Fleet) -> None:
    limits = {"repeats_max": 5, "nudge_s": 2, "claim_s": 4, "probe_s": 1}
    scenarios = {"writer": on_dispatch({"spin": 9}, "continue"), "clerk": {"work_s": 8}}
    run = fleet.launch(fleet.spec(beside("writer", "clerk", limits=limits), scenarios))
    seen = wait_seen(fleet, run, "writer", "looping")
    assert "make check" in "\n".join(seen.evidence)
    process = process_of(fleet, run, "writer")
    called = fleet.wait_event("person_called", "writer")
    assert called.body["diagnosis"] == "looping"
    assert "make check" in called.body["evidence"][0]
    view = fleet.wait_over(run, 60)
    assert view.run.state == "COMPLETED", view.run.cause
    assert view.agents["writer"].process == process
    assert len(fleet.events("person_called")) == 1, fleet.tail()
    assert len(fleet.events("alert_raised", "writer")) == 1, fleet.tail()
    assert_untouched(fleet, "writer")
    assert_unnoticed(fleet, "clerk")
