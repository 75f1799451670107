"""No module of dogwatch needs another one that needs it. Imports within functions and for the type checker count too:
they hide a cycle, they do not break it."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src"
Graph = Mapping[str, frozenset[str]]


def modules_below(source: Path) -> dict[str, Path]:
    """Every module, by its dotted name; a package is named by its folder."""
    found = {}
    for path in source.rglob("*.py"):
        parts = path.relative_to(source).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imported(tree: ast.AST, package: str) -> Iterator[str]:
    """All names that a module in that package imports, wherever it does so; of `from a import b` both a.b and a."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            for alias in node.names:
                yield f"{base}.{alias.name}"
        elif isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
            name = getattr(node.func, "attr", getattr(node.func, "id", ""))
            if name in ("import_module", "__import__"):
                yield str(node.args[0].value)


def import_graph(source: Path) -> Graph:
    """Each module with the modules that it imports."""
    modules = modules_below(source)
    graph = {}
    for name, path in modules.items():
        package = name if path.name == "__init__.py" else name.rpartition(".")[0]
        names = imported(ast.parse(path.read_text(encoding="utf-8")), package)
        # What is no module is a name within one.
        found = (one if one in modules else one.rpartition(".")[0] for one in names)
        graph[name] = frozenset(one for one in found if one in modules) - {name}
    return graph


def reached(graph: Graph, start: str) -> set[str]:
    """The modules that `start` imports, and what these import, and so on."""
    found: set[str] = set()
    waiting = list(graph[start])
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += graph[name]
    return found


def cycles(graph: Graph) -> set[tuple[str, ...]]:
    """The groups of modules that all import one another, directly or not."""
    behind = {name: reached(graph, name) for name in graph}
    return {
        tuple(sorted(other for other in others if name in behind[other]))
        for name, others in behind.items()
        if name in others
    }


@cache
def dogwatch() -> Graph:
    return import_graph(SOURCE)


@cache
def cycles_of_dogwatch() -> set[tuple[str, ...]]:
    return cycles(dogwatch())


PARTS = sorted({name.split(".")[1] for name in modules_below(SOURCE) if "." in name})


@pytest.mark.parametrize("part", PARTS)
def test_no_modules_import_one_another(part: str) -> None:
    assert [cycle for cycle in cycles_of_dogwatch() if any(name.split(".")[1:2] == [part] for name in cycle)] == []


def test_all_modules_are_looked_at() -> None:
    graph = dogwatch()
    assert {"dogwatch.guard.fast", "dogwatch.guard.bash.walk", "dogwatch.harness.api", "dogwatch.errors"} <= set(graph)
    assert "dogwatch.guard.full" in graph["dogwatch.guard.fast"], "imports within functions"
    assert "dogwatch.guard.interfaces" in graph["dogwatch.guard.full"], "imports for the type checker"


@pytest.mark.parametrize(
    "back",
    [
        "from house.one import x",
        "from house import one",
        "import house.one",
        "from . import one",
        "from .one import x",
        "def act():\n    from house.one import x",
        "TYPE_CHECKING = False\nif TYPE_CHECKING:\n    from house.one import x",
        "import importlib\nimportlib.import_module('house.one')",
    ],
)
def test_each_way_to_import_closes_a_cycle(tmp_path: Path, back: str) -> None:
    package = tmp_path / "house"
    package.mkdir()
    for name, text in {"__init__": "", "one": "import house.two", "two": "import house.three", "three": back}.items():
        (package / f"{name}.py").write_text(text, encoding="utf-8")
    assert cycles(import_graph(tmp_path)) == {("house.one", "house.three", "house.two")}
    (package / "three.py").write_text("import os", encoding="utf-8")
    assert cycles(import_graph(tmp_path)) == set()


def test_a_package_and_what_it_imports_are_a_cycle_where_that_imports_the_package(tmp_path: Path) -> None:
    package = tmp_path / "house"
    package.mkdir()
    (package / "__init__.py").write_text("def act():\n    from house.one import y\nx = 1", encoding="utf-8")
    (package / "one.py").write_text("from house import x", encoding="utf-8")
    assert cycles(import_graph(tmp_path)) == {("house", "house.one")}


def test_the_evaluation_has_no_import_cycle() -> None:
    graph = import_graph(SOURCE.parent / "evaluation")
    assert len(graph) > 10
    assert cycles(graph) == set()
