"""Whatever a pipeline file holds, it is either loaded or its problems are named; nothing else ever happens."""

from __future__ import annotations

import copy
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dogwatch.errors import SpecError
from dogwatch.spec import check, json_schema, load
from dogwatch.spec.source import read
from dogwatch.spec.structure import parse
from dogwatch.spec.variables import substitute

EXAMPLES = Path(__file__).parents[2] / "examples"
NAMES = ("analytics", "overnight", "papers")
TEXTS = {name: (EXAMPLES / name / "pipeline.yaml").read_bytes() for name in NAMES}
VALIDATOR = jsonschema.Draft202012Validator(json_schema())

TOKENS = [
    b"true", b"3", b"-1", b"2.5", b"1e999", b"[]", b"{}", b"~", b"''", b'"', b"'", b"*a", b"&a ", b"!!set ", b"${x}",
    b"${", b"$${", b"\t", b"\n", b"\n---\n", b": ", b"- ", b"? ", b"|\n", b"<<: *a", b"\x00", b"\xff", b"\xc3\xa9",
    b'"\\ud800"', b"{agent}", b"..", b"/", b"all ", b"auditor", b"9" * 400, b"%YAML 9.9\n", b"\xe2\x80\xa8", b"#",
]  # fmt: skip

Edit = Callable[[bytes], bytes]


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of all examples, so that the scenario files are found."""
    return Path(shutil.copytree(EXAMPLES, tmp_path_factory.mktemp("spec") / "examples"))


def _insert(where: int, what: bytes) -> Edit:
    return lambda text: text[: where % (len(text) + 1)] + what + text[where % (len(text) + 1) :]


def _replace_value(where: int, what: bytes) -> Edit:
    def edit(text: bytes) -> bytes:
        lines = text.split(b"\n")
        key, colon, _ = lines[where % len(lines)].partition(b": ")
        lines[where % len(lines)] = key + colon + what
        return b"\n".join(lines)

    return edit


def _move_line(where: int, to: int, copies: int) -> Edit:
    def edit(text: bytes) -> bytes:
        lines = text.split(b"\n")
        line = lines.pop(where % len(lines))
        lines[to % (len(lines) + 1) : to % (len(lines) + 1)] = [line] * copies
        return b"\n".join(lines)

    return edit


POSITIONS = st.integers(0, 20_000)
BYTES = st.sampled_from(TOKENS) | st.binary(min_size=1, max_size=8)
EDITS = st.lists(
    st.builds(_insert, POSITIONS, BYTES)
    | st.builds(_replace_value, POSITIONS, BYTES)
    | st.builds(_move_line, POSITIONS, POSITIONS, st.integers(0, 2)),
    min_size=1,
    max_size=4,
)


@settings(max_examples=120, deadline=None, derandomize=True)
@given(name=st.sampled_from(NAMES), edits=EDITS)
def test_a_broken_example_is_loaded_or_its_problems_are_named(folder: Path, name: str, edits: list[Edit]) -> None:
    text = TEXTS[name]
    for edit in edits:
        text = edit(text)
    file = folder / name / "broken.yaml"
    file.write_bytes(text)
    _loads_or_says_why(file, {})


@settings(max_examples=60, deadline=None, derandomize=True)
@given(data=st.binary(max_size=200) | st.text(alphabet="ab:-[]{}&*!|>'\"#%@`,? \n\t", max_size=60).map(str.encode))
def test_any_bytes_are_loaded_or_their_problems_are_named(folder: Path, data: bytes) -> None:
    file = folder / "any.yaml"
    file.write_bytes(data)
    assert check(file)
    _loads_or_says_why(file, {})


KEYS = st.lists(
    st.sampled_from(
        ["limits", "roles", "writer", "phases", "0", "draft", "dispatches", "count", "nudge_s", "", "vars"]
    ),
    min_size=1,
    max_size=5,
).map(".".join)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(overrides=st.dictionaries(KEYS | st.text(max_size=8), st.text(max_size=8) | st.just("3"), max_size=3))
def test_any_setting_is_taken_or_its_problems_are_named(folder: Path, overrides: dict[str, str]) -> None:
    _loads_or_says_why(folder / "overnight" / "pipeline.yaml", overrides)


def _loads_or_says_why(file: Path, overrides: dict[str, str]) -> None:
    problems = check(file, overrides)
    lines = file.read_bytes().count(b"\n") + 2
    for problem in problems:
        assert problem.message
        assert 0 <= problem.line <= lines * 2  # YAML knows two more kinds of line ends
        problem.render("pipeline.yaml").encode()
    if problems:
        with pytest.raises(SpecError):
            load(file, overrides)
    else:
        load(file, overrides)


VALUES = st.sampled_from(
    [None, True, -1, 0, 3, 2.5, 10**15, "", " ", "x", "Big Name", [], [3], {}, {"x": 1}, "y" * 300]
).map(copy.deepcopy)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(name=st.sampled_from(NAMES), draw=st.data())
def test_the_json_schema_refuses_exactly_what_the_models_refuse(folder: Path, name: str, draw: st.DataObject) -> None:
    data = read(str(folder / name / "pipeline.yaml")).data
    for _ in range(draw.draw(st.integers(1, 2))):
        _change(data, draw)
    file = folder / name / "changed.yaml"
    file.write_text(json.dumps(data))
    source = read(str(file))
    substitute(source, str(folder), frozenset())
    assert VALIDATOR.is_valid(data) == (parse(source) is not None)


def _change(data: Any, draw: st.DataObject) -> None:
    """One value somewhere in the file is changed, removed or added."""
    while True:
        keys = list(data) if isinstance(data, dict) else list(range(len(data)))
        if not keys:
            return
        key = draw.draw(st.sampled_from(keys))
        if isinstance(data[key], dict | list) and data[key] and draw.draw(st.integers(0, 3)):
            data = data[key]
            continue
        deed = draw.draw(st.sampled_from(["change", "remove", "add"]))
        if deed == "remove":
            del data[key]
        elif deed == "add" and isinstance(data, dict):
            data[draw.draw(st.sampled_from(["extra", "count", "json", "Bad Name", "matches"]))] = draw.draw(VALUES)
        else:
            data[key] = draw.draw(VALUES)
        return
