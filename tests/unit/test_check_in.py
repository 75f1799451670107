"""A check-in: what it refuses before anybody is asked, and how each client's copy is started."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace

import pytest

from dogwatch.cli.framework import run_command
from dogwatch.coordination.runs import create_run
from dogwatch.harness import Launch, harness
from dogwatch.ledger.api import Store
from dogwatch.ledger.records import change
from dogwatch.model import keys
from dogwatch.model.keys import checkins_queue
from dogwatch.model.life import GivenUp
from dogwatch.model.plan import Plan, Role
from dogwatch.model.records import AgentRecord
from support.cli_ledgers import PLAN, add_run, end_run, ledger_at, short_home

TALKERS = replace(
    PLAN,
    name="talk",
    roles=(Role(name="writer", harness="claude"), Role(name="auditor", count=2, harness="scripted", script="a.yaml")),
)


@pytest.fixture
def ledger(monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    with short_home() as folder, ledger_at(folder) as store:
        monkeypatch.setenv("DOGWATCH_HOME", str(folder))
        yield store


def make(store: Store, plan: Plan) -> str:
    return store.run(lambda tx: create_run(tx, plan, "/p", "/p/out", "/p/pipeline.yaml")).run


def refusal(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    """The exit code of a check-in that is refused, its error and its hint."""
    code = run_command(["check-in", *words])
    error, hint = capsys.readouterr().err.splitlines()
    return code, error.removeprefix("error: "), hint.removeprefix("hint: ")


def test_nobody_is_asked_who_is_not_there(ledger: Store, capsys: pytest.CaptureFixture[str]) -> None:
    run = make(ledger, TALKERS)
    for target in ("", run, f"{run}/", "/writer"):
        assert refusal(capsys, target, "How far?")[:2] == (64, f"{target!r} names no agent")
    for question in ("", "  ", "x" * 4001):
        assert refusal(capsys, f"{run}/writer", question)[0] == 64
    assert refusal(capsys, "talk/writer", "How far?")[:2] == (66, "there is no run 'talk'")
    code, error, hint = refusal(capsys, f"{run}/auditor", "How far?")
    assert (code, error, hint) == (66, f"{run} has no agent 'auditor'", f"dogwatch status {run} lists them")
    code, error, _ = refusal(capsys, f"{run}/writer", "How far?", "--to", "editor")
    assert (code, error) == (66, f"{run} has no agent 'editor'")
    assert not ledger.read(lambda r: r.items(checkins_queue(run)))


def test_nobody_is_asked_who_cannot_answer(ledger: Store, capsys: pytest.CaptureFixture[str]) -> None:
    plain, over, run = add_run(ledger), make(ledger, TALKERS), make(ledger, TALKERS)
    end_run(ledger, over)
    code, error, hint = refusal(capsys, f"{plain}/writer", "How far?")
    assert (code, error) == (77, "writer, a command, has no conversation that could be asked")
    assert hint == f"dogwatch explain {plain}/writer says what it is doing"
    assert refusal(capsys, f"{over}/writer", "How far?")[:2] == (77, f"{over} is over (COMPLETED)")
    ledger.run(lambda tx: change(tx, AgentRecord, f"agent/{run}/writer", lambda a: replace(a, life=GivenUp(cause="x"))))
    code, error, hint = refusal(capsys, f"{run}/writer", "How far?")
    assert (code, error, hint) == (77, "writer was given up and reads no mail", "--to AGENT names another one")
    ledger.run(lambda tx: tx.put(keys.down(tx.host), {"by": 1}))
    code, error, hint = refusal(capsys, f"{run}/writer", "How far?", "--to", "auditor-1")
    assert (code, hint) == (75, "dogwatch up goes on with them")
    assert "taken down" in error
    assert not ledger.read(lambda r: [*r.items(checkins_queue(run)), *r.items(checkins_queue(plain))])


def launch(role: Role) -> Launch:
    return Launch(role=role, python="/usr/bin/python3", hook="/p/hook.py", folder="/home/agents/x", conversation="c-1")


def test_claudes_copy_may_only_read_and_leaves_nothing_behind() -> None:
    role = Role(name="x", command=("/opt/claude", "--mcp-config", "m.json"), permissions=("Edit", "deny: Read(./.env)"))
    start = harness("claude").check_in(launch(role), "--version?")
    assert start is not None
    assert not start.files
    words = list(start.command)
    assert words[:4] == ["/opt/claude", "--mcp-config", "m.json", "-p"]
    assert words[4].endswith("\n--version?"), "not taken for a flag, nor for a value of one"
    assert words[5:9] == ["--resume", "c-1", "--fork-session", "--no-session-persistence"]
    assert words[-3:] == ["mcp__*", "--tools", "Read,Grep,Glob"]
    settings = json.loads(words[words.index("--settings") + 1])
    rules = {"allow": ["Bash(dogwatch:*)", "Edit"], "deny": ["Read(./.env)"], "defaultMode": "default"}
    assert settings == {"permissions": rules}, "the role's rules, and no hooks"


def test_a_plain_command_has_nothing_that_could_be_asked() -> None:
    assert harness("command").check_in(launch(Role(name="x", command=("true",))), "How far?") is None
    scripted = harness("scripted").check_in(launch(Role(name="x", script="s.yaml")), "How far?")
    assert scripted is not None
    assert scripted.command[-4:] == ("--scenario", "s.yaml", "--check-in", "How far?")
