"""A transaction on the SQLite ledger; for readers, one that writes nothing."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from dogwatch.errors import LedgerCorruptError, LedgerError
from dogwatch.ledger.sql_reader import Dialect, Row
from dogwatch.ledger.sql_tx import SqlTx
from dogwatch.ledger.sqlite_errors import SEALED, corrupt, translate
from dogwatch.model.moment import Moment

_CHANGES = ("INSERT", "UPDATE", "DELETE")


class SqliteTx(SqlTx):
    """The SQL of the ledger on a connection of SQLite's."""

    # All holders are on this machine, so the shared clock is never asked.
    dialect = Dialect(
        now="0",
        pos="0",
        order=("seq",),
        told="TRUE",
        seal=tuple(
            f"CREATE TRIGGER sealed_{{table}}_{change} BEFORE {change} ON {{table}}"
            f" BEGIN SELECT RAISE(ABORT, '{SEALED}'); END"
            for change in _CHANGES
        ),
        unseal=tuple(f"DROP TRIGGER sealed_{{table}}_{change}" for change in _CHANGES),
    )

    def __init__(self, connection: sqlite3.Connection, path: str, now: Moment, host: str) -> None:
        # Grants name no host: all holders are on this machine, and its clock counts.
        super().__init__(now, host, clock_of="")
        self.cause: sqlite3.Error | None = None
        self._connection = connection
        self._path = path

    def rows(self, statement: str, values: Sequence[Any] = ()) -> list[Row]:
        """What a statement returns."""
        cursor = self._execute(statement, values)
        try:
            return cursor.fetchall()
        except sqlite3.Error as error:
            raise self._spoil(error) from error

    def change(self, statement: str, values: Sequence[Any] = (), *, news: bool = True) -> int:
        """How many rows the statement changed."""
        changed = self._execute(statement, values).rowcount
        self.news = self.news or (news and changed > 0)
        return changed

    def corrupt(self, detail: str) -> LedgerCorruptError:
        """The error for content that cannot be read."""
        return corrupt(self._path, detail)

    def _execute(self, statement: str, values: Sequence[Any]) -> sqlite3.Cursor:
        if self.spoiled is not None:
            raise self.spoiled
        plain, order = _counted(statement)
        try:
            return self._connection.execute(plain, [values[number - 1] for number in order] if order else values)
        except sqlite3.Error as error:
            raise self._spoil(error) from error

    def _spoil(self, error: sqlite3.Error) -> LedgerError:
        self.cause = error
        self.spoiled = translate(error, self._path)
        return self.spoiled


@lru_cache(maxsize=512)
def _counted(statement: str) -> tuple[str, Sequence[int]]:
    """The statement with plain question marks for those that have numbers, and the number of each: Python 3.12 up to
    3.12.3 takes the numbers for names, and complains."""
    return re.sub(r"\?\d+", "?", statement), [int(number) for number in re.findall(r"\?(\d+)", statement)]
