"""F21: a sub-agent runs past the time of its type without output. Its parent is mailed to start it again or to document
the skip, and it stays open until that is done; the parent is never started again for it. A sub-agent within its time is
left alone."""

from __future__ import annotations

import json

from dogwatch.model.records import CheckResult
from faults.watching import (
    assert_unnoticed,
    assert_untouched,
    beside,
    on_dispatch,
    process_of,
    self_check,
    wait_seen,
)
from support.fleet import Fleet
from support.helpers import wait_for

LATE_S = 2.0
NEVER_BACK = ({"subagent": {"type": "researcher", "never": True, "output": "notes.md"}}, "silent")


def letters(fleet: Fleet, agent: str) -> list[str]:
    """The captain's letters about sub-agents that reached the agent."""
    return [deed["text"] for deed in fleet.deeds(agent, "prompt") if " mail subagent-" in deed["text"].splitlines()[0]]


def subagents_in_time(fleet: Fleet, run: str) -> CheckResult | None:
    """What the captain's own check says of the sub-agents."""
    return self_check(fleet, run, "SUBAGENTS_IN_TIME")


def test_f21_the_parent_is_mailed_to_start_it_again_or_document_the_skip_and_then_left_alone(fleet: Fleet) -> None:
    pipeline = beside("writer", "editor", "clerk", limits={"nudge_s": 1, "peek_s": 1, "nudges_max": 50})
    pipeline["time_limits"] = {"research*": LATE_S, "researcher-at-ease": 600}
    more = {"name": "more", "to": "writer", "task": "Write more.", "outputs": ["more.md"]}
    pipeline["phases"].append({"name": "more", "dispatches": [more]})
    rules = [
        {"on": "dispatch", "subject": "writer-task", "do": list(NEVER_BACK)},
        {"on": "dispatch", "subject": "more", "do": [{"work": 2 * LATE_S}, "continue"]},
    ]
    scenarios = {
        "writer": {"work_s": 0.3, "rules": rules},
        # Its sub-agent takes longer than the other's may, and has the time by a longer pattern.
        "editor": on_dispatch({"subagent": {"type": "researcher-at-ease", "seconds": 2 * LATE_S}}, "silent"),
        "clerk": {"work_s": 2 * LATE_S},
    }
    run = fleet.launch(fleet.spec(pipeline, scenarios))
    alert = fleet.wait_event("alert_raised", "writer", 60)
    assert (alert.body["diagnosis"], alert.body["action"]) == ("subagent_overdue", "NUDGE"), alert.body
    assert alert.body["evidence"][0].startswith("hooks: sub-agent researcher runs for ")
    assert alert.at.mono - fleet.deeds("writer", "subagent_start")[0]["mono"] >= LATE_S - 0.5
    text = wait_for(lambda: letters(fleet, "writer"), 60, lambda: f"the letter to be read:\n{fleet.tail()}")[0]
    assert 'dogwatch subagent skip researcher --note "why"' in text
    skipped = fleet.as_agent(run, "writer", "subagent", "skip", "researcher", "--note", "the archive is down")
    assert b"researcher: skip noted" in skipped.stdout, skipped
    settled = fleet.wait_event("subagent_settled", "writer", 60)
    assert (settled.body["how"], settled.body["note"]) == ("skipped", "the archive is down")
    view = fleet.wait_over(run, 60)
    assert view.run.state == "COMPLETED", view.run.cause
    # The skip was documented: the sub-agent that still ran was nobody's concern any more. An idle prompt with open
    # work was nudged as it always is, and the next task was done.
    words = {e.body["diagnosis"] for e in fleet.events("alert_raised", "writer") if e.at.mono > settled.at.mono + 1}
    assert words <= {"silent_turn"}, fleet.tail()
    assert not fleet.events("person_called"), fleet.tail()
    assert view.agents["writer"].incarnation == 1
    assert_untouched(fleet, "writer", but=["agent_nudged"])
    # Starts and ends of every type are on the ledger; the one that never came back was lost with the run.
    lives = {(e.agent, e.body["type"]): e.body for e in fleet.events("subagent_ended")}
    assert lives["writer", "researcher"]["how"] == "lost"
    assert lives["editor", "researcher-at-ease"]["how"] == "ended"
    assert lives["editor", "researcher-at-ease"]["seconds"] >= 2 * LATE_S - 0.5
    assert any(event.body["rss_bytes"] > 0 for event in fleet.events("subagent_started"))
    assert len(fleet.events("subagent_started")) == len(fleet.events("subagent_ended")) == 2
    status = json.loads(fleet.cli("status", run, "--json").stdout)["runs"][0]
    (counts,) = [one["subagents"] for one in status["agents"] if one["agent"] == "writer"]
    assert {name: counts["researcher"][name] for name in ("started", "ended", "lost", "overdue")} == {
        "started": 1,
        "ended": 0,
        "lost": 1,
        "overdue": 1,
    }
    assert_unnoticed(fleet, "editor", "clerk")


def test_f21_a_parent_that_does_nothing_about_it_stays_noticed_and_a_person_is_called_instead_of_a_restart(
    fleet: Fleet,
) -> None:
    limits = {"nudge_s": 1, "peek_s": 1, "subagent_s": LATE_S, "nudges_max": 2}
    again = [{"subagent": {"type": "researcher", "seconds": 0.3, "output": "notes.md"}}, "silent"]
    rules = [
        {"on": "dispatch", "do": list(NEVER_BACK)},
        {"on": "mail", "subject": "from-clerk", "do": again},
        {"on": "mail", "do": ["silent"]},
    ]
    scenarios = {"writer": {"work_s": 0.3, "rules": rules}, "clerk": {"work_s": 600}}
    run = fleet.launch(fleet.spec(beside("writer", "clerk", limits=limits), scenarios))
    wait_seen(fleet, run, "writer", "subagent_overdue")
    parent = process_of(fleet, run, "writer")
    called = fleet.wait_event("person_called", "writer", 90)
    assert called.body["diagnosis"] == "subagent_overdue", called.body
    wait_for(lambda: len(letters(fleet, "writer")) == 2, 60, fleet.tail)
    assert not fleet.events("agent_nudged", "writer"), "it waits: that is no silence"
    assert len(fleet.events("subagent_overdue", "writer")) == 1, fleet.tail()

    def has_failed() -> bool:
        check = subagents_in_time(fleet, run)
        return check is not None and check.result == "failed" and check.detail.startswith("researcher of writer")

    wait_for(has_failed, 60, lambda: f"the self-check to fail: {subagents_in_time(fleet, run)}")
    wait_seen(fleet, run, "writer", "subagent_overdue")  # also when it has read its letters
    (overdue,) = json.loads(fleet.cli("status", run, "--json").stdout)["runs"][0]["agents"][0]["overdue"]
    assert (overdue["type"], overdue["mails"]) == ("researcher", 2)
    assert "open: neither started again nor skipped" in fleet.cli("explain", f"{run}/writer").stdout
    assert process_of(fleet, run, "writer") == parent
    # A colleague tells it what to do: it starts another one of the same type.
    assert fleet.as_agent(run, "clerk", "mail", "send", "writer", "please start it again").returncode == 0
    settled = fleet.wait_event("subagent_settled", "writer", 60)
    assert settled.body["how"] == "started_again"
    wait_for(lambda: fleet.view(run).tasks["writer-task"].state == "accepted", 60, fleet.tail)
    assert (fleet.project / "out" / run / "notes.md").exists(), "what the second sub-agent found"
    assert fleet.as_agent(run, "clerk", "report", "failed", "--note", "enough").returncode == 0
    assert len(fleet.events("person_called")) == 1, fleet.tail()
    assert_untouched(fleet, "writer", but=["agent_nudged"])
    assert process_of(fleet, run, "writer") == parent
