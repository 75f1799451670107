"""A server whose database is on a small disk of its own: `unshare --mount python full_server.py`, exit code 0 when all
is well. The mount lives in the caller's private namespace and vanishes with it."""

from __future__ import annotations

import contextlib
import subprocess

import pytest

from dogwatch.errors import LedgerFullError
from dogwatch.ledger import open_store
from dogwatch.ledger.api import START, Store
from dogwatch.testing.events import PlainEvent
from dogwatch.world.clock import SystemClock
from support.postgres import give, new_server

TEXT = "x" * 100_000


def append(store: Store, n: int) -> None:
    store.run(lambda tx: (tx.append(PlainEvent("kind", {"n": n, "text": f"{n}" + TEXT})), tx.put("last", {"n": n})))


def main() -> None:
    with new_server() as server:
        small = server.folder / "small"
        small.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=40m,mode=777", "none", small], check=True)
        try:
            place = small / "space"
            place.mkdir()
            give(place)
            server.execute(f"CREATE TABLESPACE small LOCATION '{place}'")
            server.execute("CREATE DATABASE small TABLESPACE small STRATEGY file_copy")
            balloon = small / "balloon"
            store, count = open_store(server.url("small"), SystemClock()), 0
            server.execute("ALTER TABLE dogwatch.events ALTER COLUMN body SET STORAGE EXTERNAL", "small")
            with contextlib.suppress(OSError), balloon.open("wb", buffering=0) as file:
                for _ in range(12):
                    file.write(b"x" * 1_000_000)
            with contextlib.suppress(LedgerFullError):
                while True:
                    append(store, count)
                    count += 1
            assert count > 0
            with pytest.raises(LedgerFullError) as caught:
                append(store, count)
            assert "make room" in caught.value.hint
            assert "nothing was written" in caught.value.message
            assert [event.body["n"] for event in store.since(START, 10_000)] == list(range(count))
            balloon.unlink()
            append(store, count)
            store.close()
            store = open_store(server.url("small"), SystemClock())
            assert [event.body["n"] for event in store.since(START, 10_000)] == list(range(count + 1))
            last = store.read(lambda reader: reader.get("last"))
            assert last is not None
            assert last.body == {"n": count}
            store.close()
            server.kill()
        finally:
            subprocess.run(["umount", "-l", small], check=True)


if __name__ == "__main__":
    main()
