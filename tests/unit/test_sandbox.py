"""The namespace around an agent: foreign processes and tmux servers do not exist in it, all else is as outside."""

from __future__ import annotations

import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from dogwatch.actions import sandbox
from support.helpers import wait_for
from support.hooking import AGENT, RUN, Done, HookedAgent, call, command_line, hooked_agent

MARK = "SANDBOX_TEST_MARK"


@pytest.fixture
def agent(monkeypatch: pytest.MonkeyPatch) -> Iterator[HookedAgent]:
    obstacle = sandbox.obstacle()
    if obstacle:
        pytest.fail(f"no sandbox can be made: {obstacle}; hint: apt-get install bubblewrap, or scripts/setup dev")
    with hooked_agent() as made:
        folder = made.project.parent / "sockets"
        folder.mkdir()
        monkeypatch.setenv("TMUX_TMPDIR", str(folder))
        yield made


def inside(agent: HookedAgent, *command: str) -> list[str]:
    return list(sandbox.wrapped(agent.home, RUN, AGENT, command))


def run(agent: HookedAgent, text: str) -> Done:
    """Runs the text with bash in the sandbox."""
    return subprocess.run(
        inside(agent, "bash", "-c", text),
        env=agent.environment,
        cwd=agent.project,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=120,
        check=False,
    )


def marked(mark: str) -> list[int]:
    """The processes that carry the mark, as they are seen from outside."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if mark.encode() in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
                found.append(int(pid))
        except OSError:
            continue
    return found


def test_foreign_processes_do_not_exist(agent: HookedAgent) -> None:
    mark = f"{MARK}={agent.project}"
    with subprocess.Popen(["sleep", "600"], env={MARK: str(agent.project), "PATH": os.environ["PATH"]}) as foreign:
        try:
            wait_for(lambda: marked(mark) == [foreign.pid], what="the foreign process")
            assert run(agent, f"grep -laz -- {mark} /proc/[0-9]*/environ").stdout == b""
            names = run(agent, "cd /proc && echo [0-9]*").stdout.split()
            assert 2 <= len(names) <= 4
        finally:
            foreign.kill()


def test_the_home_is_read_only_but_for_spool_and_post_box(agent: HookedAgent) -> None:
    home = agent.home
    agent.register()
    for path in (f"{home.path}/x", f"{home.bin}/tmux", home.registry(RUN), f"{home.run(RUN)}/spool/other.spool"):
        done = run(agent, f"echo x >> {path}")
        assert b"Read-only file system" in done.stderr, path
    assert b"Read-only file system" in run(agent, f"rm {home.registry(RUN)}").stderr
    assert run(agent, f"mv {home.path} {home.path}2; rm -rf {home.path}").returncode != 0
    assert run(agent, f"echo line >> {home.spool(RUN, AGENT)}").returncode == 0
    assert Path(home.spool(RUN, AGENT)).read_text(encoding="utf-8") == "line\n"
    assert run(agent, f"touch {home.post(RUN, AGENT)}/m && rm {home.post(RUN, AGENT)}/m").returncode == 0
    assert Path(home.registry(RUN)).exists()


def test_what_is_registered_and_posted_later_is_seen_inside(agent: HookedAgent) -> None:
    home = agent.home
    code = f"read x; cat {home.registry(RUN)} {home.post(RUN, AGENT)}/m"
    with subprocess.Popen(inside(agent, "sh", "-c", code), stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        agent.register()
        Path(home.post(RUN, AGENT), "m").write_text("hello", encoding="utf-8")
        output, _ = process.communicate(b"\n", timeout=120)
    assert output == agent.registry().read_bytes() + b"hello"


def test_tmux_servers_are_hidden_also_those_that_are_started_later(agent: HookedAgent) -> None:
    early = agent.home.tmux(RUN)
    late = f"{os.environ['TMUX_TMPDIR']}/tmux-{os.getuid()}/late"
    tmux = ["tmux", "-f", "/dev/null"]
    started = []
    try:
        subprocess.run([*tmux, "-S", early, "new-session", "-d", "sleep 600"], check=True)
        started.append(early)
        code = f"read x; tmux -S {early} ls; echo $?; tmux -S {late} ls; echo $?; tmux -L late kill-server; echo $?"
        line = inside(agent, "sh", "-c", code)
        with subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            subprocess.run([*tmux, "-S", late, "new-session", "-d", "sleep 600"], check=True)
            started.append(late)
            output, _ = process.communicate(b"\n", timeout=120)
        assert output == b"1\n1\n1\n"
        for path in started:
            assert subprocess.run(["tmux", "-S", path, "ls"], capture_output=True, check=False).returncode == 0
    finally:
        for path in started:
            subprocess.run(["tmux", "-S", path, "kill-server"], check=False)


def test_network_and_home_and_project_are_as_outside(agent: HookedAgent) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]

        def greet() -> None:
            with server.accept()[0] as connection:
                connection.sendall(b"hello\n")

        thread = threading.Thread(target=greet)
        thread.start()
        done = run(agent, f"read -r word </dev/tcp/127.0.0.1/{port}; echo $word | tee $HOME/got project-file")
        socket.create_connection(("127.0.0.1", port)).close()
        thread.join(60)
    assert done.stdout == b"hello\n"
    assert (agent.project.parent / "got").read_bytes() == b"hello\n"
    assert (agent.project / "project-file").read_bytes() == b"hello\n"


def test_the_door_can_be_reached(agent: HookedAgent) -> None:
    path = agent.home.door(RUN)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path)
        server.listen()
        code = f"import socket; socket.socket(socket.AF_UNIX).connect({path!r})"
        done = run(agent, shlex.join([sys.executable, "-I", "-S", "-c", code]))
    assert (done.returncode, done.stderr) == (0, b"")


def test_the_kernels_files_are_read_only(agent: HookedAgent) -> None:
    mounts = run(agent, "cat /proc/self/mounts").stdout.decode()
    latest = dict(re.findall(r"^\S+ (/sys(?:/\S*)?) \S+ (\S+)", mounts, re.MULTILINE))
    assert "/sys" in latest
    assert {path: options for path, options in latest.items() if "ro" not in options.split(",")} == {}


@pytest.mark.parametrize("code", [0, 1, 7, 255])
def test_the_exit_code_comes_through(agent: HookedAgent, code: int) -> None:
    assert run(agent, f"exit {code}").returncode == code


def test_whoever_kills_the_outermost_process_ends_all(agent: HookedAgent) -> None:
    mark = f"{MARK}={agent.project}"
    code = "sleep 600 & setsid sleep 600 & (setsid sleep 600 &) ; trap '' TERM HUP; echo ready; wait"
    environment = agent.environment | {MARK: str(agent.project)}
    with subprocess.Popen(inside(agent, "sh", "-c", code), stdout=subprocess.PIPE, env=environment) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == b"ready\n"
            wait_for(lambda: len(marked(mark)) >= 5, what="three sleepers in a shell in bubblewrap")
        finally:
            process.send_signal(signal.SIGKILL)
    wait_for(lambda: not marked(mark), what="the end of all of them")


def test_the_hook_judges_inside_and_is_heard_outside(agent: HookedAgent) -> None:
    agent.register()

    def hook(command: str) -> Done:
        payload = call("Bash", {"command": command}, agent.project)
        line = inside(agent, *command_line("PreToolUse"))
        return subprocess.run(line, input=payload, env=agent.environment, capture_output=True, check=False)

    assert hook("tmux kill-server").returncode == 2
    assert agent.lines("Denied")[0].payload()["rule"] == "tmux.kill-server"
    assert hook("pkill -f vite").returncode == 0
    assert hook(f"rm -rf {agent.home.path}").returncode == 2
    assert len(agent.lines("PreToolUse")) == 3


def test_a_client_without_a_tmux_folder_gets_one_to_hide(agent: HookedAgent, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMUX_TMPDIR", str(agent.project / "none" / "yet"))
    assert run(agent, "exit 3").returncode == 3
