"""Row F75 on file systems of its own: `unshare ... python f75_scenario.py NAME FOLDER`, exit code 0 when all is well.

The mounts made here live in the caller's private mount namespace and vanish with it.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from dogwatch.errors import LedgerError, LedgerFullError, LedgerReadOnlyError
from dogwatch.ledger import open_store
from dogwatch.ledger.api import START, Store
from dogwatch.testing.events import PlainEvent
from dogwatch.world.clock import SystemClock

TEXT = "x" * 1000


def open_here(path: Path) -> Store:
    return open_store(str(path), SystemClock())


def append(store: Store, n: int) -> None:
    store.run(lambda tx: (tx.append(PlainEvent("kind", {"n": n, "text": TEXT})), tx.put("last", {"n": n})))


def numbers(store: Store) -> list[int]:
    return [event.body["n"] for event in store.since(START, 100_000)]


def refused(kind: type[LedgerError], path: Path, fn: Callable[[], object]) -> None:
    with pytest.raises(kind) as caught:
        fn()
    assert caught.value.hint
    assert str(path) in caught.value.message


def full_disk(folder: Path) -> None:
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "none", folder], check=True)
    path, balloon = folder / "ledger.db", folder / "balloon"
    balloon.write_bytes(b"x" * 1_000_000)
    store, count = open_here(path), 0
    with contextlib.suppress(LedgerFullError):
        while True:
            append(store, count)
            count += 1
    assert count > 0
    refused(LedgerFullError, path, lambda: append(store, count))
    assert numbers(store) == list(range(count))
    # Closing moves what it can from the log into the file, and the disk is full for that too.
    store.close()
    with contextlib.suppress(OSError), open(folder / "rest", "wb", buffering=0) as rest:
        while rest.write(b"x" * 512):
            pass
    store = open_here(path)
    refused(LedgerFullError, path, lambda: append(store, count))
    assert numbers(store) == list(range(count))
    last = store.read(lambda reader: reader.get("last"))
    assert last is not None
    assert last.body == {"n": count - 1}
    other = folder / "other" / "ledger.db"
    refused(LedgerFullError, other, lambda: open_here(other))
    assert not other.exists()
    balloon.unlink()
    append(store, count)
    store.close()
    store = open_here(path)
    assert numbers(store) == list(range(count + 1))
    store.close()
    open_here(other).close()


def refuses_writes(path: Path) -> None:
    store = open_here(path)
    refused(LedgerReadOnlyError, path, lambda: append(store, 1))
    assert numbers(store) == [0]
    assert store.wait(0)
    assert not store.wait(0)
    store.close()


def read_only_disk(folder: Path) -> None:
    path, crashed = folder / "ledger.db", folder / "crashed" / "ledger.db"
    store = open_here(path)
    append(store, 0)
    store.close()
    pid = os.fork()
    if pid == 0:
        append(open_here(crashed), 0)
        os._exit(0)
    os.waitpid(pid, 0)
    assert (crashed.parent / "ledger.db-wal").stat().st_size > 0
    before = sorted(folder.rglob("*"))
    subprocess.run(["mount", "--bind", folder, folder], check=True)
    subprocess.run(["mount", "-o", "remount,bind,ro", folder], check=True)
    refuses_writes(path)
    refuses_writes(crashed)
    refused(LedgerReadOnlyError, folder / "new" / "ledger.db", lambda: open_here(folder / "new" / "ledger.db"))
    assert sorted(folder.rglob("*")) == before
    subprocess.run(["mount", "-o", "remount,bind,rw", folder], check=True)
    for mended in (path, crashed):
        store = open_here(mended)
        append(store, 1)
        assert numbers(store) == [0, 1]
        store.close()


if __name__ == "__main__":
    {"full_disk": full_disk, "read_only_disk": read_only_disk}[sys.argv[1]](Path(sys.argv[2]).resolve())
