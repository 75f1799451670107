"""One connection to a PostgreSQL server: statements go out in batches, and every answer has a deadline.

It works below psycopg's cursors, on libpq's pipeline mode, for two reasons. A transaction of several statements needs
only as many round trips as there are answers that somebody waits for. And a server that has stopped answering (a
partition, a stopped process) must become an error, where a plain call would wait for ever.
"""

from __future__ import annotations

import itertools
import os
import re
import select
import struct
import time
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import psycopg
from psycopg import conninfo, pq

from dogwatch.errors import UsageError
from dogwatch.ledger.sql_reader import Row

CONNECT_S = 3
"""For each host of an address."""
SERVER_VERSION_MIN = 130000
# Of a server that is gone without a word, the kernel learns by itself.
KEEPALIVES = {"keepalives_idle": 10, "keepalives_interval": 5, "keepalives_count": 3, "tcp_user_timeout": 20000}
CHANNEL = "dogwatch"
SIGNATURE = 0x4448 << 48
"""The first sixteen bits of the locks that tell which sessions are open; the number tells ours from others'."""
LOOKING = "BEGIN ISOLATION LEVEL READ COMMITTED READ ONLY"
"""For what is looked up outside of the ledger's transactions: it sees what was committed before it, and is in nobody's
way."""
CHANGING = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE"
"""The same for what is changed apart from them, whatever the server's own settings say."""
LIBPQ_MIN = 160002
"""An older one loses its place when a commit is refused that it has not sent as a statement."""
FRESH_S = 0.001
IDLE = "25P03"
"""A transaction was left idle for too long, for example because this process was stopped."""

Answer = Callable[[Sequence[Row]], None]
Decoder = Callable[[bytes], Any]


class ConnectionLostError(Exception):
    """The server cannot be reached, or does not answer any more."""


class ServerError(Exception):
    """The server refused a statement."""

    def __init__(self, state: str, message: str) -> None:
        super().__init__(message)
        self.state = state


class _Prepared:
    """A statement that the server knows by name, and how to read its columns, once it has answered."""

    __slots__ = ("decoders", "name", "statement")

    def __init__(self, statement: str, name: bytes) -> None:
        self.statement = statement
        self.name = name
        self.decoders: Sequence[tuple[int, Decoder]] | None = None


Batch = list[tuple[Answer | None, _Prepared | None, bool]]
"""For each command sent, who gets its rows, the prepared statement, and whether this is what prepares it."""


class Session:
    """Statements and their results, in order. `later` adds to the batch, `ask` sends it and waits for the answers.

    What is sent and what is expected must not fall apart, or answers would go to the wrong questions: who is broken off
    in the middle, be it by Ctrl-C, leaves a connection that is torn, which is as good as lost.
    """

    def __init__(self, url: str, answer_s: float) -> None:
        defaults = {"connect_timeout": CONNECT_S, "application_name": "dogwatch"}
        try:
            given = {**defaults, **conninfo.conninfo_to_dict(url), "client_encoding": "utf8"}
            self._connection = psycopg.connect(**{**KEEPALIVES, **given}, autocommit=True)  # type: ignore[arg-type]
        except psycopg.OperationalError as error:
            raise ConnectionLostError(_in_one_line(str(error))) from error
        except (psycopg.Error, ValueError) as error:
            # A setting that not even libpq could make anything of.
            raise UsageError(
                f"the ledger's address cannot be used: {_first_line(str(error))}", hint="correct DOGWATCH_LEDGER"
            ) from error
        self._wire = self._connection.pgconn
        self._answer_s = answer_s
        self._poll = select.poll()
        self._poll.register(self._wire.socket, select.POLLIN)
        self._prepared: dict[str, _Prepared] = {}
        self._names = itertools.count()
        self._batch: list[tuple[str, Sequence[bytes | None], Sequence[int], Answer | None] | None] = []
        self._posted: list[Batch] = []
        self.fresh_until = 0.0
        """Until then there is nothing new to be learnt by looking at the connection: it has just answered."""
        self.is_torn = False
        """Whether it was broken off in the middle, and is as good as lost."""
        self.mark: int | None = None
        """The lock that this session holds on what it has picked last."""
        self.floor = ("", 0, 0.0)
        """The queue that was picked from last, where its first open item stands, and until when that is relied on."""
        self.offset = 0
        """What is added to a transaction's id for its position."""
        self.first_position = 0
        """No event of the next transaction has one before it."""
        self.positioned = 0.0
        """When that was last found out."""
        self.heard: list[str] = []
        """What other sessions have rung with since somebody emptied the list."""
        # A pooler answers for itself when the connection is made, and lends a server for a transaction only: nothing
        # that outlives one may be left on it, neither settings nor prepared statements nor a LISTEN.
        self.pooled = True
        try:
            self._wire.nonblocking = 1
            self._wire.enter_pipeline_mode()
            pid, version, commits = self.ask(
                "SELECT pg_backend_pid(), current_setting('server_version_num')::int,"
                " current_setting('synchronous_commit')"
            )[0]
            self.pooled = pid != self._wire.backend_pid
            self.is_framed = self.pooled or pq.version() < LIBPQ_MIN
            """Whether every transaction needs a BEGIN and a COMMIT. Otherwise a batch is one by itself, as the session
            is set: the server commits it at its end."""
            self.signature = 0 if self.pooled else self._sign()
            """A lock that this session holds for as long as the server works for it; 0 through a pooler."""
        except BaseException:
            self.close()
            raise
        self.version: int = version
        # A server that would acknowledge what it has not written yet is told otherwise.
        self.settings = {"synchronous_commit": "on"} if commits == "off" else {}

    def has_ended(self, signature: int) -> bool:
        """Whether another session can commit no more. A standby does not know: it has locks of its own."""
        ended = "SELECT NOT pg_is_in_recovery() AND pg_try_advisory_xact_lock(?)"
        return bool(self.ask_apart(ended, (signature,))[0][0])

    def _sign(self) -> int:
        while True:
            signature = SIGNATURE + int.from_bytes(os.urandom(6), "big")
            if self.ask("SELECT pg_try_advisory_lock(?)", (signature,))[0][0]:
                return signature

    def later(self, statement: str, values: Sequence[Any] = (), answer: Answer | None = None) -> None:
        """Adds a statement to the batch. `answer` is called with its rows once they are there."""
        parameters = [
            value.encode() if type(value) is str and "\0" not in value else _encoded(value) for value in values
        ]
        is_binary = [type(value) is float for value in values]
        self._batch.append((statement, parameters, is_binary, answer))

    def ask(self, statement: str, values: Sequence[Any] = ()) -> Sequence[Row]:
        """The rows that a statement returns, after all those of the batch."""
        found: list[Sequence[Row]] = []
        self.later(statement, values, found.append)
        self.finish()
        return found[0]

    def ask_apart(self, statement: str, values: Sequence[Any] = (), begin: str = LOOKING) -> Sequence[Row]:
        """The same for a statement that has nothing to do with the ledger's transactions. One of these that was broken
        off in the middle must not be committed by it: then the connection is as good as lost."""
        if self._posted:
            self.settle()
        if self._batch or self.may_be_open:
            raise ConnectionLostError("a transaction was broken off in the middle")
        found: list[Sequence[Row]] = []
        self.later(statement, values, found.append)
        self.later("COMMIT")
        try:
            self.finish(begin)
        except ServerError:
            self.post("ROLLBACK")
            raise
        return found[0]

    def flush_before_more(self) -> None:
        """Makes the server send all answers so far before it begins with what is added now."""
        self._batch.append(None)

    def forget(self) -> None:
        """Drops the batch, of which nothing was sent yet."""
        self._batch.clear()

    def finish(self, begin: str = "") -> None:
        """Sends the batch, behind a BEGIN where one is given, and takes all answers; ServerError for the first one
        that was refused."""
        if begin:
            self._batch.insert(0, (begin, (), (), None))
        self._tear()
        self._cut()
        # Whatever was posted before had nobody waiting for it, and has nobody to tell.
        refused = self._take_posted()
        self.is_torn = False
        self.fresh_until = time.monotonic() + FRESH_S
        if refused is not None:
            raise refused

    def post(self, statement: str, values: Sequence[Any] = ()) -> None:
        """Sends a statement without waiting; its answer is taken along with the next batch's."""
        self.later(statement, values)
        self._tear()
        self._cut()
        self._send()
        if self.pooled:
            # Never more than one batch is under way through a pooler: were this process ended now, the pooler might
            # lend the server to another client with answers still to come.
            self._take_posted()
        self.is_torn = False

    @property
    def may_be_open(self) -> bool:
        """Whether the server has a transaction open, be it a spoiled one, or has not answered yet."""
        return self._wire.transaction_status != _IDLE

    def fileno(self) -> int:
        """The socket, readable when something has come that nobody asked for; -1 when it is closed."""
        try:
            return self._wire.socket
        except psycopg.Error:
            return -1

    def look(self) -> None:
        """Takes what has come, without waiting: a server that is gone says so before anything is sent to it in vain."""
        if self.is_torn:
            raise ConnectionLostError(_TORN)
        while self._poll.poll(0):
            self._consume()

    def settle(self) -> None:
        """Takes the answers to all that was posted."""
        self._tear()
        self._take_posted()
        self.is_torn = False

    def listen(self) -> None:
        """Takes whatever has come meanwhile; notifications go to `heard`."""
        self.settle()
        self._consume()

    def close(self) -> None:
        """Lets go of the connection. Closing twice is no error."""
        self._connection.close()

    def _cut(self) -> None:
        """Sends the batch, and ends it: what comes after it is done whatever becomes of it."""
        batch, self._batch = self._batch, []
        sent: Batch = []
        wire = self._wire
        try:
            for piece in batch:
                if piece is None:
                    wire.send_flush_request()
                    continue
                statement, parameters, is_binary, answer = piece
                if self.pooled:
                    wire.send_query_params(numbered(statement), parameters, None, is_binary)
                    sent.append((answer, None, False))
                    continue
                prepared = self._prepared.get(statement)
                if prepared is None:
                    # In this very batch. Where that breaks off before it, it was not prepared after all.
                    prepared = self._prepared[statement] = _Prepared(statement, b"dw%d" % next(self._names))
                    wire.send_prepare(prepared.name, numbered(statement))
                    sent.append((None, prepared, True))
                wire.send_query_prepared(prepared.name, parameters, is_binary)
                sent.append((answer, prepared, False))
            wire.pipeline_sync()
        except psycopg.Error as error:
            raise ConnectionLostError(self._complaint()) from error
        self._posted.append(sent)

    def _take_posted(self) -> ServerError | None:
        """All answers that are due; the refusal of the last batch, if it was refused."""
        refused: ServerError | None = None
        batches, self._posted = self._posted, []
        try:
            if self._wire.flush():
                self._send()
            for batch in batches:
                refused = self._take(batch)
        except psycopg.Error as error:
            raise ConnectionLostError(self._complaint()) from error
        return refused

    def _tear(self) -> None:
        if self.is_torn:
            raise ConnectionLostError(_TORN)
        self.is_torn = True
        self.fresh_until = 0.0

    def _take(self, batch: Batch) -> ServerError | None:
        """The answers to one batch; the first refusal, if any."""
        refused: ServerError | None = None
        is_busy, get_result = self._wire.is_busy, self._wire.get_result
        for answer, prepared, is_preparation in batch:
            if is_busy():
                self._await_answer()
            result = get_result()
            if result is None:
                raise ConnectionLostError("the server's answer ended too early")
            status = result.status
            if status in _GOOD:
                if answer is not None:
                    answer(_rows(result, prepared))
            else:
                if is_preparation and prepared is not None:
                    self._prepared.pop(prepared.statement, None)
                if status == _REFUSED:
                    refused = refused or self._refusal(result)
            get_result()  # The end of this answer.
        if is_busy():
            self._await_answer()
        result = get_result()
        if result is not None and result.status == _REFUSED:
            # A batch that is a transaction by itself is committed at its end, and that was refused.
            refused = refused or self._refusal(result)
            get_result()
            if is_busy():
                self._await_answer()
            result = get_result()
        if result is None:
            raise ConnectionLostError(self._complaint())
        return refused

    def _refusal(self, result: pq.abc.PGresult) -> ServerError:
        field = pq.DiagnosticField
        state = (result.error_field(field.SQLSTATE) or b"").decode()
        message = (result.error_field(field.MESSAGE_PRIMARY) or result.error_message).decode(errors="replace")
        if not state or state.startswith(("08", "57P")) or state == IDLE:
            # The server is going down, or has dropped this connection.
            raise ConnectionLostError(_first_line(message))
        return ServerError(state, message)

    def _await_answer(self) -> None:
        while self._wire.is_busy():
            # For each piece anew: a large transaction may take its time, and a hung server sends nothing at all.
            if not self._poll.poll(self._answer_s * 1000):
                raise ConnectionLostError(f"no answer from the server within {self._answer_s:g} s")
            self._consume()

    def _send(self) -> None:
        """Hands everything to the kernel, and takes what the server says meanwhile, lest both wait for the other."""
        try:
            while self._wire.flush():
                poll = select.poll()
                poll.register(self._wire.socket, select.POLLIN | select.POLLOUT)
                if not poll.poll(self._answer_s * 1000):
                    raise ConnectionLostError(f"the server has taken nothing for {self._answer_s:g} s")
                self._consume()
        except psycopg.Error as error:
            raise ConnectionLostError(self._complaint()) from error

    def _consume(self) -> None:
        try:
            self._wire.consume_input()
        except psycopg.Error as error:
            raise ConnectionLostError(self._complaint()) from error
        while notification := self._wire.notifies():
            self.heard.append(notification.extra.decode(errors="replace"))

    def _complaint(self) -> str:
        return _first_line(self._wire.error_message.decode(errors="replace")) or "the connection was closed"


@lru_cache(maxsize=512)
def numbered(statement: str) -> bytes:
    """The statement with `$1`, `$2` … for its question marks, which have numbers of their own or are counted."""
    if re.search(r"\?\d", statement):
        return statement.replace("?", "$").encode()
    parts = statement.split("?")
    return "".join(part + (f"${n}" if n < len(parts) else "") for n, part in enumerate(parts, 1)).encode()


def _encoded(value: Any) -> bytes | None:
    """A value that is no plain text. Times go as their eight bytes: digits take both sides longer to write and read."""
    if type(value) is float:
        return _DOUBLE(value)
    if isinstance(value, str):
        # libpq would read it only up to the NUL, and take one name for another.
        raise UsageError(f"a name holds a NUL character: {value!r}")
    if isinstance(value, bytes):
        return b"\\x" + value.hex().encode()
    return None if value is None else repr(value).encode()


_TORN = "it was interrupted in the middle of an answer"
_DOUBLE = struct.Struct(">d").pack
_IDLE = int(pq.TransactionStatus.IDLE)
_GOOD = (int(pq.ExecStatus.TUPLES_OK), int(pq.ExecStatus.COMMAND_OK))
_REFUSED = int(pq.ExecStatus.FATAL_ERROR)
_INTEGER, _FLOAT, _BOOLEAN, _BYTES = (20, 21, 23, 26), (700, 701, 1700), 16, 17


def _decoder(oid: int) -> Decoder:
    if oid in _INTEGER:
        return int
    if oid in _FLOAT:
        return float
    if oid == _BOOLEAN:
        return lambda value: value == b"t"
    if oid == _BYTES:
        return lambda value: bytes.fromhex(value[2:].decode())
    return bytes.decode


def _rows(result: pq.abc.PGresult, prepared: _Prepared | None) -> Sequence[Row]:
    """What a statement has returned; of one that returns nothing, an empty row for each that it has changed."""
    count = result.ntuples
    if not count:
        return [()] * (result.command_tuples or 0)
    decoders = prepared.decoders if prepared is not None else None
    if decoders is None:
        decoders = [(column, _decoder(result.ftype(column))) for column in range(result.nfields)]
        if prepared is not None:
            prepared.decoders = decoders
    value = result.get_value
    return [
        tuple([None if (cell := value(row, column)) is None else decode(cell) for column, decode in decoders])
        for row in range(count)
    ]


def _in_one_line(text: str) -> str:
    """What became of each host of an address."""
    return "; ".join(line[2:] for line in text.splitlines() if line.startswith("- ")) or _first_line(text)


def _first_line(text: str) -> str:
    return text.strip().partition("\n")[0]
