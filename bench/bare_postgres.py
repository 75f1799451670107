"""What the ledger's own code costs: its statements on bare libpq, without anything of the ledger's around them.

It checks nothing, rings no bell, does not find out what became of a commit in doubt, and looks for the next item from
the queue's beginning on.
"""

from __future__ import annotations

import json
import select
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import psycopg
from psycopg import pq

from bench.ledger_work import BODY, HOLDER, HOST, KIND, TTL_S, LedgerClient, operation_id
from dogwatch.ledger.api import Store
from dogwatch.ledger.postgres_session import LOOKING, numbered
from dogwatch.ledger.postgres_tx import CLAIM_AND_ACK, NEW_EVENT, NOW, PICK, SETTINGS
from dogwatch.ledger.sql_tx import EVENT, columns, renewal
from dogwatch.model.moment import Moment
from dogwatch.world.clock import SystemClock

EVENT_VALUES = ", ".join(f"?{number}" for number in range(11, 19))
TAKE = f"WITH done AS ({CLAIM_AND_ACK} RETURNING 1) {EVENT} SELECT {EVENT_VALUES} FROM done"  # noqa: S608
STATEMENTS = {
    b"looking": LOOKING,
    b"commit": "COMMIT",
    b"append": NEW_EVENT,
    b"pick": PICK,
    b"take": TAKE,
    b"renew": renewal(NOW),
}
BUSY = (b"40001", b"40P01")


class BusyError(Exception):
    """Another transaction was in the way."""


class BarePostgresClient:
    """One connection. Queues and leases are made by a ledger, which is not measured."""

    def __init__(self, url: str, open_ledger: Callable[[], Store]) -> None:
        self._ledger = LedgerClient(open_ledger)
        self._connection = psycopg.connect(url, autocommit=True)
        for setting, value in SETTINGS.items():
            self._connection.execute("SELECT set_config(%s, %s, false)", (setting, value))
        self._wire = self._connection.pgconn
        self._wire.nonblocking = 1
        self._wire.enter_pipeline_mode()
        self._poll = select.poll()
        self._poll.register(self._wire.socket, select.POLLIN)
        for name, statement in STATEMENTS.items():
            self._wire.send_prepare(name, numbered(statement))
        self._answers(len(STATEMENTS))
        self._clock = SystemClock()
        self._mark: bytes | None = None

    def append(self) -> None:
        self._in_one(b"append", self._event())

    def fill(self, queue: str, n: int) -> None:
        self._ledger.fill(queue, n)

    def take(self, queue: str) -> bool:
        # Who was just overtaken looks again, as the ledger does.
        while (item := self._pick(queue)) is not None:
            place, identity, fence = item
            now = self._clock.now()
            claim = (*_here(now), now.wall, TTL_S, HOLDER, place, queue, identity, fence)
            if self._in_one(b"take", _encoded(claim) + self._event()) is not None:
                return True
        return False

    def acquire(self, name: str) -> None:
        self._ledger.acquire(name)

    def renew(self) -> None:
        lease, now = self._ledger.lease, self._clock.now()
        assert lease is not None
        grant = (lease.name, lease.slot, lease.holder, lease.fence, *_here(now))
        assert self._in_one(b"renew", _encoded((*grant, now.wall, TTL_S))) is not None

    def close(self) -> None:
        self._ledger.close()
        self._connection.close()

    def _pick(self, queue: str) -> tuple[str, str, int] | None:
        """Place, id and fence of an item, which is read as the ledger's users read it."""
        self._wire.send_query_prepared(b"looking", [])
        self._wire.send_query_prepared(b"pick", [self._mark, *_encoded((queue, 0, *_here(self._clock.now())))])
        self._wire.send_query_prepared(b"commit", [])
        found = self._answers(3)
        if found is None:
            return None
        self._mark = found.get_value(0, 1)
        json.loads(found.get_value(0, 4) or b"")
        place, identity = ((found.get_value(0, column) or b"").decode() for column in (0, 3))
        return place, identity, int(found.get_value(0, 5) or 0)

    def _in_one(self, statement: bytes, values: Sequence[bytes | None]) -> Any:
        """One transaction, again where another was in the way."""
        while True:
            self._wire.send_query_prepared(statement, values)
            with suppress(BusyError):
                return self._answers(1)

    def _answers(self, count: int) -> Any:
        """Sends what there is; the last answer, of so many, that has or has changed a row."""
        self._wire.pipeline_sync()
        while self._wire.flush():
            pass
        found, refused = None, b""
        for _ in range(count):
            result = self._result()
            refused = refused or result.error_field(pq.DiagnosticField.SQLSTATE) or b""
            found = result if result.ntuples or result.command_tuples else found
            self._wire.get_result()
        result = self._result()
        while result is not None and result.status != pq.ExecStatus.PIPELINE_SYNC:
            # What is one transaction by itself is committed at its end, and that was refused.
            refused = refused or result.error_field(pq.DiagnosticField.SQLSTATE) or b""
            self._wire.get_result()
            result = self._result()
        if refused:
            raise BusyError if refused in BUSY else RuntimeError(refused.decode())
        return found

    def _result(self) -> Any:
        while self._wire.is_busy():
            self._poll.poll()
            self._wire.consume_input()
        return self._wire.get_result()

    def _event(self) -> list[bytes | None]:
        now = self._clock.now()
        return _encoded((operation_id(), "demo", HOLDER, KIND, *columns(now), json.dumps(BODY)))


def _here(now: Moment) -> tuple[str, str, float]:
    return HOST, now.boot, now.mono


def _encoded(values: Sequence[Any]) -> list[bytes | None]:
    return [value.encode() if isinstance(value, str) else repr(value).encode() for value in values]
