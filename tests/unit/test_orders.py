"""Orders that come at an awkward instant."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from dogwatch.cli.fleet import order
from dogwatch.coordination.runs import create_run
from dogwatch.crew.captain.helm import Helm
from dogwatch.crew.captain.mending import obey
from dogwatch.crew.shared.log import Log
from dogwatch.ledger import open_store
from dogwatch.model.keys import orders_queue
from dogwatch.model.plan import ByteCheck, Dispatch, Phase, Plan, Role
from dogwatch.world.clock import SystemClock

PLAN = Plan(
    name="t",
    roles=(Role(name="writer", harness="command", command=("cat",)),),
    phases=(Phase(name="p", dispatches=(Dispatch(name="d", to="writer", task="write"),)),),
    deliverable=ByteCheck(path="d.md"),
)


def test_an_order_to_end_the_run_that_comes_in_the_middle_of_a_step_waits_for_the_next(tmp_path: Path) -> None:
    clock = SystemClock()
    ledger = open_store(str(tmp_path / "ledger.db"), clock)
    try:
        run = ledger.run(lambda tx: create_run(tx, PLAN, "/p", "/o", "spec")).run
        lease = ledger.run(lambda tx: tx.acquire(f"captain/{run}", "me", 30))
        assert lease is not None
        eyes = SimpleNamespace(pulse=lambda: None)  # an order touches nothing but the ledger
        world = cast("Any", SimpleNamespace(eyes=eyes))
        helm = Helm(world, ledger, lease, run, clock.now(), Log("captain", run, write=lambda line: None))
        order(ledger, run, cause="enough")
        order(ledger, run, agent="writer")
        waiting = ledger.read(lambda reader: reader.items(orders_queue(run)))
        assert [obey(helm, helm.view(), item) for item in waiting] == [False, False]
        # Both stand: the run's end is for the next step, and the writer is only being started.
        assert len(ledger.read(lambda reader: reader.items(orders_queue(run)))) == 2
    finally:
        ledger.close()
