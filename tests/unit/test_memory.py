"""The memory's sensors: on this machine, on machines that lack some of them, and inside limits of every kind."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dogwatch.world.memory import Memory, memory, parse_group, parse_pressures, parse_sizes, parse_statistics
from support.helpers import wait_for

GB = 1024**3
MEMINFO = """\
MemTotal:       16777216 kB
MemFree:         1048576 kB
MemAvailable:    8388608 kB
SwapTotal:       2097152 kB
SwapFree:        1048576 kB
HugePages_Total:       0
"""
PRESSURE = "some avg10=1.50 avg60=0.75 avg300=0.11 total=123\nfull avg10=0.25 avg60=0.00 avg300=0.00 total=9\n"
UNLIMITED_V1 = "9223372036854771712\n"


class Machine:
    """A made-up machine's files."""

    def __init__(self, base: Path) -> None:
        self.base = base
        self.write("proc/meminfo", MEMINFO)

    def write(self, path: str, text: str) -> None:
        file = self.base / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def limit(self, group: str, limit: str, used: int, cache: int = 0) -> None:
        """A group of version 2."""
        self.write(f"cgroup/{group}/memory.max", f"{limit}\n")
        self.write(f"cgroup/{group}/memory.current", f"{used}\n")
        self.write(f"cgroup/{group}/memory.stat", f"anon {used - cache}\nfile {cache}\ninactive_file {cache}\n")

    def limit_v1(self, group: str, limit: str, used: int, cache: int = 0) -> None:
        self.write(f"cgroup/memory/{group}/memory.limit_in_bytes", limit)
        self.write(f"cgroup/memory/{group}/memory.usage_in_bytes", f"{used}\n")
        self.write(f"cgroup/memory/{group}/memory.stat", f"inactive_file 1\ntotal_inactive_file {cache}\n")

    def look(self) -> Memory:
        return memory(str(self.base / "proc"), str(self.base / "cgroup"))


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_this_machine_has_the_memory_that_its_kernel_says() -> None:
    seen = memory()
    assert seen.total_bytes == os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert seen.available_bytes is not None
    assert 0 < seen.available_bytes < seen.total_bytes
    assert seen.swap_total_bytes is not None
    assert seen.swap_free_bytes is not None
    assert 0 <= seen.swap_free_bytes <= seen.swap_total_bytes
    assert seen.pressure_some_percent is None or 0 <= seen.pressure_some_percent <= 100
    assert seen.size_bytes is not None
    assert seen.left_bytes is not None
    assert 0 < seen.left_bytes <= seen.size_bytes <= seen.total_bytes


def test_all_sensors_are_read(machine: Machine) -> None:
    machine.write("proc/pressure/memory", PRESSURE)
    machine.write("proc/self/cgroup", "0::/\n")
    assert machine.look() == Memory(
        total_bytes=16 * GB,
        available_bytes=8 * GB,
        swap_total_bytes=2 * GB,
        swap_free_bytes=1 * GB,
        pressure_some_percent=1.5,
        pressure_full_percent=0.25,
    )
    assert machine.look().size_bytes == 16 * GB
    assert machine.look().left_bytes == 8 * GB


def test_each_sensor_that_is_missing_is_none(machine: Machine) -> None:
    machine.write("proc/meminfo", "MemTotal: 1024 kB\n")
    assert machine.look() == Memory(total_bytes=1024 * 1024)
    (machine.base / "proc/meminfo").unlink()
    assert machine.look() == Memory()
    assert (machine.look().size_bytes, machine.look().left_bytes) == (None, None)


def test_in_a_container_the_limit_is_the_machine(machine: Machine) -> None:
    machine.write("proc/self/cgroup", "0::/\n")
    machine.limit("", str(4 * GB), 3 * GB, cache=1 * GB)
    seen = machine.look()
    assert (seen.limit_bytes, seen.limit_used_bytes) == (4 * GB, 2 * GB)
    assert (seen.size_bytes, seen.left_bytes) == (4 * GB, 2 * GB)
    assert seen.total_bytes == 16 * GB


def test_the_limit_with_the_least_left_binds_wherever_it_stands(machine: Machine) -> None:
    machine.write("proc/self/cgroup", "0::/user.slice/session.scope\n")
    machine.limit("user.slice/session.scope", str(6 * GB), 1 * GB)
    machine.limit("user.slice", str(8 * GB), 7 * GB)
    assert machine.look().limit_bytes == 8 * GB
    assert machine.look().left_bytes == 1 * GB
    machine.limit("user.slice", "max", 7 * GB)
    assert machine.look().limit_bytes == 6 * GB


def test_a_limit_above_the_machine_is_none(machine: Machine) -> None:
    machine.write("proc/self/cgroup", "0::/a\n")
    machine.limit("a", str(17 * GB), 1 * GB)
    assert machine.look().limit_bytes is None


def test_version_1_has_its_own_files_and_its_own_word_for_no_limit(machine: Machine) -> None:
    machine.write("proc/self/cgroup", "5:cpu,cpuacct:/x\n4:memory:/job/1\n0::/\n")
    machine.limit_v1("", UNLIMITED_V1, 9 * GB)
    machine.limit_v1("job/1", UNLIMITED_V1, 1 * GB)
    assert machine.look().limit_bytes is None
    machine.limit_v1("job/1", str(2 * GB), 1 * GB, cache=GB // 2)
    seen = machine.look()
    assert (seen.limit_bytes, seen.limit_used_bytes, seen.left_bytes) == (2 * GB, GB // 2, 3 * GB // 2)
    # No limit is no number to take for one, also where the size of the machine is not known.
    machine.limit_v1("job/1", UNLIMITED_V1, 1 * GB)
    machine.write("proc/meminfo", "")
    assert machine.look().limit_bytes is None


@pytest.mark.parametrize("path", ["/docker/0123abcd", "/../../docker/0123abcd", "/.."])
def test_the_path_outside_the_container_is_not_there_inside(machine: Machine, path: str) -> None:
    machine.write("proc/self/cgroup", f"4:memory:{path}\n")
    machine.limit_v1("", str(2 * GB), 1 * GB)
    assert machine.look().left_bytes == 1 * GB


def test_a_limit_whose_use_is_unknown_is_still_the_size(machine: Machine) -> None:
    machine.write("proc/self/cgroup", "0::/\n")
    machine.write("cgroup/memory.max", f"{4 * GB}\n")
    seen = machine.look()
    assert (seen.limit_bytes, seen.limit_used_bytes, seen.size_bytes, seen.left_bytes) == (4 * GB, None, 4 * GB, 8 * GB)


def test_nobody_goes_on_at_full_speed_above_memory_high(machine: Machine) -> None:
    machine.write("proc/self/cgroup", "0::/a/b\n")
    machine.limit("a", str(6 * GB), 2 * GB)
    machine.write("cgroup/a/memory.high", f"{5 * GB}\n")
    assert (machine.look().size_bytes, machine.look().left_bytes) == (5 * GB, 3 * GB)
    machine.write("cgroup/a/memory.max", "max\n")
    assert machine.look().limit_bytes == 5 * GB
    machine.write("cgroup/a/memory.high", "max\n")
    assert machine.look().limit_bytes is None
    machine.limit("a", str(4 * GB), 2 * GB)
    machine.write("cgroup/a/memory.high", f"{5 * GB}\n")
    assert machine.look().limit_bytes == 4 * GB


def test_version_1_tells_of_a_limit_above_that_cannot_be_seen(machine: Machine) -> None:
    machine.write("proc/self/cgroup", "4:memory:/pod/container\n")
    machine.limit_v1("", UNLIMITED_V1, GB, cache=0)
    machine.write("cgroup/memory/memory.stat", f"hierarchical_memory_limit {3 * GB}\ntotal_inactive_file {GB // 2}\n")
    seen = machine.look()
    assert (seen.limit_bytes, seen.limit_used_bytes, seen.left_bytes) == (3 * GB, GB // 2, 5 * GB // 2)


def test_swap_is_what_the_groups_let_one_have_of_it(machine: Machine) -> None:
    machine.write("proc/self/cgroup", "0::/a/b\n")
    machine.write("cgroup/a/memory.swap.max", "0\n")
    machine.write("cgroup/a/memory.swap.current", "0\n")
    seen = machine.look()
    assert (seen.swap_total_bytes, seen.swap_free_bytes) == (0, 0), "there is swap, and none for us"
    machine.write("cgroup/a/memory.swap.max", f"{GB}\n")
    machine.write("cgroup/a/memory.swap.current", f"{GB // 4}\n")
    seen = machine.look()
    assert (seen.swap_total_bytes, seen.swap_free_bytes) == (GB, 3 * GB // 4)
    machine.write("cgroup/a/memory.swap.max", f"{9 * GB}\n")
    assert (machine.look().swap_total_bytes, machine.look().swap_free_bytes) == (2 * GB, GB)


def test_version_1_limits_memory_and_swap_together(machine: Machine) -> None:
    machine.write("proc/self/cgroup", "4:memory:/a\n")
    machine.limit_v1("a", str(2 * GB), GB)
    machine.write("cgroup/memory/a/memory.memsw.limit_in_bytes", f"{3 * GB}\n")
    machine.write("cgroup/memory/a/memory.memsw.usage_in_bytes", f"{GB + GB // 4}\n")
    seen = machine.look()
    assert (seen.swap_total_bytes, seen.swap_free_bytes) == (GB, 3 * GB // 4)
    machine.write("cgroup/memory/a/memory.memsw.limit_in_bytes", UNLIMITED_V1)
    assert (machine.look().swap_total_bytes, machine.look().swap_free_bytes) == (2 * GB, GB)


def test_the_pressure_within_the_limit_counts_too(machine: Machine) -> None:
    machine.write("proc/self/cgroup", "0::/a\n")
    machine.write("proc/pressure/memory", PRESSURE)
    machine.limit("a", str(4 * GB), GB)
    machine.write("cgroup/a/memory.pressure", PRESSURE.replace("some avg10=1.50", "some avg10=71.00"))
    seen = machine.look()
    assert (seen.pressure_some_percent, seen.pressure_full_percent) == (71.0, 0.25)
    machine.limit("a", "max", GB)
    assert machine.look().pressure_some_percent == 1.5, "a group without a limit is no machine of its own"
    machine.limit("a", str(4 * GB), GB)
    (machine.base / "proc/pressure/memory").unlink()
    assert machine.look().pressure_some_percent == 71.0


@pytest.fixture
def real_group() -> Iterator[str]:
    """A control group of this very process's, of 64 MB; empty where this machine lets nobody make one."""
    path, version = parse_group(Path("/proc/self/cgroup").read_text())
    mount, limit = ("", "memory.max") if version == 2 else ("/memory", "memory.limit_in_bytes")
    folder = f"/sys/fs/cgroup{mount}{path.rstrip('/')}/dogwatch-test-{os.getpid()}"
    try:
        os.mkdir(folder)
    except OSError as error:
        print(f"no control group can be made here ({error}): only made-up ones were tested")
        yield ""
        return
    try:
        try:
            Path(folder, limit).write_text(str(64 * 1024**2))
            yield folder
        except OSError as error:
            print(f"no control group can be limited here ({error}): only made-up ones were tested")
            yield ""
    finally:
        wait_for(lambda: _is_removed(folder), 30, "the end of the group")


def _is_removed(folder: str) -> bool:
    with contextlib.suppress(OSError):
        os.rmdir(folder)
    return not os.path.exists(folder)


def test_a_real_group_is_the_machine_of_whoever_is_in_it(real_group: str) -> None:
    """Where none can be made, what this process itself sees must be what the kernel's files say of it."""
    code = (
        "import sys\n"
        "if sys.argv[1]:\n    with open(sys.argv[1] + '/cgroup.procs', 'w') as file: file.write('0')\n"
        "from dogwatch.world.memory import memory\n"
        "held = bytearray(b'x') * 16_000_000\nseen = memory()\n"
        "print(seen.size_bytes, seen.left_bytes, seen.limit_bytes)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, real_group], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    size, left, limit = done.stdout.split()
    if real_group:
        assert int(size) == int(limit) == 64 * 1024**2
        assert 0 < int(left) < 64 * 1024**2 - 16_000_000
    else:
        assert (int(size), limit) == (memory().size_bytes, str(memory().limit_bytes))


@given(st.text())
def test_any_text_is_read_without_an_error(text: str) -> None:
    assert all(size >= 0 for size in parse_sizes(text).values())
    assert all(pressure >= 0 for pressure in parse_pressures(text).values())
    assert parse_group(text)[1] in (1, 2)
    assert all(number >= 0 for number in parse_statistics(text).values())


WORDS = st.sampled_from(
    ["MemTotal:", "some", "avg10=", "avg10=1..2", "avg10=.", "²", "kB", "0", "-1", ":", "memory", "\n"]
)


@given(st.lists(WORDS).map(" ".join))
def test_words_in_the_wrong_place_are_read_without_an_error(text: str) -> None:
    parse_sizes(text)
    parse_pressures(text)
    parse_group(text)


@given(st.dictionaries(st.from_regex(r"[A-Za-z()_]{1,20}", fullmatch=True), st.integers(0, 2**50)))
def test_sizes_are_read_back(sizes: dict[str, int]) -> None:
    text = "".join(f"{name}: {number:>10} kB\n" for name, number in sizes.items())
    assert parse_sizes(text) == {name: number * 1024 for name, number in sizes.items()}


@given(st.floats(0, 100).map(lambda number: round(number, 2)), st.floats(0, 100).map(lambda number: round(number, 2)))
def test_pressures_are_read_back(some: float, full: float) -> None:
    lines = (f"{kind} avg10={number:.2f} avg60=0.00 total=1\n" for kind, number in (("some", some), ("full", full)))
    assert parse_pressures("".join(lines)) == {"some": some, "full": full}
