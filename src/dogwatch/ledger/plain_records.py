"""Records made of documents and back, each time anew: for every engine that remembers none of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TypeVar

from dogwatch.ledger.api import Document, Json, Record
from dogwatch.model.codec import decode, encode

T = TypeVar("T")
R = TypeVar("R", bound=Record)


class PlainReading(ABC):
    """Reads records from documents."""

    @abstractmethod
    def get(self, key: str) -> Document | None:
        """The document under `key`, or None."""

    @abstractmethod
    def scan(self, prefix: str) -> Sequence[Document]:
        """All documents whose key begins with `prefix`, ordered by key."""

    def record(self, kind: type[T], key: str) -> T | None:
        """The record of `kind` under `key`, or None."""
        document = self.get(key)
        return decode(kind, document.body) if document else None

    def records(self, kind: type[T], prefix: str) -> list[T]:
        """All records of `kind` whose key begins with `prefix`, ordered by key."""
        return [decode(kind, document.body) for document in self.scan(prefix)]

    def view(self, run: str, make: Callable[[], T]) -> T:
        """What `make` reads of a run."""
        return make()


class PlainWriting(PlainReading):
    """Writes records as documents, too."""

    @abstractmethod
    def put(self, key: str, body: Json, revision: int | None = None) -> int:
        """Writes a document and returns its new revision."""

    def put_record(self, record: Record) -> None:
        """Writes a record as the document under its key."""
        self.put(record.key, encode(record))

    def change_record(self, kind: type[R], key: str, fn: Callable[[R], R]) -> R | None:
        """Writes what `fn` makes of the record under `key`, and returns it; None where there is none."""
        document = self.get(key)
        if document is None:
            return None
        changed = fn(decode(kind, document.body))
        self.put(changed.key, encode(changed), document.revision)
        return changed
