"""Reading and writing the ledger in memory, as of one instant."""

from __future__ import annotations

import dataclasses
from bisect import bisect_left
from collections.abc import Callable, Sequence
from typing import Any, TypeVar, cast

from dogwatch.errors import ConflictError, LedgerError, StaleError, UsageError
from dogwatch.ledger.api import Appendable, Document, Item, Json, Lease, Record, StoredEvent
from dogwatch.ledger.bodies import checked, dump, dump_told, load, required, seconds
from dogwatch.ledger.sql_reader import Row, count, to_event, to_position
from dogwatch.ledger.sql_tx import AS_THEY_ARE, columns
from dogwatch.model.codec import encode
from dogwatch.model.moment import Moment
from dogwatch.model.redact import Redactor
from dogwatch.sim.tables import Entry, Kept, Remembered, State, Undo

T = TypeVar("T")
R = TypeVar("R", bound=Record)
V = TypeVar("V")


HOST = "simulated"
"""The name of the one machine that there is."""


class _Over:
    """The state of a transaction that is over: whatever is asked of it is refused."""

    def __getattr__(self, name: str) -> Any:
        raise LedgerError("this transaction is over")


_OVER = cast("State", _Over())


class SimReader:
    """What can be read, as of one instant."""

    host = HOST

    def __init__(self, state: State, remembered: Remembered, now: Moment) -> None:
        self.now = now
        self._state = state
        self._remembered = remembered

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
        found, known = self._state.documents.begins(prefix), self._remembered.lists.get(prefix)
        if known is None or known[0] is not found or known[1] is not kind:
            known = self._remembered.lists[prefix] = (found, kind, [kept.decoded(kind) for kept in found])
        return list(known[2])

    def view(self, run: str, make: Callable[[], T]) -> T:
        """The view of a run, made once for as long as nothing of it changes."""
        version, known = self._state.versions.get(run), self._remembered.views.get(run)
        if version is None or known is None or known[0] is not version:
            known = self._remembered.views[run] = (version, make())
        made: T = known[1]
        return made

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

    def _open(self, queue: str) -> dict[str, Entry]:
        found = self._state.queues.get(queue)
        return found.open if found else {}

    def _item(self, queue: str, identity: str, entry: Entry) -> Item:
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

    def __init__(self, state: State, remembered: Remembered, now: Moment, redactor: Redactor) -> None:
        super().__init__(state, remembered, now)
        self.news = False
        self._redactor = redactor
        self._put: Kept | None = None
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
        self._set(State.set_event, place, row, None)
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
        put = Kept(key, found + 1, text)
        self._set(State.set_document, key, put, kept)
        self._put = put if kept and not is_changed else None
        return found + 1

    def put_record(self, record: Record) -> None:
        """Writes a record as the document under its key."""
        self._put_record(record, None)

    def change_record(self, kind: type[R], key: str, fn: Callable[[R], R]) -> R | None:
        """Writes what `fn` makes of the record under `key`, and returns it; None where there is none."""
        kept = self._state.documents.values.get(key)
        if kept is None:
            return None
        changed = fn(kept.decoded(kind))
        self._put_record(changed, kept.revision)
        return changed

    def _put_record(self, record: Record, revision: int | None) -> None:
        """Unless a token is taken out of it, nobody need make the record again. A new one is still read as any other
        ledger would read it."""
        self.put(record.key, encode(record), revision)
        if self._put is not None:
            self._put.kind, self._put.record = type(record), record

    def delete(self, key: str, revision: int | None = None) -> None:
        """Removes a document."""
        kept = self._state.documents.values.get(key)
        found = kept.revision if kept else 0
        if revision is not None and revision != found and (kept or revision > 0):
            raise _conflict(key, found, revision)
        if kept:
            self._set(State.set_document, key, None, kept)

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
        self._set(State.set_fence, name, fence, fence - 1)
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
            self._set(State.set_leases, lease.name, rest, known)

    def push(self, queue: str, body: Json, item_id: str = "", *, ttl_s: float | None = None) -> str | None:
        """Puts an item into a queue and returns its id; None where the queue has seen it before."""
        checked(item_id, "an item's id")
        ends = None if ttl_s is None else self.now.plus(seconds(ttl_s, "an item's time"))
        seq = self._state.pushed + 1
        entry = Entry(seq, dump_told(body, self._redactor), self.now, ends)
        found = self._state.queues.get(required(queue, "a queue"))
        known = found.known if found else {}
        if item_id in known:
            return None
        identity = item_id or f"{seq:016x}"
        while identity in known:
            identity += "0"
        self._set(State.set_item, (queue, identity), entry, None)
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

    def undo(self, state: State) -> None:
        """Takes everything back, in the ledger's state or in a copy of it."""
        for setter, key, before in reversed(self._undo):
            setter(state, key, before)

    def _set(
        self, setter: Callable[[State, Any, Any], None], key: Any, value: Any, before: Any, *, news: bool = True
    ) -> None:
        setter(self._state, key, value)
        self._undo.append((setter, key, before))
        self.news = self.news or news

    def _set_lease(self, lease: Lease, *, news: bool = True) -> None:
        known = self._state.leases.values.get(lease.name, ())
        others = [one for one in known if one.slot != lease.slot]
        leases = tuple(sorted([*others, lease], key=lambda one: one.slot))
        self._set(State.set_leases, lease.name, leases, known, news=news)

    def _set_item(self, queue: str, identity: str, entry: Entry, *, news: bool = True, **changes: Any) -> Entry:
        changed = dataclasses.replace(entry, **changes)
        self._set(State.set_item, (queue, identity), changed, entry, news=news)
        return changed

    def _stands(self, lease: Lease) -> bool:
        return any(
            (one.slot, one.holder, one.fence) == (lease.slot, lease.holder, lease.fence)
            and self.now.is_before(one.expires)
            for one in self._state.leases.values.get(lease.name, ())
        )

    def _claimed(self, item: Item) -> Entry:
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


def _event(row: Row) -> StoredEvent:
    return to_event(row, str(row[1]))


def _last(values: Sequence[V], n: int) -> Sequence[V]:
    return values[max(0, len(values) - n) :]


def _conflict(key: str, found: int, expected: int) -> ConflictError:
    return ConflictError(
        f"the document {key} has revision {found}, not {expected}", hint="read it again, then decide anew"
    )
