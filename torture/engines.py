"""The engines under torture: where the ledger is, how its server dies, and a look at it without dogwatch's own code."""

from __future__ import annotations

import contextlib
import importlib
import os
import random
import signal
import sqlite3
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

ENGINES = ("sqlite", "postgresql")
READY = "database system is ready to accept connections"
START_S_MAX = 120.0


class Engine(Protocol):
    """What the orchestrator needs to know of an engine."""

    url: str
    has_server: bool

    def kill(self) -> None:
        """Kills the server, all of its processes at once."""

    def start(self) -> None:
        """Starts the server again, and waits until it answers."""

    def kill_one(self, chance: random.Random) -> None:
        """Kills one process of the server, which then restarts by itself; back when it answers."""

    def inspect(self, events: int) -> Iterator[str]:
        """What is wrong with what lies on the disk, which should hold so many events."""

    def close(self) -> None:
        """Ends the server."""


def new_engine(name: str, folder: Path) -> Engine:
    """An engine with an empty ledger. The ledger itself is made by the first worker who gets that far."""
    return SqliteEngine(folder) if name == "sqlite" else PostgresEngine()


class SqliteEngine:
    """A file; nobody serves it."""

    has_server = False

    def __init__(self, folder: Path) -> None:
        # Imported here, so that no worker spends its first moments with it.
        importlib.import_module("dogwatch.ledger.sqlite")
        self._path = folder / "ledger.db"
        self.url = str(self._path)

    def kill(self) -> None:
        """There is no server."""
        raise NotImplementedError

    def start(self) -> None:
        """There is no server."""
        raise NotImplementedError

    def kill_one(self, chance: random.Random) -> None:
        """There is no server."""
        raise NotImplementedError

    def inspect(self, events: int) -> Iterator[str]:
        """The file is sound for SQLite itself, and beside it nothing half made is left."""
        with contextlib.closing(sqlite3.connect(self._path)) as connection:
            yield from (
                f"integrity_check: {row[0]}" for row in connection.execute("PRAGMA integrity_check") if row[0] != "ok"
            )
            yield from (f"foreign_key_check: {row}" for row in connection.execute("PRAGMA foreign_key_check"))
            counts = connection.execute("SELECT count(*), count(DISTINCT op_id) FROM events").fetchone()
            if counts != (events, events):
                yield f"the file has {counts[0]} events with {counts[1]} operations, the ledger handed out {events}"
        known = {self._path.name + suffix for suffix in ("", "-wal", "-shm", ".queue", ".lock", ".bells")}
        strange = {path.name for path in self._path.parent.glob(self._path.name + "*")} - known
        yield from (f"{name} was left beside the ledger" for name in sorted(strange))

    def close(self) -> None:
        """There is no server."""


class PostgresEngine:
    """A database on a server of its own."""

    has_server = True

    def __init__(self) -> None:
        # The tests know how to start a server; only this engine needs them.
        sys.path.append(str(Path(__file__).parent.parent / "tests"))
        self._server: Any = importlib.import_module("support.postgres").new_server(fsync="on", full_page_writes="on")
        self.url: str = self._server.new_database()
        importlib.import_module("dogwatch.ledger.postgres")

    def kill(self) -> None:
        """Kills all processes of the server."""
        self._server.kill()

    def start(self) -> None:
        """Starts the server on what it left behind."""
        self._server.start()

    def kill_one(self, chance: random.Random) -> None:
        """Kills one child of the server's main process, which then ends all others and recovers as after a crash."""
        before = self._log().count(READY)
        os.kill(chance.choice([pid for pid in self._server.members() if pid != self._server.pid]), signal.SIGKILL)
        deadline = time.monotonic() + START_S_MAX
        while self._log().count(READY) == before:
            if time.monotonic() > deadline:
                raise TimeoutError(f"the server did not recover within {START_S_MAX:.0f} s")
            time.sleep(0.01)

    def inspect(self, events: int) -> Iterator[str]:
        """Every row of every table can be read, and the server has not panicked."""
        psycopg = importlib.import_module("psycopg")
        with psycopg.connect(self.url) as connection:
            tables = connection.execute("SELECT schemaname, tablename FROM pg_tables WHERE schemaname !~ '^pg_'")
            for schema, table in tables.fetchall():
                connection.execute(f'SELECT count(t::text) FROM "{schema}"."{table}" AS t')  # noqa: S608
        yield from (line for line in self._log().splitlines() if "PANIC" in line)

    def close(self) -> None:
        """Ends the server."""
        self._server.close()

    def _log(self) -> str:
        text: str = self._server.log.read_text()
        return text
