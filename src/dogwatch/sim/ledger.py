"""The ledger in memory: for the stores of one simulation, in one thread of one process.

It means the same as the SQLite ledger, by the same contract, and is the same to the byte for the same calls: the time
comes from the clock that it is given, and ids are counted instead of drawn. Nothing is kept when the process ends.

A document's body is read once, when it is first asked for, and every reader gets that very object, as it does the
record that was saved or made of it. Nobody may change one: `integrity` tells where somebody did, and where a record is
not what would be read again. Events and items are read anew each time.
"""

from __future__ import annotations

import dataclasses
import os
import select
from bisect import bisect_left, insort
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar, cast

from dogwatch.errors import ConflictError, LedgerError, LedgerLockedError, StaleError, UsageError
from dogwatch.ledger.api import Appendable, Clock, Document, Item, Json, Lease, Reader, StoredEvent, Tx
from dogwatch.ledger.bodies import checked, dump, dump_told, load, required, seconds
from dogwatch.ledger.records import VIEWED
from dogwatch.ledger.sql_reader import Row, behind, count, to_event, to_position
from dogwatch.ledger.sql_tx import AS_THEY_ARE, columns
from dogwatch.model.codec import decode
from dogwatch.model.moment import Moment
from dogwatch.model.redact import BY_SHAPE, Redactor
from dogwatch.model.view import RunView

T = TypeVar("T")
V = TypeVar("V")


class _Table(Generic[V]):
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


class _Kept:
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
class _Entry:
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
class _Queue:
    """All items that were ever pushed, by id, and those of them that are open, in the order of pushing."""

    known: dict[str, _Entry] = field(default_factory=dict)
    open: dict[str, _Entry] = field(default_factory=dict)


@dataclass(slots=True)
class _State:
    """Everything in the ledger. Each `set_` is undone by itself with what was there before, the latest first."""

    documents: _Table[_Kept] = field(default_factory=_Table)
    leases: _Table[tuple[Lease, ...]] = field(default_factory=_Table)
    fences: dict[str, int] = field(default_factory=dict)
    queues: dict[str, _Queue] = field(default_factory=dict)
    events: list[Row] = field(default_factory=list)
    operations: set[str] = field(default_factory=set)
    places: dict[tuple[str | None, str | None], list[int]] = field(default_factory=dict)
    """Where the events of a run, of a kind, or of both stand; None is any."""
    pushed: int = 0
    versions: dict[str, object] = field(default_factory=dict)
    """Something of its own for each run, as long as no record of its view changes."""

    def copy(self) -> _State:
        """The same once more; what is in it never changes."""
        return _State(
            documents=_Table(self.documents.values),
            leases=_Table(self.leases.values),
            fences=dict(self.fences),
            queues={name: _Queue(dict(queue.known), dict(queue.open)) for name, queue in self.queues.items()},
            events=list(self.events),
            operations=set(self.operations),
            places={key: list(found) for key, found in self.places.items()},
            pushed=self.pushed,
            versions=dict(self.versions),
        )

    def set_document(self, key: str, kept: _Kept | None) -> None:
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

    def set_item(self, where: tuple[str, str], entry: _Entry | None) -> None:
        name, identity = where
        queue = self.queues.get(name) or self.queues.setdefault(name, _Queue())
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


Undo = tuple[Callable[[_State, Any, Any], None], Any, Any]


def _listed(row: Row) -> tuple[tuple[str | None, str | None], ...]:
    """Under what an event is looked for."""
    kind, run = row[2], row[7]
    return ((None, kind), (run, None), (run, kind)) if run else ((None, kind),)


class _Over:
    """The state of a transaction that is over: whatever is asked of it is refused."""

    def __getattr__(self, name: str) -> Any:
        raise LedgerError("this transaction is over")


_OVER = cast("_State", _Over())


class SimReader:
    """What can be read, as of one instant."""

    def __init__(self, ledger: SimLedger, state: _State, now: Moment) -> None:
        self.now = now
        self._state = state
        self._ledger = ledger

    def get(self, key: str) -> Document | None:
        """The document under `key`, or None."""
        kept = self._state.documents.values.get(key)
        return kept.document if kept else None

    def scan(self, prefix: str) -> Sequence[Document]:
        """All documents whose key begins with `prefix`, ordered by key."""
        return [kept.document for kept in self._state.documents.begins(prefix)]

    def keys(self, prefix: str) -> Sequence[str]:
        """The keys of these documents."""
        return self._state.documents.keys(prefix)

    def record(self, kind: type[T], key: str) -> T | None:
        """The record of `kind` under `key`, made once for as long as its document does not change."""
        kept = self._state.documents.values.get(key)
        return kept.decoded(kind) if kept else None

    def records(self, kind: type[T], prefix: str) -> list[T]:
        """The same for all documents whose key begins with `prefix`, ordered by key."""
        found, known = self._state.documents.begins(prefix), self._ledger.lists.get(prefix)
        if known is None or known[0] is not found or known[1] is not kind:
            known = self._ledger.lists[prefix] = (found, kind, [kept.decoded(kind) for kept in found])
        return list(known[2])

    def view(self, run: str, make: Callable[[], RunView]) -> RunView:
        """The view of a run, made once for as long as nothing of it changes."""
        version, known = self._state.versions.get(run), self._ledger.views.get(run)
        if version is None or known is None or known[0] is not version:
            known = self._ledger.views[run] = (version, make())
        return known[1]

    def leases(self, prefix: str) -> Sequence[Lease]:
        """All leases now held whose name begins with `prefix`, ordered by name and slot."""
        granted = self._state.leases.begins(prefix)
        return [lease for leases in granted for lease in leases if self.now.is_before(lease.expires)]

    def items(self, queue: str) -> Sequence[Item]:
        """What stands in `queue`, ready or claimed, in the order of pushing."""
        items = [self._item(queue, identity, entry) for identity, entry in self._open(queue).items()]
        return [item for item in items if item.state != "expired"]

    def queues(self, prefix: str) -> Sequence[str]:
        """The queues that something stands in."""
        return sorted(name for name, queue in self._state.queues.items() if queue.open and name.startswith(prefix))

    def recent(self, n: int, run: str = "", kinds: Sequence[str] = ()) -> Sequence[StoredEvent]:
        """The newest `n` events, oldest of them first."""
        limit, events = count(n), self._state.events
        if not run and not kinds:
            return [_event(row) for row in _last(events, limit)]
        places: list[int] = []
        for kind in dict.fromkeys(kinds) or [None]:
            places += _last(self._state.places.get((run or None, kind), []), limit)
        return [_event(events[place]) for place in _last(sorted(places), limit)]

    def after(self, cursor: str, n: int, run: str) -> Sequence[StoredEvent]:
        """Up to `n` events behind a cursor, of all runs or of one."""
        first, limit, events = to_position(cursor, 1)[1], count(n), self._state.events
        if not run:
            return [_event(row) for row in events[first : first + limit]]
        places = self._state.places.get((run, None), [])
        begin = bisect_left(places, first)
        return [_event(events[place]) for place in places[begin : begin + limit]]

    def end(self) -> None:
        """Nothing more is read or written here."""
        self._state = _OVER

    def _open(self, queue: str) -> dict[str, _Entry]:
        found = self._state.queues.get(queue)
        return found.open if found else {}

    def _item(self, queue: str, identity: str, entry: _Entry) -> Item:
        """The open item as it stands now."""
        state, holder, expires = "ready", "", entry.ends
        if entry.claimed is not None and self.now.is_before(entry.claimed):
            state, holder, expires = "claimed", entry.holder, entry.claimed
        elif expires is not None and self._is_over(expires):
            state = "expired"
        fence = entry.fence
        return Item(queue, identity, load(entry.text), state, holder, fence, fence, entry.pushed, expires)

    def _is_over(self, end: Moment) -> bool:
        """Whether an item's own time is over. Unlike a claim it outlives a reboot, by the wall clock."""
        if self.now.boot == end.boot:
            return self.now.mono >= end.mono
        return self.now.wall >= end.wall


class SimTx(SimReader):
    """A transaction. It changes the one state there is, and notes how to undo that."""

    def __init__(self, ledger: SimLedger, now: Moment, redactor: Redactor) -> None:
        super().__init__(ledger, ledger.state, now)
        self.news = False
        self._redactor = redactor
        self._put: _Kept | None = None
        """What was put last, where that was not changed on the way and was there before."""
        self._undo: list[Undo] = []

    def append(self, event: Appendable, op_id: str = "") -> bool:
        """Records an event; False where its `op_id` was used before."""
        checked(op_id, "an operation's id")
        run = checked(event.run, "a run")
        agent = checked(event.agent, "an agent")
        kind = required(event.kind, "an event's kind")
        text = dump_told(event.body, self._redactor)
        if op_id and op_id in self._state.operations:
            return False
        place = len(self._state.events)
        row = (0, place + 1, kind, text, *columns(self.now), run, agent, op_id, True)
        self._set(_State.set_event, place, row, None)
        return True

    def put(self, key: str, body: Json, revision: int | None = None) -> int:
        """Writes a document and returns its new revision."""
        text = dump(body)
        is_changed = not key.startswith(AS_THEY_ARE) and self._redactor.suspects(text)
        if is_changed:
            text = dump(self._redactor.value(body))
        kept = self._state.documents.values.get(required(key, "a document's key"))
        found = kept.revision if kept else 0
        if revision is not None and revision != found:
            raise _conflict(key, found, revision)
        put = _Kept(key, found + 1, text)
        self._set(_State.set_document, key, put, kept)
        self._put = put if kept and not is_changed else None
        return found + 1

    def remember(self, record: Any) -> None:
        """What was just put was this record: unless a token was taken out of it, nobody need make it again. What is new
        is all the same read as any other ledger would read it."""
        if self._put is not None:
            self._put.kind, self._put.record = type(record), record

    def delete(self, key: str, revision: int | None = None) -> None:
        """Removes a document."""
        kept = self._state.documents.values.get(key)
        found = kept.revision if kept else 0
        if revision is not None and revision != found and (kept or revision > 0):
            raise _conflict(key, found, revision)
        if kept:
            self._set(_State.set_document, key, None, kept)

    def acquire(self, name: str, holder: str, ttl_s: float, slots: int = 1) -> Lease | None:
        """A free slot of `name`, or None."""
        required(name, "a lease's name")
        required(holder, "a holder")
        if slots < 1:
            raise UsageError(f"a lease needs at least one slot, not {slots}")
        expires = self.now.plus(seconds(ttl_s, "a lease's time"))
        known = self._state.leases.values.get(name, ())
        held = {lease.slot: lease for lease in known if self.now.is_before(lease.expires)}
        for mine in held.values():
            if mine.holder == holder:
                return self.renew(mine, ttl_s)
        # Counted, not only looked for: slots beyond `slots` may be held by somebody who asked for more of them.
        if len(held) >= slots:
            return None
        slot = next(number for number in range(slots) if number not in held)
        fence = self._state.fences.get(name, 0) + 1
        self._set(_State.set_fence, name, fence, fence - 1)
        granted = Lease(name, holder, slot, fence, self.now, expires)
        self._set_lease(granted)
        return granted

    def renew(self, lease: Lease, ttl_s: float) -> Lease:
        """The lease with a new end."""
        expires = self.now.plus(seconds(ttl_s, "a lease's time"))
        self.check(lease)
        renewed = dataclasses.replace(lease, renewed=self.now, expires=expires)
        self._set_lease(renewed, news=False)
        return renewed

    def check(self, lease: Lease) -> None:
        """StaleError unless this very grant still stands."""
        if not self._stands(lease):
            raise StaleError(
                f"{lease.holder} no longer holds {lease.name} (slot {lease.slot}, fence {lease.fence})",
                hint="stop what it was for: another holder may be at it; acquire it anew to go on",
            )

    def release(self, lease: Lease) -> None:
        """Gives the slot back; without effect where the grant no longer stands."""
        if self._stands(lease):
            known = self._state.leases.values[lease.name]
            rest = tuple(one for one in known if one.slot != lease.slot)
            self._set(_State.set_leases, lease.name, rest, known)

    def push(self, queue: str, body: Json, item_id: str = "", *, ttl_s: float | None = None) -> str | None:
        """Puts an item into a queue and returns its id; None where the queue has seen it before."""
        checked(item_id, "an item's id")
        ends = None if ttl_s is None else self.now.plus(seconds(ttl_s, "an item's time"))
        seq = self._state.pushed + 1
        entry = _Entry(seq, dump_told(body, self._redactor), self.now, ends)
        found = self._state.queues.get(required(queue, "a queue"))
        known = found.known if found else {}
        if item_id in known:
            return None
        identity = item_id or f"{seq:016x}"
        while identity in known:
            identity += "0"
        self._set(_State.set_item, (queue, identity), entry, None)
        return identity

    def claim(self, queue: str, holder: str, ttl_s: float, item_id: str = "") -> Item | None:
        """The first ready item (or the one named), now claimed by `holder` with a new fence, or None."""
        required(holder, "a holder")
        claimed = self.now.plus(seconds(ttl_s, "a claim's time"))
        standing = self._open(queue)
        for identity in [item_id] if item_id else list(standing):
            entry = standing.get(identity)
            if entry is None or (entry.claimed is not None and self.now.is_before(entry.claimed)):
                continue
            if entry.ends is not None and self._is_over(entry.ends):
                self._set_item(queue, identity, entry, news=False, state="expired")
                continue
            fence = entry.fence + 1
            entry = self._set_item(queue, identity, entry, holder=holder, fence=fence, claimed=claimed)
            return self._item(queue, identity, entry)
        return None

    def extend(self, item: Item, ttl_s: float) -> Item:
        """The claim with a new end."""
        claimed = self.now.plus(seconds(ttl_s, "a claim's time"))
        self._set_item(item.queue, item.id, self._claimed(item), news=False, claimed=claimed)
        return dataclasses.replace(item, expires=claimed)

    def ack(self, item: Item) -> None:
        """The item is done, for good."""
        self._set_item(item.queue, item.id, self._claimed(item), state="acked")

    def give_back(self, item: Item) -> None:
        """The claimed item is ready again at once."""
        self._set_item(item.queue, item.id, self._claimed(item), holder="", claimed=None)

    def undo(self, state: _State) -> None:
        """Takes everything back, in the ledger's state or in a copy of it."""
        for setter, key, before in reversed(self._undo):
            setter(state, key, before)

    def _set(
        self, setter: Callable[[_State, Any, Any], None], key: Any, value: Any, before: Any, *, news: bool = True
    ) -> None:
        setter(self._state, key, value)
        self._undo.append((setter, key, before))
        self.news = self.news or news

    def _set_lease(self, lease: Lease, *, news: bool = True) -> None:
        known = self._state.leases.values.get(lease.name, ())
        others = [one for one in known if one.slot != lease.slot]
        leases = tuple(sorted([*others, lease], key=lambda one: one.slot))
        self._set(_State.set_leases, lease.name, leases, known, news=news)

    def _set_item(self, queue: str, identity: str, entry: _Entry, *, news: bool = True, **changes: Any) -> _Entry:
        changed = dataclasses.replace(entry, **changes)
        self._set(_State.set_item, (queue, identity), changed, entry, news=news)
        return changed

    def _stands(self, lease: Lease) -> bool:
        return any(
            (one.slot, one.holder, one.fence) == (lease.slot, lease.holder, lease.fence)
            and self.now.is_before(one.expires)
            for one in self._state.leases.values.get(lease.name, ())
        )

    def _claimed(self, item: Item) -> _Entry:
        """What is kept of an item whose claim still stands; StaleError otherwise."""
        entry = self._open(item.queue).get(item.id)
        if (
            entry is not None
            and (entry.holder, entry.fence) == (item.holder, item.fence)
            and entry.claimed is not None
            and self.now.is_before(entry.claimed)
        ):
            return entry
        raise StaleError(
            f"{item.holder} no longer holds {item.id} of {item.queue} (fence {item.fence})",
            hint="drop what was done for it: it may be with somebody else; claim it anew to go on",
        )


class SimLedger:
    """What is in the memory, for all stores that are open on it."""

    def __init__(self) -> None:
        self.state = _State()
        self.lists: dict[str, tuple[object, type, list[Any]]] = {}
        """The records below each prefix as they were last asked for, with the list of documents that they are of."""
        self.views: dict[str, tuple[object, RunView]] = {}
        """The views of runs that were made last."""
        self.writer: SimTx | None = None
        self.readers = 0
        self.bells: dict[SimStore, int] = {}

    def committed(self) -> _State:
        """The state without what a transaction of another store has under way."""
        if self.writer is None:
            return self.state
        state = self.state.copy()
        self.writer.undo(state)
        return state


class SimStore:
    """An open ledger in memory. Several stores may be open on one `ledger`."""

    def __init__(self, clock: Clock, ledger: SimLedger | None = None) -> None:
        self.redactor = BY_SHAPE
        self._clock = clock
        self._ledger = ledger or SimLedger()
        self._is_busy = False
        self._is_closed = False

    def run(self, fn: Callable[[Tx], T]) -> T:
        """`fn` in one transaction."""
        self._refuse()
        ledger = self._ledger
        if ledger.writer is not None:
            raise LedgerLockedError(
                "another store of this ledger is in a transaction",
                hint="let it end first: in one thread nobody can wait for it",
            )
        if ledger.readers:
            # Whoever reads now goes on with the state as it was.
            ledger.state = ledger.state.copy()
        tx = ledger.writer = SimTx(ledger, self._clock.now(), self.redactor)
        self._is_busy = True
        try:
            result = fn(tx)
        except BaseException:
            tx.undo(ledger.state)
            raise
        finally:
            tx.end()
            ledger.writer = None
            self._is_busy = False
        if tx.news and ledger.bells:
            self._ring()
        return result

    def read(self, fn: Callable[[Reader], T]) -> T:
        """`fn` on one snapshot."""
        return self._read(fn)

    def since(self, cursor: str, n: int, run: str = "") -> Sequence[StoredEvent]:
        """Up to `n` events after `cursor` in the order of their commits."""
        return self._read(lambda reader: reader.after(cursor, n, run))

    def settled(self, run: str = "") -> bool:
        """Always: what is committed is told."""
        return True

    def wait(self, timeout_s: float) -> bool:
        """Waits for the doorbell, in real time: a simulation has no use for it."""
        poll = select.poll()
        poll.register(self.fileno(), select.POLLIN)
        rung = bool(poll.poll(max(0.0, timeout_s) * 1000))
        if rung:
            os.eventfd_read(self.fileno())
        return rung

    def fileno(self) -> int:
        """The doorbell as a file descriptor for `selectors`; it has rung once when it is hung."""
        self._refuse_closed()
        bells = self._ledger.bells
        if self not in bells:
            bells[self] = os.eventfd(1, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        return bells[self]

    def integrity(self) -> Sequence[str]:
        """Documents whose bodies or records somebody has changed after they were written, or that would be read as
        something else than was saved."""
        found = []
        for key, kept in sorted(self._ledger.state.documents.values.items()):
            body = load(kept.text)
            if kept.is_changed(body):
                found.append(f"the body of the document {key} was changed by somebody who has read it")
            if kept.kind is not None and decode(kept.kind, body) != kept.record:
                found.append(f"the record of the document {key} was changed, or is not what would be read")
        return found

    def measures(self) -> Mapping[str, str | int]:
        """What the engine says of itself: the bytes are those of all bodies."""
        state = self._ledger.state
        documents = sum(len(kept.text) for kept in state.documents.values.values())
        items = sum(len(entry.text) for queue in state.queues.values() for entry in queue.known.values())
        return {"engine": "memory", "bytes": documents + items + sum(len(row[3]) for row in state.events)}

    def shrink(self) -> None:
        """Lets go of all records that were made of documents; they are made again when they are asked for."""
        for kept in self._ledger.state.documents.values.values():
            kept.forget()
        self._ledger.lists.clear()
        self._ledger.views.clear()

    def close(self) -> None:
        """Lets go of the doorbell; what was written stays in the ledger. Closing twice is no error."""
        self._is_closed = True
        bell = self._ledger.bells.pop(self, None)
        if bell is not None:
            os.close(bell)

    def _read(self, fn: Callable[[SimReader], T]) -> T:
        if self._is_busy or self._is_closed:
            self._refuse()
        ledger = self._ledger
        reader = SimReader(ledger, ledger.committed(), self._clock.now())
        self._is_busy = True
        ledger.readers += 1
        try:
            return fn(reader)
        finally:
            reader.end()
            ledger.readers -= 1
            self._is_busy = False

    def _ring(self) -> None:
        """Tells every other store that listens."""
        for store, bell in self._ledger.bells.items():
            if store is not self:
                os.eventfd_write(bell, 1)

    def _refuse(self) -> None:
        self._refuse_closed()
        if self._is_busy:
            raise LedgerError(
                "a transaction of this store is open already", hint="use the one that the function was given"
            )

    def _refuse_closed(self) -> None:
        if self._is_closed:
            raise LedgerError("this store is closed", hint="open another one on the same ledger")


def _event(row: Row) -> StoredEvent:
    return to_event(row, str(row[1]))


def _last(values: Sequence[V], n: int) -> Sequence[V]:
    return values[max(0, len(values) - n) :]


def _conflict(key: str, found: int, expected: int) -> ConflictError:
    return ConflictError(
        f"the document {key} has revision {found}, not {expected}", hint="read it again, then decide anew"
    )
