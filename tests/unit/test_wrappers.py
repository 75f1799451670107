"""The programs before `tmux`, `kill`, `pkill` and `killall` on an agent's PATH: they catch what scripts do."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from dogwatch.actions.spawn import write_programs
from dogwatch.guard.wrapper import NAMES
from dogwatch.world.home import Home
from support.hooking import Done, HookedAgent, hooked_agent, is_denied_with_words, sleeper


@pytest.fixture
def agent() -> Iterator[HookedAgent]:
    with hooked_agent() as made:
        made.register()
        write_programs(made.home)
        yield made


@pytest.fixture
def server(agent: HookedAgent) -> Iterator[str]:
    """The socket of a tmux server with one session."""
    socket = str(agent.project.parent / "socket")
    tmux = [shutil.which("tmux") or "tmux", "-S", socket]
    subprocess.run([*tmux, "-f", "/dev/null", "new-session", "-d", "-s", "other", "sleep 600"], check=True)
    try:
        yield socket
    finally:
        subprocess.run([*tmux, "kill-server"], check=False, capture_output=True)


def script(agent: HookedAgent, text: str, **changed: str) -> Done:
    """Runs the text as a script that no hook has seen."""
    path = agent.project / "script.sh"
    path.write_text(text, encoding="utf-8")
    environment = agent.environment | {"PATH": f"{agent.home.bin}:{agent.environment['PATH']}"} | changed
    environment = {name: value for name, value in environment.items() if value}
    return subprocess.run(
        ["sh", str(path)], env=environment, cwd=agent.project, capture_output=True, timeout=120, check=False
    )


def lives(socket: str) -> bool:
    return subprocess.run(["tmux", "-S", socket, "ls"], capture_output=True, check=False).returncode == 0


@pytest.mark.parametrize(
    "call", ["kill-server", "kill-session", "kill-session -t other", "send-keys -t other exit Enter"]
)
def test_a_script_ends_no_tmux_server_and_no_session(agent: HookedAgent, server: str, call: str) -> None:
    done = script(agent, f"tmux -S {server} {call}\n")
    assert is_denied_with_words(done)
    assert lives(server)


def test_looking_passes_with_all_arguments_and_output(agent: HookedAgent, server: str) -> None:
    assert script(agent, "tmux -V").stdout.startswith(b"tmux ")
    done = script(agent, f"tmux -S {server} list-sessions -F 'a  b#{{session_name}}\"$x'")
    assert (done.returncode, done.stdout, done.stderr) == (0, b'a  bother"$x\n', b"")
    done = script(agent, f"tmux -S {server} has-session -t nobody; echo $?")
    assert done.stdout == b"1\n"


def test_only_own_processes_are_killed(agent: HookedAgent) -> None:
    with sleeper({"PATH": os.environ["PATH"]}) as foreign, sleeper(agent.environment) as own:
        for command in ("kill", "kill -9", "kill -s KILL --"):
            assert is_denied_with_words(script(agent, f"env {command} {foreign}"))
        assert is_denied_with_words(script(agent, f"env kill {own} {foreign}"))
        assert is_denied_with_words(script(agent, f"env kill {os.getpid()}"))
        assert is_denied_with_words(script(agent, "pkill -f sleep"))
        assert is_denied_with_words(script(agent, "killall sleep"))
        os.kill(own, 0)
        os.kill(foreign, 0)
        done = script(agent, f"env kill -9 {own}")
        assert (done.returncode, done.stderr) == (0, b"")
        ended = os.waitid(os.P_PID, own, os.WEXITED | os.WNOWAIT)
        assert ended is not None
        assert ended.si_status == signal.SIGKILL
        os.kill(foreign, 0)


def test_without_a_home_it_denies_and_comes_to_an_end(agent: HookedAgent) -> None:
    for name in ("DOGWATCH_HOME", "DOGWATCH_RUN", "DOGWATCH_ROLE", "DOGWATCH_INCARNATION"):
        assert is_denied_with_words(script(agent, "tmux kill-server", **{name: ""})), name


def test_a_folder_that_is_gone_denies_with_words(agent: HookedAgent) -> None:
    done = script(agent, "mkdir gone; cd gone; rmdir ../gone; exec tmux ls")
    assert done.returncode == 2
    assert b"dogwatch: the guard has failed: FileNotFoundError" in done.stderr
    assert b"\nhint: " in done.stderr
    assert b"Traceback" not in done.stderr


def test_wrappers_of_two_homes_on_one_path_come_to_an_end(agent: HookedAgent, tmp_path: Path) -> None:
    """An agent may try out a dogwatch of its own."""
    inner = Home(str(tmp_path))
    write_programs(inner)
    outer = agent.home.bin
    os.symlink(outer, tmp_path / "link")
    for folders in (f"{inner.bin}:{outer}", f"{outer}:{inner.bin}:{outer}", f"{outer}/:{tmp_path}/link", f":{outer}:"):
        path = f"{folders}:{agent.environment['PATH']}"
        assert script(agent, "tmux -V", PATH=path).stdout.startswith(b"tmux "), folders
        assert is_denied_with_words(script(agent, "tmux kill-server", PATH=path)), folders


def test_a_program_that_is_not_installed_is_not_found(agent: HookedAgent) -> None:
    path = agent.project / "path"
    path.mkdir()
    done = script(agent, f"PATH={agent.home.bin}:{path} {agent.home.bin}/killall -l")
    assert (done.returncode, done.stderr) == (127, b"killall: command not found\n")


def test_every_program_that_ends_others_has_its_wrapper(agent: HookedAgent) -> None:
    assert {"tmux", "kill", "pkill", "killall"} == set(NAMES)
    assert {*NAMES, "dogwatch"} == set(os.listdir(agent.home.bin))
