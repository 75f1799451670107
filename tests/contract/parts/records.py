"""Records: documents as values, and the view of a run."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from contract.parts.opener import Opener
from dogwatch.errors import ConflictError
from dogwatch.ledger.api import Store, Tx


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """A record of the tests."""

    name: str
    words: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        return f"agent/run-1/{self.name}"


def put(store: Store, *notes: Note) -> None:
    def write(tx: Tx) -> None:
        for note in notes:
            tx.put_record(note)

    store.run(write)


def read(store: Store, name: str) -> Note | None:
    return store.read(lambda reader: reader.record(Note, f"agent/run-1/{name}"))


class RecordContract:
    """What any engine promises about records."""

    def test_a_record_is_read_as_it_was_written_by_whoever_reads(self, opener: Opener) -> None:
        store, other = opener(), opener()
        first, second = Note(name="a", words=("x", "y")), Note(name="b")
        put(store, second, first)
        for one in (store, other):
            assert read(one, "a") == first
            assert one.read(lambda reader: reader.records(Note, "agent/run-1/")) == [first, second]
            assert read(one, "c") is None
            assert one.read(lambda reader: reader.records(Note, "agent/run-2/")) == []

    def test_a_transaction_reads_the_records_that_it_has_written(self, opener: Opener) -> None:
        def write(tx: Tx) -> tuple[Note | None, list[Note]]:
            tx.put_record(Note(name="a"))
            tx.put_record(Note(name="a", words=("again",)))
            return tx.record(Note, "agent/run-1/a"), tx.records(Note, "agent/")

        again = Note(name="a", words=("again",))
        assert opener().run(write) == (again, [again])

    def test_a_change_writes_what_was_made_of_the_record(self, opener: Opener) -> None:
        store = opener()
        put(store, Note(name="a"))
        key = "agent/run-1/a"
        changed = store.run(lambda tx: tx.change_record(Note, key, lambda note: replace(note, words=("x",))))
        document = store.read(lambda reader: reader.get(key))
        assert changed == read(store, "a") == Note(name="a", words=("x",))
        assert document is not None
        assert document.revision == 2

    def test_nothing_is_made_of_a_record_that_is_not_there(self, opener: Opener) -> None:
        store = opener()
        assert store.run(lambda tx: tx.change_record(Note, "agent/run-1/a", lambda note: note)) is None
        assert read(store, "a") is None

    def test_a_change_that_writes_its_record_itself_conflicts(self, opener: Opener) -> None:
        store = opener()
        put(store, Note(name="a"))

        def write(tx: Tx) -> Note | None:
            def change(note: Note) -> Note:
                tx.put_record(replace(note, words=("in between",)))
                return replace(note, words=("lost",))

            return tx.change_record(Note, "agent/run-1/a", change)

        with pytest.raises(ConflictError):
            store.run(write)
        assert read(store, "a") == Note(name="a")

    def test_a_view_is_never_older_than_what_it_is_made_of(self, opener: Opener) -> None:
        store, other = opener(), opener()

        def view(one: Store) -> list[Note]:
            return one.read(lambda reader: reader.view("run-1", lambda: reader.records(Note, "agent/run-1/")))

        for words in ((), ("x",), ("x", "y")):
            put(store, Note(name="a", words=words))
            assert view(store) == view(other) == [Note(name="a", words=words)]
        store.run(lambda tx: tx.delete("agent/run-1/a"))
        assert view(store) == view(other) == []
