"""Documents of older versions, made into those of today: for both engines, and for exports of older versions.

Each version has one function from a key, a body and the host that wrote it to a new key and a new body, or None for
what stays as it is. It must leave alone whatever it has made itself, because a new key may be met again on the way.

What cannot be understood is kept as it was: one broken record must not keep a whole ledger from being opened.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from dogwatch.errors import UsageError
from dogwatch.ledger.bodies import checked, dump, load
from dogwatch.ledger.upgraded_lives import upgrade_agent, upgrade_message
from dogwatch.model import keys

Body = dict[str, Any]
Upgraded = tuple[str, Body] | None
Upgrade = Callable[[str, Body, str], Upgraded]

NOT_UNDERSTOOD = (TypeError, ValueError, KeyError, AttributeError, RecursionError, UsageError)
ROWS = 100


class Documents(Protocol):
    """The table of documents, inside an open transaction of an engine."""

    def rows(self, statement: str, values: Sequence[Any] = ()) -> Sequence[tuple[Any, ...]]:
        """What a statement returns."""


def upgrade_to_3(key: str, body: Body, host: str) -> Upgraded:
    """What belongs to one host says to which; a run's folders are a root and a path below it; an agent's
    life and a message's delivery are one value each."""
    word = key.partition("/")[0]
    return _TO_3[word](key, body, host) if word in _TO_3 else None


def _the_host(key: str, body: Body, host: str) -> Upgraded:
    return (_key("host", host), {**body, "host": host}) if key == "host" else None


def _down(key: str, body: Body, host: str) -> Upgraded:
    return (_key("down", host), body) if key == "down" else None


def _crew(key: str, body: Body, host: str) -> Upgraded:
    if "host" in body:
        return None
    return _key("dispatcher", host) if key == _key("crew", "", "dispatcher") else key, {**body, "host": host}


def _permit_or_wait(key: str, body: Body, host: str) -> Upgraded:
    word, _, holder = key.partition("/")
    # The holder in the key is the whole rest of it: what has a host in it is a new one.
    return (_key(word, host, holder), {**body, "host": host}) if body["launch"]["holder"] == holder else None


def _job(key: str, body: Body, host: str) -> Upgraded:
    return (key, {**body, "host": host}) if body["process"] is not None and "host" not in body else None


def _run(key: str, body: Body, host: str) -> Upgraded:
    """Nobody knows what the roots would have been: all that is sure is that the output lies in the project."""
    if "project_folder" in body:
        return None
    kept = {name: value for name, value in body.items() if name not in ("project", "output")}
    project, output = str(body["project"]), str(body["output"])
    below = f"{project}/"
    is_below = project.startswith("/") and not project.endswith("/") and output.startswith(below) and output != below
    found = {"root": project, "path": output.removeprefix(below)} if is_below else _folder(output)
    return key, {**kept, "project_folder": _folder(project), "output_folder": found}


def _folder(path: str) -> Body:
    if path.startswith("/"):
        return {"root": "/", "path": path.removeprefix("/")}
    return {"root": "", "path": path}


def _key(*words: str) -> str:
    """Spelt here and not in `model/keys.py`: what a version called its keys stays so, whatever later ones do."""
    return "/".join(words)


_TO_3: Mapping[str, Upgrade] = {
    "host": _the_host,
    "down": _down,
    "crew": _crew,
    "permit": _permit_or_wait,
    "waits": _permit_or_wait,
    "gate": _job,
    "check-in": _job,
    "notice": _job,
    "run": _run,
    "agent": upgrade_agent,
    **dict.fromkeys(("message", "held-message", "past-message"), upgrade_message),
}
"""By the first word of the key."""

UPGRADES: Mapping[int, Upgrade] = {3: upgrade_to_3}
"""By the version that each leads to."""


def upgrade_documents(documents: Documents, version: int, host: str) -> None:
    """Brings all documents from `version` up to date, a page at a time."""
    steps = [step for number, step in sorted(UPGRADES.items()) if number > version]
    last: Sequence[Any] = ()
    while page := documents.rows(
        f"SELECT key, body FROM documents {'WHERE key > ?' if last else ''} ORDER BY key LIMIT {ROWS}", last
    ):
        for key, text in page:
            upgraded = upgraded_document(key, text, steps, host)
            if upgraded is not None:
                _replace(documents, key, *upgraded)
        last = (page[-1][0],)


def fence_out(documents: Documents) -> None:
    """Takes the places of crew members that an older version has started. They would read the new records as empty ones
    and write them so; a member that has lost its place leaves."""
    crew = _key("crew", "")
    for (key,) in documents.rows("SELECT key FROM documents WHERE key LIKE ?", (f"{crew}%",)):
        run, _, member = key.removeprefix(crew).rpartition("/")
        documents.rows("DELETE FROM leases WHERE name = ? RETURNING name", (f"{member}/{run}",))
        documents.rows("DELETE FROM documents WHERE key = ? RETURNING key", (key,))


def working_host(documents: Documents) -> str:
    """The host that works with a ledger which is kept on a server, and so wrote its records; empty where none has.
    Another one may be the first to open it."""
    with contextlib.suppress(*NOT_UNDERSTOOD):
        for (text,) in documents.rows("SELECT body FROM documents WHERE key = ?", (keys.HOME,)):
            return str(load(text)["host"])
    return ""


def upgraded_document(key: str, text: str, steps: Sequence[Upgrade], host: str) -> tuple[str, str] | None:
    """The key and the text of a document after some steps; None where nothing changes or it is not understood."""
    try:
        body = load(text)
        if not isinstance(body, dict):
            return None
        now = (key, body)
        for step in steps:
            now = step(*now, host) or now
        return (checked(now[0], "a document's key"), dump(now[1])) if now != (key, body) else None
    except NOT_UNDERSTOOD:
        return None


def _replace(documents: Documents, key: str, new_key: str, text: str) -> None:
    """Where the new key is taken already, the document stays where it is."""
    documents.rows(
        "UPDATE documents SET key = ?, body = ? WHERE key = ?"
        " AND (key = ? OR NOT EXISTS (SELECT 1 FROM documents AS other WHERE other.key = ?)) RETURNING key",
        (new_key, text, key, new_key, new_key),
    )
