"""Which runs a command asks for, and what the ledger has of them already: `PREFIX-tN-rM`, and `-2`, `-3` … behind it
for further attempts."""

from __future__ import annotations

import re
from collections.abc import Sequence

from dogwatch.coordination.rounds import ATTEMPTS_MAX, Wanted
from dogwatch.errors import UsageError
from dogwatch.ledger.api import Reader
from dogwatch.model import keys
from dogwatch.model.plan import Plan
from dogwatch.model.records import RunRecord

NAME_LENGTH_MAX = 40
"""What `DOGWATCH_HOME` leaves room for in the paths of a run's sockets."""
DELIVERED = ("COMPLETED", "PARTIAL")

_PREFIX = re.compile(r"[a-z][a-z0-9_-]*")


def wanted(
    files: Sequence[tuple[str, Plan]], rounds: int, prefix: str, project: str, rehearse: bool = False
) -> list[Wanted]:
    """The runs in their order: all files of the first round, then all of the second …"""
    if prefix:
        check_prefix(prefix, len(files), rounds)
    return [
        Wanted(
            spec=spec,
            plan=plan,
            project=project,
            name=f"{prefix}-t{number}-r{turn}" if prefix else "",
            rehearse=rehearse,
        )
        for turn in range(1, rounds + 1)
        for number, (spec, plan) in enumerate(files, 1)
    ]


def check_prefix(prefix: str, files: int, rounds: int) -> None:
    """UsageError where names that begin so cannot be names of runs."""
    if not _PREFIX.fullmatch(prefix):
        raise UsageError(
            f"--prefix {prefix!r} cannot begin a run's name",
            hint="lower-case letters, digits, - and _, the first one a letter: for example --prefix ct-v6",
        )
    room = NAME_LENGTH_MAX - len(f"-t{files}-r{rounds}-{ATTEMPTS_MAX}")
    if len(prefix) > room:
        raise UsageError(
            f"--prefix {prefix!r} is too long: it has {len(prefix)} characters, {room} fit",
            hint=f"a run's name has at most {NAME_LENGTH_MAX} characters, with -t{files}-r{rounds} and its attempt",
        )


def is_kept(attempts: Sequence[RunRecord]) -> bool:
    """Whether nothing has to be made: the latest attempt has delivered, or still lives."""
    return bool(attempts) and (not attempts[-1].over or attempts[-1].state in DELIVERED)


def runs_with(reader: Reader, prefix: str) -> list[str]:
    """All runs that were made with the prefix, in their order: by round, file and attempt."""
    shape = re.compile(re.escape(prefix) + r"-t(\d+)-r(\d+)(?:-(\d+))?")
    found = []
    for document in reader.scan(keys.run(f"{prefix}-t")):
        name = document.key.removeprefix(keys.RUNS)
        if matched := shape.fullmatch(name):
            number, turn, again = (int(part or 1) for part in matched.groups())
            found.append(((turn, number, again), name))
    return [name for _, name in sorted(found)]


def first_attempt(name: str, prefix: str) -> str:
    """The name under which the run was asked for."""
    shape = re.compile(f"({re.escape(prefix)}-t\\d+-r\\d+)-\\d+")
    matched = shape.fullmatch(name) if prefix else None
    return matched.group(1) if matched else name
