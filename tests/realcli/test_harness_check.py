"""`dogwatch harness check` on a client of the tested version: everything holds, and nothing is left."""

from __future__ import annotations

import json
import os

import pytest

from dogwatch.harness import harness
from realcli.clients import program
from support.fleet import Fleet


def test_everything_holds_of_the_tested_version(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    scratch = fleet.base / "t"
    scratch.mkdir()
    monkeypatch.setenv("TMPDIR", str(scratch))
    done = fleet.cli("harness", "check", "claude", "--program", program("claude"), "--json", check=False)
    (verdict,) = json.loads(done.stdout)
    held = {check["name"]: check["result"] for check in verdict["checks"]}
    assert set(held.values()) == {"holds"}, f"{verdict}\n{done.stderr}"
    assert (verdict["version"], verdict["differs"]) == (harness("claude").version, "same")
    assert done.returncode == 0
    assert not [name for name in os.listdir(scratch) if name.startswith("dogwatch-check")]
    assert not fleet.home.has_ledger, "the check touched the user's home"
