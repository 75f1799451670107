"""F15: two agents wait for each other's answer. The ring is found and named, and its youngest wait is broken."""

from __future__ import annotations

from faults.watching import assert_unnoticed, assert_untouched, beside
from support.fleet import Fleet


def test_f15_of_two_agents_that_wait_for_each_other_only_the_youngest_wait_is_broken(fleet: Fleet) -> None:
    limits = {"nudge_s": 2, "peek_s": 2, "claim_s": 60}

    def asks(other: str, after_s: float) -> dict[str, object]:
        ask = [{"work": after_s}, {"mail_send": {"to": other, "text": "What do you think?"}}, "silent"]
        # Reads no letter before its own was answered. Whoever is told to go on does, and answers.
        letter = {"on": "mail", "times": 1, "do": ["silent"]}
        return {"work_s": 0.3, "rules": [{"on": "dispatch", "do": ask}, letter]}

    scenarios = {"writer": asks("editor", 0.2), "editor": asks("writer", 2), "clerk": {"work_s": 6}}
    run = fleet.launch(fleet.spec(beside("writer", "editor", "clerk", limits=limits), scenarios))
    nudged = fleet.wait_event("agent_nudged", timeout_s=60)
    assert nudged.body["diagnosis"] == "deadlock", fleet.tail()
    assert nudged.agent == "editor", "it began to wait last"
    chain = "\n".join(nudged.body["evidence"])
    assert "editor waits for writer waits for editor" in chain
    view = fleet.wait_over(run, 60)
    assert view.run.state == "COMPLETED", view.run.cause
    broken = {event.agent for event in fleet.events("agent_nudged") if event.body["diagnosis"] == "deadlock"}
    assert broken == {"editor"}, fleet.tail()
    assert len(fleet.deeds("editor", "mail_ack")) == 1, "the other's letter was answered in the end"
    assert_untouched(fleet, "writer", "editor", but=["agent_nudged"])
    assert_unnoticed(fleet, "clerk")
