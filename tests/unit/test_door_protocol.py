"""The door's socket under whatever may come: random bytes, broken JSON, slow, huge and countless callers."""

from __future__ import annotations

import json
import os
import selectors
import socket
from collections.abc import Callable, Iterator
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dogwatch.door.server import CONNECTIONS_MAX, REQUEST_BYTES_MAX, UnixDoor

FUZZ = settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
)


class Porch:
    """A door with its selector, in this process; whoever comes whole is answered with what it asked."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.selector = selectors.DefaultSelector()
        self.door = UnixDoor(path, self.selector)
        self.seen: list[dict[str, Any]] = []

    def serve(self, until: Callable[[], bool], rounds: int = 200_000) -> None:
        for _ in range(rounds):
            if until():
                return
            for key, _ in self.selector.select(0.0001):
                key.data()
            for caller in self.door.requests():
                self.seen.append(dict(caller.body))
                # Nobody reads while this thread writes: a large answer would wait for its own reader.
                caller.answer({"ok": True, "echo": caller.body if len(caller.received) < 65536 else "large"})
        raise AssertionError("the door did not come to it")

    def connect(self) -> socket.socket:
        one = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        one.connect(self.path)
        one.setblocking(False)
        return one

    def ask(self, data: bytes) -> bytes:
        """Sends the bytes, ends the sending side, and reads to the end."""
        received, ended = b"", False
        with self.connect() as one:
            left = memoryview(data)
            sent_all = False

            def turn() -> bool:
                nonlocal left, received, ended, sent_all
                try:
                    while left:
                        left = left[one.send(left[:65536]) :]
                    if not sent_all:
                        one.shutdown(socket.SHUT_WR)
                        sent_all = True
                except BlockingIOError:
                    pass
                except OSError:
                    left = left[:0]
                try:
                    part = one.recv(1 << 20)
                    ended = ended or not part
                    received += part
                except BlockingIOError:
                    pass
                except ConnectionResetError:
                    ended = True
                return ended

            self.serve(turn)
        return received

    def works(self) -> None:
        assert json.loads(self.ask(b'{"op": "x"}\n')) == {"ok": True, "echo": {"op": "x"}}

    def close(self) -> None:
        self.door.close()
        self.selector.close()


@pytest.fixture
def porch() -> Iterator[Porch]:
    with TemporaryDirectory(prefix="dw") as folder:
        porch = Porch(f"{folder}/door")
        yield porch
        porch.close()


def test_a_request_is_answered_and_the_connection_closed(porch: Porch) -> None:
    porch.works()
    assert porch.seen == [{"op": "x"}]


def test_only_the_owner_may_open_the_door(porch: Porch) -> None:
    assert os.stat(porch.path).st_mode & 0o777 == 0o600


def test_a_request_without_its_newline_is_no_request(porch: Porch) -> None:
    assert porch.ask(b'{"op": "half"}') == b""
    assert porch.seen == []
    porch.works()


def test_a_request_in_many_pieces_is_one(porch: Porch) -> None:
    with porch.connect() as one:
        for byte in b'{"op": "slow"}\n':
            one.send(bytes([byte]))
            porch.serve(lambda: True)
        porch.serve(lambda: {"op": "slow"} in porch.seen)


def test_the_largest_request_passes_and_one_byte_more_is_refused(porch: Porch) -> None:
    head = b'{"op": "'
    fit = head + b"x" * (REQUEST_BYTES_MAX - len(head) - 2) + b'"}'
    assert len(fit) == REQUEST_BYTES_MAX
    assert json.loads(porch.ask(fit + b"\n"))["ok"]
    refused = porch.ask(fit + b" \n")
    assert refused == b"" or not json.loads(refused)["ok"]
    porch.works()


def test_a_flood_without_a_newline_is_cut_off(porch: Porch) -> None:
    porch.ask(b"x" * (4 * REQUEST_BYTES_MAX))
    assert porch.seen == []
    porch.works()


@pytest.mark.parametrize(
    "line",
    [b"", b" ", b"null", b"[]", b"7", b'"x"', b"{", b"\xff\xfe", b"[" * 200_000, b"1" * 10_000, b'{"a": 1}{"b": 2}'],
)
def test_what_is_no_object_is_refused_with_a_hint(porch: Porch, line: bytes) -> None:
    answer = json.loads(porch.ask(line + b"\n"))
    assert (answer["ok"], answer["code"]) == (False, "usage")
    assert answer["hint"]
    porch.works()


def test_many_callers_that_say_nothing_keep_nobody_out(porch: Porch) -> None:
    """Connections that a caller forgot to close, more than the door keeps open."""
    idle = [porch.connect() for _ in range(60)]
    porch.serve(lambda: len(porch.door._callers) >= len(idle))
    while len(idle) < CONNECTIONS_MAX + 10:
        idle.append(porch.connect())
        porch.serve(lambda: True)
        for key, _ in porch.selector.select(0):
            key.data()
    try:
        porch.works()
    finally:
        for one in idle:
            one.close()


def test_a_caller_that_leaves_before_its_answer_costs_nothing(porch: Porch) -> None:
    with porch.connect() as one:
        one.send(b'{"op": "gone"}\n')
    porch.serve(lambda: {"op": "gone"} in porch.seen)
    porch.works()


def test_an_answer_that_cannot_be_written_as_it_is_still_leaves_the_door_open(porch: Porch) -> None:
    """A lone surrogate is legal in JSON's escapes, and no UTF-8."""
    answer = porch.ask(b'{"op": "\\ud800"}\n')
    assert answer == b"" or json.loads(answer)
    porch.works()


def test_a_second_captain_takes_the_path_over(porch: Porch) -> None:
    successor = Porch(porch.path)
    try:
        successor.works()
    finally:
        successor.close()


@FUZZ
@given(data=st.binary(max_size=400))
def test_random_bytes_never_harm_the_door(porch: Porch, data: bytes) -> None:
    porch.ask(data)
    porch.works()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@FUZZ
@given(body=st.dictionaries(st.text(), JSON, max_size=5))
def test_any_object_is_carried_as_it_is(porch: Porch, body: dict[str, Any]) -> None:
    line = json.dumps(body).encode()
    answer = porch.ask(line + b"\n")
    assert json.dumps(json.loads(answer)["echo"]) == json.dumps(body)
    porch.works()
