"""What a ledger says of itself: its id and version, and where it was moved to."""

from __future__ import annotations

from dogwatch.errors import RefusedError
from dogwatch.ledger.api import Reader, Store, Tx
from dogwatch.ledger.refusals import MOVING, SEALED
from dogwatch.ledger.sql_tx import SqlTx

TABLES = ("events", "documents", "fences", "leases", "items", "archives", "archive_index", "archived_op_ids")
COPY_OF = "copy_of"
COPIER = "copier"
"""The fact which process fills this ledger: one that began before it must not write any more."""


def sql(reader: Reader) -> SqlTx:
    """The transaction with its tables; every engine has them."""
    if not isinstance(reader, SqlTx):
        raise TypeError(f"{type(reader).__name__} has no tables")
    return reader


def facts(reader: Reader) -> dict[str, str]:
    """All of them."""
    return {row[0]: row[1] for row in sql(reader).rows("SELECT name, value FROM facts ORDER BY name")}


def note(tx: Tx, name: str, value: str | None) -> None:
    """Writes a fact, or removes it."""
    if value is None:
        sql(tx).change("DELETE FROM facts WHERE name = ?", (name,))
    else:
        sql(tx).rows(
            "INSERT INTO facts (name, value) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value"
            " RETURNING name",
            (name, value),
        )


def seal(store: Store, where: str, mover: str) -> None:
    """Nothing is written any more, by whichever process, also those that have the ledger open now; `mover` goes on
    with it, and whoever began before does not."""

    def fn(tx: Tx) -> None:
        known = facts(tx)
        if known.get(SEALED, where) != where:
            raise RefusedError(f"it is being moved to {known[SEALED]} already", hint="leave it to that move")
        if SEALED not in known or MOVING in known:
            note(tx, MOVING, mover)
        if SEALED not in known:
            note(tx, SEALED, where)
            for statement in sql(tx).dialect.seal:
                for table in TABLES:
                    sql(tx).rows(statement.format(table=table))

    store.run(fn)


def close_for_good(store: Store, mover: str) -> None:
    """The move is done; from now on nothing leads back. Refused where it was given up, or another goes on with it."""

    def fn(tx: Tx) -> None:
        if facts(tx).get(MOVING) != mover:
            raise RefusedError(
                "this move was given up meanwhile, or another process goes on with it",
                hint="dogwatch ledger info says where it stands; the copy is not in use",
            )
        note(tx, MOVING, None)

    store.run(fn)


def unseal(store: Store) -> None:
    """The ledger may be written again."""

    def fn(tx: Tx) -> None:
        for statement in sql(tx).dialect.unseal:
            for table in TABLES:
                sql(tx).rows(statement.format(table=table))
        note(tx, SEALED, None)
        note(tx, MOVING, None)

    store.run(fn)
