"""The sender of one notice: a short-lived process that tries each way once, side by side, and keeps its deadline.

What it notes and prints names a way by its kind and host only: apprise's own messages may quote a whole URL.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import queue
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import partial
from typing import Any

from dogwatch.actions.keeper import MISSING, TIMED_OUT
from dogwatch.actions.notify import read_ways, write_ways
from dogwatch.spec.targets import read_targets, shown

Send = Callable[[], str]
"""Sends on one way; returns why it failed, or an empty text."""

CONNECT_S = 10.0
ANSWER_S = 20.0
LOCK_POLL_S = 0.1


def main() -> int:
    order = json.load(sys.stdin)
    until = time.monotonic() + order["deadline_s"]
    folder, attempt, notice = order["folder"], int(order["attempt"]), order["notice"]
    # Kept open until the process ends, and with it the lock: no two senders of a notice are at it at one time.
    lock = os.open(f"{folder}/lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    if not _lock(lock, until):
        return _tell(notice, "the sender", "another sender of this notice did not end in time")
    known = read_ways(folder)
    due: dict[str, tuple[str, Send]] = {}
    for name, secret, send in _ways(order, until):
        digest = hashlib.sha256(secret.encode()).hexdigest()[:16]
        earlier = known.get(digest)
        # Taken already, or tried by an earlier sender of this very attempt.
        if earlier is None or (earlier["reason"] and earlier["attempt"] < attempt):
            due[digest] = (name, send)
    # A way that was tried under an earlier attempt and is not wanted any more must not count as failed for ever.
    known = {digest: way for digest, way in known.items() if not way["reason"] or way["attempt"] == attempt}

    def note(digest: str, reason: str) -> None:
        name = due.pop(digest)[0]
        known[digest] = {"name": name, "attempt": attempt, "reason": reason}
        write_ways(folder, known)
        _tell(notice, name, reason)

    results: queue.SimpleQueue[tuple[str, str]] = queue.SimpleQueue()
    for digest, (_, send) in due.items():
        threading.Thread(target=_attempt, args=(digest, send, results), daemon=True).start()
    while due:
        try:
            note(*results.get(timeout=max(0.0, until - time.monotonic())))
        except queue.Empty:
            for digest in list(due):
                note(digest, f"no answer within {order['deadline_s']:g} s")
    return 1 if any(way["reason"] for way in known.values()) else 0


def _lock(fd: int, until: float) -> bool:
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if time.monotonic() >= until:
                return False
            time.sleep(LOCK_POLL_S)


def _attempt(digest: str, send: Send, results: queue.SimpleQueue[tuple[str, str]]) -> None:
    try:
        reason = send()
    except Exception as error:
        # Its text may quote the target.
        reason = f"failed with {type(error).__name__}"
    results.put((digest, reason))


def _ways(order: Mapping[str, Any], until: float) -> list[tuple[str, str, Send]]:
    """Each way with its name for people, what it is known by, and how to send."""
    notice = order["notice"]
    targets = [str(target) for target in order["targets"]]
    ways: list[tuple[str, str, Send]] = []
    if path := order["targets_file"]:
        found, reason = _from_file(path)
        targets += found
        if reason:
            ways.append((f"the targets file {os.path.basename(path)}", f"file:{path}", lambda: reason))
    for target in dict.fromkeys(targets):
        ways.append((shown(target), target, partial(send_target, target, notice)))
    if command := order["command"]:
        name = f"command {os.path.basename(command[0])}"
        ways.append((name, f"command:{json.dumps(command)}", partial(run_command, command, notice, until)))
    return ways


def _from_file(path: str) -> tuple[list[str], str]:
    """The targets in the file, and why there are none."""
    try:
        found = [target for _, target in read_targets(path)]
    except (OSError, ValueError) as error:
        return [], f"cannot be read: {type(error).__name__}"
    return found, "" if found else "names no target"


def send_target(target: str, notice: Mapping[str, str]) -> str:
    """Through apprise, which nothing else of dogwatch imports."""
    import apprise

    # A target that has taken a notice and is slow to say so would get it again: patience is cheap here. What a URL
    # says itself with `cto` and `rto` comes first.
    apprise.URLBase.socket_connect_timeout = CONNECT_S
    apprise.URLBase.socket_read_timeout = ANSWER_S
    service = apprise.Apprise(asset=apprise.AppriseAsset(app_id="dogwatch", app_desc="dogwatch"))
    if not service.add(target):
        return "apprise does not understand this URL"
    title = f"{notice['run']}: {notice['title']}" if notice["run"] else notice["title"]
    kind = apprise.NotifyType.INFO if notice["kind"] == "test" else apprise.NotifyType.WARNING
    sent = service.notify(title=title, body=notice["body"] or notice["title"], notify_type=kind)
    if sent:
        return ""
    codes = [code for entry in sent.logs() for code in re.findall(r"error=(\d{3})\b", str(entry.message))]
    return f"it answered {codes[-1]}" if codes else "no connection, or no answer in time"


def run_command(command: list[str], notice: Mapping[str, str], until: float) -> str:
    """The operator's own command; `timeout` ends it with whatever it has started, also where this process dies."""
    limit_s = max(0.1, until - time.monotonic() - 1.0)
    environment = {
        **os.environ,
        "DOGWATCH_NOTICE_KIND": notice["kind"],
        "DOGWATCH_NOTICE_RUN": notice["run"],
        "DOGWATCH_NOTICE_AGENT": notice["agent"],
        "DOGWATCH_NOTICE_TITLE": notice["title"],
        "DOGWATCH_NOTICE_BODY": notice["body"],
    }
    argv = ["timeout", "-k", "1", f"{limit_s:.3f}", *command]
    code = subprocess.run(argv, env=environment, input=json.dumps(notice).encode(), check=False).returncode
    if code == TIMED_OUT:
        return "not finished in time"
    if code in (MISSING, 126):
        return "it cannot be run"
    return f"exit code {code}" if code else ""


def _tell(notice: Mapping[str, str], way: str, reason: str) -> int:
    """One line for the log; 1, for whoever gives up with it."""
    at = datetime.now(UTC).isoformat(timespec="milliseconds")
    sys.stdout.write(f"{at} {notice['kind']} {way}: {reason or 'sent'}\n")
    sys.stdout.flush()
    return 1


if __name__ == "__main__":
    # Threads that hang must not keep the process.
    os._exit(main())
