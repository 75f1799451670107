"""`dogwatch watch` on a real tmux server of somebody else's: what it sees, and that it leaves no trace."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dogwatch.world import onlooker
from support.helpers import wait_for

ROOT = Path(__file__).resolve().parent.parent.parent
SCREENS = ROOT / "tests" / "data" / "screens"
TMUX = shutil.which("tmux") or "tmux"
FIELDS = (
    *("session", "window", "pane", "pane_id", "client", "program", "pid", "state", "needs_you", "doing", "state_s"),
    *("change_seen", "age_s", "rss_bytes", "cpu_percent", "tool", "tool_s", "composer"),
)
# A client that shows a real screen and then only waits, without a child that would outlive it; with a third argument it
# also runs that as its tool.
FAKE = """#!/bin/sh
printf '\\033[2J\\033[H'
cat "$1"
printf '\\033]2;%s\\033\\\\' "$2"
if [ -n "$3" ]; then setsid $3 & echo $! >> "$0.tools"; fi
while read -r line; do :; done
"""


class Desk:
    """A user's desk: a tmux server, agents started by hand, and a home in which nothing may appear."""

    def __init__(self) -> None:
        self.base = Path(tempfile.mkdtemp(prefix="dw"))
        self.home = self.base / "home"
        self.bin = self.base / "bin"
        self.project = self.base / "project"
        for folder in (self.home, self.bin, self.project):
            folder.mkdir()
        self.sockets = self.base / f"tmux-{os.getuid()}"
        self.sockets.mkdir(mode=0o700)
        self.socket = str(self.sockets / "default")
        for name in ("claude", "codex", "opencode", "gemini"):
            (self.bin / name).write_text(FAKE)
            (self.bin / name).chmod(0o755)

    @property
    def environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("DOGWATCH_", "TMUX"))}
        own = {"HOME": str(self.home), "DOGWATCH_HOME": str(self.home / "dogwatch"), "TMPDIR": str(self.home)}
        return {**kept, **own, "TMUX_TMPDIR": str(self.base), "PYTHONPATH": str(ROOT / "src"), "LC_ALL": "C.UTF-8"}

    def tmux(self, *words: str, socket: str = "") -> str:
        argv = [TMUX, "-u", "-S", socket or self.socket, "-f", "/dev/null", *words]
        done = subprocess.run(argv, env=self.environment, cwd=self.project, capture_output=True, text=True, check=True)
        return done.stdout

    def open(self, session: str, command: str, *, columns: int = 120, lines: int = 44, socket: str = "") -> None:
        size = ("-x", str(columns), "-y", str(lines))
        self.tmux("new-session", "-d", "-s", session, *size, command, socket=socket)

    def fake(self, client: str, screen: str, title: str = "", tool: str = "") -> str:
        """The command of a client that shows the captured screen."""
        return shlex.join([str(self.bin / client), str(SCREENS / client / f"{screen}.txt"), title, tool])

    def scripted(self, *steps: Any) -> str:
        scenario = self.project / f"{len(list(self.project.iterdir()))}.json"
        scenario.write_text(json.dumps({"rules": [{"on": "start", "do": list(steps)}] if steps else []}))
        return shlex.join([sys.executable, "-m", "dogwatch.testing.agent", "--scenario", str(scenario)])

    def watch(self, *words: str, **changes: str) -> subprocess.CompletedProcess[str]:
        argv = [sys.executable, "-m", "dogwatch", "watch", *words]
        environment = {**self.environment, **changes}
        return subprocess.run(argv, env=environment, cwd=self.project, capture_output=True, text=True, timeout=120)

    def seen(self, *words: str) -> dict[str, dict[str, Any]]:
        """What `--json` says, by session and pane."""
        answer = self.watch("--json", *words)
        assert answer.returncode == 0, answer.stderr
        return {f"{one['session']}.{one['pane']}": one for one in json.loads(answer.stdout)}

    def states(self, *words: str) -> dict[str, tuple[str, str]]:
        return {name: (one["client"], one["state"]) for name, one in self.seen(*words).items()}

    def close(self) -> None:
        for socket in self.sockets.iterdir():
            subprocess.run([TMUX, "-S", str(socket), "kill-server"], capture_output=True, check=False)
        for pids in self.bin.glob("*.tools"):
            for pid in pids.read_text().split():
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(int(pid), signal.SIGKILL)
        shutil.rmtree(self.base)


READING = ["display-message -p", "capture-pane -p"]


def _verbs(words: list[str], socket: str) -> list[str]:
    """The verbs of one call of tmux; a reading one with its `-p`, without which it would do something else."""
    assert words[:5] == ["-u", "-S", socket, "-f", "/dev/null"]
    verbs = []
    for command in " ".join(words[5:]).split(" ; "):
        verb, flag = command.split()[:2]
        verbs.append(verb if verb == "list-panes" else f"{verb} {flag}")
    return verbs


@pytest.fixture
def desk() -> Iterator[Desk]:
    made = Desk()
    try:
        yield made
    finally:
        made.close()


def test_each_client_is_known_and_read_by_its_own_patterns(desk: Desk) -> None:
    desk.open("api", desk.fake("claude", "permission-prompt"))
    desk.open("cli", desk.fake("codex", "busy-hang", "⠇ codex"))
    desk.open("docs", desk.fake("opencode", "api-retry"))
    desk.open("web", desk.fake("gemini", "idle", "◇  Ready (gemini)"))
    desk.open("robot", desk.scripted({"permission": "make deploy"}))
    desk.open("strange", f"{desk.bin}/claude /etc/hostname")
    expected = {
        "api.0": ("claude", "permission"),
        "cli.0": ("codex", "busy"),
        "docs.0": ("opencode", "retry"),
        "robot.0": ("scripted", "permission"),
        "strange.0": ("claude", "unknown"),
        "web.0": ("gemini", "idle"),
    }
    wait_for(lambda: desk.states() == expected, what=lambda: str(desk.states()))
    seen = desk.seen()
    assert all(tuple(one) == FIELDS for one in seen.values())
    assert seen["robot.0"]["doing"] == "waits for your permission: Bash make deploy"
    assert seen["api.0"]["doing"].startswith("waits for your permission: Bash python3 -c")
    assert [name for name, one in seen.items() if one["needs_you"]] == list(seen)[:2] == ["api.0", "robot.0"]
    assert all(one["rss_bytes"] > 0 and one["age_s"] >= 0 and one["cpu_percent"] is not None for one in seen.values())


def test_a_client_below_a_shell_is_found_and_plain_panes_only_with_all(desk: Desk) -> None:
    desk.open("work", "bash --norc")
    desk.tmux("send-keys", "-t", "=work:", desk.fake("claude", "idle"), "Enter")
    desk.tmux("split-window", "-t", "=work:", "bash --norc")
    desk.tmux("new-window", "-t", "=work:", "exec sleep 1000")
    wait_for(lambda: desk.states() == {"work.0": ("claude", "idle")}, what=lambda: str(desk.states()))
    everything = json.loads(desk.watch("--json", "--all").stdout)
    assert [(one["client"], one["program"], one["state"]) for one in everything] == [
        ("claude", "claude", "idle"),
        ("shell", "bash", "shell"),
        ("other", "sleep", "running"),
    ]
    table = desk.watch("--once").stdout
    assert "work:0.0" in table
    assert "2 other panes: dogwatch watch --all" in table


def test_one_table_names_states_totals_and_what_dogwatch_could_do(desk: Desk) -> None:
    desk.open("broken", desk.fake("claude", "api-error-529-final"))
    desk.open("calm", desk.fake("claude", "idle"))
    wait_for(lambda: {state for _, state in desk.states().values()} == {"error", "idle"})
    answer = desk.watch()  # no terminal: as with --once
    lines = answer.stdout.splitlines()
    assert lines[0].split() == ["SESSION", "CLIENT", "STATE", "AGE", "MEM", "CPU", "DOING"]
    assert lines[1].startswith("! broken   claude  error")
    assert lines[1].endswith("provider error, it has given up")
    assert lines[2].startswith("  calm     claude  idle")
    assert lines[2].endswith("idle at its prompt")
    assert lines[4].startswith("2 agents: 1 needs you, 1 idle · memory ")
    assert lines[5] == "dogwatch only looks here. To have it look after agents: dogwatch run SPEC"
    assert (answer.returncode, answer.stderr) == (0, "")
    assert "\x1b" not in answer.stdout


def test_a_tool_and_its_cpu_are_told(desk: Desk) -> None:
    spinning = f"{sys.executable} -c while(True):pass"
    desk.open("work", desk.fake("claude", "busy-bash", "", spinning))
    wait_for(lambda: (desk.seen().get("work.0", {}).get("cpu_percent") or 0) > 5, what="a tool that takes cpu time")
    work = desk.seen()["work.0"]
    assert work["state"] == "busy"
    assert work["doing"].startswith("busy; runs `python")
    assert work["tool"] in work["doing"]
    assert work["tool_s"] > 0


def test_a_killed_client_is_seen_to_be_gone(desk: Desk) -> None:
    """A real shell stands over what the client has left; its process is not there."""
    left = SCREENS / "claude" / "exited-sigKILL.txt"
    desk.open("night", f"cat {left}; exec bash --norc")
    wait_for(lambda: desk.states() == {"night.0": ("claude", "exited")}, what=lambda: str(desk.states("--all")))
    assert desk.seen()["night.0"]["doing"] == "its process has exited, the shell is back"


def test_a_pane_that_was_kept_after_its_client_ended_is_told(desk: Desk) -> None:
    desk.open("other", "bash --norc")
    desk.tmux("set-option", "-g", "remain-on-exit", "on")
    desk.open("kept", desk.fake("codex", "idle"))
    wait_for(lambda: desk.states().get("kept.0") == ("codex", "idle"))
    os.kill(desk.seen()["kept.0"]["pid"], signal.SIGKILL)
    wait_for(lambda: desk.states().get("kept.0") == ("codex", "exited"), what=lambda: str(desk.states("--all")))


def test_a_pane_in_two_sessions_is_shown_once(desk: Desk) -> None:
    desk.open("one", desk.fake("claude", "idle"))
    desk.tmux("new-session", "-d", "-s", "two", "-t", "one")
    wait_for(lambda: desk.states() == {"one.0": ("claude", "idle")}, what=lambda: str(desk.states()))


def test_a_pane_that_goes_during_a_look_takes_no_other_screen_along(desk: Desk) -> None:
    desk.open("one", desk.fake("claude", "idle"))
    desk.open("two", desk.fake("codex", "idle"))
    one, two = desk.tmux("list-panes", "-a", "-F", "#{pane_id}").split()
    screens = onlooker.captures(desk.socket, ["%98", one, "%99", two], "~mark~")
    assert list(screens) == [one, two]
    assert {len(lines) for lines in screens.values()} >= {44}


def test_only_verbs_that_read_are_run(desk: Desk) -> None:
    """A `tmux` first on PATH writes down every call; two looks are two listings and two readings of all screens."""
    desk.open("api", desk.fake("claude", "idle"))
    desk.open("web", "bash --norc")
    wait_for(lambda: desk.states() == {"api.0": ("claude", "idle")})
    log = desk.base / "calls"
    wrapper = desk.base / "wrapper"
    wrapper.mkdir()
    (wrapper / "tmux").write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" >> {log}; echo END >> {log}\nexec {TMUX} "$@"\n')
    (wrapper / "tmux").chmod(0o755)
    path = f"{wrapper}:{os.environ['PATH']}"
    answer = desk.watch("--once", "--all", PATH=path)
    assert answer.stdout.count("\n") > 4
    calls = [call.splitlines() for call in log.read_text().split("END\n") if call]
    assert [_verbs(call, desk.socket) for call in calls] == [["list-panes"], READING * 2] * 2
    log.unlink()
    terminal = Terminal(desk, "--interval", "0.2", before=f"PATH={path}")
    wait_for(lambda: log.exists() and log.read_text().count("END\n") > 12, what=terminal.shows)
    terminal.press("C-c")
    wait_for(terminal.code.exists, what=terminal.shows)
    calls = [call.splitlines() for call in log.read_text().split("END\n") if call]
    assert {tuple(_verbs(call, desk.socket)) for call in calls} == {("list-panes",), (*READING, *READING)}


def test_a_server_is_byte_for_byte_the_same_afterwards(desk: Desk) -> None:
    typed = desk.base / "typed"
    desk.open("api", desk.fake("claude", "permission-prompt"))
    desk.open("keys", f"cat > {typed}")
    desk.open("shell", "bash --norc")
    desk.tmux("set-buffer", "something")
    wait_for(lambda: desk.states() == {"api.0": ("claude", "permission")})
    wait_for(lambda: "$" in (prompt := desk.tmux("capture-pane", "-p", "-t", "=shell:")) or "#" in prompt)

    def everything() -> list[str]:
        panes = desk.tmux("list-panes", "-a", "-F", "#{pane_id}").split()
        facts = (
            *("session_id", "session_created", "session_activity", "session_attached", "window_id", "window_layout"),
            *("window_activity", "window_flags", "pane_id", "pane_pid", "pane_title", "pane_dead", "pane_in_mode"),
            *("pane_width", "pane_height", "history_size", "history_bytes", "cursor_x", "cursor_y", "pane_pipe"),
        )
        return [
            desk.tmux("list-panes", "-a", "-F", " ".join(f"#{{{fact}}}" for fact in facts)),
            desk.tmux("list-clients"),
            desk.tmux("show-options", "-g"),
            desk.tmux("show-hooks", "-g"),
            desk.tmux("show-environment", "-g"),
            desk.tmux("list-buffers", "-F", "#{buffer_name} #{buffer_created} #{buffer_sample}"),
            *(desk.tmux("capture-pane", "-p", "-e", "-J", "-S", "-", "-t", pane) for pane in panes),
        ]

    before = everything()
    for words in (("--once",), ("--json", "--all"), ("--all",)):
        assert desk.watch(*words).returncode == 0
    assert everything() == before
    assert typed.read_bytes() == b""
    assert list(desk.home.iterdir()) == []
    assert not list(desk.project.iterdir())


def test_it_loads_no_code_that_could_change_anything() -> None:
    program = (
        "import sys; from dogwatch.cli import main; main(['watch', '--once', '--socket', '/nowhere']);"
        "print([name for name in sys.modules if name.startswith(('dogwatch.actions', 'dogwatch.ledger',"
        " 'dogwatch.crew', 'dogwatch.coordination'))])"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["no tmux server runs at /nowhere", "[]"]


def test_without_a_server_it_says_so_and_starts_none(desk: Desk) -> None:
    answer = desk.watch()
    assert answer.returncode == 0
    assert answer.stdout == f"no tmux server runs at {desk.socket}\n"
    assert answer.stderr.startswith("hint: tmux new -s work claude")
    assert desk.watch("--json").stdout == "[]\n"
    assert list(desk.sockets.iterdir()) == []
    assert list(desk.home.iterdir()) == []


def test_without_agents_it_says_what_to_do_next(desk: Desk) -> None:
    desk.open("shell", "bash --norc")
    answer = desk.watch()
    assert answer.returncode == 0
    assert answer.stdout == f"no agent in the 1 pane of the tmux server at {desk.socket}\n"
    assert "dogwatch watch --all" in answer.stderr


def test_without_tmux_it_says_how_to_get_it(desk: Desk) -> None:
    answer = desk.watch(PATH=str(desk.home))
    assert answer.returncode == 69
    assert answer.stderr == "error: tmux is not installed\nhint: apt-get install tmux\n"


def test_another_server_is_named_by_path_by_name_or_by_the_environment(desk: Desk) -> None:
    other = str(desk.sockets / "other")
    desk.open("here", desk.fake("claude", "idle"))
    desk.open("there", desk.fake("codex", "idle"), socket=other)
    there = {"there.0": ("codex", "idle")}
    wait_for(lambda: desk.states("--socket", other) == there, what=lambda: str(desk.states("--socket", other)))
    assert desk.states("--socket-name", "other") == there
    inside = json.loads(desk.watch("--json", TMUX=f"{other},123,0").stdout)
    assert [one["session"] for one in inside] == ["there"]
    wait_for(lambda: list(desk.states()) == ["here.0"], what=lambda: str(desk.states()))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--interval", "0"], "from 0.2 to 3600 seconds, not 0"),
        (["--interval", "soon"], "'soon' is no number of seconds"),
        (["--socket", "a", "--socket-name", "b"], "not allowed with argument"),
    ],
)
def test_a_wrong_flag_is_explained(desk: Desk, words: list[str], message: str) -> None:
    answer = desk.watch(*words)
    assert answer.returncode == 64
    assert message in answer.stderr
    assert "hint: dogwatch watch --help" in answer.stderr


class Terminal:
    """A terminal with a live `dogwatch watch` in it: a pane of another tmux server."""

    def __init__(self, desk: Desk, *words: str, columns: int = 80, before: str = "") -> None:
        self._desk = desk
        self._socket = str(desk.sockets / "terminal")
        self.code = desk.base / "code"
        command = shlex.join([sys.executable, "-m", "dogwatch", "watch", "--socket", desk.socket, *words])
        line = f"unset TMUX; {before} {command}; echo $? > {self.code}; exec sleep 1000"
        desk.open("screen", line, columns=columns, lines=24, socket=self._socket)

    def shows(self, *flags: str) -> str:
        return self._desk.tmux("capture-pane", "-p", *flags, "-t", "=screen:", socket=self._socket)

    def press(self, key: str) -> None:
        self._desk.tmux("send-keys", "-t", "=screen:", key, socket=self._socket)

    def resize(self, columns: int) -> None:
        self._desk.tmux("resize-window", "-t", "=screen:", "-x", str(columns), socket=self._socket)


def test_the_live_table_follows_what_happens_and_ctrl_c_leaves_it(desk: Desk) -> None:
    desk.open("night", "bash --norc")
    desk.tmux("send-keys", "-t", "=night:", desk.fake("claude", "busy-bash"), "Enter")
    desk.open("a-session-with-a-very-long-name", desk.fake("claude", "permission-prompt"))
    wait_for(lambda: {state for _, state in desk.states().values()} == {"busy", "permission"})
    terminal = Terminal(desk, "--interval", "0.2")
    # The totals are its last line: with them, all of the table is there.
    wait_for(lambda: "1 needs you, 1 busy" in terminal.shows(), what=terminal.shows)
    first = terminal.shows().splitlines()
    assert "night " in terminal.shows()
    assert first[0].startswith("dogwatch watch  ")
    assert any(line.startswith("! a-session-wit…  claude") for line in first)
    assert any("└ waits for your permission: Bash python3" in line for line in first)
    assert "1 needs you, 1 busy" in terminal.shows()
    os.kill(desk.seen()["night.0"]["pid"], signal.SIGKILL)
    wait_for(lambda: "its process has exited, the shell is back" in terminal.shows(), what=terminal.shows)
    terminal.resize(120)
    wait_for(lambda: "a-session-with-a-very-l…" in terminal.shows(), what=terminal.shows)
    terminal.press("C-c")
    wait_for(lambda: terminal.code.exists() and terminal.code.read_text() == "0\n", what=terminal.shows)
    left = terminal.shows()
    assert "dogwatch only looks here." in left
    assert "Ctrl-C leaves" not in left
    assert "Traceback" not in left


def test_a_server_that_ends_under_the_live_table_is_told(desk: Desk) -> None:
    desk.open("api", desk.fake("claude", "idle"))
    wait_for(lambda: desk.states() == {"api.0": ("claude", "idle")})
    terminal = Terminal(desk, "--interval", "0.2")
    wait_for(lambda: "idle at its prompt" in terminal.shows(), what=terminal.shows)
    desk.tmux("kill-server")
    wait_for(lambda: "no tmux server runs at" in terminal.shows(), what=terminal.shows)
    terminal.press("C-c")
    wait_for(lambda: terminal.code.exists() and terminal.code.read_text() == "0\n", what=terminal.shows)


@pytest.mark.parametrize(("before", "coloured"), [("", True), ("NO_COLOR=1", False)])
def test_there_are_colours_on_a_terminal_unless_they_are_not_wanted(desk: Desk, before: str, coloured: bool) -> None:
    desk.open("api", desk.fake("claude", "permission-prompt"))
    wait_for(lambda: desk.states() == {"api.0": ("claude", "permission")})
    terminal = Terminal(desk, "--once", before=before)
    wait_for(lambda: terminal.code.exists() and terminal.code.read_text() == "0\n", what=terminal.shows)
    wait_for(lambda: "To have it look after agents" in terminal.shows(), what=terminal.shows)
    assert "permission" in terminal.shows()
    assert ("\x1b[33m" in terminal.shows("-e")) is coloured
