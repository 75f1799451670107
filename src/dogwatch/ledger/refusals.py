"""Ledgers that are whole, and still not to be worked with: the same words for every engine."""

from __future__ import annotations

from collections.abc import Mapping

from dogwatch.errors import LedgerSealedError, LedgerTooNewError, RefusedError

SEALED = "sealed"
"""The fact where the ledger was moved to, or is being moved to while MOVING is there too."""
MOVING = "moving"
UNFINISHED = "unfinished"
"""The fact what is being copied into this ledger, until all of it is there."""


def refuse_moved(name: str, facts: Mapping[str, str]) -> None:
    """LedgerSealedError for a ledger that was moved away, or has not wholly arrived."""
    if MOVING in facts:
        raise LedgerSealedError(
            f"the ledger {name} is being moved to {facts[SEALED]}",
            hint="dogwatch ledger migrate --to URL goes on with it; dogwatch ledger migrate --undo gives it up",
        )
    if SEALED in facts:
        raise sealed(name, facts[SEALED])
    if UNFINISHED in facts:
        raise LedgerSealedError(
            f"the ledger {name} holds an unfinished copy of {facts[UNFINISHED]}",
            hint="run the same dogwatch ledger command again: it begins the copy anew",
        )


def sealed(name: str, where: str) -> LedgerSealedError:
    """The ledger was moved."""
    return LedgerSealedError(f"the ledger {name} was moved to {where}", hint=f"nothing was changed; {go_to(where)}")


def go_to(where: str) -> str:
    """What makes dogwatch work with the ledger there; a file is always the home's own."""
    if "://" in where:
        return f"set DOGWATCH_LEDGER to {where}"
    if not where.startswith("/"):
        return "dogwatch ledger info says where it is"
    folder, _, file = where.rpartition("/")
    moved = "" if file == "ledger.db" else f"rename that file to {folder}/ledger.db, "
    return f"{moved}set DOGWATCH_HOME to {folder or '/'} and leave DOGWATCH_LEDGER empty"


def too_new(name: str, version: int, known: int) -> LedgerTooNewError:
    """A newer dogwatch has written this ledger."""
    return LedgerTooNewError(
        f"the ledger {name} has version {version}, and this dogwatch knows versions up to {known}",
        hint="nothing was changed; upgrade dogwatch, or set DOGWATCH_HOME or DOGWATCH_LEDGER to another one",
    )


def not_upgraded(name: str, version: int, known: int) -> RefusedError:
    """The home that works with this ledger may still be at work, with an older dogwatch: nobody may change its records
    under its feet."""
    return RefusedError(
        f"the ledger {name} has version {version}, and the home that works with it has not brought it to {known} yet",
        hint="upgrade dogwatch there first; where that machine is gone for good: dogwatch ledger adopt",
    )
