"""Processes on the real kernel: who one is, when it is dead, and that nobody else is ever signalled for it."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from dogwatch.actions.kill import end, end_marked, exact, send_signal
from dogwatch.errors import RefusedError
from dogwatch.model.process import ProcessId
from dogwatch.world.home import Home
from dogwatch.world.processes import boot_id, environment, identify, life, marked, open_pidfd
from support.helpers import wait_for

BOOT = boot_id()
SLEEP = ["sleep", "300"]

Start = Callable[[dict[str, str]], ProcessId]


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(SLEEP)
    yield process
    process.kill()
    process.wait()


def known(process: subprocess.Popen[bytes]) -> ProcessId:
    found = identify(process.pid, BOOT)
    assert found is not None
    return found


def test_a_process_is_known_by_boot_pid_and_start(child: subprocess.Popen[bytes]) -> None:
    found = known(child)
    assert (found.boot, found.pid) == (BOOT, child.pid)
    assert found.start_ticks > 0
    assert life(found, BOOT) == "alive"
    assert identify(child.pid, BOOT) == found


def test_a_zombie_is_dead(child: subprocess.Popen[bytes]) -> None:
    found = known(child)
    child.kill()
    wait_for(lambda: b") Z " in Path(f"/proc/{child.pid}/stat").read_bytes(), 30, "the zombie")
    assert life(found, BOOT) == "dead"
    assert identify(child.pid, BOOT) is None
    assert not send_signal(found, signal.SIGKILL, BOOT)


def test_a_process_that_is_gone_is_dead(child: subprocess.Popen[bytes]) -> None:
    found = known(child)
    child.kill()
    child.wait()
    assert life(found, BOOT) == "dead"
    assert identify(child.pid, BOOT) is None
    assert open_pidfd(found, BOOT) is None
    assert not send_signal(found, signal.SIGTERM, BOOT)


def test_a_reused_pid_is_dead_and_never_signalled(child: subprocess.Popen[bytes]) -> None:
    stranger = replace(known(child), start_ticks=known(child).start_ticks - 1)
    assert life(stranger, BOOT) == "dead"
    assert not send_signal(stranger, signal.SIGKILL, BOOT)
    end([stranger], BOOT, grace_s=0)
    assert child.poll() is None


def test_a_process_of_an_earlier_boot_is_dead_and_never_signalled(child: subprocess.Popen[bytes]) -> None:
    earlier = replace(known(child), boot="00000000-0000-0000-0000-000000000000")
    assert life(earlier, BOOT) == "dead"
    assert not send_signal(earlier, signal.SIGKILL, BOOT)
    assert child.poll() is None


def test_a_name_with_blanks_and_brackets_is_read_past() -> None:
    code = "import ctypes; ctypes.CDLL(None).prctl(15, b'a) Z 1 (b', 0, 0, 0); print('named', flush=True); input()"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        found = known(process)
        assert life(found, BOOT) == "alive"
        process.kill()


def test_a_pidfd_becomes_readable_with_the_death(child: subprocess.Popen[bytes]) -> None:
    fd = open_pidfd(known(child), BOOT)
    assert fd is not None
    try:
        assert not select.select([fd], [], [], 0)[0]
        child.kill()
        assert select.select([fd], [], [], 30)[0]
    finally:
        os.close(fd)


def test_end_kills_what_does_not_listen() -> None:
    code = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf', flush=True); signal.pause()"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        end([known(process)], BOOT, grace_s=0.1)
        assert process.wait(30) == -signal.SIGKILL


def marks(home: str, run: str, agent: str, incarnation: str) -> dict[str, str]:
    return {
        **os.environ,
        "DOGWATCH_HOME": home,
        "DOGWATCH_RUN": run,
        "DOGWATCH_ROLE": agent,
        "DOGWATCH_INCARNATION": incarnation,
    }


@pytest.fixture
def start() -> Iterator[Start]:
    started: list[subprocess.Popen[bytes]] = []

    def begin(environment: dict[str, str]) -> ProcessId:
        started.append(subprocess.Popen(SLEEP, env=environment))
        pid = started[-1].pid
        wait_for(lambda: b"sleep" in Path(f"/proc/{pid}/cmdline").read_bytes(), 30, "exec")
        return known(started[-1])

    yield begin
    for process in started:
        process.kill()
        process.wait()


def test_marked_finds_exactly_the_run_and_agent(tmp_path: Path, start: Start) -> None:
    home = str(tmp_path)
    mine, sibling = start(marks(home, "t-1", "a", "1")), start(marks(home, "t-1", "b", "2"))
    for stranger in (("t-11", "a"), ("t", "a")):
        start(marks(home, stranger[0], stranger[1], "1"))
    start(marks(home + "x", "t-1", "a", "1"))
    assert sorted(marked(BOOT, home, "t-1"), key=str) == sorted([(mine, 1), (sibling, 2)], key=str)
    assert list(marked(BOOT, home, "t-1", "a")) == [(mine, 1)]
    assert environment(mine.pid)["DOGWATCH_ROLE"] == "a"


def test_only_earlier_incarnations_are_ended(tmp_path: Path, start: Start) -> None:
    home = str(tmp_path)
    old, new = start(marks(home, "t-1", "a", "1")), start(marks(home, "t-1", "a", "2"))
    other = start(marks(home, "t-1", "ab", "1"))
    assert end_marked(Home(home), BOOT, "t-1", "a", before=2, grace_s=0.2) == 1
    assert [life(process, BOOT) for process in (old, new, other)] == ["dead", "alive", "alive"]


@pytest.mark.parametrize("number", ["", "x", "1.5", "-1", "²"])
def test_a_mark_whose_number_was_changed_by_a_tool_is_found_all_the_same(
    tmp_path: Path, start: Start, number: str
) -> None:
    """Whatever an agent starts may set the variable to anything; the run must still be cleared."""
    home = str(tmp_path)
    process = start(marks(home, "t-1", "a", number))
    assert [found for found, _ in marked(BOOT, home, "t-1")] == [process]
    assert end_marked(Home(home), BOOT, "t-1", grace_s=0.2) == 1


@pytest.mark.parametrize("name", ["", " ", "a:b", "=a", "a.b", "-a", "a b", "A", "a\n", "a*"])
def test_a_session_name_that_is_not_exact_is_refused(name: str) -> None:
    with pytest.raises(RefusedError):
        exact(name)


def test_an_exact_session_name_is_no_prefix() -> None:
    assert exact("t-1-writer") == "=t-1-writer:"


def test_the_environment_of_what_is_not_there_is_empty() -> None:
    assert environment(2**22 + 1) == {}
