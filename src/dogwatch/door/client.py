"""The door's calling side, for agents: asks the captain, waits and retries while it is away, then says so.

Every call carries an operation id, so that a call that is made again after a lost answer counts once.
"""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any, TypeVar, get_args, get_type_hints

from dogwatch.door.verb import wire_name
from dogwatch.errors import AwayError, DogwatchError, RefusedError, StaleError, UsageError
from dogwatch.values import dataclass

A = TypeVar("A")
RETRY_S = 0.2
ANSWER_BYTES_MAX = 8 * 1024 * 1024


@dataclass(frozen=True)
class Self:
    """Who an agent is, as its environment says."""

    run: str
    agent: str
    incarnation: int
    door: str


def who_am_i(environment: Mapping[str, str]) -> Self:
    """The agent that this process belongs to."""
    missing = [
        name
        for name in ("DOGWATCH_RUN", "DOGWATCH_ROLE", "DOGWATCH_INCARNATION", "DOGWATCH_DOOR")
        if not environment.get(name)
    ]
    if missing:
        raise UsageError(
            f"this command is for agents: {', '.join(missing)} is not set",
            hint="run it inside an agent that dogwatch started; as an operator, see dogwatch --help",
        )
    incarnation = environment["DOGWATCH_INCARNATION"]
    if not (incarnation.isascii() and incarnation.isdigit() and len(incarnation) < 10):
        message = f"DOGWATCH_INCARNATION is {incarnation[:20]!r}, no number of an incarnation"
        raise UsageError(message, hint="leave it as dogwatch set it")
    return Self(
        environment["DOGWATCH_RUN"], environment["DOGWATCH_ROLE"], int(incarnation), environment["DOGWATCH_DOOR"]
    )


def ask(caller: Self, op: str, arguments: Mapping[str, Any], wait_s: float) -> dict[str, Any]:
    """The captain's answer; raises what it refused with, or AwayError after `wait_s` without an answer."""
    request = {
        **arguments,
        "op": op,
        "op_id": os.urandom(16).hex(),
        "run": caller.run,
        "agent": caller.agent,
        "incarnation": caller.incarnation,
    }
    line = json.dumps(request).encode() + b"\n"
    until = time.monotonic() + wait_s
    while True:
        try:
            return _result(_call(caller.door, line, max(1.0, until - time.monotonic())))
        except (OSError, ValueError) as error:
            if time.monotonic() >= until:
                raise AwayError(
                    f"the captain of {caller.run} did not answer within {wait_s:g} s ({error})",
                    hint="it is being revived; call again, nothing was lost (DOGWATCH_DOOR_WAIT_S sets the patience)",
                ) from None
            time.sleep(RETRY_S)


def read_answer(kind: type[A], told: Mapping[str, Any]) -> A:
    """The answer as its verb knows it. What a newer captain adds is left out."""
    hints, values = get_type_hints(kind), {}
    for field in fields(kind):  # type: ignore[arg-type]
        if (name := wire_name(field.name)) in told:
            of = next(iter(get_args(hints[field.name])), None)
            value = told[name]
            values[field.name] = tuple(_part(of, one) for one in value) if isinstance(value, list) else value
    return kind(**values)


def _part(kind: Any, told: Any) -> Any:
    return read_answer(kind, told) if isinstance(kind, type) and is_dataclass(kind) else told


def _call(path: str, line: bytes, timeout_s: float) -> bytes:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(timeout_s)
        connection.connect(path)
        connection.sendall(line)
        received = b""
        while b"\n" not in received and len(received) < ANSWER_BYTES_MAX:
            data = connection.recv(65536)
            if not data:
                raise ConnectionResetError("the door closed without an answer")
            received += data
    return received


def _result(raw: bytes) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(raw)
    if answer.get("ok"):
        return answer
    kinds: dict[str, type[DogwatchError]] = {
        kind.code: kind for kind in (UsageError, RefusedError, StaleError, AwayError)
    }
    if answer.get("code") == "busy":
        raise ConnectionResetError(answer["message"])
    raise kinds.get(str(answer.get("code")), RefusedError)(str(answer.get("message")), hint=str(answer.get("hint", "")))
