"""A writing transaction on the ledger. The same SQL for every engine."""

from __future__ import annotations

import dataclasses
import os
from abc import abstractmethod
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from dogwatch.errors import ConflictError, StaleError, UsageError
from dogwatch.ledger.api import Appendable, Item, Json, Lease
from dogwatch.ledger.bodies import checked, dump, dump_told, required, seconds
from dogwatch.ledger.plain_records import PlainWriting
from dogwatch.ledger.sql_reader import Dialect, SqlReader, item_columns, to_lease
from dogwatch.model import keys
from dogwatch.model.moment import Moment
from dogwatch.model.redact import BY_SHAPE

AS_THEY_ARE = (keys.PLANS, keys.TASKS, keys.MESSAGES)
"""Documents that must say exactly what the operator or an agent said: what agents are started with and told to do, and
mail until it has come to its end. From everything else tokens are taken out."""
EVENT = "INSERT INTO events (op_id, run, agent, kind, boot, mono, wall, body)"


class SqlTx(SqlReader, PlainWriting):
    """All of it or nothing. The caller has begun it, and commits it. `news` is whether anybody needs to hear of it."""

    news = False
    redactor = BY_SHAPE
    """What must not be kept. The store that begins the transaction has its own."""
    _fresh: Item | None = None
    """What was claimed last in this very transaction: its claim needs no looking at."""

    def append(self, event: Appendable, op_id: str = "") -> bool:
        """Records an event; False where its `op_id` was used before."""
        values = (
            checked(op_id, "an operation's id"),
            checked(event.run, "a run"),
            checked(event.agent, "an agent"),
            required(event.kind, "an event's kind"),
            *columns(self.now),
            dump_told(event.body, self.redactor),
        )
        return self._append(values)

    def put(self, key: str, body: Json, revision: int | None = None) -> int:
        """Writes a document and returns its new revision."""
        text = dump(body) if key.startswith(AS_THEY_ARE) else dump_told(body, self.redactor)
        required(key, "a document's key")
        if revision is None:
            statement = (
                "INSERT INTO documents (key, revision, body) VALUES (?, 1, ?)"
                " ON CONFLICT (key) DO UPDATE SET revision = documents.revision + 1, body = excluded.body"
                " RETURNING revision"
            )
            self.news = True
            new: int = self.rows(statement, (key, text))[0][0]
            return new
        if revision == 0:
            statement = "INSERT INTO documents (key, revision, body) VALUES (?, 1, ?)"
            if not self.insert(statement, (key, text), unless="(key)"):
                raise self._conflict(key, revision)
        else:
            statement = "UPDATE documents SET revision = revision + 1, body = ? WHERE key = ? AND revision = ?"
            self.must(statement, (text, key, revision), lambda: self._conflict(key, revision))
        return revision + 1

    def delete(self, key: str, revision: int | None = None) -> None:
        """Removes a document."""
        of_revision, values = ("", (key,)) if revision is None else (" AND revision = ?", (key, revision))
        done = self.change(f"DELETE FROM documents WHERE key = ?{of_revision}", values)
        if not done and revision is not None and (revision > 0 or self.get(key) is not None):
            raise self._conflict(key, revision)

    def acquire(self, name: str, holder: str, ttl_s: float, slots: int = 1) -> Lease | None:
        """A free slot of `name`, or None."""
        required(name, "a lease's name")
        required(holder, "a holder")
        if slots < 1:
            raise UsageError(f"a lease needs at least one slot, not {slots}")
        expires = self.now.plus(seconds(ttl_s, "a lease's time"))
        held = {
            row[2]: to_lease(row) for row in self.rows(self._lease() + " WHERE name = ?", (name,)) if self._is_held(row)
        }
        for mine in held.values():
            if mine.holder == holder:
                return self.renew(mine, ttl_s)
        # Counted, not only looked for: slots beyond `slots` may be held by somebody who asked for more of them.
        if len(held) >= slots:
            return None
        slot = next(number for number in range(slots) if number not in held)
        granted = Lease(name, holder, slot, self._next_fence(name), self.now, expires)
        names = (
            "holder, fence, renewed_boot, renewed_mono, renewed_wall, expires_boot, expires_mono, expires_wall, host"
        )
        self.later(
            f"INSERT INTO leases (name, slot, {names}, expires_server)"
            f" VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, {self.dialect.now} + ?)"
            " ON CONFLICT (name, slot) DO UPDATE SET "
            + ", ".join(f"{column} = excluded.{column}" for column in [*names.split(", "), "expires_server"]),
            (name, slot, holder, granted.fence, *columns(self.now), *columns(expires), self._clock_of, ttl_s),
        )
        return granted

    def renew(self, lease: Lease, ttl_s: float) -> Lease:
        """The lease with a new end."""
        expires = self.now.plus(seconds(ttl_s, "a lease's time"))
        values = (*self._standing(lease), self.now.wall, ttl_s)
        self.must(renewal(self.dialect.now), values, lambda: _lost(lease), news=False)
        return Lease(lease.name, lease.holder, lease.slot, lease.fence, self.now, expires)

    def check(self, lease: Lease) -> None:
        """StaleError unless this very grant still stands."""
        statement = f"SELECT 1 FROM leases WHERE {_lease_stands(self.dialect.now)}"
        if not self.rows(statement, self._standing(lease)):
            raise _lost(lease)

    def release(self, lease: Lease) -> None:
        """Gives the slot back; without effect where the grant no longer stands."""
        self.change(f"DELETE FROM leases WHERE {_lease_stands(self.dialect.now)}", self._standing(lease))

    def push(self, queue: str, body: Json, item_id: str = "", *, ttl_s: float | None = None) -> str | None:
        """Puts an item into a queue and returns its id; None where the queue has seen it before."""
        identity = checked(item_id, "an item's id") or os.urandom(8).hex()
        expires = None if ttl_s is None else self.now.plus(seconds(ttl_s, "an item's time"))
        shared = (self._clock_of, ttl_s or 0.0)
        text = dump_told(body, self.redactor)
        inserted = self.insert(
            "INSERT INTO items (queue, id, state, holder, fence, pushed_boot, pushed_mono, pushed_wall, ttl_boot,"
            " ttl_mono, ttl_wall, host, ttl_server, body)"
            f" VALUES (?, ?, 'open', '', 0, ?, ?, ?, ?, ?, ?, ?, {self.dialect.now} + ?, ?)",
            (required(queue, "a queue"), identity, *columns(self.now), *columns(expires), *shared, text),
            unless="(queue, id)",
        )
        return identity if inserted else None

    def claim(self, queue: str, holder: str, ttl_s: float, item_id: str = "") -> Item | None:
        """The first ready item (or the one named), now claimed by `holder` with a new fence, or None.

        An item whose own time is over is marked on the way, so as to be met once.
        """
        required(holder, "a holder")
        expires = self.now.plus(seconds(ttl_s, "a claim's time"))
        of_now = (self.now.boot, self.now.mono, self._clock_of, self.now.wall)
        named, of_item = (" AND id = ?", (item_id,)) if item_id else ("", ())
        statement = _first_claim(self.dialect, named)
        values = (*of_now, holder, *of_now, *columns(expires), self._clock_of, ttl_s, queue, queue, *of_item)
        while rows := self.rows(statement, (*values, *self._here())):
            if rows[0][0] == "open":
                self.news = True
                item = self.values(self._to_item, [rows[0][1:]])[0]
                self._fresh = dataclasses.replace(item, expires=expires)
                return self._fresh
        return None

    def extend(self, item: Item, ttl_s: float) -> Item:
        """The claim with a new end."""
        expires = self.now.plus(seconds(ttl_s, "a claim's time"))
        assignments = (
            f"claim_boot = ?, claim_mono = ?, claim_wall = ?, claim_host = ?, claim_server = {self.dialect.now} + ?"
        )
        self._change_claimed(item, assignments, (*columns(expires), self._clock_of, ttl_s), news=False)
        return dataclasses.replace(item, expires=expires)

    def ack(self, item: Item) -> None:
        """The item is done, for good."""
        fresh, self._fresh = self._fresh, None
        if item == fresh:
            self.later("UPDATE items SET state = 'acked' WHERE queue = ? AND id = ?", (item.queue, item.id))
        else:
            self._change_claimed(item, "state = 'acked'")

    def give_back(self, item: Item) -> None:
        """The claimed item is ready again at once."""
        self._fresh = None
        self._change_claimed(item, "holder = '', claim_boot = NULL, claim_mono = NULL, claim_wall = NULL")

    @abstractmethod
    def change(self, statement: str, values: Sequence[Any] = (), *, news: bool = True) -> int:
        """How many rows the statement changed. A renewal is no news: heartbeats would wake everybody for nothing."""

    def insert(self, statement: str, values: Sequence[Any], unless: str = "") -> bool:
        """Whether a new row was made; with `unless`, not where that unique index has one like it."""
        return self.change(f"{statement} ON CONFLICT {unless} DO NOTHING" if unless else statement, values) == 1

    def must(
        self, statement: str, values: Sequence[Any], failure: Callable[[], Exception], *, news: bool = True
    ) -> None:
        """Changes one row; the `failure` where there is none such."""
        if not self.change(statement, values, news=news):
            raise failure()

    def later(self, statement: str, values: Sequence[Any]) -> None:
        """A change whose outcome is known beforehand; it may be made as late as at the commit."""
        self.change(statement, values)

    def _append(self, values: Sequence[Any]) -> bool:
        """Appends an event; False where the first of its values is an operation's id that was used before."""
        if not values[0]:
            return self.insert(f"{EVENT} VALUES (?, ?, ?, ?, ?, ?, ?, ?)", values)
        known = "SELECT 1 FROM archived_op_ids WHERE op_id = ?"
        return self.insert(
            f"{EVENT} SELECT ?, ?, ?, ?, ?, ?, ?, ? WHERE NOT EXISTS ({known})",
            (*values, values[0]),
            unless="(op_id) WHERE op_id <> ''",
        )

    def _conflict(self, key: str, expected: int) -> ConflictError:
        found = self.get(key)
        return ConflictError(
            f"the document {key} has revision {found.revision if found else 0}, not {expected}",
            hint="read it again, then decide anew",
        )

    def _next_fence(self, name: str) -> int:
        statement = (
            "INSERT INTO fences (name, fence) VALUES (?, 1)"
            " ON CONFLICT (name) DO UPDATE SET fence = fences.fence + 1 RETURNING fence"
        )
        fence: int = self.rows(statement, (name,))[0][0]
        return fence

    def _here(self) -> tuple[str, str, float]:
        return (self._clock_of, self.now.boot, self.now.mono)

    def _standing(self, lease: Lease) -> Sequence[Any]:
        """The values for the condition that this very grant still stands."""
        return (lease.name, lease.slot, lease.holder, lease.fence, *self._here())

    def _change_claimed(self, item: Item, assignments: str, values: Sequence[Any] = (), *, news: bool = True) -> None:
        """Changes an item whose claim still stands; StaleError otherwise."""
        self.must(
            # The state stands inside the condition, lest an engine goes through all open items of the queue.
            f"UPDATE items SET {assignments} WHERE queue = ? AND id = ? AND holder = ? AND fence = ?"
            f" AND CASE WHEN state = 'open' THEN {claim_stands(self.dialect.now)} ELSE FALSE END",
            (*values, item.queue, item.id, item.holder, item.fence, *self._here()),
            lambda: StaleError(
                f"{item.holder} no longer holds {item.id} of {item.queue} (fence {item.fence})",
                hint="drop what was done for it: it may be with somebody else; claim it anew to go on",
            ),
            news=news,
        )


@cache
def claim_stands(now: str, host: str = "?", boot: str = "?", mono: str = "?") -> str:
    """The condition that an item is claimed now; it takes the values of `_here`."""
    here, elsewhere = f"claim_boot = {boot} AND claim_mono > {mono}", f"claim_server > {now}"
    return f"(claim_boot IS NOT NULL AND CASE WHEN claim_host = {host} THEN {here} ELSE {elsewhere} END)"


@cache
def _lease_stands(now: str) -> str:
    """The condition that a grant still stands; it takes the values of `_standing`."""
    here, elsewhere = "expires_boot = ?6 AND expires_mono > ?7", f"expires_server > {now}"
    by = f"CASE WHEN host = ?5 THEN {here} ELSE {elsewhere} END"
    return f"name = ?1 AND slot = ?2 AND holder = ?3 AND fence = ?4 AND {by}"


@cache
def renewal(now: str) -> str:
    """The statement for a later end, where the grant stands: after its values come the wall clock's time and the
    seconds. Times are added up by the engine: numbers are what takes longest to hand over."""
    return (
        "UPDATE leases SET renewed_boot = ?6, renewed_mono = ?7, renewed_wall = ?8, expires_boot = ?6,"
        f" expires_mono = ?7 + ?9, expires_wall = ?8 + ?9, host = ?5, expires_server = {now} + ?9"
        f" WHERE {_lease_stands(now)}"
    )


@cache
def _first_claim(dialect: Dialect, named: str) -> str:
    """The statement that claims the first ready item of a queue, or marks it where its own time is over."""
    now = dialect.now
    here = "WHEN ttl_boot = ? THEN ttl_mono <= ? WHEN host = ? THEN ttl_wall <= ?"
    over = f"(ttl_boot IS NOT NULL AND CASE {here} ELSE ttl_server <= {now} END)"
    return (
        f"UPDATE items SET state = CASE WHEN {over} THEN 'expired' ELSE 'open' END, holder = ?,"
        f" fence = CASE WHEN {over} THEN fence ELSE fence + 1 END,"
        f" claim_boot = ?, claim_mono = ?, claim_wall = ?, claim_host = ?, claim_server = {now} + ?"
        " WHERE queue = ? AND state = 'open' AND seq = (SELECT seq FROM items"
        f" WHERE queue = ? AND state = 'open'{named} AND NOT {claim_stands(now)}"
        f" ORDER BY seq LIMIT 1 {dialect.skip_locked}) RETURNING state, {item_columns(now)}"
    )


def columns(moment: Moment | None) -> tuple[str, float, float] | tuple[None, None, None]:
    """A moment as three columns."""
    return (None, None, None) if moment is None else (moment.boot, moment.mono, moment.wall)


def _lost(lease: Lease) -> StaleError:
    return StaleError(
        f"{lease.holder} no longer holds {lease.name} (slot {lease.slot}, fence {lease.fence})",
        hint="stop what it was for: another holder may be at it; acquire it anew to go on",
    )
