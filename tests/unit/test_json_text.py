"""One change in a JSON text: the value is there, all else is as it was, and taken out again it leaves no trace."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dogwatch.harness.json_text import parse, put, remove

SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3), max_leaves=8
)
OBJECTS = st.dictionaries(st.text(), VALUES, max_size=4)
LAYOUTS: list[dict[str, Any]] = [
    {"indent": 2},
    {"indent": "\t"},
    {"indent": 4, "ensure_ascii": True},
    {},
    {"separators": (",", ":")},
]


@settings(max_examples=60)
@given(OBJECTS, VALUES, st.sampled_from(LAYOUTS), st.sampled_from(["", "\n"]), st.booleans())
def test_what_is_put_in_and_taken_out_leaves_no_trace(
    before: dict[str, Any], value: Any, layout: dict[str, Any], end: str, windows: bool
) -> None:
    before.pop("new", None)
    text = json.dumps({"first": before, "last": [1]}, **{"ensure_ascii": False, **layout}) + end
    text = text.replace("\n", "\r\n") if windows else text
    whole = put(text, ["first", "new"], value)
    assert parse(whole) == {"first": {**before, "new": value}, "last": [1]}
    assert list(parse(whole)["first"]) == [*before, "new"]
    assert remove(whole, ["first", "new"]) == text
    longer = put(text, ["last", 1], value)
    assert parse(longer)["last"] == [1, value]
    assert remove(longer, ["last", 1]) == text


@settings(max_examples=60)
@given(OBJECTS, VALUES, st.sampled_from(LAYOUTS))
def test_any_member_can_be_replaced_and_removed(before: dict[str, Any], value: Any, layout: dict[str, Any]) -> None:
    text = json.dumps(before, **{"ensure_ascii": False, **layout})
    for key in before:
        assert parse(put(text, [key], value)) == {**before, key: value}
        assert parse(remove(text, [key])) == {name: kept for name, kept in before.items() if name != key}


def test_numbers_escapes_and_blanks_stay_as_they_were_written() -> None:
    text = '{ "n" : 1.10e2 , "big":123456789012345678901234567890, "s":"\\ud83d\\u00e9\\ud800",\n\n"a" : [ 1 ,2 ] }'
    assert put(text, ["a", 2], 3) == text.replace("[ 1 ,2 ]", "[ 1 ,2 ,3 ]")
    assert put(text, ["n"], True) == text.replace("1.10e2", "true")


def test_a_new_member_is_laid_out_like_the_others() -> None:
    assert put('{\n    "a": {}\n}\n', ["a", "b"], {"c": [1]}) == (
        '{\n    "a": {\n        "b": {\n            "c": [\n                1\n            ]\n        }\n    }\n}\n'
    )
    assert put("{}\n", ["a"], 1) == '{\n  "a": 1\n}\n'
    assert put('{"a": 1}', ["b"], [1, 2]) == '{"a": 1, "b": [1, 2]}'


def test_of_a_double_key_the_last_counts_as_it_does_for_everybody() -> None:
    assert put('{"a": 1, "a": 2}', ["a"], 3) == '{"a": 1, "a": 3}'
    assert remove('{"a": 1, "a": 2}', ["a"]) == '{"a": 1}'


def test_a_mark_at_the_beginning_stays() -> None:
    assert put('\ufeff{"a": 1}', ["a"], 2) == '\ufeff{"a": 2}'


@pytest.mark.parametrize("text", ["", "{", '{"a": NaN}', "{} {}", "{'a': 1}", '{"a": 1,}', "// no\n{}", "[" * 100_000])
def test_what_is_no_json_is_named_so(text: str) -> None:
    with pytest.raises(ValueError, match=r"Expecting|Extra data|NaN|nested|property name|trailing comma"):
        parse(text)
