"""How messages reach the real Claude Code: byte for byte, once, in time, and never into somebody's draft (F40–F46)."""

from __future__ import annotations

import os
import random
import re
import signal
import sys
import time
from pathlib import Path

from dogwatch.harness import Screen
from dogwatch.harness.claude import Claude
from dogwatch.testing.model import Request
from realcli.clients import program
from realcli.lab import DONE, REPORT, WAIT, WRITE, Lab, asked, descendants, directives, model, on, told, until
from support.helpers import wait_for

CONTROLS = "\ttabs\t\tand\r\ncarriage returns\r\n\x1b[31mred\x1b[0m \x07\x01\x7f"
ODD = f"{CONTROLS} quotes ' \" `$(x)` \\ 🐕‍🦺 ä\u2028\n  indented\n"


def times_told(request: Request, message: str) -> int:
    """How often the message stands in all that the model was told. What holds a stop the client tells it twice, as the
    user's word and as the hook's error: that counts as one."""
    text, header = told(request), f"[dogwatch:{message} mail from-clerk]"
    return text.count(header) - text.count(f'hook.py Stop": {header}')


def test_f44_mail_with_all_kinds_of_characters_arrives_byte_for_byte_and_once(lab: Lab) -> None:
    letters = [f"First:{ODD}", "second, one plain line", f"Third:{ODD}{'x' * 3000}"]
    with model(on("dispatch draft", WAIT), on("mail from-clerk", {"text": "I have read it."})) as scripted:
        run = lab.settled(scripted)
        for number, letter in enumerate(letters, 2):
            lab.mail(run, letter)
            wait_for(lambda n=number: len(lab.spool(run, "Stop")) >= n, 60, lab.fleet.tail)  # type: ignore[misc]
        last = told(asked(scripted)[-1])
        # The captain hears of a delivery from the client's hook, and may be later than the client's next one.
        wait_for(lambda: len(set(lab.delivered("mail"))) >= len(letters), 60, lab.fleet.tail)
    assert [last.count(letter) for letter in letters] == [1, 1, 1]
    assert len(set(lab.delivered("mail"))) == 3
    assert not lab.fleet.events("message_retried")


def kept(lab: Lab, text: str) -> list[str]:
    """What is in the files that the client names in this text; it puts there what is too long for a hook's context."""
    found = {match.rstrip(".,:;") for match in re.findall(rf"{re.escape(str(lab.fleet.base))}/\S+", text)}
    files = [Path(name) for name in sorted(found) if Path(name).is_file()]
    return [file.read_bytes().decode() for file in files if file.name.endswith(".txt")]


def test_f44_long_texts_that_no_composer_takes_arrive_byte_for_byte_in_a_file_of_the_clients(lab: Lab) -> None:
    lines = "".join(f"line {number}\t🐕\n" for number in range(4000))
    task = f"Write the draft.\n\ttabs, quotes ' \" `$(x)` \\ ä\n{lines}"
    letter = f"A long letter.\n{ODD}" + "".join(f"row {number}\t'ä'\n" for number in range(15000))
    assert len(letter.encode()) > 200_000
    with model(on("dispatch draft", WAIT), on("mail from-clerk", WRITE, REPORT, DONE)) as scripted:
        run = lab.launch(scripted, task, clerk=True, patient=True)
        wait_for(lambda: lab.spool(run, "Stop"), 90, lab.fleet.tail)
        files = kept(lab, told(asked(scripted)[-1]))
        assert [task in file for file in files] == [True]
        lab.mail(run, letter)
        lab.deliver(run)
        files = kept(lab, told(asked(scripted)[-1]))
        assert [letter in file for file in files].count(True) == 1


def test_mail_reaches_an_agent_at_work_in_the_same_turn_and_once(lab: Lab) -> None:
    gates = [lab.fleet.base / f"go{number}" for number in range(2)]
    with model(on("dispatch draft", *map(until, gates), WRITE, REPORT, DONE)) as scripted:
        run = lab.launch(scripted, clerk=True, patient=True)
        box = Path(lab.fleet.home.post(run, "writer"))
        letters: list[str] = []
        for number, gate in enumerate(gates, 1):
            wait_for(lambda n=number: len(lab.spool(run, "PreToolUse")) >= n, 90, lab.fleet.tail)  # type: ignore[misc]
            letters.append(lab.mail(run, f"letter {number}"))
            wait_for(lambda: list(box.glob("*.1")), 60, lab.fleet.tail)
            gate.touch()
            wait_for(lambda: set(letters) <= set(lab.delivered("mail")), 60, lab.fleet.tail)
        lab.deliver(run)
        last = asked(scripted)[-1]
        assert [times_told(last, message) for message in letters] == [1, 1]
        assert [told(last).count(f"letter {number}") for number in (1, 2)] == [1, 1]
    assert lab.delivered("mail") == letters
    assert len(lab.spool(run, "UserPromptSubmit")) == 1, "nothing was typed but the task"


def test_f36_f45_mail_is_told_once_however_often_the_captain_is_killed_on_the_way(lab: Lab) -> None:
    chance = random.Random(4711)
    letters: list[str] = []
    steps = [{"shell": "python3 -c 'import time; time.sleep(0.7)'"} for _ in range(3)]
    busy = on("letter [02]", *steps, {"text": "Read at work."})
    with model(on("dispatch draft", WAIT), busy, on("mail from-clerk", {"text": "Read."})) as scripted:
        run = lab.settled(scripted)
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
    launcher = lab.fleet.base / "launcher.py"
    launcher.write_text(
        "import os, subprocess, sys\n"
        f"subprocess.run([{program('claude')!r}, *sys.argv[1:]])\n"
        f"os.execvp('sh', ['sh', '-c', 'stty sane; exec cat >> {typed}'])\n"
    )
    with model(on("dispatch draft", WAIT)) as scripted:
        run = lab.launch(scripted, clerk=True, role={"command": [sys.executable, str(launcher)]}, patient=True)
        wait_for(lambda: lab.spool(run, "Stop"), 90, lab.fleet.tail)
        wait_for(lambda: Claude().read(lab.screen(run)) == Screen("idle", ""), 30, lab.fleet.tail)
        os.kill(client_of(lab, run), signal.SIGKILL)
        wait_for(typed.exists, 30, "the launcher after its client")
        lab.mail(run, "Is anybody there?")
        for _ in lab.steps(run):
            pass
        assert Claude().read(lab.screen(run)) == Screen("idle", ""), "as if it were still there"
        assert typed.read_text() == ""
        assert not lab.delivered("mail")
