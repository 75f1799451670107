"""What the ledger in memory holds: documents, leases, queues and events, and how each change of them is undone."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from dogwatch.ledger.api import Document, Json, Lease
from dogwatch.ledger.bodies import load
from dogwatch.ledger.records import VIEWED
from dogwatch.ledger.sql_reader import Row, behind
from dogwatch.model.codec import decode
from dogwatch.model.moment import Moment

T = TypeVar("T")
V = TypeVar("V")


class Table(Generic[V]):
    """Values by key, and the keys in order."""

    def __init__(self, values: Mapping[str, V] | None = None) -> None:
        self.values = dict(values or {})
        self._keys = sorted(self.values)
        self._folders: dict[str, list[V]] = {}
        """What was found below a prefix that ends with a slash, for as long as nothing changes there."""

    def set(self, key: str, value: V | None) -> None:
        """Writes a value; None removes it."""
        end = 0
        while end := key.find("/", end) + 1:
            self._folders.pop(key[:end], None)
        if value is not None:
            if key not in self.values:
                insort(self._keys, key)
            self.values[key] = value
        elif self.values.pop(key, None) is not None:
            del self._keys[bisect_left(self._keys, key)]

    def begins(self, prefix: str) -> list[V]:
        """The values whose keys begin with `prefix`, ordered by key; nobody may change this list."""
        found = self._folders.get(prefix)
        if found is None:
            values = self.values
            found = [values[key] for key in self.keys(prefix)]
            if prefix.endswith("/"):
                self._folders[prefix] = found
        return found

    def keys(self, prefix: str) -> list[str]:
        """The keys that begin with `prefix`, in order."""
        first, end = bisect_left(self._keys, prefix), behind(prefix)
        return self._keys[first : bisect_left(self._keys, end, first) if end else len(self._keys)]


class Kept:
    """A document: the text of its body, and what was read from that and made of it once somebody has asked for it."""

    __slots__ = ("_document", "key", "kind", "record", "revision", "text")

    def __init__(self, key: str, revision: int, text: str) -> None:
        self.key = key
        self.revision = revision
        self.text = text
        self._document: Document | None = None
        self.kind: type | None = None
        self.record: Any = None

    @property
    def document(self) -> Document:
        if self._document is None:
            self._document = Document(self.key, load(self.text), self.revision)
        return self._document

    def decoded(self, kind: type[T]) -> T:
        """The record of `kind` in it, made once."""
        if self.kind is not kind:
            self.record, self.kind = decode(kind, self.document.body), kind
        made: T = self.record
        return made

    def is_changed(self, body: Json) -> bool:
        """Whether somebody has changed what was read; `body` is what is read now."""
        return self._document is not None and self._document.body != body

    def forget(self) -> None:
        """Lets go of the record."""
        self.record = self.kind = None


@dataclass(frozen=True, slots=True)
class Entry:
    """An item; `seq` is its place among all items. `ends` and `claimed` are when its own time and its claim end."""

    seq: int
    text: str
    pushed: Moment
    ends: Moment | None
    state: str = "open"
    holder: str = ""
    fence: int = 0
    claimed: Moment | None = None


@dataclass(slots=True)
class Queue:
    """All items that were ever pushed, by id, and those of them that are open, in the order of pushing."""

    known: dict[str, Entry] = field(default_factory=dict)
    open: dict[str, Entry] = field(default_factory=dict)


@dataclass(slots=True)
class State:
    """Everything in the ledger. Each `set_` is undone by itself with what was there before, the latest first."""

    documents: Table[Kept] = field(default_factory=Table)
    leases: Table[tuple[Lease, ...]] = field(default_factory=Table)
    fences: dict[str, int] = field(default_factory=dict)
    queues: dict[str, Queue] = field(default_factory=dict)
    events: list[Row] = field(default_factory=list)
    operations: set[str] = field(default_factory=set)
    places: dict[tuple[str | None, str | None], list[int]] = field(default_factory=dict)
    """Where the events of a run, of a kind, or of both stand; None is any."""
    pushed: int = 0
    versions: dict[str, object] = field(default_factory=dict)
    """Something of its own for each run, as long as no record of its view changes."""

    def copy(self) -> State:
        """The same once more; what is in it never changes."""
        return State(
            documents=Table(self.documents.values),
            leases=Table(self.leases.values),
            fences=dict(self.fences),
            queues={name: Queue(dict(queue.known), dict(queue.open)) for name, queue in self.queues.items()},
            events=list(self.events),
            operations=set(self.operations),
            places={key: list(found) for key, found in self.places.items()},
            pushed=self.pushed,
            versions=dict(self.versions),
        )

    def set_document(self, key: str, kept: Kept | None) -> None:
        self.documents.set(key, kept)
        kind, _, rest = key.partition("/")
        if kind in VIEWED:
            self.versions[rest.partition("/")[0]] = object()

    def set_leases(self, name: str, leases: tuple[Lease, ...]) -> None:
        self.leases.set(name, leases)

    def set_fence(self, name: str, fence: int) -> None:
        self.fences[name] = fence

    def set_event(self, place: int, row: Row | None) -> None:
        """Adds an event at the end; None takes it off again."""
        if row is not None:
            self.events.append(row)
            self.operations.add(row[9])
            for key in _listed(row):
                self.places.setdefault(key, []).append(place)
        else:
            row = self.events.pop()
            self.operations.discard(row[9])
            for key in _listed(row):
                self.places[key].pop()

    def set_item(self, where: tuple[str, str], entry: Entry | None) -> None:
        name, identity = where
        queue = self.queues.get(name) or self.queues.setdefault(name, Queue())
        if entry is None:
            self.pushed -= 1
            del queue.known[identity], queue.open[identity]
            return
        is_new, was_open = identity not in queue.known, identity in queue.open
        queue.known[identity] = entry
        if entry.state != "open":
            queue.open.pop(identity, None)
            return
        queue.open[identity] = entry
        self.pushed += is_new
        if not is_new and not was_open:
            queue.open = dict(sorted(queue.open.items(), key=lambda one: one[1].seq))


Undo = tuple[Callable[[State, Any, Any], None], Any, Any]


def _listed(row: Row) -> tuple[tuple[str | None, str | None], ...]:
    """Under what an event is looked for."""
    kind, run = row[2], row[7]
    return ((None, kind), (run, None), (run, kind)) if run else ((None, kind),)


@dataclass(slots=True)
class Remembered:
    """What was made of documents last, for as long as they do not change."""

    lists: dict[str, tuple[object, type, list[Any]]] = field(default_factory=dict)
    """The records below each prefix, with the list of documents that they are of."""
    views: dict[str, tuple[object, Any]] = field(default_factory=dict)
    """The views of runs."""

    def forget(self) -> None:
        """Lets go of all of it."""
        self.lists.clear()
        self.views.clear()
