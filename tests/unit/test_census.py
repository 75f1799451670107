"""One pass over the real /proc: whose child a process is, what a tree uses, and who is not in it any more."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dogwatch.model.process import ProcessId
from dogwatch.world.census import COMMAND_LINE_MAX, Tree, census, parse
from dogwatch.world.probe import ProbeFailedError
from dogwatch.world.processes import boot_id, identify
from support.helpers import wait_for

BOOT = boot_id()
TICK_S = 1 / os.sysconf("SC_CLK_TCK")
BURN = "import time\nend = time.process_time() + 0.3\nwhile time.process_time() < end: pass\n"

Start = Callable[..., subprocess.Popen[bytes]]


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts a program in a group of its own and waits for the line that says it is ready."""
    started: list[subprocess.Popen[bytes]] = []

    def begin(*argv: str, ready: bool = True) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)
        started.append(process)
        assert process.stdout is not None
        assert not ready or process.stdout.readline() == b"ready\n"
        return process

    yield begin
    for process in started:
        # The group may live on when its first process is dead.
        os.killpg(process.pid, 9)
        with process:
            process.wait()


def known(pid: int) -> ProcessId:
    found = identify(pid, BOOT)
    assert found is not None
    return found


def tree_of(pid: int) -> Tree:
    found = census(BOOT).tree(known(pid))
    assert found is not None
    return found


def names(tree: Tree) -> list[str]:
    return [member.name for member in tree.children]


def python(start: Start, code: str, *, ready: bool = True) -> subprocess.Popen[bytes]:
    return start(sys.executable, "-c", code, ready=ready)


def test_a_tree_holds_children_and_grandchildren_oldest_first(start: Start) -> None:
    inner = "sleep 301 & tail -f /dev/null & sleep 0.1; echo ready; wait"
    root = start("bash", "-c", f"sleep 300 & sleep 0.1; bash -c '{inner}' & wait")
    wait_for(lambda: sorted(names(tree_of(root.pid))) == ["bash", "sleep", "sleep", "tail"], 30, "the whole tree")
    tree = tree_of(root.pid)
    assert tree.root.name == "bash"
    assert tree.root.process == known(root.pid)
    assert names(tree)[:2] == ["sleep", "bash"]
    assert sorted(names(tree)[2:]) == ["sleep", "tail"]
    assert tree.count == 5
    assert [member.age_s for member in tree.children] == sorted((m.age_s for m in tree.children), reverse=True)
    assert {member.state for member in tree.children} <= set("RSD")
    assert all(identify(member.process.pid, BOOT) == member.process for member in tree.children)
    assert tree.rss_bytes == tree.root.rss_bytes + sum(member.rss_bytes for member in tree.children)
    # Seen from inside, a tree is smaller.
    below = tree_of(tree.children[1].process.pid)
    assert sorted(names(below)) == ["sleep", "tail"]


def test_a_process_alone_is_a_tree_of_one(start: Start) -> None:
    process = start("cat", ready=False)
    tree = tree_of(process.pid)
    assert (tree.children, tree.count, tree.rss_bytes) == ((), 1, tree.root.rss_bytes)


def test_an_age_is_the_time_since_the_start(start: Start) -> None:
    before = time.clock_gettime(time.CLOCK_BOOTTIME)
    process = start("cat", ready=False)
    after = time.clock_gettime(time.CLOCK_BOOTTIME)
    wait_for(lambda: tree_of(process.pid).root.age_s >= 0.2, 30, "age")
    looked = time.clock_gettime(time.CLOCK_BOOTTIME)
    age_s = tree_of(process.pid).root.age_s
    assert age_s >= looked - after - 2 * TICK_S
    assert age_s <= time.clock_gettime(time.CLOCK_BOOTTIME) - before + 2 * TICK_S


def test_memory_is_what_the_process_holds(start: Start) -> None:
    small = python(start, "print('ready', flush=True); input()")
    large = python(start, "held = bytearray(b'x') * 64_000_000; print('ready', flush=True); input()")
    grown = tree_of(large.pid).rss_bytes - tree_of(small.pid).rss_bytes
    assert 60_000_000 < grown < 80_000_000


def test_a_zombie_is_not_in_the_tree(start: Start) -> None:
    code = (
        "import os\nchild = os.fork()\nif not child: os._exit(0)\n"
        "os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)\n"
        "print('ready', flush=True)\ninput()\n"
    )
    root = python(start, code)
    child = int(Path(f"/proc/{root.pid}/task/{root.pid}/children").read_bytes())
    entry = parse(Path(f"/proc/{child}/stat").read_bytes())
    assert (entry.state, entry.parent) == ("Z", root.pid)
    assert tree_of(root.pid).children == ()
    assert census(BOOT).tree(ProcessId(BOOT, child, entry.start_ticks)) is None


def test_who_is_not_there_has_no_tree(start: Start) -> None:
    process = start("cat", ready=False)
    found = known(process.pid)
    looked = census(BOOT)
    assert looked.tree(found) is not None
    assert looked.tree(replace(found, start_ticks=found.start_ticks - 1)) is None
    assert looked.tree(replace(found, boot="00000000-0000-0000-0000-000000000000")) is None
    process.kill()
    wait_for(lambda: identify(process.pid, BOOT) is None, 30, "death")
    assert census(BOOT).tree(found) is None
    assert looked.tree(found) is not None


def test_a_child_that_was_left_behind_is_in_no_tree_of_ours(start: Start) -> None:
    """Its parent has ended, so that it is some other process's child now."""
    root = start("bash", "-c", "(sleep 300 & echo $!); read line", ready=False)
    assert root.stdout is not None
    left = known(int(root.stdout.readline()))
    wait_for(lambda: tree_of(root.pid).count == 1, 30, "the end of its parent")
    assert identify(left.pid, BOOT) == left


def test_cpu_time_grows_while_a_child_burns_and_does_not_fall_when_it_ends(start: Start) -> None:
    code = (
        "import subprocess, sys\nprint('ready', flush=True)\n"
        f"subprocess.run([sys.executable, '-c', {BURN!r}], check=True)\nprint('done', flush=True)\ninput()\n"
    )
    root = python(start, code)
    before = tree_of(root.pid)
    highest = before.cpu_s
    while tree_of(root.pid).children or highest < before.cpu_s + 0.3:
        # A child that is waited for between the two reads of one look is missing in that look, but not in the next.
        seen = max(tree_of(root.pid).cpu_s for _ in range(2))
        assert seen >= highest
        highest = seen
    assert root.stdout is not None
    assert root.stdout.readline() == b"done\n"
    after = tree_of(root.pid)
    assert after.children == ()
    assert after.cpu_s >= max(highest, before.cpu_s + 0.3)
    assert after.cpu_s == after.root.cpu_s


def test_a_sleeper_uses_no_time(start: Start) -> None:
    burner, sleeper = python(start, f"print('ready', flush=True)\nwhile True:\n  {BURN!r}"), start("cat", ready=False)
    began, slept = tree_of(burner.pid).cpu_s, tree_of(sleeper.pid).cpu_s
    wait_for(lambda: tree_of(burner.pid).cpu_s > began + 0.2, 60, "the burner")
    assert tree_of(sleeper.pid).cpu_s - slept <= TICK_S


@pytest.mark.parametrize("name", ["a) b", "a) Z 1 2 3", "((", ") R 1", "x\ny", "\x1b[2J", "日本"])
def test_a_hostile_name_is_read_past_and_shown_harmless(start: Start, name: str) -> None:
    code = (
        f"import ctypes; ctypes.CDLL(None).prctl(15, {name.encode()!r}, 0, 0, 0); print('ready', flush=True); input()"
    )
    root = python(start, code)
    member = tree_of(root.pid).root
    assert member.name == "".join(letter if letter.isprintable() else "?" for letter in name)
    assert member.state in "RS"
    assert member.process == known(root.pid)


def test_a_program_whose_file_has_a_hostile_name_is_a_child_like_any_other(start: Start, tmp_path: Path) -> None:
    program = tmp_path / "a) b"
    shutil.copy(shutil.which("sleep") or "", program)
    root = start("bash", "-c", f"'{program}' 300 & echo ready; wait")
    wait_for(lambda: names(tree_of(root.pid)) == ["a) b"], 30, "exec")
    assert census(BOOT).cmdline(tree_of(root.pid).children[0].process.pid) == f"{program} 300"


def test_a_command_line_is_one_short_harmless_line(start: Start) -> None:
    code = "print('ready', flush=True); input() #\x1b[2J\n" + "x" * 5000
    root = python(start, code, ready=False)
    wait_for(lambda: "ready" in census(BOOT).cmdline(root.pid), 30, "exec")
    line = census(BOOT).cmdline(root.pid)
    assert line.startswith(f"{sys.executable} -c print(")
    assert line.isprintable()
    assert len(line) == COMMAND_LINE_MAX
    assert line.endswith("…")
    assert census(BOOT).cmdline(2**22 + 1) == ""


def test_processes_that_come_and_go_in_the_middle_do_no_harm(start: Start) -> None:
    root = start("cat", ready=False)
    over = threading.Event()

    def churn() -> None:
        while not over.is_set():
            subprocess.run(["true"], check=True)

    threads = [threading.Thread(target=churn) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        assert all(tree_of(root.pid).count == 1 for _ in range(100))
    finally:
        over.set()
        for thread in threads:
            thread.join()


def stat(pid: int, parent: int, start_ticks: int, state: str = "S") -> bytes:
    fields = [state, parent, *[0] * 9, 5, 4, 3, 2, 20, 0, 1, 0, start_ticks, 9999, 7, *[0] * 28]
    return f"{pid} (p {pid}) {' '.join(map(str, fields))}\n".encode()


def write(proc: Path, pid: int, parent: int, start_ticks: int, state: str = "S") -> ProcessId:
    folder = proc / str(pid)
    folder.mkdir()
    (folder / "stat").write_bytes(stat(pid, parent, start_ticks, state))
    return ProcessId(BOOT, pid, start_ticks)


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    """A /proc of our own that holds this process, as a real one would, under a parent that is not shown."""
    write(tmp_path, os.getpid(), 0, 1)
    (tmp_path / "self").mkdir()
    return tmp_path


def fake(number: int) -> int:
    """A pid that this process cannot have."""
    return 2**22 + number


def test_thousands_in_one_line_of_descent_are_counted(proc: Path) -> None:
    root = write(proc, fake(0), 1, 10)
    for number in range(1, 3000):
        write(proc, fake(number), fake(number - 1), 10 + number)
    tree = census(BOOT, str(proc)).tree(root)
    assert tree is not None
    assert tree.count == 3000
    assert tree.cpu_s == pytest.approx(3000 * 14 * TICK_S)
    assert tree.rss_bytes == 3000 * 7 * os.sysconf("SC_PAGE_SIZE")
    assert [member.process.pid for member in tree.children] == [fake(number) for number in range(1, 3000)]


def test_nobody_is_a_child_of_somebody_younger(proc: Path) -> None:
    """The parent's pid was given to a new process between the two reads."""
    root = write(proc, fake(0), 1, 50)
    write(proc, fake(1), fake(0), 40)
    write(proc, fake(2), fake(0), 50)
    tree = census(BOOT, str(proc)).tree(root)
    assert tree is not None
    assert [member.process.pid for member in tree.children] == [fake(2)]


def test_a_circle_has_an_end(proc: Path) -> None:
    root = write(proc, fake(0), fake(1), 50)
    write(proc, fake(1), fake(0), 50)
    tree = census(BOOT, str(proc)).tree(root)
    assert tree is not None
    assert tree.count == 2


def test_a_process_that_is_gone_before_it_is_read_is_not_there(proc: Path) -> None:
    (proc / str(fake(0))).mkdir()
    assert census(BOOT, str(proc)).tree(ProcessId(BOOT, fake(0), 10)) is None


def test_a_process_that_cannot_be_read_is_unknown_and_not_dead(proc: Path) -> None:
    write(proc, fake(0), 1, 10)
    (proc / str(fake(0)) / "stat").write_bytes(b"garbage")
    other = write(proc, fake(1), 1, 10)
    looked = census(BOOT, str(proc))
    assert looked.tree(other) is not None
    with pytest.raises(ProbeFailedError, match="may not be read"):
        looked.tree(ProcessId(BOOT, fake(0), 10))


def test_a_look_that_fails_says_so(tmp_path: Path) -> None:
    with pytest.raises(ProbeFailedError, match="cannot be read"):
        census(BOOT, str(tmp_path / "none"))
    with pytest.raises(ProbeFailedError, match="does not even show"):
        census(BOOT, str(tmp_path))
    # An error that is about this process and not about the one that is looked at.
    (tmp_path / str(fake(0)) / "stat").mkdir(parents=True)
    with pytest.raises(ProbeFailedError, match="cannot be read"):
        census(BOOT, str(tmp_path))


@given(st.integers(0, 200))
def test_a_line_that_is_torn_is_no_process_or_the_whole_one(length: int) -> None:
    whole = stat(fake(1), fake(0), 50)
    try:
        entry = parse(whole[:length])
    except ValueError:
        return
    assert entry == parse(whole)


@given(st.binary(max_size=400))
def test_any_bytes_are_a_process_or_a_value_error(raw: bytes) -> None:
    try:
        entry = parse(raw)
    except ValueError:
        return
    assert len(entry.state) == 1


@given(
    pid=st.integers(1, 2**22),
    name=st.binary(max_size=64),
    state=st.sampled_from("RSDTtZXI"),
    parent=st.integers(0, 2**22),
    ticks=st.lists(st.integers(0, 2**63), min_size=4, max_size=4),
    start_ticks=st.integers(0, 2**63),
    pages=st.integers(0, 2**50),
)
def test_a_process_is_read_back_whatever_its_name(
    pid: int, name: bytes, state: str, parent: int, ticks: list[int], start_ticks: int, pages: int
) -> None:
    fields = [state, parent, *[-1] * 9, *ticks, 20, 0, 1, 0, start_ticks, 2**64 - 1, pages, *[0] * 28]
    entry = parse(b"%d (%s) %s\n" % (pid, name, " ".join(map(str, fields)).encode()))
    assert entry == (pid, parent, name, state, sum(ticks), pages, start_ticks)
