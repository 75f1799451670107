"""The scripted model's server: HTTP on loopback, as real clients use it. It never asks anybody else."""

from __future__ import annotations

import json
import select
import socket
import socketserver
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

from dogwatch.errors import UsageError
from dogwatch.testing.model.answer import Answer, answer, tokens_of
from dogwatch.testing.model.anthropic import Anthropic
from dogwatch.testing.model.conversation import Question
from dogwatch.testing.model.director import Director
from dogwatch.testing.model.gemini import Gemini
from dogwatch.testing.model.openai_chat import OpenAIChat
from dogwatch.testing.model.openai_responses import OpenAIResponses
from dogwatch.testing.model.record import Request
from dogwatch.testing.model.scenario import Scenario
from dogwatch.testing.model.wire import BadRequestError, Wire

ADDRESS = "127.0.0.1"
HOSTS = (ADDRESS, "localhost", "::1")
BODY_BYTES_MAX = 50 * 1024 * 1024
DISCARD_BYTES_MAX = 1024 * 1024 * 1024
READ_BYTES = 1024 * 1024
WAIT_S_MAX = 1e6
WIRES: tuple[Wire, ...] = (Anthropic(), OpenAIChat(), OpenAIResponses(), Gemini())


class Server(ThreadingHTTPServer):
    """A thread for each connection; at the end all are hung up, and every thread has ended."""

    request_queue_size = 256
    daemon_threads = False

    def __init__(self, scenario: Scenario, note: Callable[[Request], None], port: int) -> None:
        self.scenario = scenario
        self.note = note
        self.director = Director(scenario)
        self._connections: set[socket.socket] = set()
        self._lock = threading.Lock()
        super().__init__((ADDRESS, port), _Handler)

    def server_bind(self) -> None:
        socketserver.TCPServer.server_bind(self)  # HTTPServer's own would ask the name service who 127.0.0.1 is

    def get_request(self) -> tuple[socket.socket, Any]:
        connection, address = super().get_request()
        with self._lock:
            self._connections.add(connection)
        return connection, address

    def shutdown_request(self, request: Any) -> None:
        with self._lock:
            self._connections.discard(request)
        super().shutdown_request(request)

    def hang_up(self) -> None:
        """Ends all connections, so that whoever reads, writes or waits on one is woken."""
        with self._lock:
            for connection in self._connections:
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exception(), ConnectionError):  # clients may leave whenever they like
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    """One connection, request after request."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: Server

    def serve(self) -> None:
        """Answers one request, whatever it is."""
        role, path = _addressed(self.path.partition("?")[0])
        request = Request(self.command, path, role=role)
        wire = next((wire for wire in WIRES if wire.serves(path)), WIRES[0])
        try:
            try:
                self._answer(wire, request)
            except BadRequestError as error:
                self._refuse(wire, request, error.status, error.message)
            except UsageError as error:
                self._refuse(wire, request, 400, str(error))
        except ConnectionError:
            request.outcome = "left"
            self.close_connection = True

    do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = do_OPTIONS = do_CONNECT = do_TRACE = serve  # noqa: N815

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """What is no HTTP at all is refused in the same form as everything else."""
        request = Request(getattr(self, "command", None) or "", "")
        self.close_connection = True
        self.request_version = self.protocol_version  # what is no HTTP has no version, and would get no headers
        self._refuse(WIRES[0], request, code, message or explain or "this is no request")

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 (the name is the base class's)
        pass

    def _answer(self, wire: Wire, request: Request) -> None:
        body = self._body()
        if not _is_here(self.headers.get("Host", "")):
            raise BadRequestError("this server is for clients on this machine only: the Host must be 127.0.0.1", 403)
        if request.method == "OPTIONS":
            self._note(request, 204)
            self._head(204, {"Allow": "GET, HEAD, OPTIONS, POST"})
            request.outcome = "complete"
            return
        if not wire.serves(request.path):
            raise BadRequestError(f"there is no {request.path} here", 404)
        aside = wire.aside(request.method, request.path, body)
        if aside is not None:
            self._note(request, 200)
            self._reply(request, 200, aside)
            return
        asked = wire.question(request.method, request.path, self._lower_headers(), body)
        question = replace(asked, role=request.role)
        request.describe(question)
        choice = self.server.director.choose(question)
        request.rule, request.step, request.number = choice.rule, choice.step.name, choice.number
        self._play(wire, request, question, answer(choice.step, question, self.server.scenario))

    def _body(self) -> bytes:
        """The whole body, also where it is refused: a client reads our answer only when it has sent everything."""
        if "Transfer-Encoding" in self.headers:
            self.close_connection = True
            raise BadRequestError("a Content-Length is required", 411)
        length = self.headers.get("Content-Length", "0")
        if not (length.isascii() and length.isdigit()) or int(length) > DISCARD_BYTES_MAX:
            self.close_connection = True
            raise BadRequestError(f"the Content-Length {length!r} cannot be taken", 400)
        pieces, left = [], int(length)
        while left:
            piece = self.rfile.read(min(left, READ_BYTES))
            if not piece:
                raise ConnectionResetError("the client left in the middle of its request")
            left -= len(piece)
            if int(length) <= BODY_BYTES_MAX:
                pieces.append(piece)
        if int(length) > BODY_BYTES_MAX:
            raise BadRequestError(f"a request may have {BODY_BYTES_MAX} bytes, this one has {length}", 413)
        return b"".join(pieces)

    def _lower_headers(self) -> dict[str, str]:
        return {name.lower(): value for name, value in self.headers.items()}

    # How an answer is played

    def _play(self, wire: Wire, request: Request, question: Question, given: Answer) -> None:
        """Says the answer, or fails in the way that it says."""
        nothing = given.tokens == 0
        if given.ending == "error" and (nothing or not question.stream):
            headers = {} if given.retry_after_s is None else {"retry-after": f"{given.retry_after_s:g}"}
            self._refuse(wire, request, given.status, given.message, headers)
        elif given.ending in ("drop", "hang") and nothing:
            self._note(request, 0)
            self._end_badly(request, given)
        elif question.stream:
            self._note(request, 200)
            self._stream(wire, request, question, given)
        elif given.ending in ("tokens", "pings"):
            self._note(request, 0)
            self._wait(None)
        else:
            self._note(request, 200)
            spoken = sum(len(tokens_of(part)) for part in given.parts if isinstance(part, str))
            self._wait(given.delay_s + given.token_s * spoken)
            self._reply(request, 200, wire.whole(given, question), cut=given.ending != "complete")
            if given.ending != "complete":
                self._end_badly(request, given)

    def _stream(self, wire: Wire, request: Request, question: Question, given: Answer) -> None:
        self._wait(given.delay_s)
        chunked = self.request_version != "HTTP/1.0"
        self.close_connection |= not chunked
        kind = {"Content-Type": "text/event-stream; charset=utf-8", "Cache-Control": "no-cache"}
        self._head(200, kind | ({"Transfer-Encoding": "chunked"} if chunked else {}))
        sent = 0
        whole = given.ending in ("complete", "tokens", "pings")
        for frame in wire.stream(given, question):
            if not whole and (sent == given.tokens if frame.is_token else sent):
                break
            if frame.is_token:
                self._wait(given.token_s)
                sent += 1
            self._send(frame.data, chunked)
        if given.ending == "error":
            self._send(wire.failure(given), chunked)
        elif not whole:
            self._end_badly(request, given)
            return
        if chunked:
            self.wfile.write(b"0\r\n\r\n")
        request.outcome = "complete"

    def _send(self, data: bytes, chunked: bool) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data) if chunked else data)

    def _end_badly(self, request: Request, given: Answer) -> None:
        """Hangs until the client leaves, or leaves itself."""
        self.close_connection = True
        if given.ending == "hang":
            self._wait(None)
        request.outcome = "dropped"
        with suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)

    def _wait(self, seconds: float | None) -> None:
        """Waits so long, or for ever; ConnectionError as soon as the client has left."""
        if seconds == 0:
            return
        poll = select.poll()
        poll.register(self.connection, select.POLLRDHUP | select.POLLHUP | select.POLLERR)
        if poll.poll(None if seconds is None else min(seconds, WAIT_S_MAX) * 1000):
            raise ConnectionResetError("the client has left")

    # What is sent

    def _refuse(
        self, wire: Wire, request: Request, status: int, message: str, headers: Mapping[str, str] | None = None
    ) -> None:
        request.error = message
        self._note(request, status)
        self._reply(request, status, wire.error(status, message), headers)

    def _note(self, request: Request, status: int) -> None:
        request.status = status
        self.server.note(request)

    def _reply(
        self, request: Request, status: int, body: Any, headers: Mapping[str, str] | None = None, *, cut: bool = False
    ) -> None:
        """A JSON body; with `cut` only the first half of it."""
        data = json.dumps(body).encode()
        self._head(status, {"Content-Type": "application/json", "Content-Length": str(len(data)), **(headers or {})})
        if self.command != "HEAD":
            self.wfile.write(data[: len(data) // 2] if cut else data)
        if not cut:
            request.outcome = "complete"

    def _head(self, status: int, headers: Mapping[str, str]) -> None:
        self.send_response_only(status)
        for name, value in headers.items():
            self.send_header(name, value)
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()


def _addressed(path: str) -> tuple[str, str]:
    """Whom the client plays, where its URL says so, and the path that its protocol knows."""
    _, _, rest = path[1:].partition("/")
    if rest and not any(wire.serves(path) for wire in WIRES) and any(wire.serves(f"/{rest}") for wire in WIRES):
        return path[1 : -len(rest) - 1], f"/{rest}"
    return "", path


def _is_here(host: str) -> bool:
    """Whether a Host is this machine: a page in a browser, with a name that leads here, has another one."""
    try:
        return urlsplit(f"//{host}").hostname in HOSTS
    except ValueError:
        return False
