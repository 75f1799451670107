"""The known experiment for real, in its short version: the naive start loses runs, with admission all deliver."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from evaluation.real.command import show
from evaluation.real.fleet import admission, naive
from evaluation.real.machine import Group, Watcher, new_machine
from evaluation.real.pipelines import MB, SHORT

from dogwatch.world import groups
from support.fleet import ROOT
from support.helpers import wait_for

GREEDY = "import time; data = bytearray(b'1') * ({mb} << 20); print('taken', flush=True); time.sleep(600)"


def processes_of(folder: str) -> list[str]:
    """The living processes whose DOGWATCH_HOME is below the folder."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            if f"DOGWATCH_HOME={folder}/".encode() in (path / "environ").read_bytes():
                found.append((path / "cmdline").read_bytes().replace(b"\0", b" ").decode().strip())
        except OSError:
            continue
    return [command for command in found if command]


@pytest.fixture
def short() -> Iterator[str]:
    """A folder with a short name: sockets lie below it."""
    folder = tempfile.mkdtemp(prefix="dw")
    yield folder
    shutil.rmtree(folder)


@pytest.mark.timeout(600)
def test_the_naive_start_loses_runs_and_with_admission_all_deliver(tmp_path: Path) -> None:
    with ThreadPoolExecutor(2) as pool:
        tries = [pool.submit(start, SHORT, lambda text: None) for start in (naive, admission)]
        found = [one.result() for one in tries]
    assert show(SHORT, found, tmp_path) == []
    lost, kept = found
    assert lost["of"] == kept["of"] == SHORT.runs
    assert lost["delivered"] < SHORT.runs
    assert lost["at_once_max"] > kept["at_once_max"] > 1
    assert lost["kills"] >= lost["given_up"] > 0
    assert (kept["kills"], kept["restarts"], kept["given_up"], kept["causes"]) == (0, 0, 0, {})
    assert kept["delivered"] == SHORT.runs
    assert kept["lowest_left_bytes"] > lost["lowest_left_bytes"]
    assert kept["held"]["forecast"] > 0
    written = json.loads((tmp_path / "evaluation.json").read_text())
    assert [start["name"] for start in written["starts"]] == ["naive", "admission"]
    assert len(ET.parse(tmp_path / "evaluation.svg").findall(".//{*}polyline")) == 2  # noqa: S314 (our own file)


def test_an_interrupted_experiment_leaves_nothing(short: str) -> None:
    child = subprocess.Popen(
        [sys.executable, "-m", "evaluation", "--short", "--rounds", "1", "--folder", f"{short}/results"],
        cwd=ROOT,
        env={**os.environ, "TMPDIR": short, "PYTHONPATH": str(ROOT / "src")},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    try:
        wait_for(lambda: any("dogwatch.testing.agent" in one for one in processes_of(short)), 120, "an agent")
        (entrance,) = Path(short).glob("*/bin/tmux")
        line = entrance.read_text().splitlines()[1]
        child.send_signal(signal.SIGINT)
        _, errors = child.communicate(timeout=120)
    finally:
        child.kill()
        child.wait()
    assert child.returncode == 130, errors
    assert processes_of(short) == []
    assert os.listdir(short) == []
    if line != ":":
        assert not os.path.exists(os.path.dirname(line.partition("'")[2]))


@pytest.mark.parametrize("plays_kernel", [False, True])
def test_what_takes_more_than_the_machine_has_is_ended(short: str, plays_kernel: bool) -> None:
    machine = Watcher(short, 128 * MB, "it is tried") if plays_kernel else new_machine(128 * MB, short)
    assert isinstance(machine, Watcher if plays_kernel or groups.place().obstacle else Group)
    argv = ["sh", "-c", f'{machine.entrance()}; exec "$@"', "sh", sys.executable, "-I", "-S", "-c"]
    marks = {**os.environ, "DOGWATCH_HOME": short, "DOGWATCH_ROLE": "writer"}
    small = subprocess.Popen([*argv, GREEDY.format(mb=16)], env=marks, stdout=subprocess.PIPE)
    try:
        assert small.stdout is not None
        assert small.stdout.readline() == b"taken\n"
        words = [*argv, GREEDY.format(mb=400)]
        large = subprocess.run(words, env=marks, stdout=subprocess.DEVNULL, timeout=60, check=False)
        assert large.returncode == -signal.SIGKILL
        assert machine.kills() == 1
        assert small.poll() is None
        machine.close()
        assert small.wait(30) == -signal.SIGKILL
    finally:
        machine.close()
        small.kill()
        small.communicate()
