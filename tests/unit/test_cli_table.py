"""Tables for terminals: aligned, coloured by state, harmless."""

from __future__ import annotations

import io
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dogwatch.cli.table import clean, columns, cut, duration, number, wants_colour

ROWS = [("tide-1", "RUNNING", "-"), ("overnight-22", "FAILED", "the tide came in\nat night")]
HEADING = ("RUN", "STATE", "CAUSE")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_columns_are_aligned_and_have_no_trailing_spaces() -> None:
    assert columns(HEADING, ROWS, colour=False, width=None) == [
        "RUN           STATE    CAUSE",
        "tide-1        RUNNING  -",
        "overnight-22  FAILED   the tide came in at night",
    ]


def test_colours_change_nothing_but_the_colour() -> None:
    plain = columns(HEADING, ROWS, colour=False, width=30)
    coloured = columns(HEADING, ROWS, colour=True, width=30)
    assert coloured != plain
    assert "\x1b[31mFAILED\x1b[0m" in coloured[2]
    assert [re.sub(r"\x1b\[\d*m", "", line) for line in coloured] == plain


def test_lines_are_cut_at_the_width_of_the_terminal() -> None:
    assert [len(line) for line in columns(HEADING, ROWS, colour=False, width=20)] == [20, 20, 20]
    assert columns(HEADING, ROWS, colour=False, width=20)[2].endswith("…")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(None, "-"), (0, "0s"), (59.9, "59s"), (60, "1m 00s"), (3599, "59m 59s"), (3600, "1h 00m"), (90061, "1d 01h")],
)
def test_a_length_of_time_has_its_two_largest_units(seconds: float | None, text: str) -> None:
    assert duration(seconds) == text


def test_one_is_singular() -> None:
    assert (number(1, "run"), number(0, "run"), number(2, "run")) == ("1 run", "0 runs", "2 runs")


@given(st.text(), st.integers(0, 40))
def test_text_of_others_becomes_one_printable_line_that_fits(text: str, width: int) -> None:
    line = cut(clean(text), width)
    assert line.isprintable()
    assert len(line) <= max(1, width)


@pytest.mark.parametrize(
    ("environment", "expected"),
    [({"TERM": "xterm"}, True), ({"TERM": "dumb"}, False), ({"TERM": "xterm", "NO_COLOR": "1"}, False)],
)
def test_colours_are_for_terminals_whose_owner_did_not_say_no(
    monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], expected: bool
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert wants_colour(Terminal()) is expected
    assert not wants_colour(io.StringIO())
