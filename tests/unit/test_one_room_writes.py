"""Only `coordination/` and `ledger/` write to a ledger. Everybody else calls a function of `coordination/`: each change
of a thing that agents share stands in one place, whoever asks for it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from dogwatch.ledger.api import Reader, Tx

SOURCE = Path(__file__).parents[2] / "src" / "dogwatch"
WRITERS = ("coordination/", "ledger/")
KNOW_THE_TYPE = {
    "door/verbs/": "a verb's handler is given the transaction that it hands on",
    "door/verb.py": "what a verb is: its handler is given a transaction",
    "door/answering.py": "hands the transaction of the captain's helm on to the verb",
    "sim/": "the simulator has an engine of its own",
    "crew/captain/helm.py": "checks the captain's lease in the transaction of whatever it records",
    "crew/shared/fenced.py": "the same for watchdog and dispatcher",
}
"""Who may name the type of a transaction, and why. None of them may write."""
RECORDS, TABLES = "dogwatch.ledger.records", "dogwatch.ledger.facts"
SAVERS = {"save", "change"}
WRITES = {name for name in vars(Tx) if not name.startswith("_")} - set(vars(Reader)) - {"check"}
TAKERS = {"run", "record", "fenced"}
"""Who calls what it is given with a transaction: a store, a captain's helm, and the other members' fence."""


def _is_tx(annotation: ast.expr | None) -> bool:
    """Whether the annotation speaks of a transaction: `Tx`, `api.Tx`, `"Tx"`, `Tx | None`."""
    if annotation is None:
        return False
    text = ast.unparse(annotation).replace("'", "").replace('"', "")
    return any(part.strip().rpartition(".")[2] == "Tx" for part in text.split("|"))


def _transactions(tree: ast.AST) -> set[str]:
    """The names under which the file has a transaction."""
    found = {"tx"}
    for node in ast.walk(tree):
        if isinstance(node, ast.arg) and _is_tx(node.annotation):
            found.add(node.arg)
        elif isinstance(node, ast.AnnAssign) and _is_tx(node.annotation) and isinstance(node.target, ast.Name):
            found.add(node.target.id)
        elif isinstance(node, ast.Call) and _name(node.func) in TAKERS:
            for given in node.args:
                if isinstance(given, ast.Lambda) and given.args.args:
                    found.add(given.args.args[0].arg)
    return found


def _name(node: ast.expr) -> str:
    """The last part of a name: `ledger.run` is run."""
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _imports(tree: ast.AST, path: str) -> Iterator[tuple[int, str, str, str]]:
    """Each import's line, module and name within it (empty for the module itself), and what it is called here."""
    package = ["dogwatch", *Path(path).parts[:-1]]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name, "", alias.asname or alias.name
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*above, *([node.module] if node.module else [])])
            for alias in node.names:
                yield node.lineno, module, alias.name, alias.asname or alias.name


def writes(text: str, path: str) -> list[str]:
    """Everything in the file that only the rooms that write may have. `path` is below the package."""
    if path.startswith(WRITERS):
        return []
    tree = ast.parse(text)
    found, records, tables = [], set(), set()
    for line, module, name, called in _imports(tree, path):
        if module == RECORDS and name in {*SAVERS, "*"}:
            found.append(f"{path}:{line} imports {name} of {RECORDS}")
        if RECORDS in (module, f"{module}.{name}") and name not in SAVERS:
            records.add(called)
        if (module, name) == (TABLES, "sql"):
            tables.add(called)
        if name == "Tx" and not path.startswith(tuple(KNOW_THE_TYPE)):
            found.append(f"{path}:{line} imports Tx")
    transactions = _transactions(tree)
    for node in ast.walk(tree):
        if not isinstance(node, ast.Attribute):
            continue
        what, on = ast.unparse(node), node.value
        is_of_tables = isinstance(on, ast.Call) and _name(on.func) in tables
        if (
            (node.attr in WRITES and _name(on) in transactions)
            or (node.attr in SAVERS and ast.unparse(on) in records)
            or (node.attr == "change" and is_of_tables)
        ):
            found.append(f"{path}:{node.lineno} writes: {what}")
        elif node.attr == "Tx" and not path.startswith(tuple(KNOW_THE_TYPE)):
            found.append(f"{path}:{node.lineno} names {what}")
    return found


def all_writes() -> dict[str, list[str]]:
    """Each file that has what it may not have."""
    found = {}
    for file in sorted(SOURCE.rglob("*.py")):
        path = file.relative_to(SOURCE).as_posix()
        if told := writes(file.read_text(encoding="utf-8"), path):
            found[path] = told
    return found


def test_only_coordination_and_the_ledger_write() -> None:
    told = [line for lines in all_writes().values() for line in lines]
    assert not told, "a function of coordination/ does this:\n" + "\n".join(told)


def test_whoever_may_name_the_type_of_a_transaction_does_so() -> None:
    for path, why in KNOW_THE_TYPE.items():
        files = sorted((SOURCE / path).rglob("*.py")) if path.endswith("/") else [SOURCE / path]
        assert any("Tx" in file.read_text(encoding="utf-8") for file in files), f"{path}: {why}"


def test_all_writing_methods_of_a_transaction_are_known() -> None:
    assert {"append", "put", "delete", "push", "claim", "ack", "acquire", "renew", "release"} <= WRITES
    assert {"put_record", "change_record", "extend", "give_back"} <= WRITES
    assert not WRITES & {"get", "scan", "leases", "items", "record", "check", "now"}


FORBIDDEN = [
    "from dogwatch.ledger.records import save",
    "from dogwatch.ledger.records import load, change as changed",
    "from dogwatch.ledger.records import *",
    "from ...ledger.records import save",
    "from dogwatch.ledger import records\nrecords.save(x, y)",
    "import dogwatch.ledger.records\ndogwatch.ledger.records.change(x, y)",
    "import dogwatch.ledger.records as r\nr.save(x, y)",
    "def act():\n    from dogwatch.ledger.records import save",
    "from dogwatch.ledger.facts import sql\nsql(reader).change('DELETE FROM leases')",
    "from dogwatch.ledger.api import Tx",
    "from dogwatch.ledger import api\ndef act(one: api.Tx): pass",
    "ledger.run(lambda tx: tx.delete('down'))",
    "ledger.run(lambda it: it.put('down', {}))",
    "helm.record(lambda it: it.append(event))",
    "fenced(ledger, lease, lambda it: it.release(lease))",
    "ledger.run(partial(act, tx.append))",
    "class Clerk:\n    def act(self):\n        self.tx.push('queue', {})",
]


@pytest.mark.parametrize("text", FORBIDDEN)
@pytest.mark.parametrize("path", ["crew/watchdog/watchdog.py", "cli/one/kill.py", "actions/one/hands.py"])
def test_each_way_to_write_elsewhere_is_found(path: str, text: str) -> None:
    assert writes("import os\n" + text, path)
    assert not writes(text, "coordination/crew.py")
    assert not writes(text, "ledger/copying.py")


@pytest.mark.parametrize("path", ["door/verbs/report.py", "sim/faults.py", "crew/shared/fenced.py"])
@pytest.mark.parametrize("method", sorted(WRITES))
def test_who_may_name_the_type_may_not_write_either(path: str, method: str) -> None:
    named = "from dogwatch.ledger.api import Tx\ndef act(one: Tx):\n    "
    assert not writes(named + "one.check(lease)\n    return tasks.accept(one, task)", path)
    assert writes(named + f"one.{method}(x)", path) == [f"{path}:3 writes: one.{method}"]


@pytest.mark.parametrize("annotation", ["Tx", "'Tx'", "Tx | None", "api.Tx"])
def test_a_transaction_is_known_by_its_type_whatever_its_name(annotation: str) -> None:
    assert writes(f"def act(clerk: {annotation}):\n    clerk.ack(item)", "sim/faults.py")
    assert writes(f"def act(it):\n    clerk: {annotation} = it\n    clerk.ack(item)", "sim/faults.py")


ALLOWED = [
    "from dogwatch.ledger.records import load, load_all, load_run",
    "from dogwatch.harness.claude_files import change\nchange(path, edit)",
    "from dogwatch.coordination import orders\nledger.run(orders.bring_up)",
    "ledger.run(lambda tx: create_run(tx, plan, project))",
    "found.append(x)\nself._told.put(x)\nlock.release()\nlock.acquire()",
    "ledger.read(lambda reader: reader.get('down'))",
    "import subprocess\nsubprocess.run(argv, check=False)",
]


@pytest.mark.parametrize("text", ALLOWED)
def test_what_is_no_write_is_not_found(text: str) -> None:
    assert not writes(text, "cli/kill.py")
