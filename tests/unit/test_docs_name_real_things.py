"""What the pages tell the reader to type exists: commands, verbs and flags of dogwatch, targets of make, benchmarks."""

from __future__ import annotations

import argparse
import functools
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from dogwatch.cli.commands import all_commands
from dogwatch.cli.framework import command_parser
from support.commands import call
from support.documents import Pids, blocks
from support.fleet import ROOT, Fleet

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
NAMES = [str(page.relative_to(ROOT)) for page in PAGES]
FENCED = re.compile(r"^```\w*\n(.*?)^```", re.MULTILINE | re.DOTALL)
SPAN = re.compile(r"`([^`]+)`")
QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"")
CALL = re.compile(r"(?:^|[\s/(])dogwatch (?P<command>[a-z][a-z-]*)(?P<words>[^|;&#]*)")
MAKE = re.compile(r"^(?:\$ )?make (?P<target>[a-z-]+)(?: NAME=(?P<benchmark>\w+))?")


@pytest.mark.parametrize("name", NAMES)
def test_every_command_and_flag_of_dogwatch_exists(name: str) -> None:
    for code in codes(ROOT / name):
        for found in CALL.finditer(code):
            assert found["command"] in all_commands(), f"there is no command in `{code}`"
            known, verbs = takes(found["command"], found["words"].split())
            assert not verbs, f"`{code}`: it takes one of {', '.join(verbs)}"
            for flag in re.findall(r"(?<!\S)--?[a-z][a-z-]*", found["words"]):
                assert flag in known, f"`{code}`: there is no {flag}"


@pytest.mark.parametrize("name", NAMES)
def test_every_target_of_make_and_every_benchmark_exists(name: str) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for code in codes(ROOT / name):
        found = MAKE.match(code)
        if found is not None and not is_an_example(code):
            assert found["target"] in targets, code
            assert not found["benchmark"] or (ROOT / "bench" / f"{found['benchmark']}.py").exists(), code


def test_the_guard_says_what_its_page_shows(fleet: Fleet) -> None:
    block = next(block for block in blocks(ROOT / "docs" / "guard.md") if "guard explain" in block.text)
    shown = list(block.commands())
    assert len(shown) == 2
    for command, output in shown:
        found = re.fullmatch(r"dogwatch (?P<words>guard explain --as agent) '(?P<text>.*)'", command)
        assert found is not None, command
        done = call([*found["words"].split(), found["text"]], fleet.environment, fleet.project)
        assert Pids().match(output, done.stdout.decode() + done.stderr.decode()), command


def codes(page: Path) -> Iterator[str]:
    """Each line of a code block that is typed, and each piece of code in the text, without what stands in quotes."""
    text = page.read_text()
    for block in FENCED.findall(text):
        typed = (line for line in block.splitlines() if line.startswith(("$ ", "dogwatch ", "make ")))
        yield from (QUOTED.sub("TEXT", line) for line in typed if ". " not in line)
    for span in SPAN.findall(FENCED.sub("", text)):
        yield QUOTED.sub("TEXT", " ".join(span.split()))


def takes(command: str, words: list[str]) -> tuple[set[str], list[str]]:
    """The flags that the command knows with these words, and the verbs of which it lacks one."""
    parser = _parser(command)
    known = set(parser._option_string_actions)
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            given = [word for word in words if not word.startswith("-")][:1]
            if given and given[0] not in action.choices:
                return known, list(action.choices)
            chosen = [action.choices[given[0]]] if given else action.choices.values()
            known |= {flag for verb in chosen for flag in verb._option_string_actions}
    return known, []


@functools.cache
def _parser(command: str) -> argparse.ArgumentParser:
    return command_parser(command)


def is_an_example(code: str) -> bool:
    """Targets of other people's makefiles, which stand for any."""
    return code in ("make stop", "make deploy")
