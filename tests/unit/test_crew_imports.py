"""Crew members start fast: nothing of what reads pipeline files is loaded into them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

MEMBERS = ("captain.captain", "dispatcher.dispatcher", "watchdog.watchdog")
CREW = "import dogwatch.crew.main, " + ", ".join(f"dogwatch.crew.{name}" for name in MEMBERS)


def test_no_crew_member_loads_what_reads_pipeline_files() -> None:
    code = f"import sys; {CREW}; print(*sorted(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = {name.partition(".")[0] for name in done.stdout.split()}
    assert "dogwatch" in loaded
    assert not loaded & {"pydantic", "yaml", "rich", "psycopg"}


AGENT_COMMANDS = (
    "report done",
    "claim a-task",
    "task send writer text --expect 60s --output a.md",
    "mail read",
    "mail send writer text",
    "checkpoint approve a-checkpoint",
    "subagent skip one --note enough",
    "heartbeat",
)


@pytest.mark.parametrize("command", AGENT_COMMANDS)
def test_no_command_of_an_agent_loads_a_class_of_an_event(command: str, tmp_path: Path) -> None:
    """Each goes all the way to a captain's door, where nobody answers."""
    told = {"DOGWATCH_HOME": str(tmp_path), "DOGWATCH_RUN": "tide-1", "DOGWATCH_ROLE": "writer"}
    told |= {"DOGWATCH_INCARNATION": "1", "DOGWATCH_DOOR": str(tmp_path / "door"), "DOGWATCH_DOOR_WAIT_S": "0"}
    code = (
        "import sys; from dogwatch.cli import main; code = main(sys.argv[1:]);"
        " print(*sorted(sys.modules)); sys.exit(code)"
    )
    argv = [sys.executable, "-c", code, *command.split()]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, env={**os.environ, **told})
    assert done.returncode == 75, done.stderr
    loaded = set(done.stdout.split())
    assert "dogwatch.cli" in loaded
    assert [name for name in loaded if name.startswith("dogwatch.model.events")] == []


def test_the_index_of_events_loads_no_class() -> None:
    code = "import sys; import dogwatch.model.events; print(*sorted(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert [name for name in done.stdout.split() if name.startswith("dogwatch.model.events.")] == []
