"""Documents: compare and swap, and scans by prefix."""

from __future__ import annotations

import pytest

from contract.parts.opener import Opener
from dogwatch.errors import ConflictError
from dogwatch.ledger.api import Store, Tx


def put(store: Store, key: str, n: int, revision: int | None = None) -> int:
    return store.run(lambda tx: tx.put(key, {"n": n}, revision))


def keys_under(store: Store, prefix: str) -> list[str]:
    return [document.key for document in store.read(lambda reader: reader.scan(prefix))]


class DocumentContract:
    """What any engine promises about documents."""

    def test_a_revision_begins_with_one_and_grows_by_one(self, opener: Opener) -> None:
        store = opener()
        assert [store.run(lambda tx: tx.put("key", {})) for _ in range(3)] == [1, 2, 3]
        document = store.read(lambda reader: reader.get("key"))
        assert document is not None
        assert document.revision == 3

    def test_there_is_no_document_under_an_unused_key(self, opener: Opener) -> None:
        assert opener().read(lambda reader: reader.get("key")) is None

    def test_a_put_with_the_wrong_revision_conflicts_and_changes_nothing(self, opener: Opener) -> None:
        store = opener()
        put(store, "key", 1, revision=0)
        put(store, "key", 2, revision=1)
        for revision in (0, 1, 3):
            with pytest.raises(ConflictError) as caught:
                put(store, "key", 3, revision)
            assert caught.value.hint
        document = store.read(lambda reader: reader.get("key"))
        assert document is not None
        assert (document.body, document.revision) == ({"n": 2}, 2)

    def test_a_put_that_needs_a_document_conflicts_where_there_is_none(self, opener: Opener) -> None:
        with pytest.raises(ConflictError):
            put(opener(), "key", 1, revision=1)

    def test_a_delete_removes_under_the_same_condition(self, opener: Opener) -> None:
        store = opener()
        store.run(lambda tx: tx.put("key", {}))
        with pytest.raises(ConflictError):
            store.run(lambda tx: tx.delete("key", revision=2))
        store.run(lambda tx: tx.delete("key", revision=1))
        assert store.read(lambda reader: reader.get("key")) is None
        store.run(lambda tx: tx.delete("key"))
        store.run(lambda tx: tx.delete("key", revision=0))
        with pytest.raises(ConflictError):
            store.run(lambda tx: tx.delete("key", revision=1))

    def test_a_scan_takes_its_prefix_literally_and_orders_by_key(self, opener: Opener) -> None:
        store = opener()
        keys = [
            *("run/1", "run/10", "run/2", "run0", "run", "ru", "RUN/1"),
            *("a%b", "aXb", "a_b", "a\\b", "ab", "a[b", "a*b"),
            *("é", "éa", "ê", "e", "\ud7ff", "\ud7ffx", "\ue000", "\U0010ffff", "\U0010ffffx", "x\U0010ffff", "y"),
        ]

        def fill(tx: Tx) -> None:
            for key in keys:
                tx.put(key, {})

        store.run(fill)
        prefixes = ["", "run", "run/", "a%", "a_", "a\\", "a[", "a*", "é", "\ud7ff", "\U0010ffff", "x\U0010ffff", "z"]
        for prefix in prefixes:
            wanted = sorted(key for key in keys if key.startswith(prefix))
            assert keys_under(store, prefix) == wanted, prefix
            assert list(store.read(lambda reader, prefix=prefix: reader.keys(prefix))) == wanted, prefix  # type: ignore[misc]
