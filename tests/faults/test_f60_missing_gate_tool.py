"""F60: a gate whose tool is missing has failed; nothing advances."""

from __future__ import annotations

import pytest

from faults.pipelines import PLAIN, one_task
from support.fleet import Fleet


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        (["no-such-linter", "draft.md"], "its tool cannot be run"),
        (["sh", "-c", "echo the draft is bad; exit 3"], "exit code 3: the draft is bad"),
        (["sleep", "600"], "not finished within 1 s"),
    ],
)
def test_f60_a_gate_that_does_not_pass_ends_the_run_with_its_reason(
    fleet: Fleet, command: list[str], reason: str
) -> None:
    spec = one_task()
    spec["phases"][0]["gates"] = [{"name": "lint", "command": command, "timeout_s": 1}]
    run = fleet.launch(fleet.spec(spec, {"writer": PLAIN}))
    view = fleet.wait_over(run)
    assert view.run.state == "FAILED"
    assert view.run.cause.startswith("gate lint failed: ")
    assert reason in view.run.cause
    assert not fleet.events("phase_ended")
    assert not fleet.events("gate_passed")
    assert len(fleet.events("gate_failed")) == 1
