"""F63: a token leaks. It is in no log, record, event or report; and an agent never has the operator's other secrets."""

from __future__ import annotations

import json
import os
import signal
import stat
from pathlib import Path
from typing import Any

import pytest

from dogwatch.model.process import ProcessId
from dogwatch.world.processes import environment
from faults.watching import beside, process_of, wait_seen
from support.fleet import Fleet
from support.helpers import wait_for

GITHUB = "ghp_" + "Ab3dE6gH9jK2" * 3
"""Known by its shape."""
DEPLOY = "zq-quokka-71-of-the-deploy"
"""Known because the role is given it under a name that says so."""
UNRELATED = "wombat-42-for-somebody-else"
SAID = f"using {GITHUB} and {DEPLOY} now"


def test_f63_a_token_that_an_agent_shows_everywhere_is_kept_nowhere(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DEPLOY_TOKEN", DEPLOY)
    monkeypatch.setenv("OTHER_CLIENT_API_KEY", UNRELATED)
    show = {"tool": {"command": ["sh", "-c", f": {SAID}; exit 0"]}}
    first = [{"mail_send": {"to": "clerk", "text": SAID}}, {"say": SAID}, show, {"permission": SAID}]
    rules = [
        {"on": "dispatch", "incarnation": 1, "do": first},
        {"on": "dispatch", "do": ["write_outputs", {"report": {"outcome": "done", "note": SAID}}]},
    ]
    spec = beside("writer", idle=["clerk"], limits={"dialog_s": 0.5})
    spec["roles"]["writer"]["inherit"] = ["DEPLOY_TOKEN"]
    run = fleet.launch(fleet.spec(spec, {"writer": {"work_s": 0.2, "rules": rules}, "clerk": {}}))

    seen = wait_seen(fleet, run, "writer", "awaiting_permission")
    assert "[redacted:github] and [redacted:DEPLOY_TOKEN]" in seen.evidence[0]
    status = fleet.cli("status", run).stdout + fleet.cli("status", run, "--json").stdout
    variables = environment(process_of(fleet, run, "writer").pid)
    assert variables["DEPLOY_TOKEN"] == DEPLOY
    assert "OTHER_CLIENT_API_KEY" not in variables
    assert "DEPLOY_TOKEN" not in environment(process_of(fleet, run, "clerk").pid)
    # Mail arrives as it was sent, also where that is a mistake.
    wait_for(lambda: any(SAID in deed["text"] for deed in fleet.deeds("clerk", "prompt")), 60, fleet.tail)
    wait_for(lambda: fleet.events("message_acknowledged", "clerk"), 60, fleet.tail)
    die_with_last_words(fleet, process_of(fleet, run, "writer"))
    view = fleet.wait_over(run)
    assert view.run.state == "COMPLETED", view.run.cause

    note = fleet.wait_event("task_reported", "writer").body["note"]
    assert note == "using [redacted:github] and [redacted:DEPLOY_TOKEN] now"
    died = fleet.wait_event("agent_restarted", "writer").body
    assert "[redacted:DEPLOY_TOKEN]" in json.dumps(died), "its last words are evidence"
    shown = [
        fleet.cli("events", run).stdout,
        fleet.cli("events", run, "--json").stdout,
        fleet.cli("explain", f"{run}/writer").stdout,
        fleet.cli("logs", run).stdout,
        fleet.cli("logs", run, "--json").stdout,
    ]
    assert not leaks("\n".join([status, *shown]))
    assert not [key for key, body in kept(fleet) if leaks(json.dumps(body))]
    assert files_with_a_token(fleet) <= {f"runs/{run}/spool/writer.spool", f"runs/{run}/spool/clerk.spool"}
    assert_only_for_the_owner(fleet, run)


def die_with_last_words(fleet: Fleet, agent: ProcessId) -> None:
    """Puts the tokens on the last rows of the agent's screen and kills it; stopped, it does not draw them over."""
    fleet.kill(agent, signal.SIGSTOP)
    terminal = os.open(os.readlink(f"/proc/{agent.pid}/fd/1"), os.O_WRONLY | os.O_NOCTTY)
    try:
        os.write(terminal, b"\033[48;1H" + f"\r\n{SAID}".encode() * 3)
    finally:
        os.close(terminal)
    fleet.kill(agent)


def leaks(text: str) -> bool:
    return any(secret in text for secret in (GITHUB, DEPLOY, UNRELATED))


def kept(fleet: Fleet) -> list[tuple[str, Any]]:
    """All that the ledger holds: mail is there without tokens once it was acknowledged."""
    documents = fleet.ledger.read(lambda reader: reader.scan(""))
    events = [(f"event {event.kind}", event.body) for event in fleet.events()]
    return [*((one.key, one.body) for one in documents), *events]


def files_with_a_token(fleet: Fleet) -> set[str]:
    """Below the home, but for the ledger's own: a file of SQLite's keeps what was removed until it is written over."""
    home = Path(fleet.home.path)
    files = [path for path in home.rglob("*") if path.is_file() and not path.name.startswith("ledger.db")]
    return {str(path.relative_to(home)) for path in files if leaks(path.read_text(errors="replace"))}


def assert_only_for_the_owner(fleet: Fleet, run: str) -> None:
    """The spool and whatever else is kept of an agent can be read by nobody else."""
    below = Path(fleet.home.run(run))
    for path in [below, *below.rglob("*")]:
        mode = stat.S_IMODE(os.lstat(path).st_mode)
        assert not mode & 0o077, f"{path}: {mode:o}"
    for name in ("writer", "clerk"):
        assert stat.S_IMODE(os.stat(fleet.home.spool(run, name)).st_mode) == 0o600
