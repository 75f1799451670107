"""The door's serving side: a Unix socket, one JSON line in, one JSON line out, then it is closed.

It only carries; what a request means is decided in `answering.py` and by the verbs. Slow, huge and broken callers cost
one connection.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import socket
import struct
import time
from collections.abc import Mapping
from typing import Any

REQUEST_BYTES_MAX = 1024 * 1024
CONNECTIONS_MAX = 256
REQUEST_S_MAX = 10.0
ANSWER_TIMEOUT_S = 1.0


class Connection:
    """One connection: collects its line, then waits for its answer."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.body: Mapping[str, Any] = {}
        self.received = b""
        self.since = time.monotonic()

    def answer(self, body: Mapping[str, Any]) -> None:
        """Sends the answer and closes. A caller that has gone away asks again, with the same operation id."""
        with contextlib.suppress(OSError), self.connection:
            self.connection.settimeout(ANSWER_TIMEOUT_S)
            self.connection.sendall(json.dumps(body).encode() + b"\n")


class UnixDoor:
    """Listens for one run."""

    def __init__(self, path: str, selector: selectors.BaseSelector) -> None:
        self._selector = selector
        self._callers: dict[int, Connection] = {}
        self._ready: list[Connection] = []
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        # The captain that served here before is dead: only the holder of the run's lease comes this far.
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
        previous = os.umask(0o177)
        try:
            self._listener.bind(path)
        finally:
            os.umask(previous)
        self._listener.listen(64)
        selector.register(self._listener, selectors.EVENT_READ, self._accept)

    def requests(self) -> list[Connection]:
        """The whole requests that have come since the last call."""
        ready, self._ready = self._ready, []
        return ready

    def close(self) -> None:
        self._selector.unregister(self._listener)
        self._listener.close()
        for caller in list(self._callers.values()):
            self._drop(caller)

    def _accept(self) -> None:
        try:
            connection, _ = self._listener.accept()
        except OSError:
            return
        for caller in [c for c in self._callers.values() if time.monotonic() - c.since > REQUEST_S_MAX]:
            self._drop(caller)
        if _peer_uid(connection) != os.getuid():
            connection.close()
            return
        if len(self._callers) >= CONNECTIONS_MAX:
            # Whoever has said nothing for the longest makes room.
            self._drop(next(iter(self._callers.values())))
        connection.setblocking(False)
        caller = Connection(connection)
        self._callers[connection.fileno()] = caller
        self._selector.register(connection, selectors.EVENT_READ, lambda: self._receive(caller))

    def _receive(self, caller: Connection) -> None:
        try:
            data = caller.connection.recv(65536)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        caller.received += data
        if b"\n" in caller.received or len(caller.received) > REQUEST_BYTES_MAX:
            self._release(caller)
            self._take(caller)
        elif not data:
            self._drop(caller)

    def _take(self, caller: Connection) -> None:
        line = caller.received.partition(b"\n")[0]
        if len(line) > REQUEST_BYTES_MAX:
            return caller.answer(_bad(f"the request is larger than {REQUEST_BYTES_MAX} bytes"))
        try:
            body = json.loads(line)
        except (ValueError, RecursionError):
            return caller.answer(_bad("the request is not JSON"))
        if not isinstance(body, dict):
            return caller.answer(_bad("the request is not a JSON object"))
        caller.body = body
        self._ready.append(caller)
        return None

    def _release(self, caller: Connection) -> None:
        self._selector.unregister(caller.connection)
        self._callers.pop(caller.connection.fileno(), None)

    def _drop(self, caller: Connection) -> None:
        self._release(caller)
        caller.connection.close()


def _bad(message: str) -> dict[str, Any]:
    hint = "send one JSON object on one line; dogwatch report, mail and checkpoint do"
    return {"ok": False, "code": "usage", "message": message, "hint": hint}


def _peer_uid(connection: socket.socket) -> int:
    _, uid, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i")))
    return int(uid)
