"""Runs the tests and says how much of the product they have run: lines and branches, in all processes that are seen.

Those are the tests' own workers and every Python that inherits their environment: crew members, commands, senders of
notices. Not seen are hooks, which run isolated (`python -I -S`), agents and what they call, whose environment is
filtered, and the last moments of whatever is killed with SIGKILL, which the tests do all the time.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LEAST = 20
"""So many of the least covered files are named."""


def measure(folder: str, arguments: list[str]) -> int:
    """The tests' exit code; everything that was measured lies in the folder."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment["COVERAGE_FILE"] = os.path.join(folder, "data")
    run = [sys.executable, "-m", "coverage"]
    tests = [*run, "run", "-m", "pytest", "-n", "6", "--dist", "worksteal", *arguments]
    code = subprocess.run(tests, cwd=ROOT, env=environment, check=False).returncode
    for words in (["combine", "--quiet"], ["json", "--quiet", "-o", os.path.join(folder, "report.json")]):
        subprocess.run([*run, *words], cwd=ROOT, env=environment, check=True)
    return code


def told(report: Path) -> str:
    """The figure and the least covered files."""
    found = json.loads(report.read_text())
    files = {name: one["summary"] for name, one in found["files"].items() if one["summary"]["num_statements"]}
    worst = sorted(files, key=lambda name: files[name]["percent_covered"])[:LEAST]
    lines = [f"{files[name]['percent_covered']:6.1f} %  {name.removeprefix('src/')}" for name in worst]
    totals = found["totals"]
    share = totals["percent_statements_covered"], totals["percent_branches_covered"]
    lines += ["", "lines {:.1f} %, branches {:.1f} %".format(*share)]
    return "\n".join(["least covered:", *lines, f"coverage {totals['percent_covered']:.1f} %"])


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="dw-coverage-") as folder:
        code = measure(folder, sys.argv[1:])
        print(told(Path(folder) / "report.json"))
    return code


if __name__ == "__main__":
    sys.exit(main())
