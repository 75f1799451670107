"""The reading commands on a real run: real crew, real tmux, real terminals."""

from __future__ import annotations

import copy
import json
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dogwatch.world import tmux
from support.fleet import Fleet
from support.helpers import wait_for

QUICK = {"work_s": 0.3}
BUSY: dict[str, Any] = {"rules": [{"on": "dispatch", "do": [{"work": 600}]}]}
SPEC: dict[str, Any] = {
    "roles": {"planner": {}, "writer": {}},
    "phases": [
        {"name": "plan", "dispatches": [{"name": "plan", "to": "planner", "task": "Plan.", "outputs": ["plan.md"]}]},
        {"name": "draft", "dispatches": [{"name": "draft", "to": "writer", "task": "Write.", "outputs": ["draft.md"]}]},
    ],
    "deliverable": {"path": "draft.md"},
}


class Terminal:
    """A terminal in a tmux server of the test's own."""

    def __init__(self, fleet: Fleet, columns: int = 80, lines: int = 24) -> None:
        self._fleet = fleet
        self._socket = str(fleet.base / "terminal")
        shell = f"cd {shlex.quote(str(fleet.project))}; exec sh"
        self._tmux("new-session", "-d", "-x", str(columns), "-y", str(lines), shell)
        exports = {name: fleet.environment[name] for name in ("DOGWATCH_HOME", "HOME", "PYTHONPATH")}
        self.type("; ".join(f"export {name}={shlex.quote(value)}" for name, value in exports.items()) + "; clear")

    def _tmux(self, *arguments: str) -> str:
        argv = ["tmux", "-S", self._socket, "-f", "/dev/null", *arguments]
        return subprocess.run(argv, env=self._fleet.environment, capture_output=True, text=True, check=True).stdout

    def type(self, text: str) -> None:
        self._tmux("send-keys", "-l", text)
        self.key("Enter")

    def dogwatch(self, words: str) -> None:
        self.type(f"clear; {shlex.quote(sys.executable)} -m dogwatch {words}; echo code=$?")

    def key(self, *names: str) -> None:
        self._tmux("send-keys", *names)

    def resize(self, columns: int, lines: int) -> None:
        self._tmux("resize-window", "-x", str(columns), "-y", str(lines))

    def cursor_is_shown(self) -> bool:
        return self._tmux("display-message", "-p", "#{cursor_flag}").strip() == "1"

    def screen(self) -> list[str]:
        return self._tmux("capture-pane", "-p").splitlines()

    def shows(self, *texts: str) -> list[str]:
        """The screen once it holds all the texts."""

        def there() -> list[str]:
            lines = self.screen()
            return lines if all(any(text in line for line in lines) for text in texts) else []

        return wait_for(there, 60, lambda: f"{texts} on the screen:\n" + "\n".join(self.screen()))

    def close(self) -> None:
        self._tmux("kill-session")


@pytest.fixture
def terminal(fleet: Fleet) -> Iterator[Terminal]:
    opened = Terminal(fleet)
    try:
        yield opened
    finally:
        opened.close()


def launch(fleet: Fleet, writer: dict[str, object] | None = None) -> str:
    return fleet.launch(
        fleet.spec(copy.deepcopy(SPEC), {"planner": dict(QUICK), "writer": {**QUICK, **(writer or {})}})
    )


def follow(fleet: Fleet, *words: str) -> subprocess.Popen[str]:
    argv = [sys.executable, "-m", "dogwatch", *words]
    return subprocess.Popen(
        argv, env=fleet.environment, cwd=fleet.project, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def test_before_the_first_run_status_says_so_and_makes_nothing(fleet: Fleet) -> None:
    done = fleet.cli("status")
    assert done.stdout == "no runs yet\n"
    assert "hint: " in done.stderr
    assert json.loads(fleet.cli("status", "--json").stdout)["runs"] == []
    for words in (["status", "t-1"], ["events"], ["logs"], ["attach", "t-1/writer"]):
        failed = fleet.cli(*words, check=False)
        assert (failed.returncode, failed.stdout) == (66, "")
        assert failed.stderr.startswith("error: ")
    assert not os.path.exists(fleet.home.path)


def test_a_run_is_shown_from_its_start_to_its_end(fleet: Fleet) -> None:
    run = launch(fleet)
    following = follow(fleet, "events", run, "--follow", "--json", "--last", "0", "--since", "")
    assert run in fleet.cli("status").stdout
    fleet.wait_over(run)
    out, err = following.communicate(timeout=60)
    assert (following.returncode, err) == (0, "")
    kinds = [json.loads(line)["kind"] for line in out.splitlines()]
    assert (kinds[0], kinds[-1]) == ("run_created", "run_cleared")
    assert kinds == [event.kind for event in fleet.events() if event.run == run]
    summary = fleet.cli("status").stdout
    assert "COMPLETED" in summary
    assert "2/2" in summary
    assert "\x1b" not in summary
    detail = fleet.cli("status", run).stdout
    for text in ("planner", "writer", "SUCCEEDED", "accepted", "LAST EVENTS", "nothing of the run is left"):
        assert text in detail
    shown = json.loads(fleet.cli("status", run, "--json").stdout)["runs"][0]
    assert (shown["state"], shown["cleared"], shown["progress"]["accepted"]) == ("COMPLETED", True, 2)
    watched = fleet.cli("status", run, "--watch")
    assert "COMPLETED" in watched.stdout
    assert "one snapshot" in watched.stderr
    members = {json.loads(line)["member"] for line in fleet.cli("logs", run, "--json").stdout.splitlines()}
    assert members == {"captain", "watchdog"}


def test_events_are_filtered_continued_and_checked(fleet: Fleet) -> None:
    run = launch(fleet)
    fleet.wait_over(run)
    lines = [json.loads(line) for line in fleet.cli("events", run, "--json", "--last", "1000").stdout.splitlines()]
    behind = fleet.cli("events", run, "--json", "--since", lines[3]["cursor"]).stdout.splitlines()
    assert [json.loads(line) for line in behind] == lines[4:]
    accepted = fleet.cli("events", "--kind", "task_accepted", "--agent", "writer").stdout.splitlines()
    assert len(accepted) == 1
    assert "draft of writer was accepted" in accepted[0]
    assert len(fleet.cli("events", "--last", "3").stdout.splitlines()) == 3
    assert fleet.cli("events", run, "--follow", "--kind", "run_ended").stdout.count("\n") == 1
    mistaken = fleet.cli("events", "--kind", "task_acepted", check=False)
    assert (mistaken.returncode, mistaken.stdout) == (64, "")
    assert "did you mean task_accepted?" in mistaken.stderr
    for words in (["events", "t-9"], ["status", "t"], ["status", "t-9", "--json"]):
        assert fleet.cli(*words, check=False).returncode == 66


def test_followers_end_when_their_reader_leaves_and_with_an_interrupt(fleet: Fleet) -> None:
    run = launch(fleet, BUSY)
    fleet.wait_event("task_dispatched", "writer")
    for words in (["events", run, "--follow"], ["logs", run, "--follow"]):
        leaving = follow(fleet, *words)
        assert leaving.stdout is not None
        assert leaving.stdout.readline()
        leaving.stdout.close()
        assert leaving.wait(timeout=60) == 0
        assert leaving.stderr is not None
        assert leaving.stderr.read() == ""
        leaving.stderr.close()
        interrupted = follow(fleet, *words)
        assert interrupted.stdout is not None
        assert interrupted.stdout.readline()
        interrupted.send_signal(2)
        _, err = interrupted.communicate(timeout=60)
        assert (interrupted.returncode, err) == (0, "")


def test_the_live_table_follows_a_run_to_its_end(fleet: Fleet, terminal: Terminal) -> None:
    spec = fleet.spec(copy.deepcopy(SPEC), {"planner": dict(QUICK), "writer": dict(QUICK)})
    terminal.dogwatch(f"run {spec}")
    terminal.shows("t-1  COMPLETED", "nothing of the run is left", "delivered 1/1", "code=0")
    assert terminal.cursor_is_shown()


def test_the_live_table_fits_terminals_of_any_size_and_an_interrupt_ends_the_run(
    fleet: Fleet, terminal: Terminal
) -> None:
    spec = fleet.spec(copy.deepcopy(SPEC), {"planner": dict(QUICK), "writer": dict(BUSY)})
    terminal.dogwatch(f"run {spec}")
    told = "draft was given to writer"
    terminal.shows("t-1  RUNNING  2/2 draft", "planner", "WAITING", "BUSY", told)
    terminal.resize(50, 4)
    wait_for(lambda: not any(told in line for line in terminal.screen()), 60, "the events to give way")
    assert [line[:10].split()[0] for line in terminal.shows("t-1", "writer") if line] == ["t-1", "planner", "writer"]
    terminal.resize(120, 30)
    terminal.shows("t-1  RUNNING  2/2 draft", "writer", "BUSY", told)
    terminal.key("C-c")
    lines = terminal.shows("interrupted: ending the runs", "code=130")
    assert not any("Traceback" in line for line in lines)
    assert terminal.cursor_is_shown()


def test_a_watched_table_ends_with_an_interrupt_and_gives_the_cursor_back(fleet: Fleet, terminal: Terminal) -> None:
    run = launch(fleet, BUSY)
    terminal.dogwatch("status --watch")
    terminal.shows(run, "writer", "BUSY", "draft was given to writer")
    assert not terminal.cursor_is_shown()
    terminal.key("C-c")
    lines = terminal.shows("code=0")
    assert not any("Traceback" in line for line in lines)
    assert terminal.cursor_is_shown()


def test_attach_shows_an_agents_screen_also_from_within_tmux(fleet: Fleet, terminal: Terminal) -> None:
    run = launch(fleet, BUSY)
    fleet.wait_event("task_dispatched", "writer")
    assert fleet.cli("attach", f"{run}/nobody", check=False).returncode == 66
    piped = fleet.cli("attach", f"{run}/writer", check=False)
    assert (piped.returncode, piped.stdout) == (64, "")
    assert "attach needs a terminal" in piped.stderr
    terminal.dogwatch(f"attach {run}/writer")
    terminal.shows(f"Scripted agent · {run}/writer")
    terminal.key("x")
    # tmux takes keys that come all at once for a paste, in which Ctrl-b means nothing: no person is that fast.
    terminal.key("C-b")
    wait_for(lambda: tmux.run(fleet.home.tmux(run), "list-clients", "-F", "#{client_prefix}").stdout.strip() == b"1")
    terminal.key("d")
    terminal.shows("detached", "code=0")
    terminal.dogwatch(f"attach {run}/captain")
    terminal.shows("captain  started")
    terminal.key("C-c")
    terminal.shows("code=0")


def test_a_file_is_checked_explained_and_described(fleet: Fleet) -> None:
    good = fleet.spec(copy.deepcopy(SPEC), {"planner": dict(QUICK), "writer": dict(QUICK)})
    bad = fleet.project / "bad.yaml"
    bad.write_text("name: bad\nroles:\n  writer: {harnes: scripted}\n")
    assert fleet.cli("spec", "check", str(good)).stdout == f"{good}: ok (2 agents, 2 phases)\n"
    mixed = fleet.cli("spec", "check", str(good), str(bad), check=False)
    assert mixed.returncode == 65
    assert f"{good}: ok" in mixed.stdout
    assert f"{bad}:3:" in mixed.stdout
    assert "hint: " in mixed.stdout
    listed = json.loads(fleet.cli("spec", "check", str(bad), "--json", check=False).stdout)
    assert listed[0]["ok"] is False
    assert 3 in [problem["line"] for problem in listed[0]["problems"]]
    assert fleet.cli("spec", "explain", str(good)).stdout.startswith("t: 2 agents, 2 phases")
    failed = fleet.cli("spec", "explain", str(bad), check=False)
    assert (failed.returncode, failed.stdout) == (65, "")
    assert json.loads(fleet.cli("spec", "schema").stdout)["type"] == "object"


def test_the_version_is_also_json(fleet: Fleet) -> None:
    found = json.loads(fleet.cli("version", "--json").stdout)
    assert fleet.cli("version").stdout == f"dogwatch {found['version']}\n"
    assert set(found) == {"version", "python", "platform"}


def test_status_imports_nothing_heavy(fleet: Fleet) -> None:
    ask = (
        "import sys; from dogwatch.cli import main; main(['status']); print([m for m in sys.argv if m in sys.modules])"
    )
    heavy = ["rich", "pydantic", "yaml", "asyncio", "subprocess", "dogwatch.crew", "dogwatch.spec"]
    done = subprocess.run(
        [sys.executable, "-c", ask, *heavy], env=fleet.environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "[]"
    assert not Path(fleet.home.path).exists()
