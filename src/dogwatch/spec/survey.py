"""The names in a file and what refers to them, taken from whatever is well-formed in it.

The rules work on this and not on the models, so that one wrong number does not hide that a reviewer's name is
wrong too. Values of the wrong type are left out: `structure` has reported them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dogwatch.spec.problem import Place
from dogwatch.values import dataclass

Spot = tuple[str, Place]
"""A text and where it stands."""


@dataclass(frozen=True, slots=True)
class RoleEntry:
    """A role; `count` is None where the file's is not usable."""

    name: str
    place: Place
    count: int | None
    body: dict[str, Any]

    def agents(self) -> tuple[str, ...]:
        if self.count is None or self.count == 1:
            return (self.name,)
        return tuple(f"{self.name}-{number}" for number in range(1, self.count + 1))


@dataclass(frozen=True, slots=True)
class DispatchEntry:
    """A dispatch with its phase; `address` is one, all or any, `target` the role or agent behind it."""

    name: str
    place: Place
    phase: int
    address: str
    target: str
    outputs: tuple[Spot, ...]
    after: tuple[Spot, ...]


@dataclass(frozen=True, slots=True)
class CheckpointEntry:
    """A checkpoint with its phase."""

    name: str
    place: Place
    phase: int
    artifact: Spot | None
    reviewers: tuple[Spot, ...]


@dataclass(frozen=True, slots=True)
class GateEntry:
    """A gate with its phase."""

    name: str
    place: Place
    phase: int
    body: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Survey:
    """All of it, in the order of the file."""

    roles: tuple[RoleEntry, ...]
    phases: tuple[tuple[str, Place, dict[str, Any]], ...]
    dispatches: tuple[DispatchEntry, ...]
    checkpoints: tuple[CheckpointEntry, ...]
    gates: tuple[GateEntry, ...]
    milestones: tuple[tuple[str, tuple[Spot, ...]], ...]
    byte_checks: tuple[tuple[Place, dict[str, Any]], ...]
    partitions: tuple[tuple[Place, dict[str, Any]], ...]
    deliverable: Spot | None
    targets: tuple[Spot, ...]
    targets_file: Spot | None
    notify_on: tuple[Spot, ...]


def survey(data: dict[str, Any]) -> Survey:
    """What is well-formed in the file's values."""
    phases = list(_items(data, "phases", ()))
    gates = [
        GateEntry(_text(body), place, index, body)
        for index, (phase_place, phase) in enumerate(phases)
        for place, body in _items(phase, "gates", phase_place)
    ]
    deliverable = data.get("deliverable")
    notify = data.get("notify")
    notify = notify if isinstance(notify, dict) else {}
    checks = [(place, body) for gate in gates for place, body in _items(gate.body, "checks", gate.place)]
    if isinstance(deliverable, dict):
        checks.append((("deliverable",), deliverable))
    return Survey(
        roles=tuple(_role(place, body) for place, body in _entries(data, "roles")),
        phases=tuple((_text(phase), place, phase) for place, phase in phases),
        dispatches=tuple(
            _dispatch(index, place, body)
            for index, (phase_place, phase) in enumerate(phases)
            for place, body in _items(phase, "dispatches", phase_place)
        ),
        checkpoints=tuple(
            CheckpointEntry(_text(body), place, index, _spot(body, "artifact", place), _spots(body, "reviewers", place))
            for index, (phase_place, phase) in enumerate(phases)
            for place, body in _items(phase, "checkpoints", phase_place)
        ),
        gates=tuple(gates),
        milestones=tuple(
            (str(place[-1]), _spots(body, "after", place)) for place, body in _entries(data, "milestones")
        ),
        byte_checks=tuple(checks),
        partitions=tuple(item for gate in gates for item in _items(gate.body, "partitions", gate.place)),
        deliverable=_spot(deliverable, "path", ("deliverable",)) if isinstance(deliverable, dict) else None,
        targets=_spots(notify, "targets", ("notify",)),
        targets_file=_spot(notify, "targets_file", ("notify",)),
        notify_on=_spots(notify, "on", ("notify",)),
    )


def _role(place: Place, body: dict[str, Any]) -> RoleEntry:
    count = body.get("count", 1)
    usable = isinstance(count, int) and not isinstance(count, bool) and 1 <= count <= 64
    return RoleEntry(str(place[-1]), place, count if usable else None, body)


def _dispatch(phase: int, place: Place, body: dict[str, Any]) -> DispatchEntry:
    words = _text(body, "to").split()
    address, target = "one", " ".join(words)
    if len(words) == 2 and words[0] in ("all", "any"):
        address, target = words
    outputs = tuple(
        (item, where) if isinstance(item, str) else (item["path"], (*where, "path"))
        for where, item in _list(body, "outputs", place)
        if isinstance(item, str) or (isinstance(item, dict) and isinstance(item.get("path"), str))
    )
    after = _spots(body, "after", place)
    return DispatchEntry(_text(body), place, phase, address, target, outputs, after)


def _text(body: dict[str, Any], key: str = "name") -> str:
    value = body.get(key)
    return value if isinstance(value, str) else ""


def _spot(body: dict[str, Any], key: str, place: Place) -> Spot | None:
    value = body.get(key)
    return (value, (*place, key)) if isinstance(value, str) else None


def _spots(body: dict[str, Any], key: str, place: Place) -> tuple[Spot, ...]:
    return tuple((item, where) for where, item in _list(body, key, place) if isinstance(item, str))


def _list(body: dict[str, Any], key: str, place: Place) -> Iterator[tuple[Place, Any]]:
    """The items of a list. A text in its place is taken for its only item: brackets are easily forgotten."""
    value = body.get(key)
    if isinstance(value, str):
        yield (*place, key), value
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield (*place, key, index), item


def _items(body: dict[str, Any], key: str, place: Place) -> Iterator[tuple[Place, dict[str, Any]]]:
    return ((where, item) for where, item in _list(body, key, place) if isinstance(item, dict))


def _entries(data: dict[str, Any], key: str) -> Iterator[tuple[Place, dict[str, Any]]]:
    value = data.get(key)
    if isinstance(value, dict):
        for name, item in value.items():
            if isinstance(item, dict):
                yield (key, name), item
