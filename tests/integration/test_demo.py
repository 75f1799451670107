"""The demo: four faults noticed and mended, both runs delivered, and nothing left, also after Ctrl-C."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

from support.documents import Pids, blocks
from support.fleet import ROOT, Fleet
from support.helpers import wait_for


def start(fleet: Fleet) -> subprocess.Popen[str]:
    """The demo with a temporary folder of its own, so that whatever it leaves is seen."""
    temporary = fleet.base / "t"
    temporary.mkdir()
    return subprocess.Popen(
        [sys.executable, "-m", "dogwatch", "demo", "--quiet"],
        env={**fleet.environment, "TMPDIR": str(temporary)},
        cwd=fleet.project,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def left(fleet: Fleet) -> list[str]:
    """Files and processes of the demo."""
    temporary = fleet.base / "t"
    found = [str(path) for path in temporary.iterdir()]
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            variables = (folder / "environ").read_bytes()
        except OSError:
            continue
        if f"DOGWATCH_HOME={temporary}".encode() in variables:
            found.append((folder / "cmdline").read_bytes().replace(b"\0", b" ").decode())
    return found


def test_the_demo_mends_four_faults_delivers_both_runs_and_leaves_nothing(fleet: Fleet) -> None:
    child = start(fleet)
    out, errors = child.communicate(timeout=240)
    assert child.returncode == 0, out + errors
    faults = [line for line in out.splitlines() if re.search(r"\d+\.\d\d s +\d+\.\d\d s$", line)]
    assert len(faults) == 4, out
    assert "delivered 2/2" in out
    shown = next(block.text for block in blocks(ROOT / "docs" / "tutorial.md") if block.language == "text")
    assert Pids().match(shown, out), f"the tutorial shows:\n{shown}\nprinted was:\n{out}"
    assert "–" not in out
    assert errors == ""
    wait_for(lambda: not left(fleet), 30, lambda: str(left(fleet)))
    assert not os.path.exists(fleet.home.path), "the demo touched another home"


def test_ctrl_c_in_the_middle_of_the_demo_leaves_nothing(fleet: Fleet) -> None:
    child = start(fleet)
    temporary = fleet.base / "t"

    def begun() -> bool:
        return any(path.stat().st_size for path in temporary.glob("*/truth.jsonl"))

    wait_for(begun, 60, "agents at work")
    child.send_signal(signal.SIGINT)
    child.communicate(timeout=120)
    assert child.returncode == 130
    wait_for(lambda: not left(fleet), 30, lambda: str(left(fleet)))
