"""`dogwatch hooks`: the guard in a user's own settings, put in beside all else, taken out without trace, and fired."""

from __future__ import annotations

import json
import os
import shlex
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dogwatch.actions.spawn import HOOK
from dogwatch.cli.framework import run_command
from dogwatch.harness.claude_files import BACKUP
from support.cli_ledgers import short_home

COMMAND = f"{shlex.quote(sys.executable)} -I -S {shlex.quote(HOOK)} PreToolUse alone || exit 2"
OURS: dict[str, Any] = {
    "matcher": "Bash|Write|Edit|MultiEdit|NotebookEdit",
    "hooks": [{"type": "command", "command": COMMAND, "timeout": 30}],
}
OLD = "/opt/python3.11 -I -S '/opt/old place/dogwatch/guard/hook.py' PreToolUse alone || exit 2"
SETTINGS = """{
    "model": "opus",
    "hooks": {
        "Stop": [{"hooks": [{"type": "command", "command": "notify-send done"}]}],
        "PreToolUse": [
            {"matcher": "Bash", "hooks": [{"type": "command", "command": "my-own-check"}]}
        ]
    },
    "permissions": {"allow": ["Bash(ls:*)"]}
}
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A project in which the command is called; the user's home folder is beside it."""
    folder = tmp_path / "my project"
    folder.mkdir()
    (tmp_path / "user").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "user"))
    monkeypatch.delenv("CLAUDE_CONFIG_DIR", raising=False)
    monkeypatch.chdir(folder)
    with short_home() as own:
        monkeypatch.setenv("DOGWATCH_HOME", str(own))
        yield folder


@pytest.fixture
def file(project: Path) -> Path:
    """The project's settings, with hooks of the user's own."""
    path = project / ".claude" / "settings.local.json"
    path.parent.mkdir()
    path.write_text(SETTINGS)
    path.chmod(0o644)
    return path


def hooks(*words: str | Path) -> int:
    return run_command(["hooks", *map(str, words)])


def events(file: Path) -> Any:
    return json.loads(file.read_text())["hooks"]


def with_hooks(*entries: dict[str, Any]) -> str:
    return json.dumps({"hooks": {"PreToolUse": list(entries)}}, indent=2)


def entry(command: str, **more: Any) -> dict[str, Any]:
    return {**OURS, "hooks": [{"type": "command", "command": command, "timeout": 30, **more}]}


def state(capsys: pytest.CaptureFixture[str], *words: str | Path) -> tuple[int, dict[str, dict[str, Any]]]:
    capsys.readouterr()
    code = hooks("status", "--json", *words)
    answer = json.loads(capsys.readouterr().out)
    assert answer["holds"] is (code == 0)
    return code, {place["place"]: place for place in answer["places"]}


def test_it_is_put_beside_other_hooks_and_taken_out_without_a_trace(file: Path) -> None:
    assert hooks("install") == 0
    before = json.loads(SETTINGS)
    before["hooks"]["PreToolUse"].append(OURS)
    assert json.loads(file.read_text()) == before
    assert set(SETTINGS.splitlines()) - set(file.read_text().splitlines()) == {
        '            {"matcher": "Bash", "hooks": [{"type": "command", "command": "my-own-check"}]}'
    }, "a comma was added there"
    assert stat.S_IMODE(file.stat().st_mode) == 0o644
    backup = Path(f"{file}{BACKUP}")
    assert backup.read_text() == SETTINGS
    assert stat.S_IMODE(backup.stat().st_mode) == 0o600
    assert hooks("uninstall") == 0
    assert file.read_text() == SETTINGS
    assert os.listdir(file.parent) == [file.name]


def test_where_nothing_was_nothing_is_left(project: Path) -> None:
    assert hooks("install") == 0
    file = project / ".claude" / "settings.local.json"
    assert json.loads(file.read_text()) == {"hooks": {"PreToolUse": [OURS]}}
    assert hooks("uninstall") == 0
    assert os.listdir(project) == []


@pytest.mark.parametrize("text", ["{}", '{"hooks": {}}', '{"hooks": {"PreToolUse": []}}', '{\n  "model": "opus"\n}\n'])
def test_empty_containers_that_were_there_stay_and_others_go(text: str, file: Path) -> None:
    file.write_text(text)
    assert hooks("install") == 0
    assert events(file)["PreToolUse"] == [OURS]
    assert hooks("uninstall") == 0
    assert file.read_text() == text


def test_what_is_added_meanwhile_stays(file: Path) -> None:
    file.unlink()
    assert hooks("install") == 0
    value = json.loads(file.read_text())
    value["hooks"]["PreToolUse"].insert(0, entry("my-own-check"))
    value["model"] = "opus"
    file.write_text(json.dumps(value))
    assert hooks("uninstall") == 0
    assert json.loads(file.read_text()) == {"hooks": {"PreToolUse": [entry("my-own-check")]}, "model": "opus"}


def test_a_second_time_nothing_is_done(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert hooks("install") == 0
    text, before = file.read_text(), file.stat()
    capsys.readouterr()
    assert hooks("install") == 0
    assert "already installed" in capsys.readouterr().out
    assert (file.read_text(), file.stat().st_mtime_ns) == (text, before.st_mtime_ns)
    assert hooks("uninstall") == hooks("uninstall") == 0
    assert "it was not installed" in capsys.readouterr().out


OTHERS = {"type": "command", "command": "my-own-check"}


@pytest.mark.parametrize(
    ("entries", "kept"),
    [
        ([entry(OLD)], []),
        ([entry(COMMAND, timeout=1)], []),
        ([entry(COMMAND, **{"async": True})], []),
        ([{**OURS, "matcher": "Bash"}], []),
        ([entry(OLD), OURS], []),
        ([{**OURS, "hooks": OURS["hooks"] * 2}], []),
        ([{"matcher": "Bash", "hooks": [OTHERS, *OURS["hooks"]]}], [{"matcher": "Bash", "hooks": [OTHERS]}]),
        ([entry("x"), entry(OLD), entry("y")], [entry("x"), entry("y")]),
    ],
)
def test_an_older_one_is_brought_up_to_date_and_never_doubled(
    entries: list[dict[str, Any]], kept: list[dict[str, Any]], file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file.write_text(with_hooks(*entries))
    code, places = state(capsys)
    assert (code, places["project"]["state"]) in ((1, "outdated"), (1, "broken"))
    assert hooks("install") == 0
    now = events(file)["PreToolUse"]
    assert [one for one in now if one != OURS] == kept
    assert now.count(OURS) == 1
    assert state(capsys)[0] == 0
    assert hooks("uninstall") == 0
    assert json.loads(file.read_text()) == ({"hooks": {"PreToolUse": kept}} if kept else {})


def test_it_may_stand_in_one_entry_with_a_hook_of_the_users(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_text(with_hooks({**OURS, "hooks": [*entry(OLD)["hooks"], OTHERS]}))
    assert hooks("install") == 0
    assert events(file)["PreToolUse"] == [{**OURS, "hooks": [*OURS["hooks"], OTHERS]}]
    assert state(capsys)[0] == 0
    assert hooks("uninstall") == 0
    assert events(file)["PreToolUse"] == [{**OURS, "hooks": [OTHERS]}]


def test_a_dry_run_shows_the_change_and_makes_none(
    file: Path, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert hooks("install", "--dry-run") == 0
    shown = capsys.readouterr().out
    assert f"+++ {file}" in shown
    assert f'"command": {json.dumps(COMMAND)},' in [line[1:].strip() for line in shown.splitlines() if line[0] == "+"]
    assert hooks("install", "--user", "--dry-run", "--json") == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer["changed"], answer["command"]) == (False, COMMAND)
    assert file.read_text() == SETTINGS
    assert os.listdir(project.parent / "user") == []
    assert hooks("install") == 0
    text = file.read_text()
    assert hooks("uninstall", "--dry-run") == 0
    assert file.read_text() == text


def test_the_status_says_it_for_both_places_and_fires_the_hook(
    file: Path, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, places = state(capsys)
    assert code == 1
    assert [(name, place["state"]) for name, place in places.items()] == [
        ("project", "not installed"),
        ("user", "not installed"),
    ]
    assert hooks("install", "--user") == 0
    user = project.parent / "user" / ".claude" / "settings.json"
    assert events(user)["PreToolUse"] == [OURS]
    code, places = state(capsys)
    assert (code, places["project"]["state"], places["user"]["file"]) == (0, "not installed", str(user))
    assert [places["user"][name] for name in ("state", "canary_denied", "harmless_passed")] == ["installed", True, True]
    assert set(state(capsys, "--user")[1]) == {"user"}
    assert hooks("status") == 0
    shown = capsys.readouterr().out
    assert f"project: not installed ({file})\nuser: installed ({user})\n" in shown
    assert "  ok: `tmux kill-server` is denied\n  ok: `ls` passes\n" in shown


def test_a_missing_interpreter_is_broken_and_mended_by_install(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for command in (COMMAND.replace(shlex.quote(sys.executable), "/nowhere/python"), OLD):
        file.write_text(with_hooks(entry(command)))
        code, places = state(capsys)
        assert (code, places["project"]["state"]) == (1, "broken")
        assert "every tool is denied" in places["project"]["detail"]
        assert hooks("status") == 1
        assert "hint: dogwatch hooks install" in capsys.readouterr().out
        assert hooks("install") == 0
        assert state(capsys)[0] == 0


def test_a_guard_that_is_switched_off_does_not_hold(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert hooks("install") == 0
    shared = file.parent / "settings.json"
    shared.write_text('{"disableAllHooks": true}')
    code, places = state(capsys)
    assert (code, places["project"]["state"]) == (1, "disabled")
    assert str(shared) in places["project"]["detail"]
    file.write_text(json.dumps({**json.loads(file.read_text()), "disableAllHooks": False}))
    assert state(capsys)[0] == 0


def test_only_dogwatchs_own_line_is_ever_run(file: Path, project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trap = project / "dogwatch" / "guard"
    trap.mkdir(parents=True)
    (trap / "hook.py").write_text(f"open({str(project / 'sprung')!r}, 'w')")
    line = f"{shlex.quote(sys.executable)} -I -S {shlex.quote(str(trap / 'hook.py'))} PreToolUse alone || exit 2"
    for command in (line, f"touch sprung; {COMMAND}", COMMAND.replace("exit 2", "$(touch sprung)")):
        file.write_text(with_hooks(entry(command)))
        code, places = state(capsys)
        assert code == 1
        assert places["project"]["canary_denied"] is None
    assert not (project / "sprung").exists()


def test_hooks_of_others_that_only_look_like_it_are_left_alone(file: Path) -> None:
    text = with_hooks(
        entry("python3 guard/hook.py PreToolUse"), entry(f"nice {COMMAND}"), {"hooks": [{"type": "http"}]}
    )
    file.write_text(text)
    assert hooks("install") == 0
    assert len(events(file)["PreToolUse"]) == 4
    assert hooks("uninstall") == 0
    assert file.read_text() == text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[]", "settings.local.json is no JSON object"),
        ('{"hooks": []}', "hooks in "),
        ('{"hooks": {"PreToolUse": {}}}', "hooks.PreToolUse in "),
        ('{"hooks": {"PreToolUse": ["x"]}}', "hooks.PreToolUse[0] in "),
        ('{"hooks": {"PreToolUse": [{"hooks": "x"}]}}', "hooks.PreToolUse[0].hooks in "),
        ('{"hooks": {"PreToolUse": [{"hooks": [3]}]}}', "hooks.PreToolUse[0].hooks[0] in "),
        ('{"a": 1, // no\n}', "is no JSON: "),
    ],
)
def test_settings_of_an_unexpected_shape_are_left_alone(
    text: str, message: str, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file.write_text(text)
    for verb in ("install", "uninstall"):
        assert hooks(verb) == 77
        error = capsys.readouterr().err
        assert message in error
        assert "hint: nothing was changed" in error
        assert file.read_text() == text
    code, places = state(capsys)
    assert (code, places["project"]["state"]) == (1, "unreadable")
    assert os.listdir(file.parent) == [file.name]


def test_settings_that_may_not_be_written_are_left_alone(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.chmod(0o444)
    assert hooks("install") == 77
    assert f"{file} is read-only" in capsys.readouterr().err
    assert file.read_text() == SETTINGS


def test_the_folder_and_the_configuration_can_be_named(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    other = project.parent / "other"
    other.mkdir()
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(project.parent / "conf"))
    assert hooks("install", "--project", other) == 0
    assert hooks("install", "--user") == 0
    assert events(other / ".claude" / "settings.local.json") == events(project.parent / "conf" / "settings.json")
    assert hooks("install", "--project", project / "nowhere") == 66
    assert "is no folder that is there" in capsys.readouterr().err
    assert hooks("install", "--project", other, "--user") == 64
    assert os.listdir(project) == []
