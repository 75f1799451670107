"""Homes with ledgers of either engine and everything that a ledger can hold, for the tests of `dogwatch ledger`."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from dogwatch.coordination.ledgers import host_of
from dogwatch.ledger import open_store
from dogwatch.ledger.api import Store, StoredEvent, Tx
from dogwatch.ledger.copying import records
from dogwatch.ledger.records import change, save
from dogwatch.model.life import Running
from dogwatch.model.process import ProcessId
from dogwatch.model.records import AgentRecord, TaskRecord
from dogwatch.testing.events import PlainEvent
from dogwatch.world.clock import SystemClock
from dogwatch.world.home import Home
from support.cli_ledgers import add_run, end_run
from support.commands import call
from support.helpers import events_of
from support.postgres import Server
from support.records import message_record

ROOT = Path(__file__).resolve().parents[2]
ENGINES = ("sqlite", "postgresql")


class Place:
    """A home with its ledger; it lies on a server where there is a URL."""

    def __init__(self, folder: Path, url: str = "") -> None:
        self.folder = folder
        self.url = url
        self.file = folder / "ledger.db"

    @property
    def address(self) -> str:
        """What `migrate --to` takes."""
        return self.url or f"sqlite:///{self.file}"

    @property
    def name(self) -> str:
        """What people are shown."""
        return self.url or str(self.file)

    @property
    def environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("DOGWATCH_", "TMUX"))}
        return {**kept, "DOGWATCH_HOME": str(self.folder), "DOGWATCH_LEDGER": self.url, "PYTHONPATH": str(ROOT / "src")}

    def cli(self, *words: str, code: int = 0, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        """One call of the command line, which must end with this code and never with a traceback."""
        done = call(words, self.environment, self.folder, stdin, timeout_s=240)
        said = f"dogwatch {' '.join(words)}: {done.returncode}\n{done.stdout.decode()[-3000:]}\n{done.stderr.decode()}"
        assert done.returncode == code, said
        assert b"Traceback" not in done.stderr, said
        if code > 1:
            assert done.stderr.startswith(b"error: "), said
            assert b"\nhint: " in done.stderr, said
        return done

    def ledger(self, *words: str, code: int = 0, stdin: bytes = b"") -> str:
        """One call of `dogwatch ledger`; all that it said."""
        done = self.cli("ledger", *words, code=code, stdin=stdin)
        return done.stdout.decode() + done.stderr.decode()

    def start(self, *words: str, **options: Any) -> subprocess.Popen[bytes]:
        """A call of `dogwatch ledger` that goes on."""
        argv = [sys.executable, "-m", "dogwatch", "ledger", *words]
        return subprocess.Popen(argv, env=self.environment, **options)

    @contextmanager
    def store(self, *, maintenance: bool = False) -> Iterator[Store]:
        """The ledger, open."""
        host = host_of(Home(str(self.folder)))
        with closing(open_store(self.address, SystemClock(), host=host, maintenance=maintenance)) as store:
            yield store

    def content(self) -> list[Any]:
        """Everything in it but leases and claims, also of a ledger that was moved."""
        with self.store(maintenance=True) as store:
            return store.read(lambda reader: list(records(reader)))

    def events(self) -> list[StoredEvent]:
        with self.store() as store:
            return events_of(store)


class Places:
    """Makes places; all of them are gone afterwards."""

    def __init__(self, base: Path, server: Server | None) -> None:
        self._base = base
        self._server = server
        self._databases: list[str] = []

    def new(self, engine: str) -> Place:
        """An empty one: a file is not there yet, a database has no tables."""
        folder = self._base / f"h{len(list(self._base.iterdir()))}"
        folder.mkdir(mode=0o700)
        if engine == "sqlite":
            return Place(folder)
        assert self._server is not None
        url = self._server.lend_database()
        self._databases.append(url)
        return Place(folder, url)

    def full(self, engine: str, events: int = 40) -> Place:
        """A healthy one with everything in it."""
        place = self.new(engine)
        with place.store() as store:
            fill(store, events)
        return place

    def close(self) -> None:
        for url in self._databases:
            assert self._server is not None
            self._server.take_back(url)
        shutil.rmtree(self._base)


def places_on(server: Server | None) -> Iterator[Places]:
    """For a fixture. The folder is short: sockets have no long paths."""
    places = Places(Path(tempfile.mkdtemp(prefix="dw")), server)
    try:
        yield places
    finally:
        places.close()


def fill(store: Store, events: int) -> None:
    """Two runs as a crew would leave them, one of them over; leases, claims, queues; so many further events."""
    done, running = add_run(store), add_run(store)
    for run in (done, running):
        store.run(partial(_work, run=run))
    end_run(store, done)
    store.run(_rest)
    for first in range(0, events, 500):

        def append(tx: Tx, first: int = first) -> None:
            for number in range(first, min(events, first + 500)):
                body = {"n": number, "text": "é\0\ud800 \u2028" * (number % 7), "share": number / 7, "deep": [[{}]]}
                tx.append(
                    PlainEvent("crew_started", body, run=running if number % 2 else ""),
                    f"op-{number}" if number % 3 else "",
                )

        store.run(append)


def _work(tx: Tx, run: str) -> None:
    key = f"agent/{run}/writer"
    life = Running(since=tx.now, process=ProcessId(tx.now.boot, 1, 1))
    change(tx, AgentRecord, key, lambda agent: replace(agent, life=life, incarnation=1))
    tx.append(PlainEvent("agent_spawned", {"pid": 1}, run=run, agent="writer"), f"spawned:{key}:1")
    draft = TaskRecord(run=run, task="draft", dispatch="draft", phase=0, holders=("writer",), text="Write.")
    save(tx, replace(draft, state="accepted", agent="writer", attempt=1, dispatched=tx.now, finished=tx.now))
    tx.append(PlainEvent("task_accepted", {"task": "draft"}, run=run, agent="writer"), f"accepted:{run}:draft")
    message = save(tx, message_record(run=run, kind="task", subject="draft", body="Write.", queued=tx.now))
    tx.append(PlainEvent("message_sent", {"message": "m1"}, run=run, agent="writer"), f"message:{message.key}")


def _rest(tx: Tx) -> None:
    for number in range(3):
        tx.put("counter", {"n": number})
    tx.put("unicode/é\uffff\U0001f600", {"text": "\0\ud800", "n": 10**30, "f": 1e-300})
    for name in ("captain/x", "captain/x", "other"):
        lease = tx.acquire(name, "holder", 3600, slots=2)
        assert lease is not None
    for number in range(6):
        tx.push("queue", {"n": number}, f"item-{number}", ttl_s=3600 if number % 2 else None)
    for holder in ("a", "b"):
        item = tx.claim("queue", holder, 3600)
        assert item is not None
        if holder == "a":
            tx.ack(item)
