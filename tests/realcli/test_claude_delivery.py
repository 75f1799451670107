"""How messages reach the real Claude Code: byte for byte, once, in time, and never into somebody's draft (F40–F46)."""

from __future__ import annotations

import os
import random
import re
import signal
import time
from pathlib import Path

import pytest

from dogwatch.testing.model import Request, ScriptedModel
from faults.watching import watch
from fleet import Fleet
from helpers import wait_for
from realcli.clients import program
from realcli.lab import DONE, REPORT, WRITE, Lab, asked, descendants, directives, model, on, told

WAIT = {"text": "I wait for a letter."}
PATIENT = {"nudge_s": 150, "peek_s": 150}
ODD = "\ttabs\t\tand\r\ncarriage returns\r\n\x1b[31mred\x1b[0m \x07\x01\x7f quotes ' \" `$(x)` \\ 🐕‍🦺 ä\u2028\n  indented\n"


@pytest.fixture
def lab(fleet: Fleet) -> Lab:
    return Lab(fleet)


def settled(lab: Lab, scripted: ScriptedModel) -> str:
    """A run whose writer has its task and sits at its prompt, beside an idle clerk."""
    run = lab.launch(scripted, clerk=True, **PATIENT)
    wait_for(lambda: lab.spool(run, "Stop"), 90, lab.fleet.tail)
    lab.process(run, "clerk")
    return run


def times_told(request: Request, message: str) -> int:
    """How often the message stands in all that the model was told."""
    return told(request).count(f"[dogwatch:{message} mail from-clerk]")


def until(path: Path) -> dict[str, str]:
    """A step that lasts until there is such a file."""
    return {"shell": f"until [ -e {path} ]; do python3 -c 'import time; time.sleep(0.1)'; done"}


def test_f44_mail_with_all_kinds_of_characters_arrives_byte_for_byte_and_once(lab: Lab) -> None:
    letters = [f"First:{ODD}", "second, one plain line", f"Third:{ODD}{'x' * 3000}"]
    with model(on("dispatch draft", WAIT), on("mail from-clerk", {"text": "I have read it."})) as scripted:
        run = settled(lab, scripted)
        for number, letter in enumerate(letters, 2):
            lab.mail(run, letter)
            wait_for(lambda n=number: len(lab.spool(run, "Stop")) >= n, 60, lab.fleet.tail)  # type: ignore[misc]
        last = told(asked(scripted)[-1])
    assert [last.count(letter) for letter in letters] == [1, 1, 1]
    assert len(set(lab.delivered("mail"))) == 3
    assert not lab.fleet.events("message_retried")


def kept(lab: Lab, text: str) -> list[str]:
    """What is in the files that the client names in this text; it puts there what is too long for a hook's context."""
    found = {match.rstrip(".,:;") for match in re.findall(rf"{re.escape(str(lab.fleet.base))}/\S+", text)}
    files = [Path(name) for name in sorted(found) if Path(name).is_file()]
    return [file.read_bytes().decode() for file in files if file.name.endswith(".txt")]


def test_f44_long_texts_that_no_composer_takes_arrive_byte_for_byte_in_a_file_of_the_clients(lab: Lab) -> None:
    task = f"Write the draft.\n{ODD}" + "".join(f"line {number}\t🐕\n" for number in range(4000))
    letter = f"A long letter.\n{ODD}" + "".join(f"row {number}\t'ä'\n" for number in range(15000))
    assert len(letter.encode()) > 200_000
    with model(on("dispatch draft", WAIT), on("mail from-clerk", WRITE, REPORT, DONE)) as scripted:
        run = lab.launch(scripted, task, clerk=True, **PATIENT)
        wait_for(lambda: lab.spool(run, "Stop"), 90, lab.fleet.tail)
        files = kept(lab, told(asked(scripted)[-1]))
        print(told(asked(scripted)[-1])[-3000:], files)
        assert [task in file for file in files] == [True]
        lab.mail(run, letter)
        lab.deliver(run)
        files = kept(lab, told(asked(scripted)[-1]))
        assert [letter in file for file in files].count(True) == 1


def test_mail_reaches_an_agent_at_work_in_the_same_turn_and_once(lab: Lab) -> None:
    go = lab.fleet.base / "go"
    with model(on("dispatch draft", until(go), WRITE, REPORT, DONE)) as scripted:
        run = lab.launch(scripted, clerk=True, **PATIENT)
        wait_for(lambda: lab.spool(run, "PreToolUse"), 90, lab.fleet.tail)
        letters = {lab.mail(run, f"letter {number}"): f"letter {number}" for number in range(3)}
        box = Path(lab.fleet.home.post(run, "writer"))
        wait_for(lambda: list(box.glob("*.1")), 60, lab.fleet.tail)
        go.touch()
        lab.deliver(run)
        last = asked(scripted)[-1]
        assert [times_told(last, message) for message in letters] == [1, 1, 1]
        for text in letters.values():
            assert text in told(last)
    assert sorted(lab.delivered("mail")) == sorted(letters)
    assert len(lab.spool(run, "UserPromptSubmit")) == 1, "nothing was typed but the task"


def test_mail_that_comes_at_the_very_end_holds_the_stop_once(lab: Lab) -> None:
    slowly = {"text": {"text": "I have done all that I could do for now. " * 4, "token_s": 0.2}}
    with model(on("mail from-clerk", WRITE, REPORT, DONE), on("dispatch draft", slowly)) as scripted:
        run = lab.launch(scripted, clerk=True, **PATIENT)
        wait_for(lambda: asked(scripted), 90, lab.fleet.tail)
        message = lab.mail(run, "One thing more.")
        lab.deliver(run)
        assert times_told(asked(scripted)[-1], message) == 1
    events = [line.event for line in lab.spool(run)]
    assert events.count("StopHeld") == 1
    assert events.count("UserPromptSubmit") == 1
    assert events.index("StopHeld") < events.index("PreToolUse")
    assert lab.delivered("mail") == [message]


def test_f40_f43_a_draft_is_left_as_it_is_and_the_message_wakes_the_agent_when_it_is_gone(lab: Lab) -> None:
    draft = "half a thought of somebody"
    with model(on("dispatch draft", WAIT), on("mail from-clerk", WRITE, REPORT, DONE)) as scripted:
        run = settled(lab, scripted)
        lab.keys(run, "-l", draft)
        wait_for(lambda: lab.composer(run) == draft, 30, lambda: "\n".join(lab.screen(run)))
        message = lab.mail(run, "Wake up.")
        looks = {watch(lab.fleet, run).at.mono}

        def has_looked() -> bool:
            looks.add(watch(lab.fleet, run).at.mono)
            return len(looks) > 8

        wait_for(has_looked, 60, lab.fleet.tail)
        assert lab.composer(run) == draft
        assert not lab.delivered("mail")
        lab.keys(run, "C-u")
        lab.deliver(run)
        assert times_told(asked(scripted)[-1], message) == 1
    prompts = [line.payload()["prompt"] for line in lab.spool(run, "UserPromptSubmit")]
    assert not [prompt for prompt in prompts if draft in prompt]
    assert len(prompts) == 2


def test_f36_f45_mail_is_told_once_however_often_the_captain_is_killed_on_the_way(lab: Lab) -> None:
    chance = random.Random(4711)  # noqa: S311 - only when a kill comes
    letters: list[str] = []
    steps = [{"shell": "python3 -c 'import time; time.sleep(0.7)'"} for _ in range(3)]
    busy = on("letter [02]", *steps, {"text": "Read at work."})
    with model(on("dispatch draft", WAIT), busy, on("mail from-clerk", {"text": "Read."})) as scripted:
        run = settled(lab, scripted)
        for number in range(4):
            letters += [lab.mail(run, f"letter {number} no {part}") for part in range(2)]
            time.sleep(chance.uniform(0.0, 1.5))
            captain = lab.captain(run)
            lab.fleet.kill(captain)
            wait_for(lambda old=captain: lab.captain(run) != old, 60, lab.fleet.tail)  # type: ignore[misc]
        wait_for(lambda: set(letters) <= set(lab.delivered("mail")), 90, lab.fleet.tail)
        lab.mail(run, directives(WRITE, REPORT, DONE))
        lab.deliver(run)
        last = asked(scripted)[-1]
        assert {message: times_told(last, message) for message in letters} == dict.fromkeys(letters, 1)
    assert not lab.fleet.events("agent_restarted")


def client_of(lab: Lab, run: str) -> int:
    """The pid of the client itself, below its launcher and its sandbox."""
    for pid in sorted(descendants(lab.process(run).pid)):
        if os.path.realpath(f"/proc/{pid}/exe") == os.path.realpath(program("claude")):
            return pid
    raise AssertionError("the client does not run")


def test_f40_nothing_is_ever_typed_to_a_client_that_is_dead(lab: Lab) -> None:
    # Its launcher goes on reading the terminal when the client is gone, as a shell would, and notes what it gets.
    typed = lab.fleet.base / "typed"
    launcher = lab.fleet.base / "launcher.sh"
    launcher.write_text(f'#!/bin/sh\n"{program("claude")}" "$@"\nstty sane\nexec cat >> "{typed}"\n')
    launcher.chmod(0o700)
    again = on("dispatch draft", WRITE, REPORT, DONE)
    with model(on("dispatch draft", WAIT, times=1), on("mail", {"text": "Read."}), again) as scripted:
        run = lab.launch(scripted, clerk=True, role={"command": [str(launcher)]}, sweep_s=3, **PATIENT)
        wait_for(lambda: lab.spool(run, "Stop"), 90, lab.fleet.tail)
        wait_for(lambda: lab.composer(run) == "", 30, lab.fleet.tail)
        os.kill(client_of(lab, run), signal.SIGKILL)
        wait_for(typed.exists, 30, "the launcher after its client")
        lab.mail(run, "Is anybody there?")
        lab.deliver(run)
        assert typed.read_text() == ""
    assert [event.body["reason"] for event in lab.fleet.events("agent_restarted", "writer")] == ["exited"]
