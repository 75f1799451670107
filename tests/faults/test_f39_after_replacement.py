"""F39: an agent stalls again after its restart and is replaced by a successor under a new name, who takes over its
task, mail and reviews. Where the successor fails too, the spec decides what becomes of the run, and the run says so."""

from __future__ import annotations

import json
from contextlib import contextmanager
from typing import Any

from dogwatch.ledger.records import load_all
from dogwatch.model.records import MessageRecord
from dogwatch.world.processes import life
from faults.watching import assert_untouched, beside, decisions, on_dispatch, process_of
from support.fleet import Fleet, fleets
from support.helpers import wait_for

LIMITS = {"nudge_s": 2, "claim_s": 4, "probe_s": 3}
SLOW = {"limits": {"nudge_s": 30, "peek_s": 30, "claim_s": 60}}
"""For those who are healthy: on a busy machine they may be slow."""
CURED: dict[str, Any] = {"work_s": 0.3}
UNTIL_GO = {"tool": {"command": ["sh", "-c", 'until test -e "$DOGWATCH_PROJECT/go"; do sleep 0.1; done']}}


def become(fleet: Fleet, role: str, scenario: dict[str, Any]) -> None:
    """Whoever of the role is started from now on behaves like this; who runs already goes on as before."""
    (fleet.project / f"{role}.json").write_text(json.dumps(scenario))


def wait_hung(fleet: Fleet, agent: str, times: int) -> None:
    wait_for(lambda: len(fleet.deeds(agent, "hung")) >= times, 60, fleet.tail)


def done_by(fleet: Fleet, role: str, did: str) -> list[tuple[str, int]]:
    """Who of the role has really done this: agent and incarnation."""
    return [(deed["agent"].partition("/")[2], deed["incarnation"]) for deed in fleet.deeds(role, did)]


def letters(fleet: Fleet, run: str) -> dict[str, MessageRecord]:
    """The agents' own letters by their text, also those that were put away."""
    found = fleet.ledger.read(
        lambda reader: [
            *load_all(reader, MessageRecord, f"message/{run}/"),
            *load_all(reader, MessageRecord, f"past-message/{run}/"),
        ]
    )
    return {letter.body: letter for letter in found if letter.kind == "mail" and letter.sender != "captain"}


def assert_replaced(fleet: Fleet, run: str, agent: str) -> str:
    """Asked, started again, asked again, replaced: once each, and a user sees all of it. Returns the successor."""
    stalled = fleet.events("agent_stalled", agent)
    assert [(event.body["incarnation"], event.body["stalls"]) for event in stalled] == [(1, 1), (2, 2)], fleet.tail()
    restarted = fleet.events("agent_restarted", agent)
    assert [(event.body["reason"], event.body["incarnation"]) for event in restarted] == [("stalled", 2)]
    (replaced,) = fleet.events("agent_replaced")
    assert replaced.agent == agent
    successor = str(replaced.body["successor"])
    assert successor != agent
    shown = json.loads(fleet.cli("status", run, "--json").stdout)["runs"][0]["agents"]
    health = {one["agent"]: (one["health"], one["stall_count"], one["replacement_count"]) for one in shown}
    assert health[agent] == ("replaced", 2, 0)
    assert health[successor] == ("healthy", 0, 1)
    told = fleet.cli("explain", f"{run}/{agent}").stdout
    assert f"replaced by {successor}" in told
    return successor


def test_f39_who_stalls_again_is_replaced_and_its_successor_has_its_task_and_its_mail(fleet: Fleet) -> None:
    pipeline = beside("writer", "clerk", limits=LIMITS)
    pipeline["roles"]["clerk"] = dict(SLOW)
    run = fleet.launch(fleet.spec(pipeline, {"writer": on_dispatch("hang"), "clerk": {"work_s": 4}}))

    def mail(text: str) -> None:
        assert fleet.as_agent(run, "clerk", "mail", "send", "writer", text).returncode == 0

    wait_hung(fleet, "writer", 1)
    old = [process_of(fleet, run, "writer")]
    mail("for the second incarnation")
    wait_hung(fleet, "writer", 2)
    old.append(process_of(fleet, run, "writer"))
    become(fleet, "writer", on_dispatch(UNTIL_GO, "continue"))
    mail("for the successor")
    fleet.wait_event("agent_replaced", "writer", 60)
    wait_for(lambda: fleet.view(run).agents["writer"].process is None, 60, fleet.tail)
    # The old one has no voice any more, and what is meant for it reaches its successor.
    for words in (("report", "done", "--task", "writer-task"), ("mail", "send", "clerk", "it is me"), ("mail", "read")):
        refused = fleet.as_agent(run, "writer", *words, incarnation=2)
        assert refused.returncode != 0
        assert b"replaced by writer-r1" in refused.stderr, refused.stderr
    mail("to its old name")
    (fleet.project / "go").touch()
    view = fleet.wait_over(run, 60)
    assert view.run.state == "COMPLETED", view.run.cause
    successor = assert_replaced(fleet, run, "writer")
    former = view.agents["writer"]
    assert (former.state, former.process, former.successor) == ("ERROR", None, successor)
    assert [life(process, fleet.boot) for process in old] == ["dead", "dead"]
    assert done_by(fleet, "writer", "started") == [("writer", 1), ("writer", 2), (successor, 1)]
    # The task: released twice, done once.
    released = [(event.agent, event.body["task"]) for event in fleet.events("task_released")]
    assert released == [("writer", "writer-task")] * 2
    assert done_by(fleet, "writer", "report_called") == [(successor, 1)]
    assert view.tasks["writer-task"].agent == successor
    # The mail: each letter read once, by who was there; what the old one had answered stays with it.
    kept = letters(fleet, run)
    receivers = {"for the second incarnation": "writer", "for the successor": successor}
    assert {text: letter.to for text, letter in kept.items()} == {**receivers, "to its old name": successor}
    for text, receiver in receivers.items():
        letter = kept[text]
        assert letter.state == "acknowledged"
        acknowledged = [deed["agent"] for deed in fleet.deeds("writer", "mail_ack") if deed["id"] == letter.id]
        assert acknowledged == [f"{run}/{receiver}"], text
    assert decisions(fleet, run, "writer") == [
        ("PROBE", "not_recovered"),
        ("RESTART", "recovered"),
        ("PROBE", "not_recovered"),
        ("REPLACE", "recovered"),
    ]
    assert_untouched(fleet, "clerk")
    assert not fleet.events("alert_raised", "clerk")


def test_f39_a_reviewer_that_stalls_again_leaves_its_review_to_its_successor(fleet: Fleet) -> None:
    pipeline = beside("clerk", idle=["judge"], limits=LIMITS)
    pipeline["roles"]["clerk"] = dict(SLOW)
    pipeline["phases"][0]["checkpoints"] = [{"name": "review", "artifact": "clerk.md", "reviewers": ["judge"]}]
    hangs = {"rules": [{"on": "checkpoint", "do": ["hang"]}]}
    run = fleet.launch(fleet.spec(pipeline, {"clerk": {"work_s": 0.5}, "judge": hangs}))
    wait_hung(fleet, "judge", 2)
    become(fleet, "judge", CURED)
    view = fleet.wait_over(run, 60)
    assert view.run.state == "COMPLETED", view.run.cause
    successor = assert_replaced(fleet, run, "judge")
    (answer,) = fleet.events("checkpoint_answered")
    assert (answer.agent, answer.body["verdict"], answer.body["round"]) == (successor, "approve", 1)
    assert done_by(fleet, "judge", "turn_start") == [("judge", 1), ("judge", 2), (successor, 1)]
    assert len(fleet.events("checkpoint_asked")) == 1, "the round is the same"
    assert_untouched(fleet, "clerk")


def launch_failing(fleet: Fleet, on_failure: str) -> str:
    """A run whose writer hangs twice; who comes after it will fail too."""
    pipeline = beside("clerk", "writer", limits=LIMITS)
    pipeline["roles"]["clerk"] = dict(SLOW)
    pipeline["on_task_failure"] = on_failure
    pipeline["phases"][0]["dispatches"][1]["attempts"] = 1
    return fleet.launch(fleet.spec(pipeline, {"clerk": {"work_s": 4}, "writer": on_dispatch("hang")}))


def test_f39_when_the_task_fails_after_the_replacement_too_the_spec_decides(fleet: Fleet) -> None:
    with contextmanager(fleets)() as other:
        # Each on a crew of its own, at the same time.
        both = {"FAILED": (fleet, launch_failing(fleet, "fail")), "PARTIAL": (other, launch_failing(other, "partial"))}
        hanging = [fleet, other]

        def change_who_hangs() -> bool:
            for one in [one for one in hanging if len(one.deeds("writer", "hung")) >= 2]:
                become(one, "writer", on_dispatch({"report": {"outcome": "failed", "note": "the source is gone"}}))
                hanging.remove(one)
            return not hanging

        wait_for(change_who_hangs, 60, lambda: "\n".join(one.tail() for one in hanging))
        for state, (one, run) in both.items():
            assert_decided(one, run, state)


def assert_decided(fleet: Fleet, run: str, state: str) -> None:
    """The run has ended like this, because of the task that its writer's successor could not do."""
    view = fleet.wait_over(run, 60)
    cause = "task writer-task failed: the source is gone"
    assert (view.run.state, view.run.cause) == (state, cause)
    successor = assert_replaced(fleet, run, "writer")
    assert done_by(fleet, "writer", "started") == [("writer", 1), ("writer", 2), (successor, 1)]
    assert [(event.agent, event.body["note"]) for event in fleet.events("task_failed")] == [
        (successor, "the source is gone")
    ]
    assert cause in fleet.cli("status", run).stdout
    assert (view.run.sha256 != "") == (state == "PARTIAL"), "what could be done is delivered only where that is wanted"
    assert_untouched(fleet, "clerk")
    assert done_by(fleet, "clerk", "report_called") == [("clerk", 1)]
    assert fleet.leftovers([run]) == []
