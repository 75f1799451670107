"""F33: between a spawn's intent and its session nobody recovers anything; a kill in between starts no second agent."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from dogwatch.model.life import Starting
from faults.pipelines import PLAIN, one_task
from support.fleet import Fleet
from support.helpers import wait_for


@pytest.fixture
def slow_tmux(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A `tmux` first on PATH whose new-session waits until the file `go` is there, and then does what it was told."""
    real = shutil.which("tmux")
    folder = fleet.base / "bin"
    folder.mkdir()
    script = folder / "tmux"
    script.write_text(
        f"""#!/bin/sh
case "$*" in *new-session*)
    echo $$ >>"{folder}/asked"
    while [ ! -e "{folder}/go" ]; do sleep 0.05; done;;
esac
exec {real} "$@"
"""
    )
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return folder


def test_f33_a_captain_killed_in_the_middle_of_a_spawn_finds_the_agent_and_starts_no_second(
    fleet: Fleet, slow_tmux: Path
) -> None:
    run = fleet.launch(fleet.spec(one_task(), {"writer": PLAIN}))
    wait_for((slow_tmux / "asked").exists, 60, fleet.tail)
    captain = fleet.crew("captain", run)
    assert captain is not None
    record = fleet.view(run).agents["writer"]
    assert isinstance(record.life, Starting)
    assert record.process is None
    fleet.kill(captain)
    # The successor comes to the same point with a tmux client of its own, while the first one still waits.
    wait_for(lambda: len((slow_tmux / "asked").read_text().splitlines()) >= 2, 60, fleet.tail)
    assert not fleet.events("alert_raised"), "nothing is recovered while the spawn is under way"
    (slow_tmux / "go").touch()
    view = fleet.wait_over(run)
    assert view.run.state == "COMPLETED", view.run.cause
    assert [deed["incarnation"] for deed in fleet.deeds("writer", "started")] == [1]
    assert len(fleet.events("agent_spawned")) == 1
    assert not fleet.events("agent_restarted")
