"""The one way to tell a person: a sender process of its own, so that whoever starts it never waits for a network.

A notice has a folder. In it the sender keeps which ways have taken the notice: a later attempt, or a second sender of
the same attempt, tries only the others.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from dogwatch.actions import keeper
from dogwatch.model.plan import Notify
from dogwatch.model.process import ProcessId
from dogwatch.world.home import Home

DEADLINE_S = 30.0
KILL_AFTER_S = 5.0
"""A sender keeps its deadline by itself; one that does not is ended this much later."""
_SENDER = (sys.executable, "-m", "dogwatch.actions.notify_send")
_WAYS = "ways.json"


@dataclass(frozen=True, slots=True)
class Way:
    """What has become of a notice on one way; its name shows no secret. `reason` is empty where it was taken."""

    name: str
    reason: str


def start(
    home: Home, boot: str, run: str, item: str, notice: Mapping[str, str], attempt: int, ways: Notify
) -> ProcessId:
    """Starts a sender for the notice. One of the same attempt that lives already is waited for by the new one."""
    folder = _folder(home, run, item)
    os.makedirs(f"{folder}/{attempt}", mode=0o700, exist_ok=True)
    with _order(folder, notice, attempt, ways) as stdin:
        return keeper.start(
            boot,
            f"{folder}/{attempt}",
            DEADLINE_S + KILL_AFTER_S,
            _SENDER,
            environment=keeper.open_environment({"DOGWATCH_HOME": home.path}),
            cwd="/",
            log=home.log("notify", run),
            stdin=stdin,
        )


def result(home: Home, run: str, item: str, attempt: int) -> tuple[Way, ...] | None:
    """What has become of the notice on each way, or None where the attempt has not finished."""
    folder = _folder(home, run, item)
    code = keeper.result(f"{folder}/{attempt}")
    if code is None:
        return None
    return _outcome(folder, code)


def send_now(home: Home, notice: Mapping[str, str], ways: Notify) -> tuple[Way, ...]:
    """Sends the notice and waits for it: for an operator who wants to see what happens."""
    with tempfile.TemporaryDirectory(prefix="dogwatch-notice-") as folder, _order(folder, notice, 1, ways) as stdin:
        environment = keeper.open_environment({"DOGWATCH_HOME": home.path})
        limit = f"{DEADLINE_S + KILL_AFTER_S:g}"
        argv = ["timeout", "-k", "5", limit, *_SENDER]
        done = subprocess.run(argv, env=environment, cwd="/", stdin=stdin, stdout=subprocess.DEVNULL, check=False)
        return _outcome(folder, done.returncode)


def read_ways(folder: str) -> dict[str, dict[str, Any]]:
    """What the senders of a notice have noted so far, by the digest of each way."""
    try:
        with open(f"{folder}/{_WAYS}", encoding="utf-8") as file:
            known: dict[str, dict[str, Any]] = json.load(file)
            return known
    except (FileNotFoundError, ValueError):
        return {}


def write_ways(folder: str, ways: Mapping[str, Mapping[str, Any]]) -> None:
    """Notes it so that it is there whole after a kill at any instant."""
    temporary = f"{folder}/{_WAYS}.new"
    with open(temporary, "w", encoding="utf-8", opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
        json.dump(ways, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, f"{folder}/{_WAYS}")


def _outcome(folder: str, code: int) -> tuple[Way, ...]:
    ways = tuple(Way(str(way["name"]), str(way["reason"])) for way in read_ways(folder).values())
    if code == 0 or any(way.reason for way in ways):
        return ways
    words = "did not keep its deadline" if code == keeper.TIMED_OUT else f"failed with exit code {code}"
    return (*ways, Way("the sender", words))


def _folder(home: Home, run: str, item: str) -> str:
    return f"{home.run(run)}/notices/{hashlib.sha256(item.encode()).hexdigest()[:16]}"


@contextlib.contextmanager
def _order(folder: str, notice: Mapping[str, str], attempt: int, ways: Notify) -> Iterator[int]:
    """What the sender is told, on a descriptor for its standard input. Targets never stand in a list of processes, in
    an environment or on a disk."""
    order = {
        "folder": folder,
        "attempt": attempt,
        "deadline_s": DEADLINE_S,
        "notice": dict(notice),
        "targets": ways.targets,
        "targets_file": ways.targets_file,
        "command": ways.command,
    }
    fd = os.memfd_create("notice")
    try:
        with open(fd, "w", encoding="utf-8", closefd=False) as file:
            json.dump(order, file)
        os.lseek(fd, 0, os.SEEK_SET)
        yield fd
    finally:
        os.close(fd)
