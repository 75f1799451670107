"""The scripted agent's pure parts: scenario, keys, composer, screen."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dogwatch.errors import UsageError
from dogwatch.testing import steps
from dogwatch.testing.keys import Decoder, Key
from dogwatch.testing.scenario import STEPS, Rule, Scenario, Step, load, parse
from dogwatch.testing.screen import Composer, View, frame, width, wrap


def test_an_empty_scenario_is_an_agent_that_just_works() -> None:
    assert parse({}) == Scenario()


def test_yaml_and_json_give_the_same_scenario(tmp_path: Path) -> None:
    data = {
        "work_s": 2,
        "rules": [{"on": "dispatch", "subject": "a*", "incarnation": 1, "do": ["silent", {"work": 3}]}],
    }
    (tmp_path / "s.json").write_text(json.dumps(data))
    (tmp_path / "s.yaml").write_text(
        "work_s: 2\nrules:\n- on: dispatch\n  subject: a*\n  incarnation: 1\n  do:\n  - silent\n  - work: 3\n"
    )
    scenario = load(str(tmp_path / "s.yaml"))
    assert scenario == load(str(tmp_path / "s.json"))
    assert scenario.rules[0] == Rule("dispatch", (Step("silent"), Step("work", {"seconds": 3.0})), "a*", (1,))


def test_a_step_may_be_a_name_a_name_with_a_value_or_a_name_with_arguments() -> None:
    (rule,) = parse(
        {"rules": [{"on": "start", "do": ["crash", {"crash": 15}, {"crash": {"signal": "SIGSEGV"}}]}]}
    ).rules
    assert [step["signal"] for step in rule.do] == [signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ([], "the scenario: must be a mapping"),
        ({"wrok_s": 1}, "wrok_s: unknown key"),
        ({"work_s": "long"}, "work_s: must be a number of seconds"),
        ({"work_s": True}, "work_s: must be a number of seconds"),
        ({"rules": {}}, "rules: must be a list"),
        ({"rules": ["x"]}, r"rules\[0\]: must be a mapping"),
        ({"rules": [{"do": ["silent"]}]}, r"rules\[0\].on: is missing"),
        ({"rules": [{"on": "monday", "do": ["silent"]}]}, r"rules\[0\].on: must be start or"),
        ({"rules": [{"on": "start"}]}, r"rules\[0\].do: must be a list of steps"),
        ({"rules": [{"on": "start", "do": ["dance"]}]}, r"rules\[0\].do\[0\]: there is no step 'dance'"),
        ({"rules": [{"on": "start", "do": [{"work": {}}]}]}, r"rules\[0\].do\[0\].work.seconds: is missing"),
        ({"rules": [{"on": "start", "do": [{"tool": {"secs": 1}}]}]}, r"do\[0\].tool.secs: unknown key"),
        ({"rules": [{"on": "start", "do": [{"silent": 3}]}]}, r"silent takes no arguments"),
        ({"rules": [{"on": "start", "do": [{"crash": "SIGNOPE"}]}]}, r"crash.signal: must be a signal"),
        ({"rules": [{"on": "start", "do": ["shell"]}]}, r"needs shell: true"),
        ({"rules": [{"on": "nudge", "do": ["startup_dialog"]}]}, r"belongs to a rule with on: start"),
    ],
)
def test_a_wrong_scenario_is_refused_with_the_name_of_the_key(data: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        parse(data)


@pytest.mark.parametrize("content", ["{", "\x00", "a: [1", "- *x"])
def test_a_file_that_is_no_scenario_is_explained(tmp_path: Path, content: str) -> None:
    (tmp_path / "s.yaml").write_text(content)
    with pytest.raises(UsageError):
        load(str(tmp_path / "s.yaml"))
    with pytest.raises(UsageError, match="cannot be read"):
        load(str(tmp_path / "missing.yaml"))


def test_a_rule_applies_by_kind_subject_incarnation_and_number_of_times() -> None:
    rule = Rule("dispatch", (), subject="an*", incarnation=(1, 3), times=2)
    assert rule.applies("dispatch", "analyse", 1, 0)
    assert rule.applies("dispatch", "analyse", 3, 1)
    assert not rule.applies("nudge", "analyse", 1, 0)
    assert not rule.applies("dispatch", "review", 1, 0)
    assert not rule.applies("dispatch", "analyse", 2, 0)
    assert not rule.applies("dispatch", "analyse", 1, 2)


def test_every_step_of_the_scenario_file_can_be_done_and_is_documented() -> None:
    assert set(STEPS) == set(steps.STEPS)
    document = Path(__file__).parents[2] / "docs" / "reference" / "scenario.md"
    text = document.read_text()
    assert [name for name in STEPS if f"`{name}" not in text] == []


TEXT = st.text(st.characters(blacklist_categories=("Cs", "Cc")), min_size=1)


@given(st.lists(st.one_of(TEXT.map(lambda t: ("text", t)), TEXT.map(lambda t: ("paste", t)))), st.integers(1, 7))
def test_keys_and_pastes_are_the_same_in_portions_of_any_size(events: list[tuple[str, str]], size: int) -> None:
    data = b"".join(
        text.encode() + b"\r" if name == "text" else b"\x1b[200~" + text.encode() + b"\x1b[201~"
        for name, text in events
    )
    decoder = Decoder()
    keys = [key for start in range(0, len(data), size) for key in decoder.feed(data[start : start + size])]
    seen: list[tuple[str, str]] = []
    typed = ""
    for key in keys:
        typed += key.text if key.name == "text" else ""
        if key.name == "enter":
            seen, typed = [*seen, ("text", typed)], ""
        elif key.name == "paste":
            seen.append(("paste", key.text))
    assert seen == events


def test_escape_is_a_key_of_its_own_only_when_nothing_follows() -> None:
    decoder = Decoder()
    assert decoder.feed(b"\x1b") == []
    assert decoder.waiting()
    assert decoder.flush() == [Key("escape")]
    assert not decoder.waiting()
    assert decoder.feed(b"\x1b[A\x1bOBx\x1b[1;5Cy") == [Key("text", "x"), Key("text", "y")]
    assert decoder.feed(b"\x03\x15\x7f\r\n") == [Key(n) for n in ("ctrl-c", "ctrl-u", "backspace", "enter", "newline")]


def test_line_breaks_in_a_paste_are_newlines_however_they_are_sent() -> None:
    assert Decoder().feed(b"\x1b[200~a\rb\r\nc\nd\x1b[201~") == [Key("paste", "a\nb\nc\nd")]


def test_a_long_paste_shows_as_a_label_and_goes_with_one_backspace() -> None:
    composer = Composer()
    composer.type("see ")
    composer.paste("1\n2\n3\n4\n5\n6")
    assert composer.shown == "see [Pasted text #1 +5 lines]"
    assert composer.text == "see 1\n2\n3\n4\n5\n6"
    composer.backspace()
    composer.backspace()
    assert composer.text == "see"
    composer.paste("x\ny")
    assert composer.shown == "seex\ny"
    composer.clear()
    assert composer.text == ""


@given(st.text(), st.integers(4, 60))
def test_wrapped_lines_fit(text: str, columns: int) -> None:
    assert all(width(line) <= columns for line in wrap(text, columns))


@given(st.lists(st.text()), st.text(), st.integers(20, 100), st.integers(8, 40))
def test_a_frame_always_fits_its_terminal(transcript: list[str], composer: str, columns: int, rows: int) -> None:
    view = View(composer=composer, starting=False, footer=("footer",))
    view.transcript.extend(transcript)
    lines, (row, column) = frame(view, columns, rows)
    assert len(lines) <= rows
    assert 0 <= row < len(lines)
    assert 0 <= column < columns
