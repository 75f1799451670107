"""F01: an agent mails another that has crashed or hangs, and waits. The mail is missed by its own deadline and whom it
is for is named; that one is started again, and reads the mail exactly once. The one that waits is left in peace."""

from __future__ import annotations

import os
import signal
from typing import Any

import pytest

from dogwatch.ledger.api import StoredEvent
from dogwatch.model.records import CheckResult
from dogwatch.world.processes import identify, life
from faults.watching import assert_unnoticed, assert_untouched, beside, decisions, process_of, self_check, until
from support.fleet import Fleet
from support.helpers import wait_for

TEXT = "The figures are in figures.csv: please check them."
TIER1_S, CLAIM_S, PROBE_S = 1.0, 3.0, 2.0


def launch(fleet: Fleet, *rules: dict[str, Any], launcher: bool = False, receipt_s: float = 6) -> str:
    """A writer that mails the editor when there is a file `go`, and then waits for it; a clerk works beside them."""
    limits = {"nudge_s": 2, "tier1_s": TIER1_S, "receipt_s": receipt_s}
    pipeline = beside("writer", "clerk", idle=["editor"], limits=limits)
    pipeline["roles"]["editor"]["limits"] = {"claim_s": CLAIM_S, "probe_s": PROBE_S}
    ask = [until(fleet.base / "go"), {"mail_send": {"to": "editor", "text": TEXT}}, "silent"]
    scenarios = {
        "writer": {"work_s": 0.3, "rules": [{"on": "dispatch", "do": ask}]},
        "editor": {"shell": launcher, "rules": list(rules)},
        "clerk": {"work_s": 6},
    }
    return fleet.launch(fleet.spec(pipeline, scenarios))


def on_mail(*steps: Any, incarnation: int) -> dict[str, Any]:
    return {"on": "mail", "incarnation": incarnation, "do": list(steps)}


def letters(fleet: Fleet) -> list[StoredEvent]:
    """The writer's letters to the editor."""
    return [event for event in fleet.events("message_sent", "editor") if event.body["sender"] == "writer"]


def wait_letter(fleet: Fleet, number: int = 1) -> StoredEvent:
    """Waits until so many letters are on their way; the last of them."""
    wait_for(lambda: len(letters(fleet)) >= number, 60, lambda: f"letter {number}:\n{fleet.tail()}")
    return letters(fleet)[number - 1]


def wait_missed(fleet: Fleet, letter: StoredEvent) -> StoredEvent:
    """Waits for the alert that this letter is not acknowledged."""

    def look() -> StoredEvent | None:
        words = f"writer waits for editor (mail {letter.body['message']})"
        told = fleet.events("alert_raised", "writer")
        return next((one for one in told if any(wait.startswith(words) for wait in one.body["waits"])), None)

    found = wait_for(look, 60, lambda: f"{letter.body} to be missed:\n{fleet.tail()}")
    assert found is not None
    assert (found.body["diagnosis"], found.body["action"], found.body["tier"]) == ("waiting", "", 1)
    assert "mail: editor has not acknowledged its mail" in found.body["evidence"]
    assert found.at.since(letter.at) >= TIER1_S
    return found


def told(fleet: Fleet, message: str) -> list[int]:
    """The incarnations of the editor that were given the letter, once for each time."""
    prompts = fleet.deeds("editor", "prompt")
    return [deed["incarnation"] for deed in prompts for one in deed["ids"] if one == message]


def assert_mended(fleet: Fleet, run: str, message: str) -> None:
    """The run goes on to its end. The second incarnation has read the letter once, and who waited is as it was."""
    view = fleet.wait_over(run, 60)
    assert view.run.state == "COMPLETED", view.run.cause
    assert told(fleet, message).count(2) == 1, fleet.deeds("editor", "prompt")
    (read,) = fleet.deeds("editor", "mail_read")
    assert (read["incarnation"], read["out"].count(TEXT)) == (2, 1)
    assert [(deed["id"], deed["code"]) for deed in fleet.deeds("editor", "mail_ack")] == [(message, 0)]
    done = [event for event in fleet.events("message_acknowledged", "editor") if event.body["message"] == message]
    assert len(done) == 1
    assert [event.body["incarnation"] for event in fleet.events("agent_restarted", "editor")] == [2], fleet.tail()
    nudged = fleet.events("agent_nudged")
    assert all(one.agent == "writer" and one.at.mono > done[0].at.mono for one in nudged), "not while it waits"
    assert_untouched(fleet, "writer", but=["agent_nudged"])
    assert_unnoticed(fleet, "clerk")


def mail_acknowledged(fleet: Fleet, run: str) -> CheckResult | None:
    """What the captain's own check says of the mail."""
    return self_check(fleet, run, "MAIL_ACKNOWLEDGED")


@pytest.mark.parametrize("was_told", [False, True], ids=["before-it-is-told", "when-it-is-told"])
def test_f01_a_receiver_that_crashes_is_started_again_and_reads_the_mail_once(fleet: Fleet, was_told: bool) -> None:
    # A half-written draft keeps the letter from being typed to the first one.
    first = on_mail("crash", incarnation=1) if was_told else {"on": "start", "incarnation": 1, "do": [{"draft": "?"}]}
    answer = fleet.base / "answer"
    run = launch(fleet, first, on_mail(until(answer), "continue", incarnation=2))
    wait_for(lambda: fleet.deeds("editor", "ready" if was_told else "draft"), 60, fleet.tail)
    old = process_of(fleet, run, "editor")
    (fleet.base / "go").touch()
    letter = wait_letter(fleet)
    if not was_told:
        fleet.kill(old, signal.SIGKILL)
    restarted = fleet.wait_event("agent_restarted", "editor", 60)
    assert (restarted.body["reason"], restarted.body["incarnation"]) == ("exited", 2)
    wait_missed(fleet, letter)
    answer.touch()
    message = str(letter.body["message"])
    assert_mended(fleet, run, message)
    assert told(fleet, message) == ([1, 2] if was_told else [2])
    assert decisions(fleet, run, "editor") == [("RESTART", "recovered")]
    assert life(old, fleet.boot) == "dead"


def test_f01_a_receiver_that_hangs_over_its_mail_is_started_again_and_reads_it_once(fleet: Fleet) -> None:
    answer = fleet.base / "answer"
    run = launch(fleet, on_mail("hang", incarnation=1), on_mail(until(answer), "continue", incarnation=2))
    wait_for(lambda: fleet.deeds("editor", "ready"), 60, fleet.tail)
    old = process_of(fleet, run, "editor")
    (fleet.base / "go").touch()
    letter = wait_letter(fleet)
    message = str(letter.body["message"])
    wait_missed(fleet, letter)

    def is_missed() -> bool:
        check = mail_acknowledged(fleet, run)
        late = f"editor has not acknowledged {message} of writer"
        return check is not None and check.result == "failed" and late in check.detail

    wait_for(is_missed, 60, lambda: f"the self-check to fail: {mail_acknowledged(fleet, run)}")
    answer.touch()
    assert_mended(fleet, run, message)
    assert told(fleet, message) == [1, 2]
    failed = [event.body["check"] for event in fleet.events("self_check_failed")]
    assert failed.count("MAIL_ACKNOWLEDGED") == 1, fleet.tail()
    probed, stalled = fleet.events("agent_probed", "editor"), fleet.events("agent_stalled", "editor")
    assert [event.body["diagnosis"] for event in probed] == ["stalled"], fleet.tail()
    assert [event.body["incarnation"] for event in stalled] == [1]
    assert stalled[0].at.since(probed[0].at) >= PROBE_S
    assert decisions(fleet, run, "editor") == [("PROBE", "not_recovered"), ("RESTART", "recovered")]
    assert life(old, fleet.boot) == "dead"


def test_f01_a_receiver_that_is_stopped_at_its_prompt_is_started_again_and_reads_the_mail_once(fleet: Fleet) -> None:
    # A client below its launcher: tmux wakes up whatever is stopped as a pane's own process.
    run = launch(fleet, launcher=True, receipt_s=3)
    ready = wait_for(lambda: fleet.deeds("editor", "ready"), 60, fleet.tail)[0]
    stopped = identify(ready["pid"], fleet.boot)
    assert stopped is not None
    os.kill(stopped.pid, signal.SIGSTOP)
    (fleet.base / "go").touch()
    letter = wait_letter(fleet)
    wait_missed(fleet, letter)
    restarted = fleet.wait_event("agent_restarted", "editor", 60)
    assert restarted.body["incarnation"] == 2
    message = str(letter.body["message"])
    assert_mended(fleet, run, message)
    assert told(fleet, message) == [2]
    assert life(stopped, fleet.boot) == "dead"


def test_f01_each_letter_has_a_deadline_of_its_own(fleet: Fleet) -> None:
    pipeline = beside("writer", "clerk", idle=["editor"], limits={"nudge_s": 1, "nudges_max": 5, "tier1_s": TIER1_S})
    ask = [{"mail_send": {"to": "editor", "text": TEXT}}, "silent"]
    gates = [fleet.base / "first", fleet.base / "second"]
    answers = [{"on": "mail", "times": 1, "do": [until(gate), "continue"]} for gate in gates]
    scenarios = {
        "writer": {
            "work_s": 0.3,
            "rules": [{"on": "dispatch", "do": ask}, {"on": "nudge", "times": 1, "do": ask}],
        },
        "editor": {"rules": answers},
        "clerk": {"work_s": 6},
    }
    run = fleet.launch(fleet.spec(pipeline, scenarios))
    for number, gate in enumerate(gates, 1):
        wait_missed(fleet, wait_letter(fleet, number))
        gate.touch()
    view = fleet.wait_over(run, 60)
    assert view.run.state == "COMPLETED", view.run.cause
    sent = [event.body["message"] for event in letters(fleet)]
    assert [deed["id"] for deed in fleet.deeds("editor", "mail_ack")] == sent
    assert_untouched(fleet, "editor")
    assert_untouched(fleet, "writer", but=["agent_nudged"])
    assert_unnoticed(fleet, "clerk")
