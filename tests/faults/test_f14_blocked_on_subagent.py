"""F14: the run is blocked on an agent that waits for a sub-agent whose output never comes. Who waits for whom is told
down to the sub-agent, and nobody is started again for it."""

from __future__ import annotations

import re

from dogwatch.policy.waits import WaitGraph
from dogwatch.world.processes import identify
from faults.watching import assert_unnoticed, assert_untouched, beside, process_of, until, wait_seen, watch
from support.fleet import Fleet
from support.helpers import wait_for

EXPECT_S = 2.0
BLOCKER = "sub-agent researcher"
CHAIN = ["editor waits for writer (mail ", f"writer waits for {BLOCKER} (its result), "]


def test_f14_the_wait_chain_goes_down_to_the_sub_agent_and_nobody_is_started_again_for_it(fleet: Fleet) -> None:
    limits = {"nudge_s": 1, "peek_s": 1, "tier1_s": 1, "tier2_s": 2, "tier3_s": 3}
    pipeline = beside("writer", "editor", "clerk", limits=limits)
    pipeline["phases"][0]["dispatches"][0]["expect_s"] = EXPECT_S
    pipeline["roles"]["writer"]["limits"] = {"claim_s": 2, "probe_s": 1}
    ask = fleet.base / "ask"
    delegate = [{"subagent": {"type": "researcher", "never": True, "output": "notes.md"}}, "silent"]
    scenarios = {
        # It answers no letter before its sub-agent is back, or before it is told to.
        "writer": {"work_s": 0.3, "rules": [{"on": "dispatch", "do": delegate}, {"on": "mail", "do": ["silent"]}]},
        "editor": {
            "work_s": 0.3,
            "rules": [{"on": "dispatch", "do": [until(ask), {"mail_send": {"to": "writer", "text": "?"}}, "silent"]}],
        },
        "clerk": {"work_s": 6},
    }
    run = fleet.launch(fleet.spec(pipeline, scenarios))
    seen = wait_seen(fleet, run, "writer", "waiting")
    assert (seen.waits_for, seen.action) == (BLOCKER, "")
    writer = process_of(fleet, run, "writer")
    ask.touch()

    late = wait_for(lambda: [e for e in fleet.events("alert_raised", "editor") if e.body["tier"] == 3], 60, fleet.tail)
    told = late[0].body["waits"]
    assert [wait[: len(link)] for wait, link in zip(told, CHAIN, strict=True)] == CHAIN, told
    overdue = fleet.wait_event("alert_raised", "writer", 60)
    assert (overdue.body["diagnosis"], overdue.body["action"]) == ("waiting", "")
    assert overdue.body["advice"].startswith("wait")
    assert [wait.startswith(CHAIN[1]) for wait in overdue.body["waits"]] == [True]
    graph = WaitGraph(watch(fleet, run).waits)
    assert [wait.target for wait in graph.chain("editor")] == ["writer", BLOCKER]
    assert "writer" in [wait.target for wait in graph.of("work")]
    printed = fleet.cli("waits", run).stdout
    tree = re.search(rf"^( +)waits .+ for writer: .+\n( +)waits .+ for {BLOCKER}: its result$", printed, re.MULTILINE)
    assert tree is not None, printed
    assert len(tree[2]) > len(tree[1]), "below the agent that waits for it"
    assert process_of(fleet, run, "writer") == writer
    for agent in ("writer", "editor"):
        assert_untouched(fleet, agent)

    # Somebody ends the sub-agent: then everybody goes on by itself, as the same incarnations.
    child = identify(fleet.deeds("writer", "subagent_start")[0]["child"], fleet.boot)
    assert child is not None
    fleet.kill(child)
    view = fleet.wait_over(run, 60)
    assert view.run.state == "COMPLETED", view.run.cause
    assert_untouched(fleet, "writer", "editor", but=["agent_nudged"])
    ended = fleet.deeds("writer", "subagent_end")[0]["mono"]
    assert all(nudge.at.mono > ended for nudge in fleet.events("agent_nudged")), fleet.tail()
    assert not fleet.events("person_called"), fleet.tail()
    assert_unnoticed(fleet, "clerk")
