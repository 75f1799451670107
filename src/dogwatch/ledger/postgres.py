"""The ledger in a PostgreSQL database, for processes of any number of hosts."""

from __future__ import annotations

import contextlib
import os
import random
import select
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from dogwatch.errors import LedgerError
from dogwatch.ledger import postgres_errors
from dogwatch.ledger.api import Clock, Reader, StoredEvent, Tx
from dogwatch.ledger.doorbell import Doorbell
from dogwatch.ledger.postgres_schema import MEASURES, RING, bring_up_to_date
from dogwatch.ledger.postgres_session import (
    CHANGING,
    CHANNEL,
    SERVER_VERSION_MIN,
    ConnectionLostError,
    ServerError,
    Session,
)
from dogwatch.ledger.postgres_tx import READING, WRITING, PostgresTx, settings
from dogwatch.ledger.refusals import refuse_moved
from dogwatch.model.redact import BY_SHAPE

T = TypeVar("T")

BUSY_S = 10.0
"""How long a transaction is tried again while others are in its way."""
AWAY_S = 3.0
"""How long a lost server is looked for before that is an error."""
ANSWER_S = 5.0
"""How long a server may take for an answer."""
MAINTENANCE_S = 600.0
PAUSE_S_MAX = 0.2
IN_THE_FUTURE = "22023"
INTERRUPTS = (KeyboardInterrupt, SystemExit, GeneratorExit)
RING_S = 0.1
POLL_S = 1.0
POLL_POOLED_S = 0.25
RING_AGAIN_S = 10.0
"""After a ring that was refused."""
HELD_BACK_S = 0.1
WITNESS = (
    "SELECT 1 FROM dogwatch.events WHERE pos >= ? AND op_id = ? AND run = ? AND agent = ? AND kind = ? AND boot = ?"
    " AND mono = ? AND wall = ? AND body = ? LIMIT 1"
)
ARCHIVED = "SELECT 1 FROM dogwatch.archives WHERE last_pos >= ? LIMIT 1"
STATUS = "SELECT CASE WHEN pg_is_in_recovery() THEN 'in progress' ELSE pg_xact_status(?::text::xid8) END"
"""What became of a transaction. A standby may not have heard of it yet: it knows when it has been promoted."""
MOVED = "SELECT pg_snapshot_xmin(now)::text, pg_snapshot_xmax(now)::text FROM pg_current_snapshot() AS now"


class PostgresStore:
    """An open PostgreSQL ledger; to be used by one thread.

    `host` tells the hosts of a fleet apart: a lease of another host is judged by the server's clock. `bells` is a
    folder of this host; processes that name the same one hear of each other's commits at once, others through the
    server.
    """

    def __init__(
        self,
        url: str,
        clock: Clock,
        *,
        host: str = "",
        bells: str = "",
        answer_s: float = ANSWER_S,
        away_s: float = AWAY_S,
        maintenance: bool = False,
    ) -> None:
        self.redactor = BY_SHAPE
        self._name = postgres_errors.shown(url)
        self._url = url
        self._clock = clock
        self._host = host
        self._answer_s = MAINTENANCE_S if maintenance else answer_s
        self._maintenance = maintenance
        self._away_s = away_s
        self._id = os.urandom(6).hex()
        self._bell = Doorbell(bells) if bells else None
        self._inner_bell = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._ears = select.epoll()
        self._is_listening = False
        self._is_busy = False
        self._is_open = False
        self._ring_due: float | None = None
        self._rung = 0.0
        self._seen: Sequence[object] = ()
        self._stuck_at = 0
        self._session: Session | None = None
        try:
            self._connect()
        except ConnectionLostError as error:
            self.close()
            raise postgres_errors.away(self._name, str(error)) from error
        except BaseException:
            self.close()
            raise

    @property
    def host(self) -> str:
        """The host that this program runs on."""
        return self._host

    def run(self, fn: Callable[[Tx], T]) -> T:
        """`fn` in one durable transaction, again from the start where another writer was in the way."""
        if self._is_busy:
            self._refuse_nested()
        try:
            self._is_busy = True
            return self._run(fn)
        finally:
            self._is_busy = False

    def _run(self, fn: Callable[[Tx], T]) -> T:
        guessing = True
        busy_until = away_until = 0.0
        pause_s = 0.001
        while True:
            tx = self._begin(WRITING, guessing=guessing)
            try:
                result = fn(tx)
                tx.commit()
                break
            except BaseException as error:
                cause = tx.cause if isinstance(error, INTERRUPTS) else tx.settle()
                if cause is None:
                    raise
                if isinstance(cause, ConnectionLostError):
                    self._drop()
                    if self._ears.closed and not tx.committing:
                        raise  # the transaction has closed its own store: nobody is away
                    away_until = away_until or time.monotonic() + self._away_s
                    if tx.committing and self._was_committed(tx, str(cause), away_until):
                        break
                    if time.monotonic() >= away_until:
                        raise
                elif tx.guessed_wrong and guessing:
                    guessing = False
                elif not postgres_errors.is_busy(cause) or 0 < busy_until <= time.monotonic():
                    raise
                else:
                    busy_until = busy_until or time.monotonic() + BUSY_S
                    time.sleep(random.uniform(0, pause_s))  # noqa: S311
                    pause_s = min(2 * pause_s, PAUSE_S_MAX)
            finally:
                self._end(tx)
        if tx.news:
            if self._bell is not None:
                self._bell.ring()
            if self._ring_due is None:
                # A ring for all hosts that comes too soon after the last one is made up for later.
                self._ring_due = self._rung + RING_S
            self._ring_if_due()
        return result

    def read(self, fn: Callable[[Reader], T]) -> T:
        """`fn` on one snapshot; never waits for writers."""
        return self._read(fn)

    def since(self, cursor: str, n: int, run: str = "") -> Sequence[StoredEvent]:
        """Up to `n` events after `cursor` in the order of their commits.

        An event is told when no transaction older than its own is open any more. Where there are some that cannot be
        told yet, that is waited for, for a moment: who was rung for such an event may not be rung again.
        """
        pause_s = 0.001
        until = time.monotonic() + HELD_BACK_S
        while True:

            def look(tx: PostgresTx) -> tuple[Sequence[StoredEvent], int]:
                events = tx.after(cursor, n, run)
                return events, tx.horizon() if not events and n and tx.is_held_back(run) else 0

            events, stuck_at = self._read(look)
            if not stuck_at or stuck_at == self._stuck_at:
                return events
            if time.monotonic() >= until:
                # By somebody's long transaction: not waited for again until it has moved.
                self._stuck_at = stuck_at
                return events
            time.sleep(pause_s)
            pause_s *= 2

    def settled(self, run: str = "") -> bool:
        """Whether `since` tells everything that was committed (of the run) by now."""
        return not self._read(lambda tx: tx.is_held_back(run))

    def wait(self, timeout_s: float) -> bool:
        """Waits for a ring from this host or from the server, and looks by itself now and then."""
        self._refuse_nested()
        self._listen()
        deadline = time.monotonic() + timeout_s
        while True:
            left = max(0.0, deadline - time.monotonic())
            slice_s = POLL_POOLED_S if self._session is None or self._session.pooled else POLL_S
            if self._ring_due is not None:
                slice_s = min(slice_s, max(0.0, self._ring_due - time.monotonic()))
            ready = self._ears.poll(min(left, slice_s))
            self._ring_if_due()
            if self._hear():
                return True
            if left <= 0:
                return False
            if not ready and self._has_moved():
                return True

    def fileno(self) -> int:
        """The doorbell as a file descriptor for `selectors`."""
        self._listen()
        return self._ears.fileno()

    def integrity(self) -> Sequence[str]:
        """What the server can say is wrong with the tables: that events may be lost when it crashes."""
        off = "SELECT name FROM pg_settings WHERE name IN ('fsync', 'full_page_writes') AND setting = 'off'"
        lax = self._read(lambda tx: tx.rows(off))
        return [f"the server runs with {name} = off: a crash of its machine can damage the ledger" for (name,) in lax]

    def measures(self) -> Mapping[str, str | int]:
        """What the engine says of itself."""
        version, size, standbys, oldest_s, server = self._read(lambda tx: tx.rows(MEASURES))[0]
        return {
            "engine": f"PostgreSQL {version.split()[0]}",
            "bytes": size,
            "synchronous_standbys": standbys,
            "oldest_transaction_s": oldest_s,
            "clock_offset_ms": round((server - self._clock.now().wall) * 1000),
            "pooled": "yes" if self._session is not None and self._session.pooled else "no",
        }

    def shrink(self) -> None:
        """Makes the space of removed rows usable again; the server also does so by itself, later."""
        self._refuse_nested()
        if self._is_open:
            self._drop()
        try:
            self._connected().ask("VACUUM dogwatch.events")
        except ServerError as error:
            raise postgres_errors.translate(error, self._name) from error
        except ConnectionLostError as error:
            self._drop()
            raise postgres_errors.away(self._name, str(error)) from error

    def close(self) -> None:
        """Lets go of everything. Closing twice is no error."""
        if self._session is not None and self._ring_due is not None:
            with contextlib.suppress(ConnectionLostError, ServerError):
                self._session.ask_apart(f"SELECT pg_notify('{CHANNEL}', ?)::text", (self._id,), CHANGING)
            self._ring_due = None
        self._drop()
        if self._bell is not None:
            self._bell.close()
        if not self._ears.closed:
            self._ears.close()
            os.close(self._inner_bell)

    def _begin(self, statement: str, *, guessing: bool = False) -> PostgresTx:
        if self._is_open:
            # The one before was interrupted before it could be undone: nothing may be added to it.
            self._drop()
        if self._ring_due is not None:
            self._ring_if_due()
        session = self._session
        if session is None or time.monotonic() >= session.fresh_until:
            session = self._connected()
        self._is_open = True
        tx = PostgresTx(session, self._name, self._clock.now(), self._host, statement, guessing=guessing)
        tx.redactor = self.redactor
        return tx

    def _end(self, tx: PostgresTx) -> None:
        try:
            tx.end()
            if self._is_listening and self._session is not None:
                # What the server still has to say to this store would make the doorbell readable.
                self._session.settle()
            if self._session is not None and self._session.is_torn:
                self._drop()
        except ConnectionLostError:
            self._drop()
        self._is_open = False

    def _refuse_nested(self) -> None:
        if self._is_busy:
            raise LedgerError(
                "a transaction of this store is open already", hint="use the one that the function was given"
            )

    def _read(self, fn: Callable[[PostgresTx], T]) -> T:
        self._refuse_nested()
        try:
            self._is_busy = True
            return self._read_again(fn)
        finally:
            self._is_busy = False

    def _read_again(self, fn: Callable[[PostgresTx], T]) -> T:
        away_until = 0.0
        while True:
            tx = self._begin(READING)
            try:
                return fn(tx)
            except BaseException:
                if not isinstance(tx.cause, ConnectionLostError):
                    raise
                self._drop()
                if self._maintenance:
                    raise  # It may have written half of a file.
                away_until = away_until or time.monotonic() + self._away_s
                if time.monotonic() >= away_until:
                    raise
            finally:
                self._end(tx)

    def _connected(self) -> Session:
        """The session; a lost server is looked for again for a while."""
        if self._session is not None:
            try:
                self._session.look()
                return self._session
            except ConnectionLostError:
                self._drop()
        until = time.monotonic() + self._away_s
        pause_s = 0.02
        while self._session is None:
            try:
                self._connect()
            except ConnectionLostError as error:
                if time.monotonic() + pause_s >= until:
                    raise postgres_errors.away(self._name, str(error)) from error
                time.sleep(pause_s)
                pause_s = min(2 * pause_s, PAUSE_S_MAX)
        return self._session

    def _connect(self) -> None:
        try:
            session = Session(self._url, self._answer_s)
        except ServerError as error:
            raise postgres_errors.translate(error, self._name) from error
        try:
            if session.version < SERVER_VERSION_MIN:
                raise postgres_errors.too_old(self._name, session.version)
            facts = bring_up_to_date(session, self._name, self._host, maintenance=self._maintenance)
            if not self._maintenance:
                refuse_moved(self._name, facts)
            if self._maintenance:
                session.settings |= {"idle_in_transaction_session_timeout": "0", "lock_timeout": "60s"}
            if not session.pooled:
                session.ask(settings(session, of_transaction=False))
                if self._is_listening:
                    _listen_on(session)
        except ServerError as error:
            session.close()
            raise postgres_errors.translate(error, self._name) from error
        except BaseException:
            session.close()
            raise
        self._session = session
        if self._is_listening:
            self._ears.register(session.fileno(), select.EPOLLIN)
            # Whatever was rung for while there was no connection.
            os.eventfd_write(self._inner_bell, 1)

    def _drop(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            if self._is_listening:
                # A connection that was lost is closed already, and the kernel has forgotten it by itself.
                with contextlib.suppress(OSError, ValueError):
                    self._ears.unregister(session.fileno())
            session.close()

    def _was_committed(self, tx: PostgresTx, said: str, until: float) -> bool:
        """What became of a transaction whose commit was sent and not answered.

        An event of the transaction proves it, and when it can come no more, that there is none. The id of one that was
        committed proves nothing: a server that crashes gives the ids of transactions that it has lost to others.
        """
        if tx.transaction == 0:
            return False  # It has written nothing, and may be made again.
        while tx.needs_no_id or tx.transaction is not None:
            try:
                session = self._connected()
                if self._is_told(session, tx):
                    return True
                if tx.needs_no_id:
                    status = "ended" if session.has_ended(tx.session.signature) else "in progress"
                else:
                    ((status,),) = session.ask_apart(STATUS, (str(tx.transaction),))
                if status == "aborted" or (status == "ended" and tx.witness is None):
                    return False
                if status != "in progress":
                    if tx.witness is None:
                        break
                    if self._is_told(session, tx):
                        return True
                    if session.ask_apart(ARCHIVED, (tx.first_position,)):
                        break
                    return False
            except ServerError as error:
                if error.state == IN_THE_FUTURE:
                    return False  # This server has never come that far.
                raise postgres_errors.in_doubt(self._name, str(error)) from error
            except ConnectionLostError:
                self._drop()
            except LedgerError as error:
                raise postgres_errors.in_doubt(self._name, said) from error
            if time.monotonic() >= until:
                break
            time.sleep(0.02)
        raise postgres_errors.in_doubt(self._name, said)

    def _is_told(self, session: Session, tx: PostgresTx) -> bool:
        """Whether there is an event of the transaction."""
        return tx.witness is not None and bool(session.ask_apart(WITNESS, (tx.first_position, *tx.witness)))

    def _listen(self) -> None:
        if self._is_listening:
            return
        self._refuse_nested()
        self._is_listening = True
        self._ears.register(self._inner_bell, select.EPOLLIN)
        os.eventfd_write(self._inner_bell, 1)
        if self._bell is not None:
            self._ears.register(self._bell.fileno(), select.EPOLLIN)
        if self._session is not None:
            with contextlib.suppress(ConnectionLostError):
                if not self._session.pooled:
                    _listen_on(self._session)
                self._ears.register(self._session.fileno(), select.EPOLLIN)
                return
            self._drop()

    def _hear(self) -> bool:
        """Whether somebody else has rung, here or through the server, or the connection was lost or found again."""
        if self._bell is not None and self._bell.wait(0):
            return True
        rung = False
        with contextlib.suppress(BlockingIOError):
            os.eventfd_read(self._inner_bell)
            rung = True
        if self._session is None:
            return rung
        try:
            self._session.listen()
        except ConnectionLostError:
            self._drop()
            return True
        heard, self._session.heard = self._session.heard, []
        return rung or any(ringer != self._id for ringer in heard)

    def _ring_if_due(self) -> None:
        if self._ring_due is None or self._session is None or (now := time.monotonic()) < self._ring_due:
            return
        # Due again for as long as the server has not said that it rang.
        self._rung, self._ring_due = now, now + RING_S
        try:
            if self._session.ask_apart(RING, (self._id,), CHANGING):
                self._ring_due = None
        except ServerError:
            # Others keep the bell, or it cannot be written: that must not hold up every transaction.
            self._ring_due = time.monotonic() + RING_AGAIN_S
        except ConnectionLostError:
            self._drop()

    def _has_moved(self) -> bool:
        """Whether anybody has written on the server since the last look, or has ended what held others back."""
        before = self._seen
        try:
            session = self._connected()
            self._seen = session.ask_apart(MOVED)[0]
        except ConnectionLostError:
            self._drop()
            return True
        except ServerError as error:
            raise postgres_errors.translate(error, self._name) from error
        return before != self._seen


def _listen_on(session: Session) -> None:
    """Asks to be told; a standby takes no such request, and is looked at now and then."""
    with contextlib.suppress(ServerError):
        session.ask_apart(f"LISTEN {CHANNEL}")
