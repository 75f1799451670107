"""The engine runs in a fresh interpreter for each call: it may load nothing heavy, and nothing of dogwatch's own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src"
HEAVY = {
    "re",
    "json",
    "typing",
    "dataclasses",
    "enum",
    "collections",
    "functools",
    "inspect",
    "ast",
    "subprocess",
    "os",
}

LOADED = """
import sys
before = set(sys.modules)
sys.path.insert(0, {source!r})
from dogwatch.guard.judge import Caller, judge
verdict = judge({command!r}, Caller())
print(verdict.allowed)
print(*sorted(set(sys.modules) - before))
"""


def loaded(command: str) -> tuple[bool, set[str]]:
    """The verdict on a command, and what a bare interpreter has loaded for it."""
    code = LOADED.format(source=str(SOURCE), command=command)
    argv = [sys.executable, "-I", "-S", "-c", code]
    done = subprocess.run(argv, capture_output=True, text=True, check=True, timeout=120)
    answer, modules = done.stdout.splitlines()
    return answer == "True", set(modules.split())


@pytest.mark.parametrize(
    ("command", "allowed"),
    [
        ("cd x && npm test 2>&1 | tail -5", True),
        ("for i in 1 2 3; do curl -s localhost:$i; done", True),
        ("python3 -c 'import os; os.kill(1, 9)'", False),
        ("node -e 'process.kill(1)'", False),
        ("echo dG11eCBraWxsLXNlcnZlcg== | base64 -d | sh", False),
    ],
)
def test_the_engine_loads_nothing_heavy_and_nothing_else_of_ours(command: str, allowed: bool) -> None:
    answer, modules = loaded(command)
    assert answer == allowed
    assert modules & HEAVY == set()
    assert {name for name in modules if name.startswith("dogwatch.") and not name.startswith("dogwatch.guard")} == set()


def test_the_quick_filter_imports_nothing() -> None:
    source = (SOURCE / "dogwatch" / "guard" / "plain.py").read_text(encoding="utf-8")
    assert [line for line in source.splitlines() if line.startswith(("import ", "from "))] == []


AROUND_THE_ENGINE = {"hook.py", "fast.py", "gemini.py", "full.py", "post.py", "wrapper.py"}
"""They ask the engine, and look at the machine for it."""


def test_the_engine_reads_no_files_no_clock_and_no_environment() -> None:
    forbidden = ("import os", "import time", "import socket", "environ[", 'open("', "subprocess.run(")
    for path in (SOURCE / "dogwatch" / "guard").rglob("*.py"):
        if path.name in AROUND_THE_ENGINE:
            continue
        lines = [
            line for line in path.read_text(encoding="utf-8").splitlines() if line.startswith(("import ", "from "))
        ]
        assert not any(word in line for line in lines for word in forbidden), path.name
