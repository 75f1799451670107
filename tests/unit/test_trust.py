"""`dogwatch trust`: what it writes into Claude Code's own file, that nothing else changes, and how it is taken back."""

from __future__ import annotations

import json
import os
import pty
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dogwatch.cli.framework import run_command
from dogwatch.errors import AwayError
from dogwatch.harness.claude_files import BACKUP, TRIES_MAX, change
from support.cli_ledgers import short_home
from support.helpers import wait_for

KEY = "hasTrustDialogAccepted"
# As the client writes it, with things that a careless writer would change.
FILE = """{
  "numStartups": 12,
  "zeta": 1.10,
  "oauthAccount": {"emailAddress": "\\u00e9@example.org"},
  "projects": {
    "/srv/other": {
      "allowedTools": [],
      "hasTrustDialogAccepted": true
    }
  },
  "alpha": [ 1,2 ]
}
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The user's home folder, with a project in it; dogwatch has one of its own."""
    user = tmp_path / "user"
    (user / "app").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(user))
    monkeypatch.delenv("CLAUDE_CONFIG_DIR", raising=False)
    with short_home() as own:
        monkeypatch.setenv("DOGWATCH_HOME", str(own))
        yield Path(os.path.realpath(user))


@pytest.fixture
def file(home: Path) -> Path:
    path = home / ".claude.json"
    path.write_text(FILE)
    path.chmod(0o640)
    return path


def trust(*words: str | Path) -> int:
    return run_command(["trust", *map(str, words)])


def told(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(capsys.readouterr().out)
    return value


def entry(file: Path, folder: Path) -> Any:
    return json.loads(file.read_text())["projects"].get(str(folder))


def test_only_the_one_key_is_added_and_undo_leaves_no_trace(file: Path, home: Path) -> None:
    app = home / "app"
    assert trust(app, "--yes") == 0
    text = file.read_text()
    assert json.loads(text) == {
        **json.loads(FILE),
        "projects": {**json.loads(FILE)["projects"], str(app): {KEY: True}},
    }
    added = [line for line in text.splitlines() if line not in FILE.splitlines()]
    assert added == ["    },", f'    "{app}": {{']
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    backup = Path(f"{file}{BACKUP}")
    assert backup.read_text() == FILE
    assert stat.S_IMODE(backup.stat().st_mode) == 0o600
    assert trust(app, "--undo") == 0
    assert file.read_text() == FILE
    assert sorted(os.listdir(home)) == [".claude.json", "app"]


def test_the_change_is_shown_and_a_dry_run_makes_none(
    file: Path, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert trust(home / "app", "--dry-run") == 0
    shown = capsys.readouterr().out
    assert f"{file}\n" in shown
    assert f"projects > {home / 'app'}\n" in shown
    assert f"{KEY}: (not set) -> true\n" in shown
    assert file.read_text() == FILE
    assert trust("--list", "--json") == 0
    assert json.loads(capsys.readouterr().out) == []


def test_a_second_time_nothing_is_done(file: Path, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert trust(home / "app", "--yes") == 0
    before = file.stat()
    capsys.readouterr()
    assert trust(home / "app") == 0
    assert "already trusted" in capsys.readouterr().out
    assert (file.stat().st_ino, file.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_what_the_user_has_trusted_is_never_taken_back(
    file: Path, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = home / "app"
    file.write_text(FILE.replace("/srv/other", str(other)))
    assert trust(other, "--yes") == 0
    assert trust(other, "--undo") == 77
    assert "dogwatch has given no trust to" in capsys.readouterr().err
    assert entry(file, other)[KEY] is True


def test_undo_takes_back_its_own_also_when_the_client_has_written_since(file: Path, home: Path) -> None:
    app = home / "app"
    assert trust(app, "--yes") == 0
    value = json.loads(file.read_text())
    value["numStartups"] = 13
    value["projects"][str(app)]["allowedTools"] = ["Bash"]
    value["projects"]["/srv/new"] = {KEY: True}
    file.write_text(json.dumps(value))
    assert trust(app, "--undo") == 0
    del value["projects"][str(app)][KEY]
    assert json.loads(file.read_text()) == value


def test_undo_gives_back_the_value_that_was_there(file: Path, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    app = home / "app"
    refused = FILE.replace("/srv/other", str(app)).replace(f'"{KEY}": true', f'"{KEY}": false')
    file.write_text(refused)
    assert trust(app, "--yes", "--json") == 0
    answer = told(capsys)
    assert (answer["before"], answer["after"], answer["changed"]) == (False, True, True)
    assert (answer["file"], answer["folder"], answer["backup"]) == (str(file), str(app), f"{file}{BACKUP}")
    assert entry(file, app)[KEY] is True
    assert trust(app, "--undo", "--json") == 0
    assert told(capsys)["after"] is False
    assert file.read_text() == refused


def test_a_trust_that_is_gone_already_is_only_forgotten(file: Path, home: Path) -> None:
    assert trust(home / "app", "--yes") == 0
    file.write_text(FILE)
    assert trust(home / "app", "--undo") == 0
    assert file.read_text() == FILE
    assert trust(home / "app", "--undo") == 77


def test_a_folder_that_is_gone_can_still_be_taken_back(file: Path, home: Path) -> None:
    assert trust(home / "app", "--yes") == 0
    (home / "app").rmdir()
    assert trust(home / "app", "--undo") == 0
    assert file.read_text() == FILE


def test_the_file_need_not_exist_and_is_gone_again_after_undo(home: Path) -> None:
    assert trust(home / "app", "--yes") == 0
    file = home / ".claude.json"
    assert json.loads(file.read_text()) == {"projects": {str(home / "app"): {KEY: True}}}
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert trust(home / "app", "--undo") == 0
    assert os.listdir(home) == ["app"]


def test_the_list_says_what_was_given_and_whether_it_still_holds(
    file: Path, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (home / "two").mkdir()
    assert trust(home / "app", "--yes") == trust(home / "two", "--yes") == 0
    file.write_text(file.read_text().replace(str(home / "two"), "/srv/elsewhere"))
    capsys.readouterr()
    assert trust("--list", "--json") == 0
    rows = json.loads(capsys.readouterr().out)
    assert rows == [
        {"folder": str(home / "app"), "file": str(file), "trusted": True},
        {"folder": str(home / "two"), "file": str(file), "trusted": False},
    ]
    assert trust("--list") == 0
    assert f"{home / 'app'}  trusted in" in capsys.readouterr().out


def test_the_real_path_is_the_key_and_a_link_to_the_file_stays_one(home: Path) -> None:
    (home / "dotfiles").mkdir()
    (home / "dotfiles/claude.json").write_text(FILE)
    (home / ".claude.json").symlink_to("dotfiles/claude.json")
    (home / "link").symlink_to("app")
    assert trust(home / "link", "--yes") == 0
    assert (home / ".claude.json").is_symlink()
    assert entry(home / "dotfiles/claude.json", home / "app") == {KEY: True}
    assert (home / f"dotfiles/claude.json{BACKUP}").read_text() == FILE


def test_the_file_is_where_the_client_looks_for_it(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(home / "conf"))
    assert trust(home / "app", "--yes") == 0
    assert entry(home / "conf/.claude.json", home / "app") == {KEY: True}
    assert not (home / ".claude.json").exists()
    (home / "conf/.config.json").write_text("{}")
    (home / "two").mkdir()
    assert trust(home / "two", "--yes") == 0
    assert entry(home / "conf/.config.json", home / "two") == {KEY: True}


@pytest.mark.parametrize("folder", ["~", "~/..", "/"])
def test_a_folder_that_holds_the_whole_home_is_refused(
    folder: str, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert trust(os.path.expanduser(folder), "--yes") == 77
    error = capsys.readouterr().err
    assert "holds your whole home folder" in error
    assert "hint: trust the project's own folder" in error
    assert file.read_text() == FILE


def test_what_is_no_folder_is_refused(file: Path, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for path in (home / "nowhere", file):
        assert trust(path, "--yes") == 66
        assert f"{path} is no folder that is there" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b'{"projects": {', "is no JSON: "),
        (b"[]", "is no JSON object"),
        (b'{"projects": []}', "projects in "),
        (b'{"projects": {"APP": true}}', "is no JSON object"),
        (b'{"a": "\xff"}', "is no UTF-8 text"),
        (b'{"a": NaN}', "is no JSON: "),
    ],
)
def test_a_file_that_cannot_be_understood_is_left_alone(
    text: bytes, message: str, file: Path, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = text.replace(b"APP", os.fsencode(home / "app"))
    file.write_bytes(text)
    assert trust(home / "app", "--yes") == 77
    error = capsys.readouterr().err
    assert message in error
    assert "hint: nothing was changed" in error
    assert file.read_bytes() == text
    assert sorted(os.listdir(home)) == [".claude.json", "app"]


def test_a_file_that_may_not_be_written_is_left_alone(
    file: Path, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file.chmod(0o400)
    assert trust(home / "app", "--yes") == 77
    assert f"{file} is read-only" in capsys.readouterr().err
    assert file.read_text() == FILE
    assert trust(home / "app", "--undo") == 77, "nothing was given"
    file.unlink()
    file.mkdir()
    assert trust(home / "app", "--yes") == 77
    assert "is no regular file" in capsys.readouterr().err


def test_without_a_terminal_a_person_must_have_agreed(
    file: Path, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "dogwatch", "trust", str(home / "app")],
        input="y\n",
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 77
    assert "there is no terminal to ask on\nhint: --yes" in done.stderr
    assert file.read_text() == FILE


@pytest.mark.parametrize(("answer", "code"), [("y", 0), ("n", 1), ("", 1)])
def test_on_a_terminal_it_asks(answer: str, code: int, file: Path, home: Path) -> None:
    ours, theirs = pty.openpty()
    shown = bytearray()

    def read() -> None:
        try:
            while part := os.read(ours, 4096):
                shown.extend(part)
        except OSError:
            pass  # the last process that held the terminal has ended

    client = subprocess.Popen(
        [sys.executable, "-m", "dogwatch", "trust", str(home / "app")], stdin=theirs, stdout=theirs, stderr=theirs
    )
    os.close(theirs)
    reader = threading.Thread(target=read)
    reader.start()
    try:
        wait_for(lambda: b"[y/N]" in shown, what="the question")
        assert b"(not set) -> true" in shown
        assert file.read_text() == FILE
        os.write(ours, f"{answer}\n".encode())
        assert client.wait(timeout=120) == code
    finally:
        client.kill()
        client.wait()
        reader.join(60)
        os.close(ours)
    assert (entry(file, home / "app") is not None) == (code == 0)


@pytest.mark.parametrize("words", [[], ["--list", "x"], ["x", "--undo", "--list"], ["a", "b"]])
def test_wrong_calls_say_what_is_wrong(words: list[str], home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert trust(*words) == 64
    assert "hint: dogwatch trust --help" in capsys.readouterr().err


def test_what_the_client_writes_meanwhile_is_not_lost(file: Path) -> None:
    rounds: list[str | None] = []

    def edit(text: str | None) -> str | None:
        if len(rounds) < 2:
            rounds.append(text)
            file.write_text(FILE.replace("12", f"{13 + len(rounds)}"))
        return (text or "") + "\n"

    assert change(str(file), edit)
    assert file.read_text() == FILE.replace("12", "15") + "\n"
    assert not [name for name in os.listdir(file.parent) if name not in ("app", file.name, file.name + BACKUP)]


def test_a_file_that_never_rests_is_given_up(file: Path) -> None:
    rounds: list[str | None] = []

    def edit(text: str | None) -> str | None:
        rounds.append(text)
        file.write_text(FILE + " " * len(rounds))
        return (text or "") + "\n"

    with pytest.raises(AwayError):
        change(str(file), edit)
    assert len(rounds) == TRIES_MAX
    assert file.read_text() == FILE + " " * TRIES_MAX


def test_the_clients_own_lock_is_waited_for_and_given_back(file: Path, home: Path) -> None:
    lock = Path(f"{file}.lock")
    lock.mkdir()
    os.utime(lock, (time.time() + 3600,) * 2)  # not stale, however slow this machine is
    waiting = subprocess.Popen([sys.executable, "-m", "dogwatch", "trust", str(home / "app"), "--yes"])
    try:
        with pytest.raises(subprocess.TimeoutExpired):
            waiting.wait(1)
        assert file.read_text() == FILE
        lock.rmdir()
        assert waiting.wait(120) == 0
    finally:
        waiting.kill()
        waiting.wait()
    assert entry(file, home / "app") == {KEY: True}
    assert not lock.exists()


def test_a_lock_that_a_dead_client_has_left_is_taken_over(file: Path, home: Path) -> None:
    lock = Path(f"{file}.lock")
    lock.mkdir()
    os.utime(lock, (0, 0))
    assert trust(home / "app", "--yes") == 0
    assert entry(file, home / "app") == {KEY: True}
    assert not lock.exists()


def test_many_at_once_are_all_given(file: Path, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folders = [home / f"app-{number}" for number in range(6)]
    for folder in folders:
        folder.mkdir()
    argv = [sys.executable, "-m", "dogwatch", "trust", "--yes"]
    running = [subprocess.Popen([*argv, str(folder)], stdout=subprocess.DEVNULL) for folder in folders]
    assert [client.wait(120) for client in running] == [0] * len(folders)
    assert all(entry(file, folder) == {KEY: True} for folder in folders)
    assert trust("--list", "--json") == 0
    assert {row["folder"] for row in json.loads(capsys.readouterr().out)} == set(map(str, folders))
