"""A proxy before a PostgreSQL server that reads the protocol and cuts the connection at a chosen place in a commit.

A transaction that is sent at once has no COMMIT: the server commits it when it gets the sync behind it.
"""

from __future__ import annotations

import select
import socket
import struct
import threading
from contextlib import suppress
from typing import Self

CHANGES = (b"INSERT", b"UPDATE", b"DELETE", b"WITH done")
FLUSH = b"H\0\0\0\4"
"""Makes the server send what it has to say so far."""


class Proxy:
    """Forwards to a port of this machine. `cut_next` arms it for the next commit, and for that one only."""

    def __init__(self, port: int, database: str, replace: tuple[bytes, bytes] | None = None) -> None:
        self.port = port
        """Where the next connection leads to."""
        self._replace = replace
        self._armed = ""
        self._left: list[socket.socket] = []
        self.cuts = 0
        self.flushes = 0
        """How often a client wanted to have what there was to say so far."""
        self._listening = socket.create_server(("127.0.0.1", 0))
        own = self._listening.getsockname()[1]
        self.url = f"postgresql://dogwatch@127.0.0.1:{own}/{database}?sslmode=disable&gssencmode=disable"
        self._closed = threading.Event()
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def cut_next(self, where: str) -> None:
        """`before`: the server never gets the commit, and the client has all answers up to it. `after`: it commits,
        and the client does not hear of that. `silent`: the same, and not one answer of the last batch comes back.
        `left` and `deaf`: as `before` and `after`, but the server does not see that the client is gone."""
        self._armed = where

    def close(self) -> None:
        self._closed.set()
        for thread in self._threads:
            thread.join(60)
        self._listening.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _accept(self) -> None:
        while not self._closed.is_set():
            if select.select([self._listening], [], [], 0.05)[0]:
                client, _ = self._listening.accept()
                thread = threading.Thread(target=self._serve, args=(client,), daemon=True)
                self._threads.append(thread)
                thread.start()

    def _serve(self, client: socket.socket) -> None:
        with socket.create_connection(("127.0.0.1", self.port)) as server:
            with client, suppress(OSError):
                self._forward(client, server)
            if server in self._left:
                self._closed.wait()

    def _forward(self, client: socket.socket, server: socket.socket) -> None:
        questions, answers = Messages(has_startup=True), Messages()
        work = Work()
        executed = completed = 0
        is_commit = False
        while not self._closed.is_set():
            readable, _, _ = select.select([client, server], [], [], 0.05)
            if client in readable:
                if not (data := client.recv(65536)):
                    return
                for kind, body, raw in questions.feed(data):
                    is_commit = (work.commits(kind, body) or is_commit) and bool(self._armed)
                    if is_commit and self._armed in ("before", "left"):
                        server.sendall(FLUSH)
                    else:
                        executed += kind == b"E"
                        self.flushes += kind == b"H"
                        server.sendall(raw)
            if server in readable:
                if not (data := server.recv(65536)):
                    return
                for kind, body, raw in answers.feed(data):
                    completed += kind == b"C"
                    is_done = (kind, body) in ((b"C", b"COMMIT\0"), (b"Z", b"I"))
                    if is_commit and self._armed in ("after", "silent", "deaf") and is_done:
                        if self._armed == "deaf":
                            self._left.append(server)
                        self._cut()
                        return
                    if not (is_commit and self._armed == "silent"):
                        client.sendall(raw.replace(*self._replace) if self._replace else raw)
            if is_commit and self._armed in ("before", "left") and completed == executed:
                if self._armed == "left":
                    self._left.append(server)
                self._cut()
                return

    def _cut(self) -> None:
        self._armed = ""
        self.cuts += 1


class Work:
    """Which of the client's messages commits what the ledger has written."""

    def __init__(self) -> None:
        self._statements: dict[bytes, bytes] = {}
        self._batch: list[bytes] = []
        self._is_framed = self._is_serializable = False

    def commits(self, kind: bytes, body: bytes) -> bool:
        """Whether this message does: the COMMIT of a serializable transaction, or the sync behind a change that has
        none."""
        if kind == b"P":
            name, sql = body.split(b"\0")[:2]
            self._statements[name] = sql
        elif kind == b"B":
            sql = self._statements[body.split(b"\0")[1]]
            self._batch.append(sql)
            if sql.startswith(b"BEGIN"):
                self._is_framed, self._is_serializable = True, b"SERIALIZABLE" in sql
            if sql in (b"COMMIT", b"ROLLBACK"):
                found = self._is_serializable and sql == b"COMMIT"
                self._is_framed = self._is_serializable = False
                return found
        elif kind == b"S":
            batch, self._batch = self._batch, []
            return not self._is_framed and any(sql.startswith(CHANGES) for sql in batch)
        return False


class Messages:
    """Splits a stream into messages: a byte for the kind, four for the length, and the body; the first has no kind."""

    def __init__(self, *, has_startup: bool = False) -> None:
        self._rest = b""
        self._has_startup = has_startup

    def feed(self, data: bytes) -> list[tuple[bytes, bytes, bytes]]:
        self._rest += data
        found = []
        while len(self._rest) >= (start := 0 if self._has_startup else 1) + 4:
            end = start + struct.unpack_from("!I", self._rest, start)[0]
            if len(self._rest) < end:
                break
            raw, self._rest = self._rest[:end], self._rest[end:]
            found.append((raw[:start], raw[start + 4 :], raw))
            self._has_startup = False
        return found
