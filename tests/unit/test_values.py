"""Our quicker `dataclass` behaves as the standard one: the same questions to both."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from collections.abc import Callable
from dataclasses import FrozenInstanceError, field
from typing import Any

import pytest

from dogwatch import values
from dogwatch.model.sight import ToolCall, Turn


def classes(dataclass: Callable[..., Any]) -> dict[str, Any]:
    """The same classes, made by one of the two decorators."""

    @dataclass(frozen=True, slots=True)
    class Point:
        """Two numbers and more."""

        x: int
        y: int = 2
        tags: list[str] = field(default_factory=list, compare=False)
        seen: dict[str, int] = field(default_factory=dict, init=False, repr=False, compare=False)

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Named(Point):
        """One that inherits, with a field that must be named."""

        name: str

    @dataclass(frozen=True, kw_only=True)
    class Open:
        """Frozen, without slots."""

        size: int = 1

    @dataclass(slots=True)
    class Changing:
        """Neither frozen nor hashable."""

        count: int = 0
        doubled: int = field(default=0, init=False)

        def __post_init__(self) -> None:
            self.doubled = 2 * self.count

    @dataclass(frozen=True)
    class Empty:
        """No fields at all."""

    @dataclass(frozen=True, slots=True)
    class Itself:
        """Says itself what is equal, and how it is hashed."""

        name: str

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Itself) and self.name.lower() == other.name.lower()

        def __hash__(self) -> int:
            return hash(self.name.lower())

    class Child(Point):
        """Only inherits `__init__`."""

    return {kind.__name__: kind for kind in (Point, Named, Open, Changing, Empty, Itself, Child)}


BOTH = {"standard": classes(dataclasses.dataclass), "ours": classes(values.dataclass)}


@pytest.fixture(params=BOTH)
def made(request: pytest.FixtureRequest) -> dict[str, Any]:
    return BOTH[request.param]


def test_objects_are_made_of_places_names_and_defaults(made: dict[str, Any]) -> None:
    point = made["Point"](1, tags=["a"])
    assert (point.x, point.y, point.tags, point.seen) == (1, 2, ["a"], {})
    assert made["Point"](1).tags is not made["Point"](1).tags
    named = made["Named"](1, 3, name="n")
    assert (named.x, named.y, named.name, type(named)) == (1, 3, "n", made["Named"])
    assert made["Changing"](4).doubled == 8
    assert type(made["Child"](1)) is made["Child"]
    for name, places, names in (("Point", (), {}), ("Point", (1,), {"z": 3}), ("Named", (1, 2, [], "n"), {})):
        with pytest.raises(TypeError):
            made[name](*places, **names)


def test_what_is_frozen_stays_so(made: dict[str, Any]) -> None:
    for one in (made["Point"](1), made["Named"](1, name="n"), made["Open"](), made["Child"](1)):
        name = dataclasses.fields(one)[0].name
        with pytest.raises(FrozenInstanceError, match=f"cannot assign to field '{name}'"):
            setattr(one, name, 9)
        with pytest.raises(FrozenInstanceError, match=f"cannot delete field '{name}'"):
            delattr(one, name)
    changing = made["Changing"]()
    changing.count = 7
    assert changing.count == 7


def test_equality_hash_and_words(made: dict[str, Any]) -> None:
    point = made["Point"]
    assert point(1, tags=["a"]) == point(1, tags=["b"]) != point(2)
    assert hash(point(1)) == hash(point(1))
    assert point(1) != made["Named"](1, name="n")
    assert repr(point(1)).endswith("Point(x=1, y=2, tags=[])")
    assert made["Empty"]() == made["Empty"]()
    assert {made["Itself"]("A"), made["Itself"]("a")} == {made["Itself"]("a")}
    with pytest.raises(TypeError, match="unhashable"):
        hash(made["Changing"]())


def test_the_standard_helpers_know_them(made: dict[str, Any]) -> None:
    point = made["Point"](1, tags=["a"])
    assert dataclasses.replace(point, y=5).y == 5
    assert [one.name for one in dataclasses.fields(point)] == ["x", "y", "tags", "seen"]
    assert dataclasses.asdict(point) == {"x": 1, "y": 2, "tags": ["a"], "seen": {}}
    match point:
        case object(x=1, y=y):
            assert y == 2
    assert made["Point"].__match_args__ == ("x", "y", "tags")
    assert copy.copy(point) == point == copy.deepcopy(point)
    assert not hasattr(point, "__dict__")
    assert hasattr(made["Open"](), "__dict__")


def test_values_of_the_model_can_be_pickled() -> None:
    call = ToolCall("Bash", "make", 1.5)
    assert pickle.loads(pickle.dumps(call)) == call  # noqa: S301 - made right here
    assert Turn() == Turn(tools={}, subagents={})
