"""`dogwatch ledger` through the real command line, on both engines and across them."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import pty
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import zlib
from collections.abc import Iterator
from contextlib import closing, contextmanager, redirect_stderr, redirect_stdout
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import psycopg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dogwatch.cli.framework import run_command
from dogwatch.coordination.ledgers import bind, host_of, open_home_ledger, refuse_other_home, working_host
from dogwatch.coordination.orders import take_down
from dogwatch.errors import LedgerSealedError, StaleError
from dogwatch.ledger.api import START, Store, Tx
from dogwatch.ledger.copying import line
from dogwatch.ledger.records import load_all, save
from dogwatch.model import keys
from dogwatch.model.admission import Answer, Launch, PermitRecord, WaitRecord
from dogwatch.model.lifecycle import RUN
from dogwatch.model.memory import HostRecord
from dogwatch.model.process import ProcessId
from dogwatch.model.records import CrewRecord, RunRecord
from dogwatch.testing.events import PlainEvent
from dogwatch.world.clock import SystemClock
from dogwatch.world.home import Home
from faults.pipelines import one_task
from support.cli_ledgers import add_run
from support.helpers import wait_for
from support.ledger_places import ENGINES, Place, Places, places_on
from support.postgres import Server, postgres

__all__ = ["postgres"]

MOVES = (("sqlite", "postgresql"), ("postgresql", "sqlite"), ("sqlite", "sqlite"), ("postgresql", "postgresql"))
NOWHERE = "postgresql://dogwatch:sesame@127.0.0.1:1/nowhere"


@pytest.fixture
def places(postgres: Server) -> Iterator[Places]:
    yield from places_on(postgres)


def at_once(place: Place, *words: str) -> tuple[int, str]:
    """`dogwatch ledger` in this process: the exit code and all that it said."""
    said = io.StringIO()
    with patch.dict(os.environ, place.environment, clear=True), redirect_stdout(said), redirect_stderr(said):
        return run_command(["ledger", *words]), said.getvalue()


def raised(content: list[Any]) -> list[Any]:
    """The content after a move: every fence is higher by one."""
    return [(k, {**body, "fence": body["fence"] + 1} if k == "fence" else body) for k, body in content]


@contextmanager
def raw(place: Place) -> Iterator[Any]:
    """A connection to the tables, past the ledger's own code; committed at the end."""
    if place.url:
        with psycopg.connect(place.url, options="-csearch_path=dogwatch") as connection:
            yield connection
    else:
        with closing(sqlite3.connect(place.file)) as file, file:
            yield file


def snapshot(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


# info


@pytest.mark.parametrize("engine", ENGINES)
def test_info_tells_what_there_is(places: Places, engine: str) -> None:
    place = places.full(engine)
    found = json.loads(place.cli("ledger", "info", "--json").stdout)
    assert found["ledger"] == place.name
    assert found["engine"].split()[0] == {"sqlite": "SQLite", "postgresql": "PostgreSQL"}[engine]
    assert set(found) == {"ledger", "engine", "bytes", "facts", "counts", "events", "leases"} | (
        {"log_bytes", "free_bytes"}
        if engine == "sqlite"
        else {"synchronous_standbys", "oldest_transaction_s", "clock_offset_ms", "pooled"}
    )
    content = place.content()
    assert found["counts"] == {k: sum(kind == k for kind, _ in content) for k in ("document", "fence", "item", "event")}
    assert {"version", "id"} <= set(found["facts"])
    assert sorted(lease["name"] for lease in found["leases"]) == ["captain/x", "other"]
    assert set(found["leases"][0]) == {"name", "holder", "fence"}
    walls = [body["at"][2] for kind, body in content if kind == "event"]
    assert found["events"] == {"oldest": walls[0], "newest": walls[-1], "archived": 0, "archive_parts": 0}
    text = place.ledger("info")
    for words in (place.name, found["engine"], "captain/x by holder", "oldest live event", f"{len(walls):,}"):
        assert words in text


# check


@pytest.mark.parametrize("engine", ENGINES)
def test_a_healthy_ledger_is_called_so_and_told_apart_from_a_server_without_fsync(places: Places, engine: str) -> None:
    place = places.full(engine)
    place.ledger("compact", "--keep", "0s")
    with place.store() as store:
        add_run(store)
    lax = ["fsync", "full_page_writes"] if engine == "postgresql" else []
    found = json.loads(place.cli("ledger", "check", "--json", code=1 if lax else 0).stdout)
    assert set(found) == {"ledger", "ok", "counts", "problems"}
    assert [problem["part"] for problem in found["problems"]] == ["engine"] * len(lax)
    assert all(name in problem["problem"] for name, problem in zip(lax, found["problems"], strict=True))
    if not lax:
        assert "nothing is wrong" in place.ledger("check")


LATER = (
    "INSERT INTO events (seq, op_id, run, agent, kind, boot, mono, wall, body)"
    " VALUES (9999, 'later', '', '', 'crew_started', '', 0, 0, '{}')"
)
DAMAGE: dict[str, list[tuple[str, str]]] = {
    "tables": [
        ("UPDATE leases SET fence = fence + 100 WHERE name = 'other'", "fence that was never granted: other"),
        ("DELETE FROM fences WHERE name = 'captain/x'", "fence that was never granted: captain/x"),
        ("UPDATE items SET state = 'lost' WHERE id = 'item-5'", "a state that does not exist: item-5"),
        ("UPDATE documents SET revision = 0 WHERE key = 'counter'", "a revision that cannot be: counter"),
    ],
    "bodies": [
        ("UPDATE events SET body = '{\"n\":' WHERE op_id = 'op-1'", "the event crew_started cannot be read"),
        ("UPDATE events SET body = '[]' WHERE op_id = 'op-2'", "the event crew_started cannot be read"),
        ("UPDATE documents SET body = 'null' WHERE key = 'counter'", "the document counter cannot be read"),
        ("UPDATE items SET body = '' WHERE id = 'item-4'", "the item queue item-4 cannot be read"),
        ("SELECT 1", "is damaged: a record cannot be read"),
    ],
    "records": [
        ("DELETE FROM events WHERE op_id = 'ended:tide-1'", "run/tide-1 is COMPLETED, but the events say: not ended"),
        (
            f"UPDATE documents SET body = replace(body, '\"{RUN.first}\"', '\"FAILED\"') WHERE key = 'run/tide-2'",
            "run/tide-2 is FAILED, but the events say: not ended",
        ),
        ("DELETE FROM events WHERE op_id = 'accepted:tide-1:draft'", "task/tide-1/draft is accepted, but no event"),
        ("DELETE FROM events WHERE op_id LIKE 'spawned:agent/tide-1/%'", "agent/tide-1/writer has a process, but no"),
        ("DELETE FROM events WHERE op_id LIKE 'message:message/tide-2/%'", "message/tide-2/m1 is there, but no event"),
        ("DELETE FROM events WHERE op_id = 'created:tide-2'", "run/tide-2 is there, but no event says"),
        ("UPDATE documents SET body = '{}' WHERE key = 'task/tide-2/draft'", "task/tide-2/draft cannot be read"),
        ("UPDATE events SET kind = 'invented' WHERE op_id = 'op-1'", "does not know: invented"),
        ("INSERT INTO documents VALUES ('active/tide-9', 1, '{}')", "active/tide-9 belongs to no run"),
        ("DELETE FROM documents WHERE key = 'plan/tide-2'", "run/tide-2 has no plan"),
    ],
    "more records": [
        ("UPDATE documents SET body = replace(body, 'COMPLETED', 'ABOUT') WHERE key = 'run/tide-1'", "exist: ABOUT"),
        ("SELECT 1", "run/tide-1 is ABOUT, and nobody is told"),
        ("DELETE FROM documents WHERE key = 'active/tide-2'", f"run/tide-2 is {RUN.first}, and nobody is told"),
        ("DELETE FROM documents WHERE key = 'task/tide-2/draft'", ""),
    ],
    "lost runs": [
        ("DELETE FROM documents WHERE key = 'run/tide-2'", "active/tide-2 belongs to no run"),
        ("SELECT 1", "agent/tide-2/writer belongs to no run"),
        ("SELECT 1", "task/tide-2/draft belongs to no run"),
        ("SELECT 1", "message/tide-2/m1 belongs to no run"),
        ("UPDATE documents SET body = replace(body, 'COMPLETED', 'RUNNING') WHERE key = 'run/tide-1'", "that it ended"),
    ],
    "archive": [
        ("UPDATE archives SET events = events + 1", "part 1 of the archive does not hold what it says"),
        ("UPDATE archive_index SET kind = 'other' WHERE kind = 'task_accepted'", "with other runs or kinds"),
        ("DELETE FROM archived_op_ids WHERE op_id = 'op-1'", "operations that would not be known again"),
        ("INSERT INTO archive_index VALUES ('x', 'y', 77)", "a listed part of the archive is missing: 77"),
        (LATER, ""),
        ("UPDATE events SET op_id = 'op-2' WHERE seq = 9999", "both in the archive and among the events: op-2"),
    ],
    "lost archive": [
        ("DELETE FROM archives", "a listed part of the archive is missing: 1"),
        ("SELECT 1", "run/tide-1 is there, but no event says that it was made"),
    ],
    "unlisted archive": [("DELETE FROM archive_index", "a part of the archive is not listed: 1")],
}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("part", DAMAGE)
def test_check_names_everything_that_was_broken_by_hand(places: Places, engine: str, part: str) -> None:
    place = places.full(engine)
    if "archive" in part:
        place.ledger("compact", "--keep", "0s")
    with raw(place) as connection:
        for statement, _ in DAMAGE[part]:
            connection.execute(statement)
    found = json.loads(place.cli("ledger", "check", "--json", code=1).stdout)
    lines = [problem["problem"] for problem in found["problems"]]
    assert found["ok"] is False
    for _, expected in DAMAGE[part]:
        assert any(expected in line for line in lines), (expected, lines)
    code, text = at_once(place, "check")
    assert code == 1
    assert all(line in text for line in lines)


def flipped(data: bytes) -> bytes:
    """With one bit turned in the middle, where that matters: another distance to the same words means the same text."""
    whole = zlib.decompress(data)
    for place in range(len(data) // 2, len(data)):
        broken = data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]
        try:
            assert zlib.decompress(broken) == whole
        except zlib.error:
            return broken
    raise AssertionError("no bit matters")


@pytest.mark.parametrize("engine", ENGINES)
def test_a_damaged_archive_is_an_error_for_readers_and_a_finding_for_check(places: Places, engine: str) -> None:
    place = places.full(engine)
    place.ledger("compact", "--keep", "0s")
    with raw(place) as connection:
        ((data,),) = connection.execute("SELECT data FROM archives").fetchall()
    mark = "%s" if place.url else "?"
    for broken in (flipped(data), data[:-5], b"", zlib.compress(b"5"), zlib.compress(b"[1]"), zlib.compress(b"\xff")):
        with raw(place) as connection:
            connection.execute(f"UPDATE archives SET data = {mark}", (broken,))
        code, said = at_once(place, "check")
        assert code == 1
        assert "part 1 of the archive cannot be read" in said
    assert b"damaged" in place.cli("events", "--since", "", code=74).stderr
    assert b"damaged" in place.cli("events", code=74).stderr
    assert "damaged" in place.ledger("export", "x.jsonl", code=74)
    assert not (place.folder / "x.jsonl").exists()


def test_a_file_with_flipped_bytes_is_found_out_or_still_whole(places: Places) -> None:
    place = places.full("sqlite", 300)
    content, good = place.content(), place.file.read_bytes()
    dice = random.Random(6)
    outcomes = set()
    for place_ in [30, 101, 5000, *(dice.randrange(len(good)) for _ in range(37))]:
        broken = bytearray(good)
        for offset in range(place_, min(len(good), place_ + 8)):
            broken[offset] ^= 0xA5
        place.file.write_bytes(broken)
        for beside in ("-wal", "-shm"):
            Path(f"{place.file}{beside}").unlink(missing_ok=True)
        code, said = at_once(place, "check")
        outcomes.add(code)
        assert code in (0, 1, 74), said
        if code == 0:
            assert [kind for kind, _ in place.content()] == [kind for kind, _ in content]
        elif code == 1:
            assert str(place.file) in said or "part" in said
    assert {0, 1} <= outcomes


# migrate


@pytest.mark.parametrize(("here", "there"), MOVES)
def test_everything_is_moved_and_the_old_ledger_is_closed_for_all(places: Places, here: str, there: str) -> None:
    source, target = places.full(here, 1200), places.new(there)
    source.ledger("compact", "--keep", "0s")
    with source.store() as store:
        store.run(lambda tx: tx.append(PlainEvent("crew_started", {"late": True})))
    before = source.content()
    with source.store() as early:
        lease = early.run(lambda tx: tx.acquire("other", "holder", 3600))
        item = early.read(lambda reader: next(i for i in reader.items("queue") if i.holder == "b"))
        assert lease is not None
        said = source.ledger("migrate", "--to", target.address)
        assert f"moved {len([1 for k, _ in before if k == 'document'])} documents" in said
        assert target.name in said
        for change in (
            lambda tx: tx.append(PlainEvent("crew_started", {})),
            lambda tx: tx.put("counter", {}),
            lambda tx: tx.put("new", {}),
            lambda tx: tx.delete("counter"),
            lambda tx: tx.acquire("new", "me", 1),
            lambda tx: tx.renew(lease, 1),
            lambda tx: tx.release(lease),
            lambda tx: tx.push("queue", {}),
            lambda tx: tx.claim("queue", "me", 1),
            lambda tx: tx.ack(item),
            lambda tx: tx.extend(item, 5),
        ):
            with pytest.raises(LedgerSealedError) as caught:
                early.run(change)
            assert caught.value.hint
    assert target.content() == raised(before)
    assert source.content() == before
    with pytest.raises(LedgerSealedError), source.store():
        pass
    with target.store() as late:
        for use in (lambda tx: tx.check(lease), lambda tx: tx.renew(lease, 1), lambda tx: tx.ack(item)):
            with pytest.raises(StaleError):
                late.run(use)
        granted = late.run(lambda tx: tx.acquire("other", "somebody", 3600))
        assert granted is not None
        assert granted.fence > lease.fence
        claimed = late.run(lambda tx: tx.claim("queue", "somebody", 3600, item.id))
        assert claimed is not None
        assert claimed.fence > item.fence
        assert late.run(lambda tx: tx.append(PlainEvent("crew_started", {}), "op-1")) is False
        late.run(lambda tx: tx.append(PlainEvent("crew_started", {}), "after the move"))
    for words in (("status",), ("events",), ("up",), ("down",), ("kill", "tide-2"), ("ledger", "compact")):
        assert f"was moved to {target.name}".encode() in source.cli(*words, code=74).stderr, words
    # Once more changes nothing: it is finished.
    now = target.content()
    source.ledger("migrate", "--to", target.address)
    assert target.content() == now
    assert "no move" in source.ledger("migrate", "--undo", code=77)
    elsewhere = places.new("sqlite")
    assert target.name in source.ledger("migrate", "--to", elsewhere.address, code=77)
    assert target.name in source.ledger("migrate", "--to", elsewhere.address, "--dry-run", code=77)
    assert not elsewhere.file.exists()
    assert "itself moved elsewhere" in target.ledger("migrate", "--to", source.address, code=77)
    assert json.loads(source.cli("ledger", "info", "--json").stdout)["facts"]["sealed"] == target.name
    # A copy for good is a source like any other.
    third = places.new("sqlite")
    target.ledger("migrate", "--to", str(third.file))
    assert third.content() == raised(now)


def test_the_old_ledgers_files_and_tables_take_no_rows_from_anybody(places: Places) -> None:
    for here, there in MOVES[:2]:
        source, target = places.full(here), places.new(there)
        source.ledger("migrate", "--to", target.address)
        before = source.content()
        for table in ("events", "documents", "fences", "leases", "items"):
            with pytest.raises((sqlite3.IntegrityError, psycopg.Error)), raw(source) as connection:
                connection.execute(f"DELETE FROM {table}")
        with pytest.raises((sqlite3.IntegrityError, psycopg.Error)), raw(source) as connection:
            connection.execute("INSERT INTO fences VALUES ('new', 1)")
        assert source.content() == before


@pytest.mark.parametrize("there", ENGINES)
def test_a_dry_run_of_a_move_changes_nothing(places: Places, there: str) -> None:
    source, target = places.full("sqlite"), places.new(there)
    before, listing = source.file.read_bytes(), sorted(os.listdir(source.folder))
    assert "would move" in source.ledger("migrate", "--to", target.address, "--dry-run")
    assert source.file.read_bytes() == before
    assert sorted(os.listdir(source.folder)) == listing
    assert not target.file.exists()
    if there == "postgresql":
        assert not any(json.loads(target.cli("ledger", "info", "--json").stdout)["counts"].values())
    with source.store() as store:
        store.run(lambda tx: tx.put("still", {}))


def test_moves_that_cannot_be_are_refused_and_change_nothing(places: Places) -> None:
    source, other, full = places.full("sqlite"), places.full("sqlite", 3), places.full("postgresql", 3)
    before, others = source.content(), (other.content(), full.content())
    assert "not empty" in source.ledger("migrate", "--to", full.address, code=77)
    assert "not empty" in source.ledger("migrate", "--to", other.address, "--dry-run", code=77)
    assert "the very ledger" in source.ledger("migrate", "--to", source.address, code=77)
    assert "the very ledger" in source.ledger("migrate", "--to", "sqlite:///ledger.db", code=77)
    assert "nothing to undo" in source.ledger("migrate", "--undo", code=77)
    said = source.ledger("migrate", "--to", NOWHERE, code=75)
    assert "cannot be reached" in said
    assert "sesame" not in said
    for bad in ("mysql://u:sesame@h/d", "sqlite://h/p", "sqlite:///", "", "postgresql://u:ses@me@h/d", "http://sesame"):
        code, said = at_once(source, "migrate", "--to", bad)
        assert code == 64
        assert "hint: " in said
        assert "ses" not in said
    for flags in ((), ("--to", "x", "--undo")):
        assert at_once(source, "migrate", *flags)[0] == 64
    empty = places.new("sqlite")
    for verb in ("info", "check", "compact", "export", "migrate"):
        more = {"export": ["out.jsonl"], "migrate": ["--to", other.address]}.get(verb, [])
        code, said = at_once(empty, verb, *more)
        assert code == 66
        assert "no ledger" in said
    assert os.listdir(empty.folder) == []
    with source.store() as store:
        store.run(lambda tx: tx.put("still", {}))
        store.run(lambda tx: tx.delete("still"))
    assert (source.content(), other.content(), full.content()) == (before, *others)


def test_a_move_waits_for_the_crew_to_be_down(places: Places) -> None:
    source, target = places.full("sqlite", 3), places.new("sqlite")
    with source.store() as store:
        store.run(lambda tx: tx.delete("active/tide-2"))
    source.cli("up")
    try:
        assert "dogwatch down" in source.ledger("migrate", "--to", target.address, code=77)
        assert "dogwatch down" in source.ledger("import", "-", code=77)
        source.ledger("export", "out.jsonl")
        assert not target.file.exists()
    finally:
        source.cli("down")
    source.ledger("migrate", "--to", target.address)


def test_events_that_followers_are_not_told_yet_are_moved_exported_and_checked(
    postgres: Server, places: Places
) -> None:
    source, target = places.new("postgresql"), places.new("sqlite")
    with source.store() as store, psycopg.connect(postgres.url()) as foreign:
        add_run(store)
        foreign.execute("SELECT pg_current_xact_id()")
        add_run(store)
        assert [event.run for event in store.since(START, 10)] == ["tide-1"]
        _, said = at_once(source, "check")
        assert "tide-2" not in said
        source.ledger("export", "out.jsonl")
        assert (source.folder / "out.jsonl").read_text().count('{"event":') == 2
        source.ledger("migrate", "--to", target.address)
    assert [event.run for event in target.events()] == ["tide-1", "tide-2"]


# export and import


@pytest.mark.parametrize(("here", "there"), MOVES[:2])
def test_what_was_exported_is_imported_as_it_was(places: Places, here: str, there: str) -> None:
    source = places.full(here, 700)
    source.ledger("compact", "--keep", "0s")
    before = source.content()
    files = [source.folder / name for name in ("a.jsonl", "b.jsonl.gz")]
    for file in files:
        assert "would write" in source.ledger("export", str(file), "--dry-run")
        assert not file.exists()
        source.ledger("export", str(file))
        assert file.stat().st_mode & 0o777 == 0o600
        assert "is there already" in source.ledger("export", str(file), code=77)
    streamed = source.cli("ledger", "export", "-").stdout
    lines = files[0].read_bytes().splitlines()
    assert gzip.decompress(files[1].read_bytes()).splitlines()[1:-1] == lines[1:-1] == streamed.splitlines()[1:-1]
    assert source.content() == before
    for words, stdin in (((str(files[1]),), b""), (("-",), streamed)):
        target = places.new(there)
        assert "would write" in target.ledger("import", *words, "--dry-run", stdin=stdin)
        assert not target.file.exists()
        target.ledger("import", *words, stdin=stdin)
        assert target.content() == raised(before)
        with target.store() as store:
            assert store.run(lambda tx: tx.append(PlainEvent("crew_started", {}), "op-1")) is False
        assert "is not empty" in target.ledger("import", *words, code=77, stdin=stdin)
    other = places.full(there, 1)
    assert "not empty" in other.ledger("import", str(files[0]), code=77)


@pytest.mark.parametrize("engine", ENGINES)
def test_an_export_beside_writers_is_of_one_instant(places: Places, engine: str) -> None:
    place = places.full(engine)
    over = threading.Event()

    def write(store: Store, writer: str) -> None:
        number = 0

        def step(tx: Tx) -> None:
            tx.append(PlainEvent("crew_started", {"writer": writer, "n": number}))
            tx.put(f"writer/{writer}", {"n": number})

        while not over.is_set():
            number += 1
            store.run(step)

    def work(writer: str) -> None:
        with place.store() as store:
            write(store, writer)

    threads = [threading.Thread(target=work, args=(writer,)) for writer in "ab"]
    for thread in threads:
        thread.start()
    try:
        totals = []
        for turn in range(3):
            place.ledger("export", f"{turn}.jsonl")
            lines = [json.loads(line) for line in (place.folder / f"{turn}.jsonl").read_text().splitlines()]
            for writer in "ab":
                found = [
                    d["document"]["body"]["n"] for d in lines if d.get("document", {}).get("key") == f"writer/{writer}"
                ]
                events = [
                    e["event"]["body"]["n"] for e in lines if e.get("event", {}).get("body", {}).get("writer") == writer
                ]
                assert events == list(range(1, len(events) + 1))
                assert found == ([len(events)] if events else [])
                totals.append(len(events))
        _, said = at_once(place, "check", "--json")
        assert [problem for problem in json.loads(said)["problems"] if problem["part"] != "engine"] == []
        assert totals[-1] > totals[1]
    finally:
        over.set()
        for thread in threads:
            thread.join()


def test_an_export_that_cannot_be_written_leaves_nothing(places: Places) -> None:
    place = places.full("sqlite", 8000)
    before = sorted(os.listdir(place.folder))
    assert "cannot write" in place.ledger("export", "no/such/folder.jsonl", code=74)
    assert "cannot write" in place.ledger("export", "/proc/nothing.jsonl", code=74)
    exporting = place.start("export", str(place.folder / "out.jsonl"), stderr=subprocess.PIPE)
    wait_for(lambda: list(place.folder.glob("out.jsonl.*")), what="the export to begin")
    exporting.send_signal(signal.SIGINT)
    _, said = exporting.communicate(timeout=120)
    assert (exporting.returncode, said) == (130, b"")
    assert sorted(os.listdir(place.folder)) == before
    leaving = place.start("export", "-", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert leaving.stdout is not None
    assert leaving.stderr is not None
    leaving.stdout.readline()
    leaving.stdout.close()
    assert leaving.stderr.read() == b""
    leaving.stderr.close()
    assert leaving.wait(120) == 0


def test_files_that_are_no_whole_export_are_refused(places: Places) -> None:
    source, target = places.full("sqlite", 30), places.new("sqlite")
    source.ledger("export", "good.jsonl")
    good = (source.folder / "good.jsonl").read_bytes()
    lines = good.splitlines(keepends=True)
    packed = gzip.compress(good, mtime=0)
    torn = bytearray(packed)
    torn[len(packed) // 2] ^= 0xFF
    newer = json.loads(lines[0])
    bad = {
        "swapped": b"".join([*lines[:5], lines[6], lines[5], *lines[7:]]),
        "edited": good.replace(b'"holders":["writer"]', b'"holders":["editor"]', 1),
        "unknown": b"".join([lines[0], b'{"spell":{}}\n', *lines[1:]]),
        "newer": json.dumps({"ledger": {**newer["ledger"], "format": 2}}).encode() + b"\n" + b"".join(lines[1:]),
        "newest": json.dumps({"ledger": {**newer["ledger"], "version": 99}}).encode() + b"\n" + b"".join(lines[1:]),
        "longer": good + b"\n",
        "twice": good + good,
        "headless": b"".join(lines[1:]),
        "deep": b"".join([lines[0], b'{"event":' + b"[" * 200_000 + b"\n", *lines[1:]]),
        "binary": bytes(range(256)) * 20,
        "empty": b"",
        "torn.gz": bytes(torn),
        "short.gz": packed[: len(packed) // 2],
    }
    for name, content in bad.items():
        (target.folder / name).write_bytes(content)
        code, said = at_once(target, "import", str(target.folder / name))
        assert code == 64, (name, said)
        assert "hint: " in said
        assert ("upgrade" in said) == name.startswith("newe")
        assert ", line " in said or name in ("empty", "torn.gz", "short.gz"), (name, said)
    assert "cannot read" in target.ledger("import", "no-such-file", code=64)
    assert "cannot read" in target.ledger("import", ".", code=64)
    for cut in (*range(0, len(good), 997), len(good) - 1):
        (target.folder / "cut").write_bytes(good[:cut])
        code, said = at_once(target, "import", str(target.folder / "cut"))
        assert code == 64, said
        assert " line " in said
    assert not target.file.exists()


GOOD: dict[str, bytes] = {}


def good_export() -> list[bytes]:
    """The lines of an export with one of everything, made once."""
    if not GOOD:
        for places in places_on(None):
            place = places.full("sqlite", 4)
            GOOD["lines"] = b"\0\n".join(place.cli("ledger", "export", "-").stdout.splitlines())
    return [line + b"\n" for line in GOOD["lines"].split(b"\0\n")]


def imported(content: bytes) -> tuple[int, str, Place, TemporaryDirectory[str]]:
    folder = TemporaryDirectory(prefix="dw")
    place = Place(Path(folder.name))
    file = place.folder / "in.jsonl"
    file.write_bytes(content)
    code, said = at_once(place, "import", str(file))
    return code, said, place, folder


@settings(deadline=None, max_examples=150, derandomize=True)
@given(data=st.data())
def test_any_change_of_an_export_is_found(data: st.DataObject) -> None:
    content = bytearray(b"".join(good_export()))
    how = data.draw(st.sampled_from(["flip", "insert", "delete", "cut", "repeat"]))
    first = data.draw(st.integers(0, len(content) - 1))
    length = data.draw(st.integers(1, 200))
    if how == "flip":
        content[first] ^= data.draw(st.integers(1, 255))
    elif how == "insert":
        content[first:first] = data.draw(st.binary(min_size=1, max_size=20))
    elif how == "delete":
        del content[first : first + length]
    elif how == "cut":
        del content[first:]
    else:
        content[first:first] = content[first : first + length]
    code, said, place, folder = imported(bytes(content))
    with folder:
        assert code == 64, said
        assert " line " in said
        assert not place.file.exists()


VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.just("\ud800") | st.just(2**64),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=4,
)


@settings(deadline=None, max_examples=150, derandomize=True)
@given(data=st.data())
def test_an_export_forged_with_the_right_checksum_is_refused_or_taken_whole(data: st.DataObject) -> None:
    records = [json.loads(line) for line in good_export()[:-1]]
    for _ in range(data.draw(st.integers(1, 2))):
        number = data.draw(st.integers(0, len(records) - 1))
        (body,) = records[number].values()
        how = data.draw(st.sampled_from(["value", "value", "value", "name", "drop", "kind", "move", "double"]))
        name = data.draw(st.sampled_from(sorted(body)))
        if how == "value":
            inner = body[name] if isinstance(body[name], list) and data.draw(st.booleans()) else body
            key: Any = data.draw(st.integers(0, len(inner) - 1)) if inner is not body and inner else name
            if inner or inner is body:
                inner[key] = data.draw(VALUES)
        elif how == "name":
            body[data.draw(st.text(max_size=5))] = body.pop(name)
        elif how == "drop":
            del records[number]
        elif how == "kind":
            records[number] = {data.draw(st.sampled_from(["document", "fence", "item", "event", "end", "x"])): body}
        else:
            other = data.draw(st.integers(0, len(records) - 1))
            records.insert(other, records[number] if how == "double" else records.pop(number))
        if not records:
            return
    lines = [json.dumps(record, sort_keys=True, separators=(",", ":")).encode() + b"\n" for record in records]
    kinds = [next(iter(record)) for record in records[1:]]
    counts = {kind: kinds.count(kind) for kind in ("document", "fence", "item", "event")}
    end = {"end": {"counts": counts, "sha256": hashlib.sha256(b"".join(lines)).hexdigest()}}
    code, said, place, folder = imported(b"".join([*lines, json.dumps(end).encode() + b"\n"]))
    with folder:
        assert code in (0, 64), said
        if code:
            assert " line " in said
            assert not place.file.exists()
        else:
            wanted = [next(iter(record.items())) for record in records[1:]]
            assert json.dumps(place.content(), sort_keys=True) == json.dumps(raised(wanted), sort_keys=True)


# compact


@pytest.mark.parametrize("engine", ENGINES)
def test_events_read_the_same_when_they_are_in_the_archive(places: Places, engine: str) -> None:
    place = places.full(engine, 2500)
    with place.store() as store:
        middle = store.since(START, 1300)[-1].cursor
    ways = (
        ("--since", ""),
        ("--since", middle),
        ("--last", "3"),
        ("--last", "100000"),
        ("tide-1", "--since", ""),
        ("tide-1", "--follow"),
        ("tide-2", "--kind", "crew_started", "--last", "7"),
        ("--kind", "task_accepted", "--kind", "run_created"),
        ("--agent", "writer"),
    )

    def all_ways() -> list[list[Any]]:
        answers = [place.cli("events", "--json", *way).stdout.splitlines() for way in ways]
        return [[{**json.loads(line), "cursor": ""} for line in lines] for lines in answers]

    before = all_ways()
    assert all(before)
    size = json.loads(place.cli("ledger", "info", "--json").stdout)["bytes"]
    assert "nothing is that old" in place.ledger("compact")
    content = place.content()
    assert "would archive up to 2,5" in place.ledger("compact", "--keep", "0s", "--dry-run")
    assert json.loads(place.cli("ledger", "info", "--json").stdout)["events"]["archived"] == 0
    assert "archived 2,5" in place.ledger("compact", "--keep", "0s")
    found = json.loads(place.cli("ledger", "info", "--json").stdout)
    assert (found["events"]["archived"], found["events"]["archive_parts"]) == (found["counts"]["event"], 3)
    assert all_ways() == before
    assert place.content() == content
    if engine == "sqlite":
        assert found["bytes"] < size / 2
    with place.store() as store:
        assert len(store.since(middle, 10_000)) == found["counts"]["event"] - 1300
        store.run(lambda tx: tx.append(PlainEvent("crew_started", {"n": -1})))
    assert json.loads(place.cli("events", "--json", "--last", "1").stdout)["body"] == {"n": -1}
    following = subprocess.Popen(
        [sys.executable, "-m", "dogwatch", "events", "--json", "--follow", "--since", middle],
        env=place.environment,
        stdout=subprocess.PIPE,
    )
    try:
        assert following.stdout is not None
        rest = found["counts"]["event"] - 1300 + 1
        lines = [json.loads(following.stdout.readline()) for _ in range(rest)]
        assert [line["body"] for line in lines[:-1]] == [event["body"] for event in before[1]]
        place.ledger("compact", "--keep", "0s")
        with place.store() as store:
            store.run(lambda tx: tx.append(PlainEvent("crew_started", {"n": -2})))
        assert json.loads(following.stdout.readline())["body"] == {"n": -2}
    finally:
        following.kill()
        following.communicate()


def test_only_lengths_of_time_are_lengths_of_time(places: Places) -> None:
    place = places.full("sqlite", 3)
    for good in ("0s", "5m", "12h", "30d", "52w", "999999d"):
        code, said = at_once(place, "compact", "--dry-run", "--keep", good)
        assert code == 0, said
    for bad in ("", "30", "d", "-1d", "1.5h", "30 d", "9999999d", "1y", "٣d", "1d1h"):
        code, said = at_once(place, "compact", f"--keep={bad}")
        assert code == 64, bad
        assert "30d" in said


# adopt


def test_a_ledger_is_taken_over_from_a_home_that_is_gone(places: Places) -> None:
    old = places.new("postgresql")
    new = Place(places.new("sqlite").folder, old.url)
    assert "file of this home" in places.full("sqlite", 1).ledger("adopt", code=77)
    home = Home(str(old.folder), old.url)
    with closing(open_home_ledger(home, SystemClock())) as store:
        bind(home, store)
        add_run(store)
        lease = store.run(lambda tx: tx.acquire("captain/tide-1", "captain", 3600))
        assert lease is not None
        store.run(lambda tx: tx.push("queue", {}, "item"))
        item = store.run(lambda tx: tx.claim("queue", "captain", 3600))
        assert item is not None
        writer = {"harness": "scripted", "script": "writer.json"}
        spec = {"name": "t", **one_task(roles={"writer": writer})}
        (new.folder / "writer.json").write_text("{}")
        (new.folder / "pipeline.yaml").write_text(json.dumps(spec))
        for words in (["up"], ["run", "pipeline.yaml"]):
            assert b"ledger adopt" in new.cli(*words, code=77).stderr
        assert "would take" in new.ledger("adopt", "--dry-run")
        store.run(lambda tx: tx.check(lease))
        assert b"ledger adopt" in new.cli("up", code=77).stderr
        said = new.ledger("adopt")
        assert str(old.folder) in said
        assert "1 leases are void" in said
        for use in (lambda tx: tx.check(lease), lambda tx: tx.renew(lease, 9), lambda tx: tx.ack(item)):
            with pytest.raises(StaleError):
                store.run(use)
        taken = store.run(lambda tx: tx.acquire("captain/tide-1", "other", 3600))
        assert taken is not None
        assert taken.fence > lease.fence
        again = store.run(lambda tx: tx.claim("queue", "other", 3600))
        assert again is not None
        assert again.fence > item.fence
        bound = store.run(lambda tx: tx.get("home"))
        assert bound is not None
        assert bound.body["path"] == str(new.folder)
    assert str(new.folder).encode() in old.cli("up", code=77).stderr


def of_host(store: Store, run: str) -> None:
    """What a host at work has of its own: its memory, its dispatcher, permits, those who wait, and a mark."""
    process = ProcessId("boot", 7, 8)

    def fn(tx: Tx) -> None:
        save(tx, HostRecord(host=tx.host, at=tx.now, since=tx.now, zone="RED"))
        save(tx, CrewRecord(member="dispatcher", run="", host=tx.host, process=process, started=tx.now))
        for kind, holder in (("run", f"run:{run}"), ("run", "run:gone-1"), ("agent", f"agent:{run}/writer")):
            launch = Launch(kind=kind, holder=holder, run=holder.partition(":")[2].partition("/")[0])  # type: ignore[arg-type]
            save(tx, PermitRecord(host=tx.host, launch=launch, granted=tx.now, process=process))
        waiting = Launch(kind="agent", holder=f"agent:{run}/auditor-1", run=run, agent="auditor-1")
        save(tx, WaitRecord(host=tx.host, launch=waiting, since=tx.now, answer=Answer(verdict="hold")))
        take_down(tx, 7)

    store.run(fn)


def own_keys(store: Store, host: str) -> list[str]:
    """What is kept of one host alone."""
    prefixes = ("host/", "dispatcher/", "down/", "permit/", "waits/")
    found = store.read(lambda reader: [key for prefix in prefixes for key in reader.keys(prefix)])
    return [key for key in found if host in key]


def test_who_takes_a_ledger_over_does_not_take_the_former_host_for_itself(places: Places) -> None:
    old = places.new("postgresql")
    new = Place(places.new("sqlite").folder, old.url)
    home = Home(str(old.folder), old.url)
    with closing(open_home_ledger(home, SystemClock())) as store:
        bind(home, store)
        run = add_run(store)
        of_host(store, run)
        assert len(own_keys(store, store.host)) == 7
        new.ledger("adopt")
        assert own_keys(store, store.host) == []
        mine = host_of(Home(str(new.folder)))
        assert mine != store.host
        assert own_keys(store, mine) == [keys.permit(mine, f"run:{run}")], "the run that was let in keeps its place"
        (permit,) = store.read(lambda reader: load_all(reader, PermitRecord, keys.permits(mine)))
        assert (permit.host, permit.process) == (mine, None)


def test_who_takes_its_own_ledger_over_keeps_what_is_its_own(places: Places) -> None:
    place = places.new("postgresql")
    home = Home(str(place.folder), place.url)
    with closing(open_home_ledger(home, SystemClock())) as store:
        bind(home, store)
        of_host(store, add_run(store))
        before = own_keys(store, store.host)
        place.ledger("adopt")
        assert own_keys(store, store.host) == before


def test_a_file_that_came_from_another_home_is_its_new_home_s_at_once(places: Places) -> None:
    first, second = places.new("sqlite"), places.new("sqlite")
    here, there = Home(str(first.folder)), Home(str(second.folder))
    with closing(open_home_ledger(here, SystemClock())) as store:
        bind(here, store)
        run = add_run(store)
        of_host(store, run)
    first.ledger("export", str(second.folder / "all.jsonl"))
    second.ledger("import", str(second.folder / "all.jsonl"))
    with closing(open_home_ledger(there, SystemClock())) as store:
        assert store.read(working_host) == host_of(here)
        bind(there, store)
        assert store.read(working_host) == store.host
        assert own_keys(store, host_of(here)) == []
        assert own_keys(store, store.host) == [keys.permit(store.host, f"run:{run}")]


def test_a_copy_of_another_home_s_file_may_be_worked_with_on_a_server(places: Places) -> None:
    first, second = places.new("sqlite"), places.new("postgresql")
    here, there = Home(str(first.folder)), Home(str(second.folder), second.url)
    with closing(open_home_ledger(here, SystemClock())) as store:
        bind(here, store)
        add_run(store)
    first.ledger("export", str(second.folder / "all.jsonl"))
    second.ledger("import", str(second.folder / "all.jsonl"))
    with closing(open_home_ledger(there, SystemClock())) as store:
        refuse_other_home(there, store)
        bind(there, store)
        assert store.read(working_host) == store.host


def test_a_move_keeps_what_is_this_home_s(places: Places) -> None:
    source, target = places.new("sqlite"), places.new("postgresql")
    home = Home(str(source.folder))
    with closing(open_home_ledger(home, SystemClock())) as store:
        bind(home, store)
        of_host(store, add_run(store))
        before = own_keys(store, store.host)
    source.ledger("migrate", "--to", target.address)
    moved = Home(str(source.folder), target.url)
    with closing(open_home_ledger(moved, SystemClock())) as store:
        bind(moved, store)
        assert own_keys(store, store.host) == before


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("bound", ["", "fedcba9876543210"])
def test_an_export_of_an_older_version_is_brought_up_to_date(places: Places, engine: str, bound: str) -> None:
    place = places.new(engine)
    at = {"boot": "b", "mono": 1.0, "wall": 2.0}
    run = {"run": "r-1", "spec": "s", "project": "/p", "output": "/p/out/r-1", "created": at}
    documents: list[tuple[str, dict[str, Any]]] = [
        (
            "crew//dispatcher",
            {"member": "dispatcher", "run": "", "process": asdict(ProcessId("b", 7, 8)), "started": at},
        ),
        *([("home", {"host": bound, "path": "/h", "hostname": "m"})] if bound else []),
        ("host", {"at": at, "since": at}),
        ("permit/run:odd", {"launch": None}),
        ("permit/run:r-1", {"launch": {"kind": "run", "holder": "run:r-1", "run": "r-1"}, "granted": at}),
        ("run/r-1", run),
    ]
    lines = [line("ledger", {"format": 1, "version": 2, "id": "0123456789abcdef", "exported": 1.0})]
    lines += [line("document", {"key": key, "revision": 3, "body": body}) for key, body in documents]
    counts = {"document": len(documents), "fence": 0, "item": 0, "event": 0}
    end = line("end", {"counts": counts, "sha256": hashlib.sha256(b"".join(lines)).hexdigest()})
    (place.folder / "old.jsonl").write_bytes(b"".join(lines) + end)
    assert f"{len(documents)} documents" in place.ledger("import", str(place.folder / "old.jsonl"))
    host = bound or host_of(Home(str(place.folder)))
    with place.store() as store:
        found = {document.key: document for document in store.read(lambda reader: reader.scan(""))}
        assert store.read(lambda reader: reader.record(RunRecord, "run/r-1")) is not None
    assert {document.revision for document in found.values()} == {3}
    moved = {keys.dispatcher(host), keys.host(host), keys.permit(host, "run:r-1")}
    assert set(found) == {*moved, "permit/run:odd", "run/r-1", *(["home"] if bound else [])}


# the address


def test_an_address_of_no_server_is_refused_and_passwords_are_never_shown(places: Places) -> None:
    place = places.new("sqlite")
    for bad in ("mysql://u:sesame@h/d", "sqlite:///tmp/x", "/tmp/x", "postgresql:/h"):
        code, told = at_once(Place(place.folder, bad), "info")
        assert code == 64
        assert "DOGWATCH_LEDGER" in told
        assert "sesame" not in told
    assert b"DOGWATCH_LEDGER" in Place(place.folder, "mysql://h").cli("status", code=64).stderr
    for words in (("status",), ("ledger", "check"), ("ledger", "adopt")):
        said = Place(place.folder, NOWHERE).cli(*words, code=75).stderr
        assert b"sesame" not in said
    here = places.full("postgresql", 2)
    with_password = Place(here.folder, here.url.replace("dogwatch@", "dogwatch:sesame@"))
    target = places.new("postgresql")
    for verb, *rest in (
        ("info",),
        ("info", "--json"),
        ("export", "out.jsonl"),
        ("compact", "--keep", "0s"),
        ("adopt",),
        ("migrate", "--to", target.url.replace("dogwatch@", "dogwatch:sesame@")),
    ):
        assert "sesame" not in with_password.ledger(verb, *rest)
    for words in (("status",), ("ledger", "compact")):
        assert b"sesame" not in with_password.cli(*words, code=74).stderr
    for found in (here.folder, target.folder):
        assert not any(b"sesame" in content for content in snapshot(found).values())


# the terminal


def test_progress_is_shown_on_a_terminal_and_nowhere_else(places: Places) -> None:
    place, target = places.full("sqlite", 1100), places.new("sqlite")
    file = str(place.folder / "out.jsonl")
    for words, shown in (
        (("export", file), ["writing"]),
        (("compact", "--keep", "0s"), ["archiving"]),
        (("migrate", "--to", target.address), ["copying", "verifying"]),
    ):
        copy = Place(places.new("sqlite").folder)
        shutil.copy(place.file, copy.file)
        main, terminal = pty.openpty()
        with copy.start(*words, stdout=subprocess.DEVNULL, stderr=terminal) as process:
            os.close(terminal)
            said = b""
            while chunk := read(main):
                said += chunk
            assert process.wait(120) == 0
        os.close(main)
        for word in shown:
            assert f"\r{word}: ".encode() in said
        assert b" %)\x1b[K" in said
        assert b"\r\x1b[K" in said
        Path(file).unlink(missing_ok=True)
        for path in target.folder.iterdir():
            path.unlink()
    assert "\r" not in place.ledger("export", file)
    assert "\r" not in place.ledger("compact", "--keep", "0s")
    assert "\r" not in place.ledger("migrate", "--to", target.address)


def read(terminal: int) -> bytes:
    """What the terminal shows next; nothing once nobody writes to it any more."""
    try:
        return os.read(terminal, 65536)
    except OSError:
        return b""
