"""The crew's logs: merged by time, tracebacks whole, only whole lines."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from dogwatch.cli.framework import run_command
from dogwatch.cli.logs import LogFile
from support.cli_ledgers import short_home


def line(second: int, member: str, event: str, **fields: object) -> str:
    at = f"2026-01-02T03:04:{second:02d}.000+00:00"
    return json.dumps({"at": at, "level": "info", "member": member, "run": "tide-1", "event": event, **fields}) + "\n"


TRACEBACK = 'Traceback (most recent call last):\n  File "x.py", line 1\nValueError: no\n'


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    with short_home() as folder:
        monkeypatch.setenv("DOGWATCH_HOME", str(folder))
        fill(folder)
        yield folder


def fill(folder: Path) -> None:
    run = folder / "runs" / "tide-1"
    run.mkdir(parents=True)
    captain = (
        line(1, "captain", "started", pid=7) + line(5, "captain", "failed") + TRACEBACK + line(9, "captain", "over")
    )
    (run / "captain.log").write_text(captain)
    (run / "watchdog.log").write_text(line(3, "watchdog", "started") + line(7, "watchdog", "alert", note="two words"))
    (folder / "dispatcher.log").write_text(line(0, "dispatcher", "started"))


def test_the_members_logs_are_merged_by_time_and_a_traceback_stays_whole(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command(["logs", "tide-1"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].endswith(":04:01.000 info  tide-1/captain  started  pid=7")
    assert "watchdog  started" in lines[1]
    assert lines[2].endswith("failed")
    assert lines[3:6] == TRACEBACK.splitlines()
    assert lines[6].endswith('alert  note="two words"')
    assert lines[7].endswith("over")


def test_raw_lines_are_as_they_were_written(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["logs", "tide-1", "captain", "--json"]) == 0
    assert capsys.readouterr().out == (home / "runs" / "tide-1" / "captain.log").read_text()


def test_the_last_lines_are_enough(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["logs", "tide-1", "watchdog", "--lines", "1"]) == 0
    assert "alert" in capsys.readouterr().out
    assert run_command(["logs", "--lines", "0"]) == 0
    assert capsys.readouterr().out == ""


def test_without_a_run_it_is_the_dispatchers(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["logs"], ["logs", "dispatcher"]):
        assert run_command(words) == 0
        assert "dispatcher  started" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "code", "complaint"),
    [
        (["tide-2"], 66, "there are no logs of a run 'tide-2'"),
        (["../runs/tide-1"], 66, "there are no logs of a run"),
        (["tide-1", "writer"], 64, "tide-1 has no crew member 'writer'"),
        (["tide-1", "--lines", "-1"], 64, "--lines is -1"),
    ],
)
def test_what_is_not_there_is_said(
    home: Path, capsys: pytest.CaptureFixture[str], words: list[str], code: int, complaint: str
) -> None:
    assert run_command(["logs", *words]) == code
    captured = capsys.readouterr()
    assert captured.out == ""
    assert f"error: {complaint}" in captured.err
    assert "\nhint: " in captured.err


def test_following_gives_whole_lines_once_and_begins_again_after_a_truncation(tmp_path: Path) -> None:
    path = tmp_path / "captain.log"
    log = LogFile("captain", str(path))
    assert log.last(10) == log.news() == []
    path.write_text(line(1, "captain", "one") + line(2, "captain", "two")[:20])
    assert [json.loads(entry.lines[0])["event"] for entry in log.last(10)] == ["one"]
    assert log.news() == []
    path.write_text(line(1, "captain", "one") + line(2, "captain", "two"))
    assert [json.loads(entry.lines[0])["event"] for entry in log.news()] == ["two"]
    assert log.news() == []
    path.write_text(line(3, "captain", "new"))
    assert [json.loads(entry.lines[0])["event"] for entry in log.news()] == ["new"]


def test_the_last_lines_of_a_large_log_are_found_from_its_end(tmp_path: Path) -> None:
    path = tmp_path / "captain.log"
    path.write_text("".join(line(n % 60, "captain", f"e{n}", text="x" * 500) for n in range(1000)))
    found = LogFile("captain", str(path)).last(200)
    assert [json.loads(entry.lines[0])["event"] for entry in found] == [f"e{n}" for n in range(800, 1000)]


def test_control_characters_of_a_log_do_not_reach_the_terminal(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (home / "dispatcher.log").write_text(line(1, "dispatcher", "odd", note="\x1b[2J") + "raw \x1b[2J bell \x07\n")
    assert run_command(["logs"]) == 0
    assert "\x1b" not in (out := capsys.readouterr().out)
    assert "\x07" not in out
