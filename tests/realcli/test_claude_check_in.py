"""A check-in with the real Claude Code: the copy has the owner's conversation, can only read, and leaves no trace.

Seen with 2.1.325: the client refuses to run what `--tools` does not name, also where the user lets everything pass. It
may still tell the model of tools that the conversation had before. Its state file is named after its pid, and gone at
its end.
"""

from __future__ import annotations

import contextlib
import json
import shlex
from pathlib import Path

from faults.watching import process_of
from realcli.lab import DONE, REPORT, WRITE, Lab, asked, descendants, model, on, told, until
from support.helpers import wait_for

QUESTION = "How many chapters are written?"
ANSWER = "Four of six, says the copy."


def test_a_check_in_answers_from_the_owners_conversation_and_leaves_the_owner_alone(lab: Lab) -> None:
    go, began, harm = (lab.fleet.base / name for name in ("go", "began", "harm"))
    wait = f"import os, time\nwhile not os.path.exists({str(go)!r}): time.sleep(0.1)"
    work = {"shell": f"touch {began}; python3 -c {shlex.quote(wait)}"}
    attempt = {"tool": {"name": "Bash", "input": {"command": f"touch {harm}", "description": "Harm"}}}
    asking = on("How many chapters", attempt, {"text": ANSWER})
    heard = lab.fleet.base / "heard"
    with model(asking, on("dispatch draft", work, until(heard), WRITE, REPORT, DONE)) as scripted:
        run = lab.launch(scripted, "Write the draft of the quokka book.", clerk=True)
        wait_for(began.exists, 120, lab.fleet.tail)
        before, spool, states = transcripts(lab), lab.spool(run), state_files(lab, run)
        assert states
        done = lab.fleet.cli("check-in", f"{run}/writer", QUESTION, "--json")
        letter = json.loads(done.stdout)
        assert (letter["to"], letter["answered"], letter["text"]) == ("writer", True, ANSWER)
        assert lab.spool(run) == spool, "its turn goes on as if nothing had been"
        assert state_files(lab, run) == states
        after = transcripts(lab)
        assert list(after) == list(before), "no conversation was added"
        ((name, kept),) = before.items()
        assert after[name].startswith(kept)
        assert QUESTION not in after[name]
        go.touch()
        # Its letter comes with the end of its tool; the captain hears of that from the hook.
        wait_for(lambda: lab.delivered("mail"), 60, lab.fleet.tail)
        heard.touch()
        lab.deliver(run)
    mine = [request for request in asked(scripted) if QUESTION in told(request)]
    assert "Write the draft of the quokka book." in told(mine[0]), "it has the owner's conversation"
    assert str(began) in told(mine[0])
    assert "No such tool available: Bash" in told(mine[-1])
    assert not harm.exists()
    assert lab.delivered("mail") == [letter["message"]]
    owner = [told(request) for request in asked(scripted) if request not in mine]
    assert max(text.count(ANSWER) for text in owner) == 1, "its owner reads it once"
    assert not lab.fleet.events("agent_restarted")


def transcripts(lab: Lab) -> dict[str, str]:
    """All conversations that the client keeps, by their files."""
    files = sorted((lab.home / ".claude/projects").glob("*/*.jsonl"))
    return {file.name: file.read_text() for file in files}


def state_files(lab: Lab, run: str) -> dict[str, str]:
    """What the writer's client says that it is doing, in the folder that its sandbox has of its own: each file with the
    conversation that it is about."""
    assert not list((lab.home / ".claude/sessions").glob("*.json"))
    found = {}
    for pid in descendants(process_of(lab.fleet, run, "writer").pid):
        with contextlib.suppress(OSError):  # some of its processes come and go
            for file in Path(f"/proc/{pid}/root{lab.home}/.claude/sessions").glob("*.json"):
                found[file.name] = json.loads(file.read_text())["sessionId"]
    return found
