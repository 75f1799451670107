"""A writing transaction on the SQLite ledger."""

from __future__ import annotations

import dataclasses
import os
import sqlite3
from collections.abc import Sequence
from typing import Any

from dogwatch.errors import ConflictError, StaleError, UsageError
from dogwatch.ledger.api import Item, Json, Lease
from dogwatch.ledger.bodies import checked, dump, required, seconds
from dogwatch.ledger.sqlite_errors import translate
from dogwatch.ledger.sqlite_reader import ITEM, LEASE, SqliteReader, holds, to_lease
from dogwatch.model.moment import Moment

PAGE_ROWS = 32


class SqliteTx(SqliteReader):
    """All of it or nothing. The caller has begun it, and commits it. `news` is whether anybody needs to hear of it."""

    news = False

    def append(self, kind: str, body: Json, op_id: str = "", *, run: str = "", agent: str = "") -> bool:
        """Records an event; False where its `op_id` was used before."""
        inserted = self._change(
            "INSERT INTO events (op_id, run, agent, kind, boot, mono, wall, body) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
            " ON CONFLICT (op_id) WHERE op_id <> '' DO NOTHING",
            (
                checked(op_id, "an operation's id"),
                checked(run, "a run"),
                checked(agent, "an agent"),
                required(kind, "an event's kind"),
                *_columns(self.now),
                dump(body),
            ),
        )
        return inserted == 1

    def put(self, key: str, body: Json, revision: int | None = None) -> int:
        """Writes a document and returns its new revision."""
        text = dump(body)
        current = self._revision(required(key, "a document's key"), revision)
        self._change(
            "INSERT INTO documents (key, revision, body) VALUES (?, ?, ?)"
            " ON CONFLICT (key) DO UPDATE SET revision = excluded.revision, body = excluded.body",
            (key, current + 1, text),
        )
        return current + 1

    def delete(self, key: str, revision: int | None = None) -> None:
        """Removes a document."""
        if self._revision(key, revision):
            self._change("DELETE FROM documents WHERE key = ?", (key,))

    def acquire(self, name: str, holder: str, ttl_s: float, slots: int = 1) -> Lease | None:
        """A free slot of `name`, or None."""
        required(name, "a lease's name")
        required(holder, "a holder")
        if slots < 1:
            raise UsageError(f"a lease needs at least one slot, not {slots}")
        expires = self.now.plus(seconds(ttl_s, "a lease's time"))
        held = {
            found.slot: found
            for found in map(to_lease, self._rows(LEASE + " WHERE name = ?", (name,)))
            if holds(found.expires, self.now)
        }
        for mine in held.values():
            if mine.holder == holder:
                return self.renew(mine, ttl_s)
        # Counted, not only looked for: slots beyond `slots` may be held by somebody who asked for more of them.
        if len(held) >= slots:
            return None
        slot = next(number for number in range(slots) if number not in held)
        granted = Lease(name, holder, slot, self._next_fence(name), self.now, expires)
        self._change(
            "INSERT OR REPLACE INTO leases (name, slot, holder, fence, renewed_boot, renewed_mono, renewed_wall,"
            " expires_boot, expires_mono, expires_wall) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (name, slot, holder, granted.fence, *_columns(self.now), *_columns(expires)),
        )
        return granted

    def renew(self, lease: Lease, ttl_s: float) -> Lease:
        """The lease with a new end."""
        expires = self.now.plus(seconds(ttl_s, "a lease's time"))
        self.check(lease)
        self._change(
            "UPDATE leases SET renewed_boot = ?, renewed_mono = ?, renewed_wall = ?,"
            " expires_boot = ?, expires_mono = ?, expires_wall = ? WHERE name = ? AND slot = ?",
            (*_columns(self.now), *_columns(expires), lease.name, lease.slot),
            news=False,
        )
        return dataclasses.replace(lease, renewed=self.now, expires=expires)

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
            self._change("DELETE FROM leases WHERE name = ? AND slot = ?", (lease.name, lease.slot))

    def push(self, queue: str, body: Json, item_id: str = "", *, ttl_s: float | None = None) -> str | None:
        """Puts an item into a queue and returns its id; None where the queue has seen it before."""
        identity = checked(item_id, "an item's id") or os.urandom(8).hex()
        expires = None if ttl_s is None else self.now.plus(seconds(ttl_s, "an item's time"))
        inserted = self._change(
            "INSERT INTO items (queue, id, state, holder, fence, pushed_boot, pushed_mono, pushed_wall,"
            " ttl_boot, ttl_mono, ttl_wall, body) VALUES (?, ?, 'open', '', 0, ?, ?, ?, ?, ?, ?, ?)"
            " ON CONFLICT (queue, id) DO NOTHING",
            (required(queue, "a queue"), identity, *_columns(self.now), *_columns(expires), dump(body)),
        )
        return identity if inserted else None

    def claim(self, queue: str, holder: str, ttl_s: float, item_id: str = "") -> Item | None:
        """The first ready item (or the one named), now claimed by `holder` with a new fence, or None."""
        required(holder, "a holder")
        expires = self.now.plus(seconds(ttl_s, "a claim's time"))
        ready = self._first_ready(queue, item_id)
        if ready is None:
            return None
        seq, found = ready
        fence = found.fence + 1
        self._change(
            "UPDATE items SET holder = ?, fence = ?, claim_boot = ?, claim_mono = ?, claim_wall = ? WHERE seq = ?",
            (holder, fence, *_columns(expires), seq),
        )
        return dataclasses.replace(
            found, state="claimed", holder=holder, fence=fence, deliveries=fence, expires=expires
        )

    def extend(self, item: Item, ttl_s: float) -> Item:
        """The claim with a new end."""
        expires = self.now.plus(seconds(ttl_s, "a claim's time"))
        self._change(
            "UPDATE items SET claim_boot = ?, claim_mono = ?, claim_wall = ? WHERE seq = ?",
            (*_columns(expires), self._claimed(item)),
            news=False,
        )
        return dataclasses.replace(item, expires=expires)

    def ack(self, item: Item) -> None:
        """The item is done, for good."""
        self._change("UPDATE items SET state = 'acked' WHERE seq = ?", (self._claimed(item),))

    def give_back(self, item: Item) -> None:
        """The claimed item is ready again at once."""
        self._change(
            "UPDATE items SET holder = '', claim_boot = NULL, claim_mono = NULL, claim_wall = NULL WHERE seq = ?",
            (self._claimed(item),),
        )

    def _change(self, statement: str, values: Sequence[Any], *, news: bool = True) -> int:
        """How many rows the statement changed. A renewal is no news: heartbeats would wake everybody for nothing."""
        if self.spoiled is not None:
            raise self.spoiled
        try:
            changed = self._connection.execute(statement, values).rowcount
            self.news = self.news or (news and changed > 0)
            return changed
        except sqlite3.Error as error:
            self.cause = error
            self.spoiled = translate(error, self._path)
            raise self.spoiled from error

    def _revision(self, key: str, expected: int | None) -> int:
        """The document's revision, 0 for none; ConflictError where another one was expected."""
        rows = self._rows("SELECT revision FROM documents WHERE key = ?", (key,))
        current: int = rows[0][0] if rows else 0
        if expected is not None and expected != current:
            raise ConflictError(
                f"the document {key} has revision {current}, not {expected}", hint="read it again, then decide anew"
            )
        return current

    def _next_fence(self, name: str) -> int:
        statement = (
            "INSERT INTO fences (name, fence) VALUES (?, 1)"
            " ON CONFLICT (name) DO UPDATE SET fence = fence + 1 RETURNING fence"
        )
        fence: int = self._rows(statement, (name,))[0][0]
        return fence

    def _stands(self, granted: Lease) -> bool:
        rows = self._rows(LEASE + " WHERE name = ? AND slot = ?", (granted.name, granted.slot))
        if not rows:
            return False
        current = to_lease(rows[0])
        same = (current.holder, current.fence) == (granted.holder, granted.fence)
        return same and holds(current.expires, self.now)

    def _first_ready(self, queue: str, item_id: str) -> tuple[int, Item] | None:
        """The row and the item that may be claimed next. Expired ones on the way are marked, so as to be met once."""
        named, values = (" AND id = ?", (item_id,)) if item_id else ("", ())
        statement = f"{ITEM} WHERE queue = ? AND state = 'open'{named} AND seq > ? ORDER BY seq LIMIT {PAGE_ROWS}"
        seq = 0
        while rows := self._rows(statement, (queue, *values, seq)):
            for row, found in zip(rows, self._items(rows), strict=True):
                seq = row[0]
                if found.state == "ready":
                    return seq, found
                if found.state == "expired":
                    self._change("UPDATE items SET state = 'expired' WHERE seq = ?", (seq,))
        return None

    def _claimed(self, granted: Item) -> int:
        """The row of an item whose claim still stands."""
        rows = self._rows(ITEM + " WHERE queue = ? AND id = ? AND state = 'open'", (granted.queue, granted.id))
        if rows:
            current = self._items(rows)[0]
            if current.state == "claimed" and (current.holder, current.fence) == (granted.holder, granted.fence):
                return int(rows[0][0])
        raise StaleError(
            f"{granted.holder} no longer holds {granted.id} of {granted.queue} (fence {granted.fence})",
            hint="drop what was done for it: it may be with somebody else; claim it anew to go on",
        )


def _columns(moment: Moment | None) -> tuple[str, float, float] | tuple[None, None, None]:
    return (None, None, None) if moment is None else (moment.boot, moment.mono, moment.wall)
