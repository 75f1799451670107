"""A run's tmux server hangs, or a person uses it too: everything of ours ends, nothing of theirs does."""

from __future__ import annotations

import os
import signal
import subprocess
from typing import Any

import pytest

from dogwatch.actions.kill import end_marked
from dogwatch.model.process import ProcessId
from dogwatch.world.processes import identify, life, marked
from faults.pipelines import one_task
from support.fleet import Fleet
from support.helpers import wait_for

WAITS: dict[str, Any] = {"work_s": 0.3, "rules": [{"on": "dispatch", "do": [{"wait": 600}]}]}


def tmux(fleet: Fleet, run: str, *words: str) -> str:
    """One call on the run's own server, as a person would make it: without any of dogwatch's variables."""
    done = subprocess.run(
        ["tmux", "-S", fleet.home.tmux(run), *words],
        env={"PATH": os.environ["PATH"], "HOME": str(fleet.base), "TERM": "xterm"},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


def process_of(fleet: Fleet, pid: str) -> ProcessId:
    found = identify(int(pid), fleet.boot)
    assert found is not None
    return found


def stop_server(fleet: Fleet, run: str) -> ProcessId:
    """The server does not answer any more."""
    server = fleet.view(run).agents["writer"].server
    assert server is not None
    fleet.kill(server, signal.SIGSTOP)
    return server


def at_work(fleet: Fleet) -> str:
    run = fleet.launch(fleet.spec(one_task(), {"writer": WAITS}))
    wait_for(lambda: fleet.deeds("writer", "turn_start"), 60, fleet.tail)
    return run


@pytest.mark.parametrize("how", ["kill", "down"])
def test_a_hung_tmux_server_is_ended_with_all_that_it_holds(fleet: Fleet, how: str) -> None:
    run = at_work(fleet)
    process = fleet.view(run).agents["writer"].process
    assert process is not None
    server = stop_server(fleet, run)
    try:
        fleet.cli(*(["kill", run] if how == "kill" else ["down"]))
        assert life(server, fleet.boot) == "dead"
        assert life(process, fleet.boot) == "dead"
        assert fleet.leftovers([run]) == []
        if how == "kill":
            assert fleet.view(run).run.cause == "killed by the operator"
        else:
            assert fleet.processes() == []
    finally:
        fleet.kill(server, signal.SIGCONT)


def test_a_run_goes_on_after_its_hung_tmux_server_was_taken_down(fleet: Fleet) -> None:
    first = {"on": "dispatch", "incarnation": 1, "do": [{"wait": 600}]}
    run = fleet.launch(fleet.spec(one_task(), {"writer": {"work_s": 0.3, "rules": [first]}}))
    wait_for(lambda: fleet.deeds("writer", "turn_start"), 60, fleet.tail)
    server = stop_server(fleet, run)
    try:
        fleet.cli("down")
        fleet.cli("up")
        view = fleet.wait_over(run, 60)
        assert view.run.state == "COMPLETED", view.run.cause
    finally:
        fleet.kill(server, signal.SIGCONT)


def test_an_agent_whose_window_a_person_has_split_still_gets_its_dispatch(fleet: Fleet) -> None:
    # A slow start leaves time to split the window before anything is typed.
    run = fleet.launch(fleet.spec(one_task(), {"writer": {"work_s": 0.3, "start_delay_s": 2}}))
    fleet.wait_event("agent_spawned", "writer")
    typed = fleet.base / "typed"
    words = ["split-window", "-b", "-t", f"={run}-writer:", "-P", "-F", "#{pane_id}", f"exec cat >{typed}"]
    other = tmux(fleet, run, *words)
    assert tmux(fleet, run, "display-message", "-p", "-t", f"={run}-writer:", "#{pane_id}") == other, "it is active"
    view = fleet.wait_over(run, 60)
    assert view.run.state == "COMPLETED", f"{view.run.cause}\n{fleet.tail()}"
    assert len(fleet.deeds("writer", "prompt")) == 1
    assert not fleet.events("message_retried")
    assert not fleet.events("agent_restarted")
    assert typed.read_bytes() == b"", "nothing was typed to the person's pane"


def test_a_persons_processes_on_the_runs_server_survive_the_restart_of_an_agent(fleet: Fleet) -> None:
    run = at_work(fleet)
    words = ["new-session", "-d", "-s", "person", "-P", "-F", "#{pane_pid}", "sleep 600"]
    own = process_of(fleet, tmux(fleet, run, *words))
    split = tmux(fleet, run, "split-window", "-t", f"={run}-writer:", "-P", "-F", "#{pane_pid}", "sleep 600")
    beside = process_of(fleet, split)
    theirs = {own, beside}
    assert not theirs & {process for process, _ in marked(fleet.boot, fleet.home.path, run)}
    agent = fleet.view(run).agents["writer"].process
    assert agent is not None
    fleet.kill(agent)
    wait_for(lambda: len(fleet.deeds("writer", "turn_start")) == 2, 60, fleet.tail)
    assert life(own, fleet.boot) == "alive"
    assert "person" in tmux(fleet, run, "list-sessions", "-F", "#{session_name}").splitlines()


def test_ending_an_agents_processes_leaves_what_a_person_runs_in_its_session(fleet: Fleet) -> None:
    run = at_work(fleet)
    split = tmux(fleet, run, "split-window", "-t", f"={run}-writer:", "-P", "-F", "#{pane_pid}", "sleep 600")
    beside = process_of(fleet, split)
    captain = fleet.crew("captain", run)
    assert captain is not None
    # Else it starts the agent again at once, in a session that takes the place of this one.
    fleet.kill(captain, signal.SIGSTOP)
    try:
        assert end_marked(fleet.home, fleet.boot, run, "writer") >= 1
        assert life(beside, fleet.boot) == "alive"
        assert life(captain, fleet.boot) == "alive", "the crew carries no agent's mark"
    finally:
        fleet.kill(captain, signal.SIGCONT)
