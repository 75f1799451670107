"""Whole runs on the real machine: what they deliver, what the agents are given, how they fail, and what is left."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from dogwatch.ledger.api import StoredEvent
from dogwatch.world import tmux
from dogwatch.world.processes import environment
from support.event_schema import wrong_events
from support.fleet import Fleet
from support.helpers import wait_for

QUICK: dict[str, Any] = {"work_s": 0.2}
DOCUMENTED = {
    "DOGWATCH_HOME", "DOGWATCH_RUN", "DOGWATCH_ROLE", "DOGWATCH_INCARNATION", "DOGWATCH_SLUG", "DOGWATCH_PROJECT",
    "DOGWATCH_OUTPUT", "DOGWATCH_DOOR", "DOGWATCH_SPOOL", "DOGWATCH_POST",
}  # fmt: skip


def pipeline(**changes: Any) -> dict[str, Any]:
    """One writer, one task, one deliverable."""
    dispatch = {
        "name": "draft",
        "to": "writer",
        "task": "Write it.",
        "outputs": ["draft.md"],
        **changes.pop("dispatch", {}),
    }
    return {
        "roles": {"writer": {}},
        "phases": [{"name": "draft", "dispatches": [dispatch]}],
        "deliverable": {"path": "draft.md"},
        **changes,
    }


def on_dispatch(*steps: Any, **more: Any) -> dict[str, Any]:
    return {**QUICK, "rules": [{"on": "dispatch", "do": list(steps), **more}]}


def shell(command: str) -> dict[str, Any]:
    """A step: the agent's tool runs this."""
    return {"tool": {"command": ["sh", "-c", command]}}


def kinds(fleet: Fleet) -> list[str]:
    return [event.kind for event in fleet.events() if not event.kind.startswith("crew_")]


def held(fleet: Fleet, spec: Path, agent: str = "writer") -> str:
    """Starts the run and waits until its agent works."""
    run = fleet.launch(spec)
    fleet.wait_event("message_delivered", agent)
    return run


def run_to_its_end(fleet: Fleet) -> subprocess.CompletedProcess[str]:
    """A run in the foreground whose writer begins when the captain knows that it has its task: of one that is quicker
    than that, the captain hears the report first, and no delivery."""
    go = fleet.base / "go"
    spec = fleet.spec(pipeline(), {"writer": on_dispatch(shell(f"until test -e {go}; do sleep 0.1; done"), "continue")})
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(fleet.cli, "run", str(spec))
        try:
            fleet.wait_event("message_delivered", "writer")
        finally:
            go.touch()
        return running.result()


def test_a_run_delivers_and_leaves_nothing_but_the_dispatcher(fleet: Fleet) -> None:
    done = run_to_its_end(fleet)
    out = fleet.project / "out" / "t-1"
    assert done.stdout == f"t-1: COMPLETED\n  outputs: {out}\ndelivered 1/1\n"
    record = fleet.view("t-1").run
    assert record.sha256 == hashlib.sha256((out / "draft.md").read_bytes()).hexdigest()
    assert (record.state, record.cause, record.output) == ("COMPLETED", "", str(out))
    assert kinds(fleet) == [
        "run_created", "run_admitted", "agent_spawn_intended", "agent_spawned", "run_started", "phase_opened",
        "message_sent", "task_dispatched", "message_delivered", "task_reported", "task_accepted", "phase_ended",
        "run_ended", "run_cleared",
    ]  # fmt: skip
    assert wrong_events(fleet.events()) == []
    assert fleet.leftovers(["t-1"]) == []
    wait_for(lambda: len(fleet.processes()) == 1, 30, lambda: f"only the dispatcher: {fleet.processes()}")
    assert "crew dispatcher" in fleet.processes()[0]


def test_times_in_the_record_are_in_order(fleet: Fleet) -> None:
    run_to_its_end(fleet)
    view = fleet.view("t-1")
    task = view.tasks["draft"]
    moments = [view.run.created, view.run.started, task.dispatched, task.delivered, task.finished, view.run.ended]
    assert [m.mono for m in moments if m] == sorted(m.mono for m in moments if m)
    assert None not in moments


def test_an_agents_environment_is_the_documented_one(fleet: Fleet) -> None:
    steps = (shell("env -0 >$DOGWATCH_OUTPUT/env; pwd >$DOGWATCH_OUTPUT/pwd"), "continue")
    spec = fleet.spec(pipeline(), {"writer": on_dispatch(*steps)})
    os.environ["TMUX"] = "/tmp/nobody,1,1"
    try:
        fleet.cli("run", str(spec))
    finally:
        del os.environ["TMUX"]
    out = fleet.project / "out" / "t-1"
    pairs = dict(entry.split("=", 1) for entry in (out / "env").read_text().split("\0") if "=" in entry)
    assert {name for name in pairs if name.startswith("DOGWATCH_")} == DOCUMENTED
    assert not [name for name in pairs if name.startswith("TMUX")]
    assert pairs["DOGWATCH_RUN"] == "t-1"
    assert (pairs["DOGWATCH_ROLE"], pairs["DOGWATCH_INCARNATION"]) == ("writer", "1")
    assert pairs["DOGWATCH_PROJECT"] == str(fleet.project)
    assert pairs["DOGWATCH_OUTPUT"] == str(out)
    assert pairs["PATH"].split(":")[0] == fleet.home.bin
    assert (out / "pwd").read_text().strip() == str(fleet.project)


def test_the_operators_own_marks_do_not_reach_the_agents_of_a_new_run(fleet: Fleet) -> None:
    """An operator may sit inside an agent of another home."""
    spec = fleet.spec(pipeline(), {"writer": on_dispatch(shell("env >$DOGWATCH_OUTPUT/env"), "continue")})
    marks = {"DOGWATCH_DOOR": "/nowhere/door", "DOGWATCH_SPOOL": "/nowhere/spool", "DOGWATCH_SLUG": "old-name"}
    done = fleet.as_agent("other-7", "boss", "run", str(spec), incarnation=9, variables=marks)
    assert done.returncode == 0, done.stderr
    lines = (fleet.project / "out" / "t-1" / "env").read_text()
    assert "nowhere" not in lines
    assert "other-7" not in lines
    assert "DOGWATCH_INCARNATION=1\n" in lines


def test_the_terminal_is_set_up_as_documented_and_the_command_is_the_panes_own_process(fleet: Fleet) -> None:
    run = held(fleet, fleet.spec(pipeline(), {"writer": on_dispatch({"work": 60})}))
    socket = fleet.home.tmux(run)

    def option(*words: str) -> str:
        return tmux.run(socket, "show-options", *words).stdout.decode().strip()

    assert option("-gwv", "remain-on-exit") == "on"
    assert option("-sv", "exit-empty") == "off"
    pane = tmux.panes(socket)[0]
    assert pane.session == "t-1-writer"
    size = tmux.run(socket, "display-message", "-p", "-t", pane.id, "#{window_width}x#{window_height}").stdout
    assert size.decode().strip() == "160x48"
    process = fleet.view(run).agents["writer"].process
    assert process is not None
    assert process.pid == pane.pid
    command = Path(f"/proc/{pane.pid}/cmdline").read_bytes().split(b"\0")
    assert b"dogwatch.testing.agent" in command
    assert environment(pane.pid)["DOGWATCH_RUN"] == run
    fleet.cli("kill", run)


def secret_run(fleet: Fleet, sensitive: bool) -> list[StoredEvent]:
    """A run in which secrets stand in a task, on a screen and in a mail, and whose writer dies once."""
    letter = {"mail_send": {"to": "judge", "text": "mail-secret"}}
    steps = [{"say": "screen-secret"}, letter, {"crash": "SIGKILL"}]
    rules = [{"on": "dispatch", "incarnation": 1, "do": steps}]
    text = pipeline(dispatch={"task": "Write of the task-secret."}, sensitive=sensitive)
    text["roles"]["judge"] = {}
    fleet.cli("run", str(fleet.spec(text, {"writer": {**QUICK, "rules": rules}, "judge": QUICK})))
    assert any(deed["code"] == 0 for deed in fleet.deeds("writer", "mail_send"))
    return fleet.events()


def test_a_sensitive_run_keeps_texts_and_screens_out_of_logs_and_events(fleet: Fleet) -> None:
    told = json.dumps([[event.kind, dict(event.body)] for event in secret_run(fleet, sensitive=True)])
    logs = "".join(path.read_text() for path in Path(fleet.home.path).rglob("*.log"))
    assert "exited" in told
    for secret in ("screen-secret", "mail-secret", "task-secret"):
        assert secret not in told
        assert secret not in logs


def test_a_run_that_is_not_sensitive_shows_the_last_lines_as_evidence(fleet: Fleet) -> None:
    restarted = [event for event in secret_run(fleet, sensitive=False) if event.kind == "agent_restarted"]
    process, *lines = restarted[0].body["evidence"]
    assert "is gone" in process
    # The death is noticed in milliseconds: tmux may not have written its own line onto the screen by then.
    assert "Pane is dead (signal 9" in lines[-1] or "scripted agent" in lines[-1]


def test_two_runs_side_by_side_with_a_setting_as_json(fleet: Fleet) -> None:
    text = pipeline(dispatch={"task": "Write of ${topic}."}, vars={"topic": "tides"})
    spec = fleet.spec(text, {"writer": QUICK})
    done = fleet.cli("run", str(spec), "--runs", "2", "--set", "topic=eels", "--json")
    runs = json.loads(done.stdout)
    assert [(run["run"], run["state"]) for run in runs] == [("t-1", "COMPLETED"), ("t-2", "COMPLETED")]
    assert {run["output"] for run in runs} == {str(fleet.project / "out" / name) for name in ("t-1", "t-2")}
    assert all(deed["text"].count("eels") for deed in fleet.deeds("writer", "prompt"))
    assert fleet.leftovers(["t-1", "t-2"]) == []


def test_project_and_output_folders_may_lie_elsewhere(fleet: Fleet) -> None:
    spec = fleet.spec(pipeline(), {"writer": on_dispatch(shell("pwd >$DOGWATCH_OUTPUT/pwd"), "continue")})
    work, results = fleet.base / "a place", fleet.base / "re'sults"
    work.mkdir()
    fleet.cli("run", str(spec), "--project", str(work), "--output", str(results))
    assert (results / "t-1" / "draft.md").exists()
    assert (results / "t-1" / "pwd").read_text().strip() == str(work)


def failed(fleet: Fleet, spec: Path) -> str:
    done = fleet.cli("run", str(spec), check=False)
    assert done.returncode == 1, done.stdout + done.stderr
    assert done.stdout.endswith("delivered 0/1\n")
    record = fleet.view("t-1").run
    assert record.state == "FAILED"
    assert fleet.leftovers(["t-1"]) == []
    return record.cause


def test_a_task_reported_as_failed_twice_fails_the_run_with_the_agents_words(fleet: Fleet) -> None:
    steps = ({"report": {"outcome": "failed", "note": "the source is gone"}},)
    cause = failed(fleet, fleet.spec(pipeline(), {"writer": on_dispatch(*steps)}))
    assert cause == "task draft failed: the source is gone"
    assert [event.body["attempt"] for event in fleet.events("task_dispatched")] == [1, 2]


def test_a_run_that_may_be_partial_goes_on_and_says_so(fleet: Fleet) -> None:
    text = pipeline(on_task_failure="partial")
    text["phases"][0]["dispatches"] += [
        {"name": "extra", "to": "artist", "task": "Draw.", "outputs": ["extra.png"], "attempts": 1},
        {"name": "frame", "to": "artist", "task": "Frame it.", "outputs": ["frame.png"], "after": ["extra"]},
    ]
    artist = on_dispatch({"report": {"outcome": "failed", "note": "no ink"}})
    done = fleet.cli("run", str(fleet.spec(text, {"writer": QUICK, "artist": artist})))
    view = fleet.view("t-1")
    assert view.run.state == "PARTIAL"
    assert "extra failed: no ink" in view.run.cause
    assert "frame failed: it needs extra, which failed" in view.run.cause
    assert view.run.cause in done.stdout
    assert view.run.sha256
    assert done.stdout.endswith("delivered 1/1\n")


def test_a_deadline_that_passes_fails_the_run(fleet: Fleet) -> None:
    text = pipeline(limits={"deadline_s": 2})
    cause = failed(fleet, fleet.spec(text, {"writer": on_dispatch({"work": 60})}))
    assert cause == "deadline: not finished within 2 s"


def test_a_deliverable_with_the_wrong_bytes_fails_the_run_whatever_was_reported(fleet: Fleet) -> None:
    text = pipeline(deliverable={"path": "draft.md", "contains": ["footer"]})
    assert failed(fleet, fleet.spec(text, {"writer": QUICK})) == "deliverable: draft.md does not contain 'footer'"
    assert fleet.view("t-1").tasks["draft"].state == "accepted"


def test_a_report_without_the_file_is_returned_and_then_failed(fleet: Fleet) -> None:
    steps = ({"report": {"outcome": "done"}},)
    cause = failed(fleet, fleet.spec(pipeline(), {"writer": on_dispatch(*steps)}))
    assert cause == "task draft failed: draft.md does not exist"
    assert "draft.md does not exist" in fleet.deeds("writer", "prompt")[1]["text"]


def test_a_program_that_is_missing_fails_the_run_with_its_exit_code_as_evidence(fleet: Fleet) -> None:
    text = pipeline(limits={"restarts_max": 1})
    text["roles"]["writer"] = {"harness": "command", "command": ["no-such-program"]}
    cause = failed(fleet, fleet.spec(text, {}))
    assert "writer failed 2 times" in cause
    evidence = " ".join(fleet.events("agent_quarantined")[0].body["evidence"])
    # tmux shows the program's last words and its exit status, but at times loses one of the two.
    assert "no-such-program" in evidence or "status 127" in evidence


def test_any_program_can_be_an_agent_and_is_left_alone_while_it_works(fleet: Fleet) -> None:
    """It has no hooks: that it never says it has started is no reason to start it again."""
    code = (
        "import os, subprocess, time; input(); time.sleep(3);"
        "open(os.environ['DOGWATCH_OUTPUT'] + '/draft.md', 'w').write('x');"
        "subprocess.run(['dogwatch', 'report', 'done']); time.sleep(60)"
    )
    text = pipeline(limits={"startup_s": 1, "deadline_s": 60})
    text["roles"]["writer"] = {"harness": "command", "command": ["python3", "-c", code]}
    fleet.cli("run", str(fleet.spec(text, {})))
    assert [event.body for event in fleet.events("agent_restarted")] == []


def test_a_pipeline_file_with_errors_makes_nothing(fleet: Fleet) -> None:
    text = pipeline(deliverable={"path": "nobody-writes-this.md"})
    done = fleet.cli("run", str(fleet.spec(text, {"writer": QUICK})), check=False)
    assert done.returncode == 65
    assert "nobody-writes-this.md" in done.stderr
    assert not os.path.exists(fleet.home.path)
    assert not (fleet.project / "out").exists()


@pytest.mark.parametrize(
    "words",
    [
        ["--runs", "0"],
        ["--rounds", "65"],
        ["--set", "x"],
        ["--project", "nowhere"],
        ["--parallel", "0"],
        ["--parallel", "many"],
        ["--prefix", "CT"],
        ["--scenario", "x"],
    ],
)
def test_wrong_words_make_nothing(fleet: Fleet, words: list[str]) -> None:
    done = fleet.cli("run", str(fleet.spec(pipeline(), {"writer": QUICK})), *words, check=False)
    assert done.returncode in (64, 65)
    assert "hint:" in done.stderr
    assert not os.path.exists(fleet.home.path)


def test_an_output_folder_that_cannot_be_made_is_a_named_error_not_an_endless_run(fleet: Fleet) -> None:
    (fleet.project / "file").write_text("in the way")
    spec = fleet.spec(pipeline(limits={"deadline_s": 5}), {"writer": QUICK})
    done = fleet.cli("run", str(spec), "--output", "file/below", check=False, timeout_s=20)
    assert done.returncode != 0
    assert "file" in done.stderr + done.stdout
