"""Completions, sourced by the real shells."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from dogwatch.cli.commands import all_commands
from dogwatch.cli.framework import run_command


def script(shell: str, capsys: pytest.CaptureFixture[str]) -> str:
    assert run_command(["completions", shell]) == 0
    return capsys.readouterr().out


@pytest.fixture
def bash(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    path = tmp_path / "dogwatch.bash"
    path.write_text(script("bash", capsys))
    return path


def completed(path: Path, *words: str) -> list[str]:
    """What bash offers for the last word."""
    ask = '. "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _dogwatch; printf "%s\\n" "${COMPREPLY[@]}"'
    argv = ["bash", "--norc", "-c", ask, "bash", str(path), "dogwatch", *words]
    return subprocess.run(argv, capture_output=True, text=True, check=True).stdout.split()


def test_bash_knows_the_function_for_the_command(bash: Path) -> None:
    argv = ["bash", "--norc", "-c", '. "$1" && complete -p dogwatch', "bash", str(bash)]
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "complete -o default -F _dogwatch dogwatch"
    assert done.stderr == ""


def test_bash_completes_commands_but_not_those_for_the_crew(bash: Path) -> None:
    assert completed(bash, "sta") == ["status"]
    assert completed(bash, "") == [name for name, (group, _) in all_commands().items() if group]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["status", "--w"], ["--watch"]),
        (["run", "--de"], ["--detach"]),
        (["mail", "re"], ["read"]),
        (["mail", "read"], ["read"]),
        (["mail", "read", "--j"], ["--json"]),
        (["spec", "check", "a.yaml", "--s"], ["--set"]),
        (["completions", "z"], ["zsh"]),
        (["report", "d"], ["done"]),
        (["run", "--project", "x"], []),
        (["nonsense", "--x"], []),
    ],
)
def test_bash_completes_flags_verbs_and_choices(bash: Path, words: list[str], expected: list[str]) -> None:
    assert completed(bash, *words) == expected


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_script_names_every_command_and_the_shell_can_parse_it(
    shell: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = script(shell, capsys)
    assert all(name in text for name, (group, _) in all_commands().items() if group)
    path = tmp_path / f"dogwatch.{shell}"
    path.write_text(text)
    if shutil.which(shell):
        subprocess.run([shell, "-n", str(path)], check=True)
