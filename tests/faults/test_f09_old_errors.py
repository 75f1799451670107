"""F09 and F10: an error that is long past stands above a healthy prompt, and the prompt flashes between two tools.
Only the live region of the screen counts, and an instant is no state."""

from __future__ import annotations

from faults.watching import assert_unnoticed, beside, on_dispatch, watch
from support.fleet import Fleet
from support.helpers import wait_for


def test_f09_f10_old_errors_and_a_prompt_that_flashes_lead_to_no_alert_and_no_action(fleet: Fleet) -> None:
    limits = {"nudge_s": 2, "peek_s": 1, "claim_s": 3, "probe_s": 1, "dialog_s": 0.5}
    flashes = [{"flash_prompt": {"seconds": 1}} for _ in range(3)]
    scenarios = {
        "writer": on_dispatch("old_error", *flashes, "continue"),
        # Sits at a healthy prompt below old errors while the others work.
        "reader": {"rules": [{"on": "start", "do": ["old_error"]}]},
    }
    run = fleet.launch(fleet.spec(beside("writer", idle=["reader"], limits=limits), scenarios))
    screens: set[tuple[str, str, str]] = set()

    def reported() -> bool:
        screens.update((name, seen.screen, seen.kind) for name, seen in watch(fleet, run).agents.items())
        return bool(fleet.deeds("writer", "report_called"))

    wait_for(reported, 60, fleet.tail)
    view = fleet.wait_over(run, 60)
    assert view.run.state == "COMPLETED", view.run.cause
    assert len(fleet.deeds("writer", "flash_end")) == 3
    assert ("writer", "idle", "working") in screens, "the flash was seen"
    assert ("reader", "idle", "idle") in screens
    assert not {screen for _, screen, _ in screens} & {"permission", "retry", "error"}, screens
    assert_unnoticed(fleet, "writer", "reader")
