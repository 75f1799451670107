"""What seeds have found, each told as a story of its own: a seed draws something else as soon as anything changes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dogwatch.ledger.api import Store
from dogwatch.model.brief import Header
from dogwatch.testing.clock import ManualClock
from support.virtual import VirtualAgent
from unit.test_virtual_world import THREE_PHASES, begin, finish

LIMITS = replace(THREE_PHASES.limits, claim_s=60.0, probe_s=30.0, restarts_max=5, deadline_s=3000.0)
PLAN = replace(THREE_PHASES, limits=LIMITS)


def test_a_heartbeat_from_before_a_reboot_is_no_sign_of_life(ledger: Store, clock: ManualClock) -> None:
    """The monotonic clock begins anew with each boot: what was long ago has a larger number."""
    hanging: list[int] = []

    def script(agent: VirtualAgent, header: Header) -> str:
        if agent.name == "writer" and header.kind == "dispatch" and clock.now().boot != "boot-1" and not hanging:
            hanging.append(agent.incarnation)
            return "hang"
        return ""

    machine = begin(ledger, clock, PLAN, script)
    machine.work_s = 20.0
    machine.run_until(lambda: bool(machine.agents) and bool(machine.agents["writer"].prompts))
    call = machine.agents["writer"].call("heartbeat")
    machine.run_until(lambda: bool(call.answers))
    machine.reboot()
    machine.hands.start_crew("dispatcher")
    machine.run_until(lambda: bool(machine.events("agent_probed")), 300)
    machine.run_until(lambda: bool(machine.events("agent_stalled")), 60)
    assert finish(machine, 1200)[0] == "COMPLETED"


@pytest.mark.parametrize("failures", [1, 9])
def test_a_reviewer_is_asked_whose_start_has_failed_in_the_same_step(
    ledger: Store, clock: ManualClock, failures: int
) -> None:
    """Its next incarnation is asked, or the review is given up with it."""
    left = [failures]

    def mishap(what: str, agent: VirtualAgent | None) -> str:
        if what != "spawn" or agent is None or agent.name != "judge":
            return ""
        if not machine.events("task_accepted"):
            return "unknown"
        left[0] -= 1
        return "fail" if left[0] >= 0 else ""

    machine = begin(ledger, clock, replace(PLAN, limits=replace(LIMITS, restarts_max=2)))
    machine.work_s = 20.0
    machine.mishap = mishap
    machine.run_until(lambda: bool(machine.agents) and bool(machine.agents["writer"].prompts))
    machine.kill(machine.agents["judge"].process)
    state, cause = finish(machine, 1200)
    assert (state, "judge" in cause) == (("COMPLETED", False) if failures == 1 else ("FAILED", True))
