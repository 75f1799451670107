"""F46: a check-in ends without sending anything: its last message is one letter in the owner's inbox, whatever dies."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

from dogwatch.ledger.records import load_all
from dogwatch.model.process import ProcessId
from dogwatch.model.records import MessageRecord
from dogwatch.world.processes import environment, marked
from faults.watching import assert_untouched, beside, on_dispatch, until
from support.fleet import Fleet
from support.helpers import wait_for

TOKEN = "ghp_" + "Ab3dE6gH9jK2" * 3


def letters(fleet: Fleet, run: str) -> list[MessageRecord]:
    """All mail that check-ins have sent, read or not."""
    prefixes = (f"message/{run}/", f"past-message/{run}/")
    kept = fleet.ledger.read(lambda r: [one for prefix in prefixes for one in load_all(r, MessageRecord, prefix)])
    return [one for one in kept if one.sender == "check-in"]


def launch(fleet: Fleet, **answers: Any) -> str:
    """A writer in a tool until the test lets it go, and beside it agents with nothing to do, by what they answer."""
    idle = [name for name in answers if name != "writer"]
    scenarios = {name: {"check_in": answer} for name, answer in answers.items()}
    work = on_dispatch(until(fleet.base / "go"), "write_outputs", {"report": "done"})
    scenarios["writer"] = {**work, **scenarios.get("writer", {})}
    run = fleet.launch(fleet.spec(beside("writer", idle=idle, limits={}), scenarios))
    wait_for(lambda: fleet.deeds("writer", "tool_start"), 60, fleet.tail)
    return run


def deliver(fleet: Fleet, run: str) -> None:
    (fleet.base / "go").touch()
    view = fleet.wait_over(run)
    assert view.run.state == "COMPLETED", view.run.cause
    assert fleet.leftovers([run]) == []


def asked(fleet: Fleet, agent: str) -> list[dict[str, Any]]:
    """How often a copy of the agent was really started."""
    return fleet.deeds(agent, "check_in")


def acknowledged(fleet: Fleet, letter: MessageRecord) -> bool:
    return any(event.body["message"] == letter.id for event in fleet.events("message_acknowledged", letter.to))


def told(fleet: Fleet, agent: str, letter: MessageRecord) -> list[str]:
    """The prompts by which the agent got the letter."""
    return [deed["text"] for deed in fleet.deeds(agent, "prompt") if letter.id in deed["ids"]]


def shown(fleet: Fleet, agent: str, letter: MessageRecord) -> list[str]:
    """What the agent got for its inbox whenever the letter was in it."""
    return [deed["out"] for deed in fleet.deeds(agent, "mail_read") if f"{letter.id} from" in deed["out"]]


def test_f46_the_last_message_of_a_check_in_is_one_letter_also_where_there_is_none(fleet: Fleet) -> None:
    failing = {"text": f"boom, with {TOKEN}", "exit": 3}
    answers = {"writer": "Half of {question}", "clerk": "All of it.", "mute": "", "broken": failing}
    run = launch(fleet, **answers)
    spool = Path(fleet.home.spool(run, "writer")).read_bytes()

    done = fleet.cli("check-in", f"{run}/writer", "the draft?", "--to", "clerk", "--json")
    answer = json.loads(done.stdout)
    assert (answer["to"], answer["answered"], answer["text"]) == ("clerk", True, "Half of the draft?")
    wait_for(lambda: fleet.events("message_acknowledged", "clerk"), 60, fleet.tail)
    assert fleet.cli("check-in", f"{run}/clerk", "how far?").stdout == "All of it.\n"
    mute = fleet.cli("check-in", f"{run}/mute", "how far?", check=False)
    assert (mute.returncode, mute.stdout) == (1, "")
    assert "has no answer: it ended without a word (exit code 0)" in mute.stderr
    broken = fleet.cli("check-in", f"{run}/broken", "how far?", check=False)
    assert (broken.returncode, broken.stdout) == (1, "boom, with [redacted:github]\n")
    assert "has no answer: exit code 3" in broken.stderr

    sent = {(one.to, one.subject.removeprefix("check-in-of-")): one for one in letters(fleet, run)}
    assert len(letters(fleet, run)) == 4
    assert sorted(sent) == [("broken", "broken"), ("clerk", "clerk"), ("clerk", "writer"), ("mute", "mute")]
    for (receiver, owner), letter in sent.items():
        wait_for(partial(acknowledged, fleet, letter), 60, fleet.tail)
        assert len(told(fleet, receiver, letter)) == 1
        assert len(asked(fleet, owner)) == 1
    assert [e.body["reason"] for e in fleet.events("check_in_failed", "broken")] == ["exit code 3"]
    assert [e.body["message"] for e in fleet.events("check_in_answered", "writer")] == [answer["message"]]
    assert Path(fleet.home.spool(run, "writer")).read_bytes() == spool, "its owner was disturbed"
    assert not list(Path(fleet.home.run(run), "checkins").iterdir())
    deliver(fleet, run)
    assert_untouched(fleet, *answers)
    for (receiver, _), letter in sent.items():
        assert len(told(fleet, receiver, letter)) == 1


def test_f46_a_captain_killed_while_a_check_in_runs_gets_its_answer_once(fleet: Fleet) -> None:
    answer = {"text": "Almost done.", "until": str(fleet.base / "answer")}
    run = launch(fleet, clerk=answer)
    fleet.start("check-in", f"{run}/clerk", "how far?")
    (copy,) = wait_for(lambda: asked(fleet, "clerk"), 60, fleet.tail)
    variables = environment(copy["pid"])
    assert variables["DOGWATCH_ROLE"].startswith("check-in:")
    assert not {"DOGWATCH_SPOOL", "DOGWATCH_POST", "DOGWATCH_DOOR"} & set(variables)
    kill_captain(fleet, run)
    (fleet.base / "answer").touch()
    fleet.wait_event("check_in_answered", "clerk")
    assert len(asked(fleet, "clerk")) == 1, "its result was there to be found"

    (fleet.base / "answer").unlink()
    fleet.start("check-in", f"{run}/clerk", "and now?")
    wait_for(lambda: len(asked(fleet, "clerk")) == 2, 60, fleet.tail)
    victims = [process for process, _ in marked(fleet.boot, fleet.home.path, run) if is_copy(process)]
    kill_captain(fleet, run, *victims)
    (fleet.base / "answer").touch()
    wait_for(lambda: len(fleet.events("check_in_answered", "clerk")) == 2, 120, fleet.tail)
    assert [deed["question"] for deed in asked(fleet, "clerk")] == ["how far?", "and now?", "and now?"]
    assert [e.body["attempts"] for e in fleet.events("check_in_answered")] == [1, 2]

    assert [one.body for one in letters(fleet, run)] == ["Almost done.", "Almost done."]
    wait_for(lambda: all(acknowledged(fleet, one) for one in letters(fleet, run)), 60, fleet.tail)
    deliver(fleet, run)
    # The second letter may be there already when the clerk reads the first: then it is not told of it again.
    assert [len(shown(fleet, "clerk", one)) for one in letters(fleet, run)] == [1, 1]
    assert [len(told(fleet, "clerk", one)) for one in letters(fleet, run)] in ([1, 1], [1, 0])
    assert_untouched(fleet, "writer", "clerk")


def is_copy(process: ProcessId) -> bool:
    return environment(process.pid).get("DOGWATCH_ROLE", "").startswith("check-in:")


def kill_captain(fleet: Fleet, run: str, *others: ProcessId) -> None:
    """The captain and these others with -9, and a successor."""
    captain = wait_for(lambda: fleet.crew("captain", run), 60, "the captain")
    assert captain is not None
    for process in (captain, *others):
        fleet.kill(process)
    wait_for(lambda: fleet.crew("captain", run) not in (None, captain), 60, fleet.tail)
