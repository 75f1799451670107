"""The agents' commands as a captain hears them: what goes over the wire, what is printed, and what is loaded for it."""

from __future__ import annotations

import io
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dogwatch.cli.framework import run_command


class Captain:
    """Answers at a door with what it was told to say, and keeps what it heard."""

    def __init__(self, path: str) -> None:
        self.answers: list[dict[str, Any]] = []
        self.heard: list[dict[str, Any]] = []
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(path)
        self._listener.listen(8)
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._listener.close()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with connection, connection.makefile("rwb") as stream:
                self.heard.append(json.loads(stream.readline()))
                stream.write(json.dumps(self.answers.pop(0)).encode() + b"\n")


@pytest.fixture
def captain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Captain]:
    for name, value in environment(str(tmp_path / "door")).items():
        monkeypatch.setenv(name, value)
    captain = Captain(str(tmp_path / "door"))
    yield captain
    captain.close()


def environment(door: str) -> dict[str, str]:
    told = {"DOGWATCH_RUN": "tide-1", "DOGWATCH_ROLE": "writer", "DOGWATCH_INCARNATION": "3"}
    return {**told, "DOGWATCH_DOOR": door, "DOGWATCH_DOOR_WAIT_S": "20"}


MAIL = [{"message": "m1", "from": "reader", "text": "hello"}]
INBOX = "m1 from reader:\nhello\n\nWhen you have dealt with a letter, say so:\ndogwatch mail ack m1\n"
CALLS: list[tuple[list[str], str, dict[str, Any], dict[str, Any], str]] = [
    (
        ["report", "done"],
        "report",
        {"result": "done", "task": "", "note": ""},
        {"task": "draft", "state": "reported"},
        "draft: reported\n",
    ),
    (
        ["report", "--note", "gone", "failed", "--task", "draft"],
        "report",
        {"result": "failed", "task": "draft", "note": "gone"},
        {"task": "draft", "state": "failed"},
        "draft: failed\n",
    ),
    (["claim", "collect"], "claim", {"task": "collect"}, {"task": "collect", "text": "Do\nit."}, "Do\nit.\n"),
    (
        ["task", "send", "reader", "check", "--expect", "1h30m", "--output", "a.md", "--output", "b.md"],
        "task_send",
        {"to": "reader", "text": "check", "expect_s": 5400.0, "outputs": ["a.md", "b.md"]},
        {"task": "writer.1"},
        "writer.1: you get mail when it is done or has failed\n",
    ),
    (
        ["task", "send", "reader", "--expect", ""],
        "task_send",
        {"to": "reader", "text": "from stdin\n", "expect_s": None, "outputs": []},
        {"task": "writer.1"},
        "writer.1: you get mail when it is done or has failed\n",
    ),
    (["mail", "read"], "mail_read", {}, {"mail": MAIL}, INBOX),
    (["mail", "read"], "mail_read", {}, {"mail": []}, "no mail\n"),
    (["mail", "ack", "m1"], "mail_ack", {"message": "m1"}, {"message": "m1"}, "m1: acknowledged\n"),
    (["mail", "send", "reader", "hi"], "mail_send", {"to": "reader", "text": "hi"}, {"message": "m2"}, "m2\n"),
    (
        ["mail", "send", "reader", "-"],
        "mail_send",
        {"to": "reader", "text": "from stdin\n"},
        {"message": "m2", "held": "held until you have read it"},
        "m2: held until you have read it\n",
    ),
    (
        ["checkpoint", "revise", "review", "--note", "more"],
        "checkpoint",
        {"verdict": "revise", "checkpoint": "review", "note": "more"},
        {"checkpoint": "review", "state": "asked"},
        "review: revise noted\n",
    ),
    (
        ["subagent", "skip", "researcher", "--note", "why"],
        "subagent_skip",
        {"type": "researcher", "note": "why"},
        {"type": "researcher", "skipped": 2},
        "researcher: skip noted\n",
    ),
    (["heartbeat"], "heartbeat", {"progress_percent": None}, {}, ""),
    (["heartbeat", "--progress", "40"], "heartbeat", {"progress_percent": 40.0}, {}, ""),
]


@pytest.mark.parametrize(("words", "op", "body", "answer", "text"), CALLS, ids=lambda value: str(value)[:40])
def test_each_command_asks_and_tells_as_it_always_did(
    captain: Captain,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    op: str,
    body: dict[str, Any],
    answer: dict[str, Any],
    text: str,
) -> None:
    captain.answers += [{"ok": True, **answer, "newer": 1}, {"ok": True, **answer}]
    monkeypatch.setattr(sys, "stdin", io.StringIO("from stdin\n"))
    assert run_command(words) == 0
    assert capsys.readouterr().out == text
    monkeypatch.setattr(sys, "stdin", io.StringIO("from stdin\n"))
    assert run_command([*words, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == (answer["mail"] if op == "mail_read" else answer)
    ids = {heard.pop("op_id") for heard in captain.heard}
    assert len(ids) == 2
    assert all(len(one) == 32 for one in ids)
    assert captain.heard == [{**body, "op": op, "run": "tide-1", "agent": "writer", "incarnation": 3}] * 2


@pytest.mark.parametrize(
    ("code", "exit_code"), [("usage", 64), ("refused", 77), ("stale", 77), ("unmarked", 77), ("away", 75)]
)
def test_a_refusal_is_shown_with_its_hint_and_its_exit_code(
    captain: Captain, capsys: pytest.CaptureFixture[str], code: str, exit_code: int
) -> None:
    captain.answers += [{"ok": False, "code": code, "message": "not so", "hint": "but so"}]
    assert run_command(["mail", "read"]) == exit_code
    assert capsys.readouterr().err == "error: not so\nhint: but so\n"


def test_a_captain_that_is_busy_is_asked_again_with_the_same_operation_id(captain: Captain) -> None:
    captain.answers += [{"ok": False, "code": "busy", "message": "the ledger is locked", "hint": ""}, {"ok": True}]
    assert run_command(["heartbeat"]) == 0
    assert len(captain.heard) == 2
    assert captain.heard[0] == captain.heard[1]


HEAVY = ("ledger", "coordination", "policy", "crew", "actions", "spec", "world", "sim")


@pytest.mark.parametrize(("words", "op"), {" ".join(words[:2]): (words, op) for words, op, *_ in CALLS}.values())
def test_a_command_loads_its_own_verb_and_nothing_heavy(words: list[str], op: str, tmp_path: Path) -> None:
    """Each goes all the way to a captain's door, where nobody answers."""
    told = {**environment(str(tmp_path / "door")), "DOGWATCH_DOOR_WAIT_S": "0"}
    code = "import sys; from dogwatch.cli import main; c = main(sys.argv[1:]); print(*sys.modules); sys.exit(c)"
    argv = [sys.executable, "-c", code, *words]
    done = subprocess.run(
        argv, capture_output=True, text=True, check=False, env={**os.environ, **told}, stdin=subprocess.DEVNULL
    )
    assert done.returncode == 75, done.stderr
    loaded = set(done.stdout.split())
    assert {name for name in loaded if name.startswith("dogwatch.door.verbs.")} == {f"dogwatch.door.verbs.{op}"}
    assert not {f"dogwatch.{name}" for name in HEAVY} & loaded
    assert not {"pydantic", "yaml", "sqlite3", "psycopg", "rich", "uuid"} & loaded
    assert not [name for name in loaded if name.startswith("dogwatch.model")]
