"""Control groups: where one could be made, what the kernel says of one, and a real one where this machine allows it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from dogwatch.actions import confine
from dogwatch.world import groups
from dogwatch.world.groups import CREW, Kills, Place
from dogwatch.world.home import Home
from dogwatch.world.processes import boot_id
from support.cli_ledgers import short_home
from support.helpers import wait_for

LIMIT = 64 * 1024**2
VERSION_1 = "4:memory:{path}\n0::/\n"
VERSION_2 = "0::{path}\n"


@pytest.fixture
def home() -> Iterator[Home]:
    with short_home() as folder:
        found = Home(str(folder))
        os.makedirs(found.run("r"))
        try:
            yield found
        finally:
            confine.release(found, boot_id(), "r")


def tree(folder: Path, cgroup: str, **files: str) -> tuple[str, str]:
    """Fake folders of the kernel's; `files` are below the mount, with `__` for `/`."""
    (folder / "proc/self").mkdir(parents=True)
    (folder / "proc/self/cgroup").write_text(cgroup)
    for name, text in files.items():
        path = folder / "mount" / name.replace("__", "/").replace("cgroup_", "cgroup.").replace("memory_", "memory.")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return str(folder / "proc"), str(folder / "mount")


def test_a_group_is_made_in_the_group_that_we_are_in(tmp_path: Path) -> None:
    proc, mount = tree(tmp_path, VERSION_1.format(path="/us"), memory__us__memory_limit_in_bytes="1")
    assert groups.place(proc=proc, mount=mount) == Place(1, f"{mount}/memory/us")


def test_in_an_agents_own_group_the_one_around_is_meant(tmp_path: Path) -> None:
    path = "/us/dogwatch-1/r/writer.1"
    proc, mount = tree(tmp_path, VERSION_1.format(path=path), memory__us__memory_limit_in_bytes="1")
    os.makedirs(f"{mount}/memory{path}")
    assert groups.place("dogwatch-1", proc, mount).folder == f"{mount}/memory/us"
    # Of another home's agents we do not leave the group: its limit is meant for us too.
    assert groups.place("dogwatch-2", proc, mount).folder == f"{mount}/memory{path}"


@pytest.mark.parametrize(
    ("cgroup", "files", "obstacle"),
    [
        ("", {}, "no control groups"),
        (VERSION_1.format(path="/us"), {}, "not mounted"),
        (VERSION_2.format(path="/us"), {"us__cgroup_controllers": "cpu pids"}, "not given the memory controller"),
        (
            VERSION_2.format(path="/us"),
            {"us__cgroup_controllers": "cpu memory", "us__cgroup_procs": "", "us__cgroup_type": "domain"},
            "not delegated",
        ),
        # The machine's own top, which has no type.
        (VERSION_2.format(path="/"), {"cgroup_controllers": "memory", "cgroup_procs": ""}, "not delegated"),
        (VERSION_2.format(path="/us"), {"us__cgroup_controllers": "memory"}, "not writable"),
    ],
)
def test_where_none_can_be_made_it_says_why_and_what_to_do(
    tmp_path: Path, cgroup: str, files: dict[str, str], obstacle: str
) -> None:
    proc, mount = tree(tmp_path, cgroup, **files)
    found = groups.place(proc=proc, mount=mount)
    assert obstacle in found.obstacle
    assert found.fix


def test_version_2_passes_the_controller_on_and_moves_the_crew_aside(tmp_path: Path) -> None:
    files = {"cgroup_controllers": "cpu memory", "cgroup_type": "domain", "cgroup_procs": "17\n"}
    proc, mount = tree(tmp_path, VERSION_2.format(path=f"/{CREW}"), **files)
    found = groups.place(proc=proc, mount=mount)
    assert found == Place(2, mount)
    above = f"{mount}/dogwatch-1/r"
    for folder in (mount, f"{mount}/dogwatch-1", above):
        os.makedirs(folder, exist_ok=True)
        Path(f"{folder}/cgroup.subtree_control").write_text("")
        Path(f"{folder}/cgroup.controllers").write_text("memory")
    confine.make_above(above)
    for folder in (mount, f"{mount}/dogwatch-1", above):
        assert Path(f"{folder}/cgroup.subtree_control").read_text() == "+memory"
    assert Path(f"{mount}/{CREW}/cgroup.procs").read_text() == "17"
    os.makedirs(f"{above}/writer.1")
    confine.set_limit(f"{above}/writer.1", LIMIT)
    limits = {name: Path(f"{above}/writer.1/{name}").read_text() for name in os.listdir(f"{above}/writer.1")}
    assert limits == {"memory.max": str(LIMIT), "memory.swap.max": "0", "memory.oom.group": "1"}


@pytest.mark.parametrize(
    ("files", "kills"),
    [
        ({"memory.events": "low 0\nmax 9\noom 2\noom_kill 3\n", "memory.max": "1024\n"}, Kills(3, 1024)),
        ({"memory.events": "max 0\noom 0\noom_kill 1\n", "memory.max": "1024\n"}, Kills(1, 0)),
        ({"memory.events": "max 0\noom 0\noom_kill 0\n", "memory.max": "max\n"}, Kills()),
        (
            {
                "memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n",
                "memory.max_usage_in_bytes": "4090\n",
                "memory.limit_in_bytes": "4096\n",
            },
            Kills(1, 4096),
        ),
        (
            {
                "memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n",
                "memory.max_usage_in_bytes": "2000\n",
                "memory.limit_in_bytes": "4096\n",
            },
            Kills(1, 0),
        ),
        ({"memory.oom_control": "oom_kill_disable 0\noom_kill 1\n", "memory.max_usage_in_bytes": "9\n"}, Kills(1, 0)),
        ({"memory.oom_control": "oom_kill_disable 0\nunder_oom 0\n"}, Kills()),
        ({}, Kills()),
    ],
)
def test_what_the_kernel_has_ended_is_read_with_the_limit_that_was_reached(
    tmp_path: Path, files: dict[str, str], kills: Kills
) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    assert groups.kills(str(tmp_path)) == kills


def test_a_note_that_names_a_foreign_folder_is_not_believed(home: Home, tmp_path: Path) -> None:
    foreign = tmp_path / "r"
    (foreign / "writer.1").mkdir(parents=True)
    Path(groups.note_of(home, "r")).write_text(str(foreign))
    assert not groups.noted(home, "r")
    confine.release(home, boot_id(), "r")
    assert (foreign / "writer.1").exists()


def test_without_a_limit_there_is_no_group(home: Home) -> None:
    assert not confine.confine(home, "r", "writer", 1, 0)
    assert not os.path.exists(groups.note_of(home, "r"))


def test_a_group_limits_what_is_in_it_and_goes_with_all_that_is_left_of_its_agent(home: Home) -> None:
    folder = confine.confine(home, "r", "writer", 1, LIMIT)
    place = groups.place()
    assert bool(folder) == (not place.obstacle)
    if place.obstacle:
        return
    assert folder == confine.confine(home, "r", "writer", 1, LIMIT) == groups.group_of(home, "r", "writer", 1)
    enter = ("sh", "-c", 'echo 0 >"$0/cgroup.procs" && exec "$@"', folder)
    code = f"data = b'1' * {4 * LIMIT}"
    done = subprocess.run([*enter, sys.executable, "-I", "-S", "-c", code], timeout=60, check=False)
    assert done.returncode == -9
    assert groups.kills(folder) == Kills(1, LIMIT)
    # One that has forgotten whose it is: no mark in its environment.
    child = subprocess.Popen([*enter, "sleep", "600"], env={"PATH": os.environ["PATH"]})
    try:
        wait_for(lambda: groups.holds(folder, child.pid), what="the process in its group")
        assert confine.confine(home, "r", "writer", 2, LIMIT)
        confine.release(home, boot_id(), "r", "writer", before=1)
        assert child.poll() is None
        assert confine.release(home, boot_id(), "r", "writer", before=2) == 1
        assert child.wait(30) == -15
        assert not groups.group_of(home, "r", "writer", 1)
        assert groups.group_of(home, "r", "writer", 2)
        confine.release(home, boot_id(), "r")
        assert not os.path.exists(os.path.dirname(os.path.dirname(folder)))
        assert not os.path.exists(groups.note_of(home, "r"))
    finally:
        child.kill()
        child.wait()


def test_what_cannot_be_made_is_no_failure(home: Home) -> None:
    shutil.rmtree(home.run("r"))
    assert not confine.confine(home, "r", "writer", 1, LIMIT)
