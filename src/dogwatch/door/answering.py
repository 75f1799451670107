"""What comes of a call at the door: the caller is verified, the request is read, its verb does the rest.

Each call is fenced by incarnation and counted once by its operation id.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Protocol, TypeVar

from dogwatch.coordination import reporting  # noqa: F401 - what handlers import must be here when they are first called
from dogwatch.coordination.agents import note_life
from dogwatch.coordination.refusals import note_refusal
from dogwatch.door.caller import Caller, Sight, verified
from dogwatch.door.registry import VERBS
from dogwatch.door.verb import Registry, Verb
from dogwatch.door.wire import read_request, text, write_answer
from dogwatch.errors import DogwatchError, LedgerError, UnmarkedError, UsageError
from dogwatch.ledger.api import Tx
from dogwatch.ledger.records import load_run
from dogwatch.model.events.clients import RequestRefused
from dogwatch.model.events.tasks import TaskRefused
from dogwatch.model.names import NAME
from dogwatch.model.plan import Output
from dogwatch.model.redact import Redactor
from dogwatch.model.view import RunView

T = TypeVar("T")
AnyVerb = Verb[Any, Any, Any]


class Eyes(Protocol):
    """What verbs can see of the world."""

    def marker(self, folder: str, outputs: Sequence[Output]) -> dict[str, str]: ...


class World(Protocol):
    """The world behind the door."""

    @property
    def eyes(self) -> Eyes: ...


class Log(Protocol):
    """Where failures of ours are told, and what takes tokens out."""

    @property
    def redactor(self) -> Redactor: ...
    def error(self, event: str, **fields: object) -> None: ...


class Captain(Protocol):
    """Who serves the door of a run: the only one that writes its records."""

    @property
    def run(self) -> str: ...
    @property
    def world(self) -> World: ...
    @property
    def log(self) -> Log: ...
    def record(self, fn: Callable[[Tx], T]) -> T: ...
    def view(self) -> RunView: ...


def load_verbs(log: Log, verbs: Registry = VERBS) -> None:
    """Loads every verb. A captain outlives an upgrade of its own files, and the first report may come after it: it
    would be answered with half of another version, or not at all. What cannot be loaded fails where it is asked for."""
    try:
        for name in verbs.names():
            verbs.load(name)
    except Exception as error:
        log.error("verbs_not_loaded", error=f"{type(error).__name__}: {error}")


def answer(captain: Captain, body: Mapping[str, Any], verbs: Registry = VERBS) -> dict[str, Any]:
    """Does what is asked and says what came of it. A refusal is recorded and changes nothing else."""
    try:
        op = text(body, "op")
        verb = verbs.find(op)
        if verb is None:
            known = ", ".join(sorted(verbs.names()))
            raise UsageError(f"there is no operation {op!r} at the door", hint=f"known: {known}")
        seen = _look(captain, verb, body)
        return {"ok": True, **captain.record(lambda tx: _handle(captain, tx, verb, body, seen))}
    except LedgerError as error:
        # The caller shall try again: nothing was recorded, so nothing was done.
        return {"ok": False, "code": "busy", "message": error.message, "hint": error.hint}
    except DogwatchError as error:
        _record_refusal(captain, body, error.code, error.message)
        return {"ok": False, "code": error.code, "message": error.message, "hint": error.hint}
    except Exception as error:
        # Whatever an agent sends, it must not end the captain of all the others.
        captain.log.error("request_failed", error=f"{type(error).__name__}: {error}", trace=traceback.format_exc())
        return {"ok": False, "code": "refused", "message": "the captain could not make sense of it", "hint": ""}


def _look(captain: Captain, verb: AnyVerb, body: Mapping[str, Any]) -> Any:
    if verb.look is None:
        return None
    try:
        request = read_request(verb.request, body, captain.log.redactor)
    except DogwatchError:
        return None  # It is refused in the transaction, once the caller is verified.
    sight = Sight(
        caller=lambda: _caller(captain.view(), body),
        marker=captain.world.eyes.marker,
        redactor=captain.log.redactor,
    )
    return verb.look(sight, request)


def _handle(captain: Captain, tx: Tx, verb: AnyVerb, body: Mapping[str, Any], seen: Any) -> dict[str, Any]:
    caller = _caller(load_run(tx, captain.run), body)
    request = read_request(verb.request, body, captain.log.redactor)
    told = verb.handle(tx, caller, request, seen)
    note_life(tx, caller.record)
    return write_answer(told)


def _caller(view: RunView, body: Mapping[str, Any]) -> Caller:
    return verified(view, body.get("run"), text(body, "agent"), body.get("incarnation"))


def _record_refusal(captain: Captain, body: Mapping[str, Any], code: str, message: str) -> None:
    """Whatever the caller sent, what is kept of it is short and plain."""
    agent = str(body.get("agent"))
    is_task = code == UnmarkedError.code or body.get("op") == "task_send"
    event = (TaskRefused if is_task else RequestRefused)(
        op=ascii(captain.log.redactor.value(body.get("op")))[:64],
        incarnation=ascii(body.get("incarnation"))[:16],
        code=code,
        message=captain.log.redactor.text(message).encode("ascii", "backslashreplace").decode()[:500],
        run=captain.run,
        agent=agent if NAME.fullmatch(agent) else "",
    )
    try:
        captain.record(partial(note_refusal, refusal=event))
    except LedgerError as error:
        captain.log.error("refusal_not_recorded", error=str(error))
