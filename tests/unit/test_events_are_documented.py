"""Every kind of event that the code appends is explained in EVENTS, and EVENTS explains nothing else."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import dogwatch
from dogwatch.model.events import EVENTS

SOURCE = Path(dogwatch.__file__).parent


def appended_kinds(source: str) -> Iterator[str]:
    """A pattern for each kind that is appended to a transaction, which is called `tx` everywhere."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id="tx"), attr="append"), args=[kind, *_]):
                yield from patterns(kind)


def patterns(kind: ast.expr) -> Iterator[str]:
    match kind:
        case ast.Constant(value=str(text)):
            yield re.escape(text)
        case ast.IfExp(body=one, orelse=other):
            yield from patterns(one)
            yield from patterns(other)
        case ast.JoinedStr(values=parts):
            yield "".join(re.escape(str(p.value)) if isinstance(p, ast.Constant) else "[a-z_]+" for p in parts)
        case _:
            raise AssertionError(f"line {kind.lineno}: a kind must be a literal, so that it can be found")


def all_patterns() -> set[str]:
    files = [path for path in sorted(SOURCE.rglob("*.py")) if "testing" not in path.relative_to(SOURCE).parts]
    return {pattern for path in files for pattern in appended_kinds(path.read_text(encoding="utf-8"))}


def test_every_kind_that_is_appended_is_explained() -> None:
    unknown = [p for p in sorted(all_patterns()) if not any(re.fullmatch(p, kind) for kind in EVENTS)]
    assert unknown == []


def test_every_kind_that_is_explained_is_appended_somewhere() -> None:
    found = all_patterns()
    unused = [kind for kind in EVENTS if not any(re.fullmatch(pattern, kind) for pattern in found)]
    assert unused == []


def test_the_search_sees_literals_choices_and_composed_kinds_and_no_lists() -> None:
    source = """
tx.append("one", {})
tx.append("two" if x else "three", {}, op, run=run)
tx.append(f"gate_{state}", {})
lines.append("four")
"""
    assert set(appended_kinds(source)) == {"one", "two", "three", "gate_[a-z_]+"}


def test_every_explanation_is_a_sentence() -> None:
    assert [kind for kind, text in EVENTS.items() if not re.fullmatch(r"[A-Z].*\.", text)] == []
