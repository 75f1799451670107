"""Every error that dogwatch explains: a code for programs, a message for people, a hint what to do next.

Exit codes follow sysexits where a code fits; `docs/reference/exit-codes.md` is generated from this file.
"""

from __future__ import annotations

from typing import ClassVar


class DogwatchError(Exception):
    """Something went wrong that dogwatch can name."""

    code: ClassVar[str] = "error"
    exit_code: ClassVar[int] = 1

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}\nhint: {self.hint}" if self.hint else self.message


class UsageError(DogwatchError):
    """A flag, an argument or a setting in the environment is wrong."""

    code = "usage"
    exit_code = 64


class SpecError(DogwatchError):
    """The pipeline file cannot be used."""

    code = "spec"
    exit_code = 65


class NotFoundError(DogwatchError):
    """There is no such run, agent, message or file."""

    code = "not_found"
    exit_code = 66


class MissingToolError(DogwatchError):
    """A program that dogwatch needs is not installed."""

    code = "missing_tool"
    exit_code = 69


class RefusedError(DogwatchError):
    """What was asked for is against the rules, and nothing was changed."""

    code = "refused"
    exit_code = 77


class StaleError(RefusedError):
    """The caller belongs to an incarnation, a lease or a revision that is no longer current."""

    code = "stale"


class UnmarkedError(RefusedError):
    """A task for another agent came without its marker, or as plain mail."""

    code = "unmarked"


class AwayError(DogwatchError):
    """Nobody answered at the door in time; the same call may work later."""

    code = "away"
    exit_code = 75


class IllegalTransitionError(DogwatchError):
    """A lifecycle was asked to make a step that its table does not have."""

    code = "illegal_transition"
    exit_code = 70


class LedgerError(DogwatchError):
    """The ledger cannot be read or written."""

    code = "ledger"
    exit_code = 74


class LedgerCorruptError(LedgerError):
    """The ledger's file is damaged."""

    code = "ledger_corrupt"


class LedgerLockedError(LedgerError):
    """Another process holds the ledger for too long."""

    code = "ledger_locked"


class LedgerReadOnlyError(LedgerError):
    """The ledger may not be written."""

    code = "ledger_read_only"


class LedgerTooNewError(LedgerError):
    """The ledger was written by a newer dogwatch."""

    code = "ledger_too_new"


class LedgerFullError(LedgerError):
    """The disk that holds the ledger is full."""

    code = "ledger_full"


class LedgerAwayError(LedgerError):
    """The ledger's server cannot be reached; the same call may work later."""

    code = "ledger_away"
    exit_code = 75


class LedgerSealedError(LedgerError):
    """The ledger was moved to another place, or is being moved; it must not be written any more."""

    code = "ledger_sealed"


class LeaseLostError(LedgerError):
    """A crew member's place was taken over by a successor; it must not write any more."""

    code = "lease_lost"


class ConflictError(LedgerError):
    """A document was changed by somebody else since it was read."""

    code = "conflict"
