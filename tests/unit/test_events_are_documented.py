"""Every event that the code appends is a class of `model/events`, and every class is appended somewhere."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import dogwatch
from dogwatch.model import events
from dogwatch.model.events import KINDS, event_class
from dogwatch.model.events.schema import meaning

SOURCE = Path(dogwatch.__file__).parent
FAMILIES = Path(events.__file__).parent
BASE = f"{events.__name__}."
CLASSES = {event_class(kind).__name__ for kind in KINDS}


def product() -> list[Path]:
    """The files that may append events: not the classes themselves, not the instruments for tests."""
    apart = {"testing", FAMILIES.name}
    return [path for path in sorted(SOURCE.rglob("*.py")) if not apart & set(path.relative_to(SOURCE).parts[:-1])]


def imported(tree: ast.AST) -> set[str]:
    """The event classes that a file imports."""
    return {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(BASE)
        for alias in node.names
    }


def made(tree: ast.AST) -> set[str]:
    """The event classes that a file makes events of, by name or as one of two in a choice."""
    known = imported(tree)
    called = {name for node in ast.walk(tree) if isinstance(node, ast.Call) for name in chosen(node.func)}
    kept = {name for node in ast.walk(tree) if isinstance(node, ast.Assign) for name in chosen(node.value)}
    return (called | kept) & known


def chosen(node: ast.expr) -> set[str]:
    match node:
        case ast.Name(id=name):
            return {name}
        case ast.IfExp(body=one, orelse=other):
            return chosen(one) | chosen(other)
    return set()


def unknown_appends(source: str) -> Iterator[str]:
    """What is appended to a transaction, which is called `tx` everywhere, without an event class behind it: in the
    expression itself, in what its names were assigned, in the type of a parameter, or in what a function returns."""
    tree = ast.parse(source)
    known, behind = imported(tree), sources(tree)
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id="tx"), attr="append"), args=[event, *_]):
                names = reached = names_in(event)
                while names and not reached & known:
                    names = {name for one in names for name in behind.get(one, ())} - reached
                    reached |= names
                if not reached & known:
                    yield f"line {node.lineno}: {ast.unparse(event)}"


def sources(tree: ast.AST) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for node in ast.walk(tree):
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                found.setdefault(name, set()).update(names_in(value))
            case ast.arg(arg=name, annotation=ast.expr() as hint):
                found.setdefault(name, set()).update(names_in(hint))
            case ast.FunctionDef(name=name, returns=ast.expr() as hint):
                found.setdefault(name, set()).update(names_in(hint))
    return found


def names_in(node: ast.expr) -> set[str]:
    return {one.id for one in ast.walk(node) if isinstance(one, ast.Name)}


@pytest.mark.parametrize("path", product(), ids=lambda path: str(path.relative_to(SOURCE)))
def test_whatever_is_appended_is_an_event(path: Path) -> None:
    assert list(unknown_appends(path.read_text(encoding="utf-8"))) == []


def test_every_event_is_appended_somewhere() -> None:
    used = {name for path in product() for name in made(ast.parse(path.read_text(encoding="utf-8")))}
    assert CLASSES - used == set()


def test_the_search_sees_events_through_names_choices_and_parameters_and_nothing_else() -> None:
    source = """
from dogwatch.model.events.gates import GateFailed, GatePassed
from dogwatch.model.events.runs import RunEnded
def told(tx, event: RunEnded):
    tx.append(event)
    tx.append(event.but(cause=""), op)
ended = GateFailed if reason else GatePassed
tx.append(ended(gate="g"), op)
tx.append((GateFailed if reason else GatePassed)(gate="g"))
tx.append("one", {})
tx.append(Plain("two", {}))
lines.append("four")
"""
    assert list(unknown_appends(source)) == ["line 10: 'one'", "line 11: Plain('two', {})"]
    assert made(ast.parse(source)) == {"GateFailed", "GatePassed"}


def test_the_index_has_every_class_in_its_module_and_no_other() -> None:
    declared = {
        (node.name, path.stem)
        for path in FAMILIES.glob("*.py")
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.ClassDef) and any(isinstance(one, ast.Name) and one.id == "Event" for one in node.bases)
    }
    assert declared == {(event_class(kind).__name__, module) for kind, module in KINDS.items()}
    assert [kind for kind in KINDS if event_class(kind).kind != kind] == []


def test_every_meaning_is_a_sentence() -> None:
    meanings = {kind: meaning(event_class(kind)) for kind in KINDS}
    assert [kind for kind, text in meanings.items() if not re.fullmatch(r"[A-Z`].*\.", text)] == []
