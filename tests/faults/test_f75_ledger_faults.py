"""Row F75: disk full, ledger locked, ledger corrupt: a clear error, writes refused, nothing half-written."""

from __future__ import annotations

import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from dogwatch.errors import LedgerCorruptError, LedgerError, LedgerLockedError, LedgerTooNewError
from dogwatch.ledger.api import START, Store, Tx
from dogwatch.ledger.sqlite import SqliteStore
from dogwatch.testing.events import PlainEvent
from dogwatch.world.clock import SystemClock
from support.helpers import wait_for

HERE = Path(__file__).parent
PAGE_BYTES = 4096


@contextmanager
def opened(path: Path, lock_wait_s: float = 30) -> Iterator[SqliteStore]:
    with closing(SqliteStore(str(path), SystemClock(), lock_wait_s=lock_wait_s)) as store:
        yield store


def append(store: Store, n: int) -> None:
    store.run(lambda tx: tx.append(PlainEvent("kind", {"n": n})))


def events(store: Store) -> list[object]:
    return [event.body.get("n", event.body) for event in store.since(START, 100_000)]


def contents(folder: Path) -> dict[str, bytes]:
    """Every file in the folder with its bytes."""
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def refused_untouched(kind: type[LedgerError], path: Path) -> LedgerError:
    """Opening it raises `kind` with a hint, and leaves every byte around it as it was."""
    before = contents(path.parent)
    with pytest.raises(kind) as caught, opened(path):
        pass
    assert type(caught.value) is kind
    assert caught.value.hint
    assert str(path) in caught.value.message
    assert contents(path.parent) == before
    return caught.value


@pytest.mark.parametrize(
    "garbage",
    [b"", b"plain text, much longer than a header " * 100, random.Random(75).randbytes(8192), b"\0" * 8192],
    ids=["empty", "text", "random", "zeros"],
)
def test_f75_a_file_that_is_no_ledger_is_refused_untouched(tmp_path: Path, garbage: bytes) -> None:
    path = tmp_path / "ledger.db"
    path.write_bytes(garbage)
    assert ".recover" in refused_untouched(LedgerCorruptError, path).hint


def test_f75_a_ledger_with_a_damaged_header_is_refused_untouched_and_works_when_mended(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    with opened(path) as store:
        append(store, 1)
    with open(path, "r+b") as file:
        header = file.read(16)
        file.seek(0)
        file.write(b"\xff" * 16)
    refused_untouched(LedgerCorruptError, path)
    with open(path, "r+b") as file:
        file.write(header)
    with opened(path) as store:
        append(store, 2)
        assert events(store) == [1, 2]


def test_f75_damage_in_the_middle_is_named_and_stops_all_writing(tmp_path: Path) -> None:
    path, copy = tmp_path / "ledger.db", tmp_path / "copy.db"

    def fill(store: Store) -> None:
        store.run(lambda tx: [tx.append(PlainEvent("kind", {"n": n, "text": "x" * 500})) for n in range(500)])

    def overlook(tx: Tx) -> None:
        tx.put("overlooked", {})
        with pytest.raises(LedgerCorruptError):
            tx.recent(500)

    with opened(path) as store:
        store.run(lambda tx: tx.put("document", {"n": 1}))
        fill(store)
    shutil.copy(path, copy)
    with open(path, "r+b") as file:
        file.seek(20 * PAGE_BYTES)
        file.write(b"\xff" * (path.stat().st_size - 20 * PAGE_BYTES))
    damaged = path.read_bytes()
    with opened(path) as store:
        for fails in (events, fill, lambda store: store.run(lambda tx: tx.put("document", {"n": 2}))):
            with pytest.raises(LedgerCorruptError) as caught:
                fails(store)
            assert str(path) in caught.value.message
            assert ".recover" in caught.value.hint
        document = store.read(lambda reader: reader.get("document"))
        assert document is not None
        assert document.body == {"n": 1}
    assert path.read_bytes() == damaged
    with opened(path) as store:
        with pytest.raises(LedgerCorruptError):
            store.run(overlook)
        assert store.read(lambda reader: reader.get("overlooked")) is None
    assert path.read_bytes() == damaged
    shutil.copy(copy, path)
    with opened(path) as store:
        fill(store)
        assert len(events(store)) == 1000


@pytest.mark.parametrize("damage", [b"\xff", b'"', b"\x01"], ids=["no-unicode", "no-json", "control-character"])
def test_f75_damage_inside_a_record_is_named_when_it_is_read(tmp_path: Path, damage: bytes) -> None:
    path = tmp_path / "ledger.db"
    with opened(path) as store:
        store.run(
            lambda tx: (tx.append(PlainEvent("kind", {"n": 0, "text": "damage here"})), tx.put("document", {"n": 1}))
        )
    path.write_bytes(path.read_bytes().replace(b"damage here", damage * len(b"damage here")))
    with opened(path) as store:
        for fails in (events, lambda store: append(store, 2)):
            with pytest.raises(LedgerCorruptError) as caught:
                fails(store)
            assert str(path) in caught.value.message
            assert ".recover" in caught.value.hint
        assert store.read(lambda reader: reader.get("document")) is not None


@pytest.mark.parametrize("journal", ["delete", "wal"])
def test_f75_the_database_of_another_program_is_refused_untouched(tmp_path: Path, journal: str) -> None:
    path = tmp_path / "ledger.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as foreign:
        foreign.execute("PRAGMA application_id = 7")
        foreign.execute(f"PRAGMA journal_mode = {journal}")
        foreign.execute("CREATE TABLE events (theirs)")
        refused_untouched(LedgerError, path)
    refused_untouched(LedgerError, path)


def test_f75_the_ledger_of_a_newer_version_is_refused_untouched(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    with opened(path) as store:
        append(store, 1)
    with closing(sqlite3.connect(path, isolation_level=None)) as newer:
        (version,) = newer.execute("PRAGMA user_version").fetchone()
        newer.execute("PRAGMA user_version = 999")
    assert "upgrade" in refused_untouched(LedgerTooNewError, path).hint
    with closing(sqlite3.connect(path, isolation_level=None)) as newer:
        newer.execute(f"PRAGMA user_version = {version}")
    with opened(path) as store:
        append(store, 2)
        assert events(store) == [1, 2]


def test_f75_what_a_killed_creator_left_behind_does_not_matter(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    for suffix in ("", "-journal", "-wal", "-shm"):
        Path(f"{path}.new{suffix}").write_bytes(b"half")
    with opened(path) as store:
        append(store, 1)
        assert events(store) == [1]
    assert not list(tmp_path.glob("*.new*"))


@contextmanager
def stopped(where: str, path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process that has stopped itself while it holds the ledger's lock, or its place in the queue."""
    with subprocess.Popen([sys.executable, str(HERE / "f75_holder.py"), where, str(path)]) as process:
        try:
            wait_for(lambda: _state(process.pid) == "T", what="a stopped holder")
            yield process
        finally:
            process.kill()


def _state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def _continue(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGCONT)
    assert process.wait(60) == 0


def _kill(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait(60)


@pytest.mark.parametrize(("end", "kept"), [(_continue, [{"from": "holder"}]), (_kill, [])], ids=["continued", "killed"])
def test_f75_a_ledger_locked_by_a_stopped_process_refuses_writes_until_it_is_gone(
    tmp_path: Path, end: Callable[[subprocess.Popen[bytes]], None], kept: list[object]
) -> None:
    path = tmp_path / "ledger.db"
    with opened(path, lock_wait_s=0.2) as store:
        append(store, 1)
        with stopped("transaction", path) as holder:
            for _ in range(2):
                with pytest.raises(LedgerLockedError) as caught:
                    append(store, 2)
                assert str(path) in caught.value.message
                assert "kill -CONT" in caught.value.hint
                assert events(store) == [1]
            with opened(path, lock_wait_s=0.2) as late:
                assert events(late) == [1]
            end(holder)
            append(store, 3)
        assert events(store) == [1, *kept, 3]


def test_f75_a_process_stopped_in_the_writers_queue_keeps_nobody_from_writing(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    with opened(path, 1) as store, opened(path, 1) as other, stopped("queue", path) as holder:
        for n in range(10):
            append(store, n)
        append(other, 10)
        assert events(store) == list(range(11))
        _continue(holder)
        append(store, 11)
        append(other, 12)
        assert events(store) == list(range(13))


@pytest.mark.parametrize("scenario", ["full_disk", "read_only_disk"])
def test_f75_a_disk_that_takes_no_writes_keeps_what_was_committed_and_recovers(tmp_path: Path, scenario: str) -> None:
    # Root may mount by right; anybody else as the root of a user namespace.
    own_mounts = ["unshare", "--mount"] if os.geteuid() == 0 else ["unshare", "--mount", "--map-root-user"]
    argv = [*own_mounts, sys.executable, str(HERE / "f75_scenario.py"), scenario, str(tmp_path)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
