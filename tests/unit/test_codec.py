"""The codec: frozen values to JSON and back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest

from dogwatch.model.codec import decode, encode
from dogwatch.model.moment import Moment
from dogwatch.model.plan import ByteCheck, Dispatch, Gate, Output, Phase, Plan, Role


@dataclass(frozen=True)
class Part:
    """One level down."""

    name: str
    size: int = 1


@dataclass(frozen=True)
class Whole:
    """Every kind of field that the model uses."""

    parts: tuple[Part, ...]
    by_name: Mapping[str, Part] = field(default_factory=dict)
    at: Moment | None = None
    note: str | None = None


WHOLE = Whole((Part("a"), Part("b", 2)), {"c": Part("c", 3)}, Moment("boot", 1.5, 2.5), "kept")


def test_what_is_encoded_is_json_and_comes_back_the_same() -> None:
    assert decode(Whole, json.loads(json.dumps(encode(WHOLE)))) == WHOLE


def test_absent_fields_take_their_defaults() -> None:
    assert decode(Whole, {"parts": [{"name": "a"}]}) == Whole((Part("a"),))


def test_unknown_fields_of_a_newer_writer_are_dropped() -> None:
    data = {"parts": [{"name": "a", "colour": "red"}], "later": {"x": 1}}
    assert decode(Whole, data) == Whole((Part("a"),))


def test_null_stays_none() -> None:
    assert decode(Whole, {"parts": [], "at": None, "note": None}) == Whole(())


def test_a_missing_field_without_a_default_is_an_error() -> None:
    with pytest.raises(TypeError):
        decode(Part, {"size": 1})


def test_a_whole_plan_comes_back_the_same() -> None:
    plan = Plan(
        name="demo",
        roles=(Role(name="writer", command=("sh", "-c", "true"), environment={"A": "b"}, count=2),),
        phases=(
            Phase(
                name="write",
                dispatches=(Dispatch(name="text", to="writer", task="Write.", outputs=(Output(path="text.md"),)),),
                gates=(Gate(name="size", checks=(ByteCheck(path="text.md", contains=("a", "b")),)),),
            ),
        ),
        deliverable=ByteCheck(path="text.md", max_bytes=10),
    )
    assert decode(Plan, json.loads(json.dumps(encode(plan)))) == plan
