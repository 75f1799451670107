"""F54: a pid that another process has now is not the process that was meant."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from support.fleet import ROOT


def test_f54_a_process_that_reuses_a_pid_is_dead_for_us_and_never_signalled() -> None:
    script = Path(__file__).with_name("f54_reuse.py")
    done = subprocess.run(
        ["unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount-proc", sys.executable, str(script)],
        env={"PYTHONPATH": str(ROOT / "src"), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {
        "same_pid": True,
        "old_life": "dead",
        "old_pidfd": None,
        "signalled": False,
        "second_lives": True,
    }
