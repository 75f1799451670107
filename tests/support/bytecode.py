"""The tests' bytecode, made once before the workers start: to rewrite every assertion takes ten seconds, and each
worker would do it by itself, all at the same time."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

FEW = 20
"""So many changed files are rewritten by each worker in less time than another collection takes."""


def stale(folder: Path) -> list[Path]:
    """The files whose rewritten bytecode is missing or older than they are; those of real clients run on their own."""
    found = sorted(folder.rglob("test_*.py"))
    return [path for path in found if "realcli" not in path.parts and not _is_current(path)]


def make(folder: Path, config: Path) -> None:
    """Collects every file that has changed, in as many processes as there are cores; what is wrong with one of them is
    for the workers to say."""
    files = stale(folder)
    if sys.dont_write_bytecode or len(files) <= FEW:
        return
    cores = os.cpu_count() or 1
    command = [sys.executable, "-m", "pytest", "-c", str(config), "-p", "no:cacheprovider", "--collect-only", "-qq"]
    environment = {name: value for name, value in os.environ.items() if name != "PYTEST_ADDOPTS"}
    under_way = [
        subprocess.Popen(
            [*command, *map(str, files[core::cores])],
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for core in range(cores)
    ]
    for process in under_way:
        process.wait()


def _is_current(path: Path) -> bool:
    written = path.stat().st_mtime
    cached = (path.parent / "__pycache__").glob(f"{path.stem}.{sys.implementation.cache_tag}-pytest-*.pyc")
    return any(file.stat().st_mtime >= written for file in cached)
