"""All sensors in one look: on this machine with real processes, and on made-up ones that lack some or lie."""

from __future__ import annotations

import os
import selectors
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dogwatch.crew.shared.eyes import MachineEyes
from dogwatch.model.memory import GB, AgentMemory, Largest, Readings
from dogwatch.model.process import ProcessId
from dogwatch.world.home import Home
from dogwatch.world.processes import boot_id, identify
from dogwatch.world.sensors import Sensors
from support.helpers import wait_for

BOOT = boot_id()
PAGE = os.sysconf("SC_PAGE_SIZE")
MB = 1024**2
MEMINFO = "MemTotal: 16777216 kB\nMemAvailable: 8388608 kB\nSwapTotal: 2097152 kB\nSwapFree: 1048576 kB\n"
PRESSURE = "some avg10=1.50 avg60=0.75 avg300=0.11 total=123\nfull avg10=0.25 avg60=0.00 avg300=0.00 total=9\n"


# Real processes


@contextmanager
def holding(size: int, child: int = 0) -> Iterator[subprocess.Popen[bytes]]:
    """A process that holds so many bytes, with a child that holds so many more."""
    code = "import subprocess, sys; size, child = int(sys.argv[1]), int(sys.argv[2]); held = bytearray(b'x') * size\n"
    code += "below = child and subprocess.Popen([sys.executable, '-c', sys.argv[3], str(child), '0', ''],"
    code += " stdin=subprocess.PIPE, stdout=subprocess.PIPE)\n"
    code += "below and below.stdout.readline(); print('ready', flush=True); sys.stdin.read()"
    argv = [sys.executable, "-c", code, str(size), str(child), code]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
            yield process
        finally:
            os.killpg(process.pid, 9)


def known(pid: int) -> ProcessId:
    found = identify(pid, BOOT)
    assert found is not None
    return found


def test_each_agents_tree_is_measured_and_the_largest_process_is_named_with_its_agent() -> None:
    with holding(20 * MB) as small, holding(5 * MB, child=90 * MB) as large, holding(160 * MB):
        agents = {"t1/small": known(small.pid), "t1/large": known(large.pid)}
        seen = Sensors(BOOT).read(agents)
        assert seen.processes == 2
        assert set(seen.agents) == set(agents)
        assert seen.agents["t1/large"].rss_bytes - seen.agents["t1/small"].rss_bytes > 75 * MB
        assert seen.largest is not None
        # The process of 160 MB is nobody's: it is not judged.
        assert seen.largest.agent == "t1/large"
        assert seen.largest.pid not in (large.pid, small.pid)
        assert 90 * MB < seen.largest.rss_bytes < 150 * MB
        assert seen.largest.name.startswith("python")
        large.kill()
        wait_for(lambda: identify(large.pid, BOOT) is None, 30, "its death")
        assert (Sensors(BOOT).read(agents).processes, list(Sensors(BOOT).read(agents).agents)) == (1, ["t1/small"])


def test_this_machine_is_read_and_nobody_is_there() -> None:
    seen = Sensors(BOOT).read({})
    assert seen.size_bytes is not None
    assert seen.left_bytes is not None
    assert 0 < seen.left_bytes < seen.size_bytes
    assert (seen.processes, seen.largest, seen.agents) == (0, None, {})
    has_pressure = os.path.exists("/proc/pressure/memory")
    assert ("pressure" in seen.missing) is not has_pressure


def test_under_a_ceiling_only_agents_use_it_up() -> None:
    ceiling = 150 * MB
    with holding(50 * MB) as process, holding(160 * MB):
        agents = {"t1/writer": known(process.pid)}
        seen = Sensors(BOOT).read(agents, ceiling)
        assert seen.size_bytes == ceiling
        assert seen.left_bytes == ceiling - seen.agents["t1/writer"].rss_bytes
        assert Sensors(BOOT).read(agents, 40 * MB).left_bytes == 0, "never less than nothing"
        real = Sensors(BOOT).read({})
        assert real.size_bytes is not None
        above = Sensors(BOOT).read(agents, 2 * real.size_bytes)
        assert above.size_bytes == real.size_bytes, "no ceiling makes a machine larger"
        assert above.left_bytes is not None
        assert above.left_bytes < real.size_bytes


def test_the_dispatchers_eyes_see_the_same(tmp_path: Path) -> None:
    with holding(MB) as process, selectors.DefaultSelector() as selector:
        agents = {"t1/writer": known(process.pid)}
        seen = MachineEyes(Home(str(tmp_path)), BOOT, selector, "dispatcher", "").memory(agents, GB)
        assert (seen.processes, seen.size_bytes) == (1, GB)
        assert seen.largest is not None
        assert seen.largest.pid == process.pid


# Made-up machines


class Machine:
    """A made-up machine's files."""

    def __init__(self, base: Path) -> None:
        self.base = base
        self.proc = base / "proc"
        self.write("proc/meminfo", MEMINFO)
        self.write("proc/pressure/memory", PRESSURE)
        self.process(os.getpid(), 1, 1)

    def write(self, path: str, text: str) -> None:
        file = self.base / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def process(self, pid: int, parent: int, pages: int, name: str = "node", state: str = "S") -> ProcessId:
        fields = [state, parent, *[0] * 17, 50, 9999, pages, *[0] * 28]
        self.write(f"proc/{pid}/stat", f"{pid} ({name}) {' '.join(map(str, fields))}\n")
        return ProcessId(BOOT, pid, 50)

    def read(self, agents: dict[str, ProcessId] | None = None, ceiling_bytes: int = 0) -> Readings:
        return Sensors(BOOT, str(self.proc), str(self.base / "cgroup")).read(agents or {}, ceiling_bytes)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def fake(number: int) -> int:
    """A pid that this process cannot have."""
    return 2**22 + number


def test_all_sensors_are_in_the_readings(machine: Machine) -> None:
    agents = {"t1/writer": machine.process(fake(1), 1, 100), "t2/judge": machine.process(fake(2), 1, 10)}
    machine.process(fake(3), fake(1), 30)
    machine.process(fake(4), fake(3), 500, name="a) \x1b[2J")
    machine.process(fake(5), 1, 10_000)
    assert machine.read(agents) == Readings(
        size_bytes=16 * GB,
        left_bytes=8 * GB,
        swap_total_bytes=2 * GB,
        swap_free_bytes=GB,
        pressure_some_percent=1.5,
        pressure_full_percent=0.25,
        processes=2,
        largest=Largest(rss_bytes=500 * PAGE, pid=fake(4), name="a) ?[2J", agent="t1/writer"),
        agents={"t1/writer": AgentMemory(rss_bytes=630 * PAGE), "t2/judge": AgentMemory(rss_bytes=10 * PAGE)},
    )
    assert machine.read(agents).missing == ()


def test_in_a_container_the_limit_is_the_machine_and_a_ceiling_below_it_counts(machine: Machine) -> None:
    machine.write("proc/self/cgroup", "0::/\n")
    machine.write("cgroup/memory.max", f"{4 * GB}\n")
    machine.write("cgroup/memory.current", f"{3 * GB}\n")
    agents = {"t1/writer": machine.process(fake(1), 1, GB // PAGE)}
    for ceiling, size, left in ((0, 4 * GB, GB), (2 * GB, 2 * GB, GB), (GB, GB, 0), (9 * GB, 4 * GB, GB)):
        seen = machine.read(agents, ceiling)
        assert (seen.size_bytes, seen.left_bytes) == (size, left)


def test_a_missing_sensor_is_none_and_said(machine: Machine) -> None:
    (machine.proc / "pressure/memory").unlink()
    assert machine.read().missing == ("pressure",)
    machine.write("proc/meminfo", "MemTotal: 1024 kB\n")
    seen = machine.read()
    assert (seen.size_bytes, seen.left_bytes, seen.missing) == (MB, None, ("memory", "swap", "pressure"))
    (machine.proc / "meminfo").unlink()
    assert machine.read() == Readings()
    root = machine.process(fake(1), 1, 100)
    under = machine.read({"t1/writer": root}, GB)
    assert (under.size_bytes, under.left_bytes) == (GB, GB - 100 * PAGE), "a ceiling needs no sensor but the processes"


def test_who_is_dead_is_not_counted_and_who_cannot_be_seen_is(machine: Machine) -> None:
    agents = {
        "t1/alive": machine.process(fake(1), 1, 100),
        "t1/zombie": machine.process(fake(2), 1, 0, state="Z"),
        "t1/gone": ProcessId(BOOT, fake(3), 50),
        "t1/replaced": ProcessId(BOOT, fake(1), 49),
        "t1/before": ProcessId("another-boot", fake(1), 50),
        "t1/unreadable": machine.process(fake(4), 1, 100),
    }
    machine.write(f"proc/{fake(4)}/stat", "garbage")
    seen = machine.read(agents)
    assert (seen.processes, list(seen.agents)) == (2, ["t1/alive"])
    assert seen.largest == Largest(rss_bytes=100 * PAGE, pid=fake(1), name="node", agent="t1/alive")


def test_a_look_that_fails_says_nothing_of_the_agents_but_that_they_may_live(machine: Machine) -> None:
    agents = {"t1/writer": machine.process(fake(1), 1, 100)}
    (machine.proc / str(os.getpid()) / "stat").unlink()
    seen = machine.read(agents)
    assert (seen.processes, seen.agents, seen.largest) == (1, {}, None)
    assert (seen.size_bytes, seen.left_bytes) == (16 * GB, 8 * GB)
    under = machine.read(agents, GB)
    assert (under.size_bytes, under.left_bytes, under.missing) == (GB, None, ("memory",)), "nobody knows what they use"


TORN = st.one_of(st.binary(max_size=300), st.integers(0, 400))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=40)
@given(meminfo=TORN, pressure=TORN, group=TORN, limit=TORN, stat=TORN)
def test_torn_files_and_garbage_are_read_without_an_error(
    machine: Machine, meminfo: object, pressure: object, group: object, limit: object, stat: object
) -> None:
    agents = {"t1/whole": machine.process(fake(1), 1, 100), "t1/torn": machine.process(fake(2), 1, 100)}
    whole = {
        "proc/meminfo": MEMINFO,
        "proc/pressure/memory": PRESSURE,
        "proc/self/cgroup": "4:memory:/job\n0::/job\n",
        "cgroup/memory/job/memory.limit_in_bytes": f"{4 * GB}\n",
        f"proc/{fake(2)}/stat": (machine.proc / str(fake(2)) / "stat").read_text(),
    }
    for (path, text), broken in zip(whole.items(), (meminfo, pressure, group, limit, stat), strict=True):
        machine.write(path, text)
        # Either something else altogether, or the beginning of what should be there.
        (machine.base / path).write_bytes(text.encode()[:broken] if isinstance(broken, int) else bytes(broken))  # type: ignore[call-overload]
    for ceiling in (0, 2 * GB):
        seen = machine.read(agents, ceiling)
        assert seen.agents["t1/whole"] == AgentMemory(rss_bytes=100 * PAGE)
        assert seen.agents.get("t1/torn") in (None, AgentMemory(rss_bytes=100 * PAGE))
        assert seen.left_bytes is None or seen.left_bytes >= 0
        assert seen.size_bytes is None or seen.size_bytes >= 0
