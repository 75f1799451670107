"""The simulator, the experiments and the ledger can be read from the bottom up: no module needs one that needs it."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from support.fleet import ROOT


def imported(path: Path, known: Collection[str]) -> Iterator[str]:
    """The known modules that the file imports, also inside of functions and for annotations only."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                name = f"{node.module}.{alias.name}"
                if name in known or node.module in known:
                    yield name if name in known else node.module


def cycle(folder: Path, package: str) -> list[str]:
    """The modules of the package that import one another in a ring; none where there is no such ring."""
    files = {
        ".".join(path.relative_to(folder).with_suffix("").parts).removesuffix(".__init__"): path
        for path in (folder / package.replace(".", "/")).rglob("*.py")
    }
    assert files
    try:
        TopologicalSorter({name: set(imported(path, files)) for name, path in files.items()}).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


@pytest.mark.parametrize(
    ("folder", "package"), [("src", "dogwatch.sim"), ("src", "dogwatch.ledger"), (".", "evaluation")]
)
def test_nothing_imports_itself_in_a_ring(folder: str, package: str) -> None:
    assert cycle(ROOT / folder, package) == []


@pytest.mark.parametrize(
    "hidden",
    ["def f():\n    from ship.hull import Hull\n", "if TYPE_CHECKING:\n    from ship.hull import Hull\n"],
    ids=["in a function", "for annotations"],
)
def test_a_ring_is_found_however_it_is_hidden(tmp_path: Path, hidden: str) -> None:
    folder = tmp_path / "ship"
    folder.mkdir()
    (folder / "hull.py").write_text("import ship.mast\n")
    (folder / "mast.py").write_text(hidden)
    assert set(cycle(tmp_path, "ship")) == {"ship.hull", "ship.mast"}
