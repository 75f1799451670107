"""The generated parts of docs/architecture.md: the rooms of the code, what each may import, and who imports whom."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import permutations
from pathlib import Path
from typing import Any

import grimp

Pairs = frozenset[tuple[str, str]]
"""Importer and imported. Rooms and modules are named by their path below the package: `crew/captain`."""


@dataclass(frozen=True, kw_only=True)
class Room:
    """A folder of the package, or a file that is a layer by itself."""

    name: str
    file: str
    sentence: str

    @property
    def parent(self) -> str:
        return self.name.rpartition("/")[0]


@dataclass(frozen=True, kw_only=True)
class Contracts:
    """What the contracts of import-linter say: who must not import whom, and the rooms from the top layer down."""

    barred: Pairs
    order: tuple[str, ...]
    names: tuple[str, ...]

    def barred_for(self, room: str) -> set[str]:
        return {imported for importer, imported in self.barred if importer == room}


def room_table(source: Path, contracts: Contracts, imports: Pairs) -> Iterator[tuple[str, str, str]]:
    """Each room with its sentence and what it may import, from the top layer down."""
    rooms = find_rooms(source, contracts)
    for room in rooms.values():
        yield f"`{room.file}`", room.sentence, may_import(room, rooms, contracts, imports)


def find_rooms(source: Path, contracts: Contracts) -> dict[str, Room]:
    """All folders with code, and the layers that are files; those that are in no layer come last."""
    folders = {path.parent for path in source.rglob("*.py")} - {source}
    found = {}
    for folder in folders:
        name = folder.relative_to(source).as_posix()
        found[name] = Room(name=name, file=f"{name}/", sentence=sentence(folder / "__init__.py", source))
    for name in contracts.order:
        if name not in found:
            found[name] = Room(name=name, file=f"{name}.py", sentence=sentence(source / f"{name}.py", source))

    def rank(name: str) -> tuple[int, str]:
        top = name.partition("/")[0]
        return contracts.order.index(top) if top in contracts.order else len(contracts.order), name

    return {name: found[name] for name in sorted(found, key=rank)}


def sentence(path: Path, source: Path) -> str:
    """What the file's docstring says first. A room that does not say what it is for stops the script."""
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) if path.exists() else None
    if not text:
        raise SystemExit(
            f"error: {path.relative_to(source.parent)} has no docstring\nhint: say in a sentence what it is for"
        )
    return " ".join(text.partition("\n\n")[0].split())


def may_import(room: Room, rooms: Mapping[str, Room], contracts: Contracts, imports: Pairs) -> str:
    """The rooms that it imports; in brackets those that it may import and does not."""
    barred = contracts.barred_for(room.name) - contracts.barred_for(room.parent)
    never = _listed("never ", sorted(name.removeprefix(":") for name in barred if name.startswith(":")))
    # Of a room's own files only the folders are spoken of: the rest is in the graph.
    above = f"{room.parent or room.name}/"
    parts = sorted(name for name in barred if "/" in name and name not in rooms and not name.startswith(above))
    if room.parent:
        inner = [name for name in rooms if name in barred]
        return "; ".join(filter(None, (f"as `{room.parent}`", _listed("not ", [*inner, *parts]), never)))
    used = children(imports, "")
    others = [name for name, other in rooms.items() if not other.parent and name != room.name]
    today = [name for name in others if (room.name, name) in used]
    further = [name for name in others if name not in today and is_allowed(room.name, name, used, contracts)]
    found = " ".join(filter(None, (_listed("", today), _listed("(", further, ")")))) or "nothing"
    return "; ".join(filter(None, (found, _listed("not ", parts), never)))


def is_allowed(room: str, other: str, used: Pairs, contracts: Contracts) -> bool:
    """Whether the room could import the other. Contracts are about indirect imports as well: whatever imports the room
    would then import all that the other imports."""
    backwards = frozenset((b, a) for a, b in used)
    importers, imported = {room, *reached(backwards, room)}, {other, *reached(used, other)}
    return not any((a, b) in contracts.barred for a in importers for b in imported)


def _listed(before: str, names: Collection[str], after: str = "") -> str:
    return before + ", ".join(f"`{name}`" for name in names) + after if names else ""


def diagram(imports: Pairs, rooms: Collection[str]) -> str:
    """A graph of the rooms in their order. An import that follows from others is left out."""
    order = list(rooms)
    pairs = frozenset(pair for pair in children(imports, "") if set(pair) <= set(order))
    found = sorted(without_shortcuts(pairs), key=lambda pair: [order.index(name) for name in pair])
    return _mermaid(f"    {a} --> {b}" for a, b in found)


def inner_diagram(imports: Pairs, *folders: str) -> str:
    """The same for what stands directly in each of the folders."""
    lines: list[str] = []
    for folder in folders:
        lines += [f"    subgraph {folder}"]
        pairs = sorted(without_shortcuts(children(imports, folder)))
        lines += [f"        {_node(a)} --> {_node(b)}" for a, b in pairs]
        lines += ["    end"]
    return _mermaid(lines)


def _mermaid(lines: Iterable[str]) -> str:
    return "\n".join(["```mermaid", "graph TD", *lines, "```"])


def _node(name: str) -> str:
    """Its name in its folder; the identifier is its whole path, for some names stand in several folders."""
    return f"{name.replace('/', '_')}[{name.rpartition('/')[2]}]"


def children(imports: Pairs, folder: str) -> Pairs:
    """Who imports whom among what stands directly in the folder; empty: in the package itself."""

    def child(name: str) -> str:
        below = name.removeprefix(f"{folder}/") if folder else name
        is_inside = name.startswith(f"{folder}/") if folder else bool(name)
        return "/".join(filter(None, (folder, below.partition("/")[0]))) if is_inside else ""

    found = ((child(a), child(b)) for a, b in imports)
    return frozenset((a, b) for a, b in found if a and b and a != b)


def reached(pairs: Pairs, start: str) -> set[str]:
    """Whatever `start` imports, and what that imports, and so on."""
    found: set[str] = set()
    waiting = [start]
    while waiting:
        name = waiting.pop()
        new = {b for a, b in pairs if a == name} - found
        found |= new
        waiting += new
    return found


def without_shortcuts(pairs: Pairs) -> Pairs:
    """The pairs that do not follow from the others."""
    for name in {a for a, _ in pairs}:
        if name in reached(pairs, name):
            raise SystemExit(f"error: {name} imports itself, by way of others\nhint: make lint")
    behind = {name: reached(pairs, name) for pair in pairs for name in pair}
    return frozenset(
        (a, b) for a, b in pairs if not any(b in behind[other] for start, other in pairs if start == a and other != b)
    )


@cache
def imports_of(package: str) -> Pairs:
    """All imports within the package, wherever in a file they stand. What is loaded by a computed name is not seen."""
    graph = grimp.build_graph(package, cache_dir=None)
    return frozenset(
        (_path(package, module), _path(package, imported))
        for module in graph.modules
        for imported in graph.find_modules_directly_imported_by(module)
    )


def read_contracts(settings: Path, package: str) -> Contracts:
    """The contracts as import-linter's part of pyproject.toml has them."""
    found = tomllib.loads(settings.read_text(encoding="utf-8"))["tool"]["importlinter"]["contracts"]
    barred: set[tuple[str, str]] = set()
    order: tuple[str, ...] = ()
    for contract in found:
        if contract["type"] == "layers":
            for container in contract.get("containers", [""]):
                layers = _layers(contract, container, package)
                barred |= _barred_by_layers(layers)
                order = order or tuple(name for layer in layers for name in layer)
        elif contract["type"] == "independence":
            barred |= set(permutations((_path(package, name) for name in contract["modules"]), 2))
        elif contract["type"] == "forbidden":
            barred |= {
                (_path(package, one), _path(package, other))
                for one in contract["source_modules"]
                for other in contract["forbidden_modules"]
            }
        else:
            raise SystemExit(f"error: the contract {contract['name']!r} is {contract['type']}, which is not understood")
    return Contracts(barred=frozenset(barred), order=order, names=tuple(contract["name"] for contract in found))


def _layers(contract: Mapping[str, Any], container: str, package: str) -> list[list[str]]:
    """The layers from the top down; those that stand beside one another are in one list."""
    before = f"{container}." if container else ""
    return [[_path(package, before + name.strip()) for name in layer.split("|")] for layer in contract["layers"]]


def _barred_by_layers(layers: list[list[str]]) -> set[tuple[str, str]]:
    above: list[str] = []
    barred: set[tuple[str, str]] = set()
    for layer in layers:
        barred |= set(permutations(layer, 2)) | {(name, other) for name in layer for other in above}
        above += layer
    return barred


def _path(package: str, module: str) -> str:
    """The module's path below the package; what is not of the package has a colon before it."""
    if module == package:
        return ""
    is_ours = module.startswith(f"{package}.")
    return module.removeprefix(f"{package}.").replace(".", "/") if is_ours else f":{module}"
