"""When the dispatcher looks at the memory: every few seconds, and at once when a run is gone."""

from __future__ import annotations

import os
import selectors
from pathlib import Path

from dogwatch.crew.dispatcher.zoning import LOOK_S, MemoryWatch
from dogwatch.crew.shared.eyes import MachineEyes
from dogwatch.crew.shared.log import Log
from dogwatch.crew.shared.membership import join
from dogwatch.sim.ledger import SimStore
from dogwatch.testing.clock import ManualClock
from dogwatch.world.home import Home
from dogwatch.world.processes import boot_id, identify


def test_memory_is_looked_at_again_after_a_while_and_at_once_when_a_run_is_gone(tmp_path: Path) -> None:
    boot = boot_id()
    clock = ManualClock()
    ledger = SimStore(clock)
    process = identify(os.getpid(), boot)
    assert process is not None
    lease = join(ledger, "dispatcher", "", process, lambda one: "dead", clock.now())
    assert lease is not None
    watch = MemoryWatch()
    log = Log("dispatcher", "", lambda line: None)
    with selectors.DefaultSelector() as selector:
        eyes = MachineEyes(Home(str(tmp_path)), boot, selector, "dispatcher", "")

        def age_s(*runs: str) -> float:
            return clock.now().since(watch.look(eyes, ledger, lease, runs, clock.now(), log).at)

        assert age_s("t1", "t2") == 0
        clock.advance(1.0)
        assert age_s("t1", "t2") == 1.0
        assert age_s("t1", "t2", "t3") == 1.0
        assert age_s("t1", "t3") == 0
        clock.advance(1.0)
        assert age_s("t1", "t3") == 1.0
        clock.advance(LOOK_S)
        assert age_s("t1", "t3") == 0
