"""Four real clients, one deliverable: the example of a mixed crew as its first lines say it, one fault in each."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from faults.watching import decisions
from realcli.clients import CLIENTS, program
from support.fleet import ROOT, Fleet

SPEC = ROOT / "examples/mixed/pipeline.yaml"
HOLDERS = {"planner", "builder", "tester", "reviewer"}


@pytest.fixture
def crew(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> Fleet:
    """A fleet with all clients on the PATH."""
    folders = [str(Path(program(client)).parent) for client in CLIENTS]
    monkeypatch.setenv("PATH", os.pathsep.join([*folders, os.environ["PATH"]]))
    return fleet


def test_a_mixed_crew_delivers_although_each_of_its_clients_fails_once(crew: Fleet) -> None:
    run = crew.launch(SPEC, "--rehearse", "--project", str(crew.project))
    view = crew.wait_over(run, 250)
    assert view.run.state == "COMPLETED", f"{view.run.cause}\n{crew.tail()}"
    assert {event.agent for event in crew.events("guard_proven")} == HOLDERS
    assert "measured 14 expected 14" in (Path(view.run.output) / "report.md").read_text()

    assert decisions(crew, run, "planner") == [("NUDGE", "recovered")]
    assert not decisions(crew, run, "builder"), "its provider came back by itself"
    assert [event.body["rule"] for event in crew.events("guard_denied", "tester")] == ["tmux.kill-server"]
    assert [event.body["diagnosis"] for event in crew.events("agent_interrupted", "reviewer")] == ["long_tool"]
    assert not crew.events("agent_restarted")
    assert not crew.leftovers([run])
