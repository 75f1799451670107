"""Whom the kernel takes when memory runs out: what the crew starts is more expendable than the crew itself."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from dogwatch.actions import confine, keeper
from dogwatch.crew.shared.protecting import PROTECTED
from dogwatch.world import groups
from dogwatch.world.home import Home
from dogwatch.world.processes import boot_id
from support.cli_ledgers import short_home
from support.helpers import wait_for

PROTECT = """
import sys
from dogwatch.crew.shared.protecting import protect
from dogwatch.world.home import Home

for path, text in zip(sys.argv[2::2], sys.argv[3::2]):
    with open(path, "w") as file:
        file.write(text)
before = open("/proc/self/cgroup").read()
protect(Home(sys.argv[1]))
print(open("/proc/self/oom_score_adj").read().strip(), before == open("/proc/self/cgroup").read())
"""
SCORE = "/proc/self/oom_score_adj"


@pytest.fixture
def home() -> Iterator[Home]:
    with short_home() as folder:
        found = Home(str(folder))
        os.makedirs(found.run("r"))
        try:
            yield found
        finally:
            confine.release(found, boot_id(), "r")


def may_protect() -> bool:
    """Whether this machine lets us put a process last."""
    words = f"echo {PROTECTED} 2>/dev/null >{SCORE}"
    return subprocess.run(["sh", "-c", words], check=False).returncode == 0


def protected(home: Home, *writes: str) -> list[str]:
    """A new process's score, and whether its group stayed the same, after it has protected itself."""
    command = [sys.executable, "-c", PROTECT, home.path, *writes]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout.split()


def test_a_crew_member_is_taken_last_where_it_may_say_so_and_never_like_an_agent(home: Home) -> None:
    wanted = str(PROTECTED if may_protect() else min(0, groups.oom_score_adj("self") or 0))
    assert protected(home) == [wanted, "True"]


def test_who_was_started_by_an_agent_leaves_its_group(home: Home) -> None:
    folder = confine.confine(home, "r", "writer", 1, 512 * 1024**2)
    if not folder:
        assert groups.place().obstacle
        return
    assert protected(home, f"{folder}/cgroup.procs", "0")[1] == "False"
    # In the group of another home's agent it stays: that one's limit is meant for everything that it starts.
    other = Home(f"{home.path}/other")
    assert protected(other, f"{folder}/cgroup.procs", "0")[1] == "True"


def test_what_the_crew_has_others_do_is_expendable(home: Home) -> None:
    folder, log = f"{home.path}/job", Path(home.path) / "log"
    command = ["cat", SCORE]
    keeper.start(boot_id(), folder, 60, command, environment=os.environ, cwd=home.path, log=str(log))
    wait_for(lambda: keeper.result(folder) == 0, what="the command's end")
    assert log.read_text().split() == [str(confine.EXPENDABLE)]
