"""README and tutorial are followed word by word, and what they show is what is printed (see `support.documents`)."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from dogwatch.world.home import Home
from support.documents import PROMPT, Block, Pids, blocks
from support.fleet import ROOT, Fleet
from support.helpers import wait_for
from support.shell import Said, Shell

README, TUTORIAL = ROOT / "README.md", ROOT / "docs" / "tutorial.md"
HOMES = {README: ".local/state/dogwatch", TUTORIAL: "tutorial/home"}
"""The homes that the documents lead to, in the folder that is /tmp and HOME for them."""
NOT_EXECUTED = {
    "make demo": "half a minute: tests/integration/test_demo.py runs it and compares its output with the tutorial",
    "make test": "it runs this test",
    "make lint": "it stands beside the tests in .ci/run",
    "make test ARGS='-k f36 -x'": "it runs tests",
    "make coverage": "it runs all tests, this one too",
    "make test-accuracy": "it takes six minutes, and stands beside the tests in .ci/run",
    "make test-realcli": "it installs 1.2 GB from npm, and stands beside the tests in .ci/run",
    "make test-realcli CLIENT=codex": "the same",
    "make bench NAME=hooks": "it measures, and needs a quiet machine",
    "make bench AGAINST=main~5": "it measures two revisions in turns, for an hour",
    "make bench AGAINST=main~5 NAME=cli ROUNDS=3": "the same",
    "make bench STALE=1": "its answer changes with every change of the code; tests/unit/test_provenance.py asks it",
    "make torture ENGINE=postgresql KILLS=1000": "it takes minutes; tests/torture has short ones",
    "make evaluation": "it takes ten minutes; tests/acceptance/test_evaluation.py has a short one",
    "make evaluation ARGS='overnight --seeds 2'": "it takes most of a minute; tests/simulation has a short one",
    "make docs": "it changes the repository; tests/unit/test_docs_are_current.py compares what it would write",
    "make lock": "it needs uv and the network, and changes the repository",
}
"""Commands that are shown and not executed here, with the reason."""
READING = ("dogwatch status", "dogwatch events", "dogwatch explain")
"""Commands that change nothing. A reader who types them a moment later sees more: they are repeated until they print
what is shown."""
LIVE = "dogwatch run"
"""On a terminal it shows a live table on standard error, which is gone when it ends."""
READING_S = 60.0


@pytest.fixture
def shells(fleet: Fleet) -> Iterator[list[Shell]]:
    opened: list[Shell] = []
    yield opened
    for shell in opened:
        shell.close()


@pytest.mark.parametrize("document", [README, TUTORIAL], ids=["README", "tutorial"])
def test_whoever_follows_the_document_sees_what_it_shows(fleet: Fleet, shells: list[Shell], document: Path) -> None:
    reader = Reader(fleet, shells, document)
    followed = [reader.follow(block) for block in blocks(document)]
    assert sum(followed) >= 2, "nothing was executed"
    fleet.cli("down", check=False)
    wait_for(lambda: not fleet.processes(), 30, lambda: f"the end of {fleet.processes()}")


def test_every_command_is_executed_or_has_a_reason_why_not() -> None:
    shown = [command for document in HOMES for block in blocks(document) for command, _ in _commands(block)]
    assert not NOT_EXECUTED.keys() - set(shown), "a reason for a command that no document shows"
    others = [command for command in shown if command.startswith("make ") and command not in NOT_EXECUTED]
    assert not others, "commands that work in the clone itself are not executed here: give the reason"
    languages = [block.language for document in HOMES for block in blocks(document)]
    assert set(languages) == {"console", "sh", "yaml", "text"}, "nobody looks at blocks of another kind"
    assert languages.count("text") == 1, "the demo's output is compared in tests/integration/test_demo.py, no other"


def test_a_wrong_word_is_noticed() -> None:
    shown = "11-15 22:22:51  haiku-1  crew_lost  the captain was found dead (pid 15131) after 3s\n…\n  rss  5 MB  end …"
    printed = "01-02 03:04:05   haiku-1  crew_lost  the captain was found dead (pid 77) after 1m 05s\n"
    pids = Pids()
    assert not pids.match(shown, f"{printed.replace('found', 'seen')}  rss  1.5 GB   end\n")
    assert not pids.match(shown, f"{printed}  rss  1.5 GB   and\n")
    assert not pids.match(shown, printed)
    assert not pids.known, "what did not match has taught something"
    assert pids.match(shown, f"{printed}one\ntwo\n  rss  1.5 GB   end of it\n")
    assert pids.meant("kill -9 15131") == "kill -9 77"
    assert pids.match("pid 15131", "pid 77")
    assert not pids.match("pid 15131", "pid 78"), "the same number is another process"
    assert not pids.match("pid 15132", "pid 77"), "another number is the same process"
    with pytest.raises(AssertionError, match="comes from"):
        pids.meant("kill -9 4711")


@pytest.mark.parametrize("command", NOT_EXECUTED)
def test_make_knows_what_is_not_executed(command: str) -> None:
    words = shlex.split(command)
    done = subprocess.run([*words, "--dry-run"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout


class Reader:
    """Somebody who writes the files that the document shows and types its commands."""

    def __init__(self, fleet: Fleet, shells: list[Shell], document: Path) -> None:
        fleet.home = Home(str(fleet.base / HOMES[document]))
        unset = ("DOGWATCH_HOME", "DOGWATCH_LEDGER")
        environment = {name: value for name, value in fleet.environment.items() if name not in unset}
        self.temporary = f"{fleet.base}/"
        self.shell = Shell(ROOT, environment, fleet.truth)
        shells.append(self.shell)
        self.pids = Pids()

    def follow(self, block: Block) -> int:
        """Does what the block says; how many commands that were."""
        if block.language == "yaml":
            assert block.file, f"no file is named before {block.text!r}"
            (self.shell.folder / block.file).write_text(block.text)
            return 0
        typed = [one for one in _commands(block) if one[0] not in NOT_EXECUTED]
        following = [command for command, _ in typed[1:]] + [""]
        for (command, output), after in zip(typed, following, strict=False):
            self._type(command, output, may_fail=after == "echo $?")
        return len(typed)

    def _type(self, command: str, shown: str, may_fail: bool) -> None:
        meant = self.pids.meant(command).replace("/tmp/", self.temporary)
        repeated = command.startswith(READING) and "--follow" not in command
        said = Said("", "", 0)

        def printed() -> str:
            complaints = "" if command.startswith(LIVE) else said.errors
            return (said.output + complaints).replace(self.temporary, "/tmp/")

        def is_as_shown() -> bool:
            nonlocal said
            said = self.shell.run(meant)
            return self.pids.match(shown, printed())

        what = f"{PROMPT}{command}\n"
        if repeated:
            wait_for(is_as_shown, READING_S, lambda: f"what is shown:\n{what}{shown}\n\nprinted was:\n{printed()}")
        else:
            assert is_as_shown(), f"shown is:\n{what}{shown}\n\nprinted was:\n{printed()}\n{said.errors}"
        assert said.code == 0 or may_fail, f"{what}ended with {said.code}, and no `echo $?` follows"


def _commands(block: Block) -> list[tuple[str, str]]:
    return list(block.commands()) if block.language in ("console", "sh") else []
