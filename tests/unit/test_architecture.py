"""docs/architecture.md leads to code that exists, and its generated parts say what contracts and imports say."""

from __future__ import annotations

import ast
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from scripts.architecture import (
    Contracts,
    Pairs,
    diagram,
    find_rooms,
    inner_diagram,
    is_allowed,
    read_contracts,
    room_table,
)

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "dogwatch"
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
WALKS = ("A mail", "A death")
STEP = re.compile(r"^\d+\. .*?(?=^\d+\. |\Z)", re.MULTILINE | re.DOTALL)
NAMED = re.compile(r"`(?P<file>[\w/]+\.py): (?P<function>[\w.]+)`")
FILE = re.compile(r"`(?P<file>[\w/]+\.py)[`:]")

CONTRACTS = """
[[tool.importlinter.contracts]]
name = "Down the stairs"
type = "layers"
layers = ["house.attic", "house.kitchen | house.hall", "house.cellar", "house.ground"]

[[tool.importlinter.contracts]]
name = "No fire in the hall"
type = "forbidden"
source_modules = ["house.hall"]
forbidden_modules = ["house.garage", "house.cellar.wine", "socket"]

[[tool.importlinter.contracts]]
name = "Cold cooks stay where they are"
type = "forbidden"
source_modules = ["house.kitchen.cold"]
forbidden_modules = ["house.garage", "house.attic", "house.cellar.wine"]

[[tool.importlinter.contracts]]
name = "Cooks do not meet"
type = "independence"
modules = ["house.kitchen.cold", "house.kitchen.hot"]

[[tool.importlinter.contracts]]
name = "Shelves of the cellar"
type = "layers"
containers = ["house.cellar"]
layers = ["upper", "lower"]
"""


def walk(title: str) -> list[str]:
    """The steps of the walk with that heading."""
    return STEP.findall(PAGE.partition(f"\n## {title}\n")[2].partition("\n## ")[0])


def names_in(path: Path) -> Iterator[str]:
    """Each function, class and method of the file."""
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        if isinstance(node, ast.ClassDef):
            yield from (f"{node.name}.{one.name}" for one in node.body if isinstance(one, ast.FunctionDef))


def missing(text: str, source: Path) -> list[str]:
    """What the text names and the code does not have."""
    found = [named["file"] for named in FILE.finditer(text) if not (source / named["file"]).is_file()]
    for named in NAMED.finditer(text):
        path = source / named["file"]
        if path.is_file() and named["function"] not in names_in(path):
            found.append(f"{named['file']}: {named['function']}")
    return found


@pytest.mark.parametrize("title", WALKS)
def test_every_file_and_function_of_a_walk_exists(title: str) -> None:
    assert missing("".join(walk(title)), SOURCE) == []


@pytest.mark.parametrize("title", WALKS)
def test_every_step_of_a_walk_names_a_function(title: str) -> None:
    steps = walk(title)
    assert len(steps) >= 10
    assert [step for step in steps if not NAMED.search(step)] == []
    assert [int(step.partition(".")[0]) for step in steps] == list(range(1, len(steps) + 1))


def test_every_file_that_the_page_names_exists() -> None:
    assert [name for name in missing(PAGE, SOURCE) if ":" not in name] == []


def test_a_function_that_was_renamed_or_moved_is_noticed(tmp_path: Path) -> None:
    folder = tmp_path / "coordination"
    folder.mkdir()
    mail = Path(shutil.copy(SOURCE / "coordination" / "mail.py", folder))
    text = "1. `coordination/mail.py: send` writes it (`coordination/mail.py: expire`).\n"
    assert missing(text, tmp_path) == []
    mail.write_text(mail.read_text().replace("def send(", "def post("))
    assert missing(text, tmp_path) == ["coordination/mail.py: send"]
    mail.rename(folder / "letters.py")
    assert missing(text, tmp_path) == ["coordination/mail.py", "coordination/mail.py"]


def test_a_method_is_looked_for_in_its_class(tmp_path: Path) -> None:
    (tmp_path / "one.py").write_text("class A:\n    def f(self): ...\nclass B:\n    def g(self): ...\n")
    assert missing("`one.py: A.f`, `one.py: A.g`, `one.py: f`", tmp_path) == ["one.py: A.g", "one.py: f"]


@pytest.fixture
def house(tmp_path: Path) -> Path:
    """A package with the rooms that CONTRACTS speaks of, each with its docstring."""
    rooms = "attic kitchen kitchen/cold kitchen/hot hall cellar cellar/upper cellar/lower garage".split()
    for room in rooms:
        (tmp_path / "house" / room).mkdir(parents=True)
        (tmp_path / "house" / room / "__init__.py").write_text(f'"""The\n{room}.\n\nMore."""\n')
    (tmp_path / "house" / "ground.py").write_text('"""What all stand on."""\n')
    (tmp_path / "house" / "__init__.py").write_text("")
    return tmp_path / "house"


@pytest.fixture
def contracts(tmp_path: Path) -> Contracts:
    (tmp_path / "pyproject.toml").write_text(CONTRACTS)
    return read_contracts(tmp_path / "pyproject.toml", "house")


def test_each_room_is_told_with_its_sentence_and_what_it_may_import(house: Path, contracts: Contracts) -> None:
    imports: Pairs = frozenset({("attic/a", "hall/h"), ("hall/h", "cellar/lower/x"), ("cellar/upper/y", "ground")})
    assert list(room_table(house, contracts, imports)) == [
        ("`attic/`", "The attic.", "`hall` (`kitchen`, `cellar`, `ground`, `garage`)"),
        ("`kitchen/`", "The kitchen.", "(`cellar`, `ground`, `garage`)"),
        ("`kitchen/cold/`", "The kitchen/cold.", "as `kitchen`; not `kitchen/hot`, `garage`, `cellar/wine`"),
        ("`kitchen/hot/`", "The kitchen/hot.", "as `kitchen`; not `kitchen/cold`"),
        ("`hall/`", "The hall.", "`cellar` (`ground`); not `cellar/wine`; never `socket`"),
        # The hall imports it: what is barred for the hall is barred for it.
        ("`cellar/`", "The cellar.", "`ground`"),
        ("`cellar/lower/`", "The cellar/lower.", "as `cellar`; not `cellar/upper`"),
        ("`cellar/upper/`", "The cellar/upper.", "as `cellar`"),
        ("`ground.py`", "What all stand on.", "nothing"),
        ("`garage/`", "The garage.", "(`attic`, `kitchen`, `hall`, `cellar`, `ground`)"),
    ]


def test_what_a_room_would_import_by_way_of_another_is_barred_too(contracts: Contracts) -> None:
    assert is_allowed("cellar", "garage", frozenset(), contracts)
    assert not is_allowed("cellar", "garage", frozenset({("garage", "attic")}), contracts)


@pytest.mark.parametrize("text", ['""" """', "import os", None])
def test_a_folder_that_does_not_say_what_it_is_for_stops_the_generation(
    house: Path, contracts: Contracts, text: str | None
) -> None:
    (house / "hall" / "code.py").write_text("")
    path = house / "hall" / "__init__.py"
    if text is None:
        path.unlink()
    else:
        path.write_text(text)
    with pytest.raises(SystemExit, match=r"error: house/hall/__init__\.py has no docstring"):
        find_rooms(house, contracts)


def test_a_kind_of_contract_that_is_not_known_stops_the_generation(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(CONTRACTS.replace("independence", "protected"))
    with pytest.raises(SystemExit, match="Cooks do not meet"):
        read_contracts(tmp_path / "pyproject.toml", "house")


def test_the_graph_leaves_out_what_follows_from_others_and_what_is_no_room() -> None:
    imports: Pairs = frozenset({("a/x", "b/y"), ("b/z", "c"), ("a/w", "c"), ("a/x", "a/w"), ("__main__", "a/x")})
    assert diagram(imports, ["a", "b", "c"]) == "```mermaid\ngraph TD\n    a --> b\n    b --> c\n```"
    assert "        a_x[x] --> a_w[w]" in inner_diagram(imports, "a").splitlines()


def test_rooms_that_import_one_another_stop_the_generation() -> None:
    with pytest.raises(SystemExit, match="imports itself, by way of others"):
        diagram(frozenset({("a/x", "b/y"), ("b/z", "a/x")}), ["a", "b"])
