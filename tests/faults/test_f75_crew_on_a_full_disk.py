"""F75, seen from a run: a full disk refuses writes, leaves the agents running, and is got over."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

from support.fleet import ROOT


def test_f75_a_run_waits_while_its_disk_is_full_and_goes_on_when_there_is_room() -> None:
    script = Path(__file__).with_name("f75_crew.py")
    with tempfile.TemporaryDirectory(prefix="dw") as folder:
        mount = 'mount -t tmpfs -o size=6m tmpfs "$1" && exec "$2" "$3" "$1"'
        done = subprocess.run(
            ["unshare", "-r", "-m", "sh", "-c", mount, "sh", folder, sys.executable, str(script)],
            env={"PYTHONPATH": str(ROOT / "src"), "PATH": "/usr/local/bin:/usr/bin:/bin"},
            capture_output=True,
            text=True,
            timeout=200,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {
        "agent_while_full": "alive",
        "captain_while_full": True,
        "state": "COMPLETED",
        "cause": "",
        "incarnation": 1,
    }
