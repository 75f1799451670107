"""Documents of version 2 are brought up to date on both engines: all of them or none, and nothing is lost."""

from __future__ import annotations

import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from dogwatch.errors import LedgerSealedError, RefusedError
from dogwatch.ledger import open_store, upgrades
from dogwatch.ledger.api import Store
from dogwatch.ledger.facts import unseal
from dogwatch.ledger.migrations import VERSION
from dogwatch.ledger.records import load_all
from dogwatch.model import keys
from dogwatch.model.admission import PermitRecord
from dogwatch.model.memory import HostRecord
from dogwatch.model.records import GateRecord, RunRecord
from dogwatch.testing.clock import ManualClock
from support.postgres import database, postgres, restore

__all__ = ["database", "postgres"]

HERE = Path(__file__).parent
HOST = "0123456789abcdef"
ODD = {
    "permit/agent:odd": "no JSON",
    "permit/agent:other": '{"launch":{"holder":"agent:another"}}',
    "run/odd": "[]",
    "run/half": '{"run":"half","project":"/p"}',
    "gate/odd/0/g": "{}",
}
"""What no program has written."""
BEFORE = "BEFORE INSERT OR UPDATE OR DELETE ON dogwatch.documents"
SEALS = {
    "sqlite": [
        f"CREATE TRIGGER sealed_documents_{change} BEFORE {change} ON documents"
        f" BEGIN SELECT RAISE(ABORT, 'sealed'); END"
        for change in ("INSERT", "UPDATE", "DELETE")
    ],
    "postgresql": [
        f"CREATE TRIGGER sealed {BEFORE} EXECUTE FUNCTION dogwatch.refuse()",
    ],
}
"""How version 2 closed a ledger that was moved away."""


class Old:
    """A ledger of version 2 in its tables, before anybody has opened it."""

    def __init__(self, engine: str, place: str) -> None:
        self.engine = engine
        self.place = place

    def open(self, *, maintenance: bool = False) -> Store:
        return open_store(self.place, ManualClock(), host=HOST, maintenance=maintenance)

    def execute(self, *statements: str) -> None:
        if self.engine == "sqlite":
            with closing(sqlite3.connect(self.place)) as connection, connection:
                for statement in statements:
                    connection.execute(statement.replace("dogwatch.", ""))
        else:
            with psycopg.connect(self.place) as server:
                for statement in statements:
                    server.execute(statement)

    def put(self, key: str, text: str) -> None:
        self.execute(f"INSERT INTO dogwatch.documents (key, revision, body) VALUES ('{key}', 3, '{text}')")

    def rows(self) -> dict[str, tuple[int, str]]:
        """The documents as they lie there."""
        query = "SELECT key, revision, body FROM documents"
        if self.engine == "sqlite":
            with closing(sqlite3.connect(self.place)) as connection:
                return {key: (revision, body) for key, revision, body in connection.execute(query)}
        with psycopg.connect(self.place) as server:
            return {key: (n, body) for key, n, body in server.execute(query.replace("FROM ", "FROM dogwatch."))}

    def version(self) -> int:
        if self.engine == "sqlite":
            with closing(sqlite3.connect(self.place)) as connection:
                return int(connection.execute("PRAGMA user_version").fetchone()[0])
        with psycopg.connect(self.place) as server:
            found = server.execute("SELECT value FROM dogwatch.facts WHERE name = 'version'").fetchone()
            assert found is not None
            return int(found[0])


@pytest.fixture(params=["sqlite", "postgresql"])
def old(request: pytest.FixtureRequest, tmp_path: Path) -> Old:
    if request.param == "sqlite":
        place = str(tmp_path / "ledger.db")
        shutil.copy(HERE / "runs-v2.db", place)
    else:
        place = request.getfixturevalue("database")
        restore(place, HERE / "postgres-runs-v2.sql")
    return Old(request.param, place)


def test_everything_of_the_host_is_found_under_its_id_and_the_rest_where_it_was(old: Old) -> None:
    before = old.rows()
    with closing(old.open()) as store:
        host = store.read(lambda r: r.record(HostRecord, keys.host(HOST)))
        permits = store.read(lambda r: load_all(r, PermitRecord, keys.permits(HOST)))
        runs = store.read(lambda r: load_all(r, RunRecord, keys.RUNS))
        gates = store.read(lambda r: load_all(r, GateRecord, keys.gates("v-1")))
    assert host is not None
    assert {host.host, *(one.host for one in permits), *(one.host for one in gates)} == {HOST}
    assert sorted(permit.key.replace(f"/{HOST}", "") for permit in permits) == [
        key for key in sorted(before) if key.startswith("permit/")
    ]
    assert [(run.project, run.output) for run in runs] == [("/project", "/out/v-1"), ("/project", "/out/v-2")]
    after = old.rows()
    kept = {key: row for key, row in before.items() if not key.startswith("crew/")}
    assert len(after) == len(kept) < len(before), "only the older crew's places are gone"
    assert sorted(n for n, _ in after.values()) == sorted(n for n, _ in kept.values()), "no revision is lost"
    for key, row in before.items():
        if key.startswith(("plan/", "task/", "checkpoint/", "profile/", "history/", "counter/", "queue")):
            assert after[key] == row


def test_what_cannot_be_understood_is_kept_as_it_was(old: Old) -> None:
    for key, text in ODD.items():
        old.put(key, text)
    old.open().close()
    after = old.rows()
    assert {key: after[key] for key in ODD} == {key: (3, text) for key, text in ODD.items()}


def test_a_document_gives_way_to_none_that_is_there_already(old: Old) -> None:
    taken = keys.host(HOST)
    old.put(taken, '{"mine":1}')
    before = old.rows()
    old.open().close()
    after = old.rows()
    assert after[taken] == (3, '{"mine":1}')
    assert after["host"] == before["host"]


def test_the_step_is_made_whole_or_not_at_all(old: Old, monkeypatch: pytest.MonkeyPatch) -> None:
    before = old.rows()
    whole = upgrades.upgraded_document
    seen: list[str] = []

    def broken_off(key: str, *rest: object) -> tuple[str, str] | None:
        seen.append(key)
        if key.startswith("run/"):
            raise KeyboardInterrupt
        return whole(key, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(upgrades, "upgraded_document", broken_off)
    with pytest.raises(KeyboardInterrupt):
        old.open()
    assert "host" in seen
    assert (old.rows(), old.version()) == (before, 2)
    monkeypatch.undo()
    old.open().close()
    assert old.version() == VERSION
    assert keys.host(HOST) in old.rows()


def test_it_is_made_once(old: Old) -> None:
    old.open().close()
    first = old.rows()
    old.open().close()
    assert old.rows() == first


def test_a_large_ledger_is_read_a_page_at_a_time(old: Old) -> None:
    many = 3 * upgrades.ROWS
    text = json.dumps({"run": "r", "phase": 0, "gate": "g", "process": {"boot": "b", "pid": 1, "start_ticks": 1}})
    values = ", ".join(f"('gate/r/0/{number}', 1, '{text}')" for number in range(many))
    old.execute(f"INSERT INTO dogwatch.documents (key, revision, body) VALUES {values}")
    with closing(old.open()) as store:
        found = store.read(lambda r: load_all(r, GateRecord, keys.gates("r")))
    assert [gate.host for gate in found] == [HOST] * many


def test_one_that_was_moved_away_is_brought_up_to_date_and_stays_closed(old: Old) -> None:
    old.execute(
        "INSERT INTO dogwatch.facts (name, value) VALUES ('sealed', 'elsewhere'), ('moving', 'x')", *SEALS[old.engine]
    )
    with pytest.raises(LedgerSealedError):
        old.open()
    with closing(old.open(maintenance=True)) as store:
        assert store.read(lambda r: r.get(keys.host(HOST))) is not None
        with pytest.raises(LedgerSealedError):
            store.run(lambda tx: tx.put("new", {}))


def test_a_move_of_an_older_program_can_be_given_up(old: Old) -> None:
    """All tables were closed, as that program did it."""
    tables = ("events", "documents", "fences", "leases", "items", "archives", "archive_index", "archived_op_ids")
    seals = [seal.replace("documents", table) for table in tables for seal in SEALS[old.engine]]
    old.execute("INSERT INTO dogwatch.facts (name, value) VALUES ('sealed', 'elsewhere'), ('moving', 'x')", *seals)
    with closing(old.open(maintenance=True)) as store:
        unseal(store)
        store.run(lambda tx: tx.put("new", {}))
    assert keys.host(HOST) in old.rows()


OWNER = "fedcba9876543210"


@pytest.fixture
def owned(database: str) -> Old:
    """One on a server that another home works with."""
    restore(database, HERE / "postgres-runs-v2.sql")
    ledger = Old("postgresql", database)
    ledger.put("home", f'{{"host":"{OWNER}","path":"/h","hostname":"m"}}')
    return ledger


def test_who_only_reads_does_not_change_records_under_the_feet_of_an_older_crew(owned: Old) -> None:
    before = owned.rows()
    with pytest.raises(RefusedError) as caught:
        owned.open()
    assert f"has version 2, and the home that works with it has not brought it to {VERSION} yet" in caught.value.message
    assert "ledger adopt" in caught.value.hint
    assert (owned.rows(), owned.version()) == (before, 2)


@pytest.mark.parametrize("who", ["the home that works with it", "one that is about to adopt it"])
def test_on_a_server_the_records_are_those_of_the_home_that_works_with_it(owned: Old, who: str) -> None:
    host, maintenance = (OWNER, False) if who.startswith("the") else (HOST, True)
    with closing(open_store(owned.place, ManualClock(), host=host, maintenance=maintenance)) as store:
        assert store.read(lambda reader: reader.keys("host")) == [keys.host(OWNER)]
        assert not store.read(lambda reader: reader.keys(keys.permits(HOST)))
        assert store.read(lambda reader: reader.keys(keys.permits(OWNER)))
    assert owned.version() == VERSION
