"""The ledger's verbs that change something: migrate, export, import, compact, adopt."""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import sys
import time
from collections.abc import Iterator, Mapping

from dogwatch.cli.checks import size
from dogwatch.cli.framework import the_home
from dogwatch.cli.ledger_files import checked_file, file_records, new_file, unpacked, write_lines
from dogwatch.cli.table import note
from dogwatch.coordination.ledgers import bound_to, host_or_none, unbind
from dogwatch.errors import NotFoundError, RefusedError, UsageError
from dogwatch.ledger import open_store
from dogwatch.ledger.api import Store
from dogwatch.ledger.compaction import compact_part, old_events
from dogwatch.ledger.copying import Record, begin, counted, fill, finish, in_words, records, verify
from dogwatch.ledger.facts import close_for_good, facts, seal, unseal
from dogwatch.ledger.refusals import MOVING, SEALED, UNFINISHED, go_to, refuse_moved
from dogwatch.world.clock import SystemClock
from dogwatch.world.home import Home
from dogwatch.world.processes import crew_processes

TELL_S = 0.2
_TIMES = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}


@contextlib.contextmanager
def open_for_maintenance(home: Home, address: str = "", *, must_exist: bool = True) -> Iterator[tuple[str, Store]]:
    """The ledger of the home, or the one at the address, with its name for people; also one that was moved away."""
    address = address or home.ledger
    name = _name(address)
    if must_exist and not _exists(address):
        raise NotFoundError(f"there is no ledger {name}", hint="dogwatch run SPEC starts one; or set DOGWATCH_HOME")
    with contextlib.closing(open_store(address, SystemClock(), host=host_or_none(home), maintenance=True)) as ledger:
        yield name, ledger


def _name(address: str) -> str:
    """The ledger for people: its whole path, or its address without the password."""
    path = address.removeprefix("sqlite:///")
    if "://" in path:
        from dogwatch.ledger.postgres_errors import shown

        return shown(address)
    if not path:
        raise UsageError("the ledger's path is empty", hint="postgresql://…, or sqlite:///PATH")
    return os.fsencode(os.path.abspath(path)).decode(errors="replace")


class Progress:
    """How far it is, on one line of the terminal, where there is one."""

    def __init__(self, what: str, total: int) -> None:
        self._what = what
        self._total = total
        self._told = 0.0
        self._shown = False

    def __call__(self, done: int) -> None:
        now = time.monotonic()
        if sys.stderr.isatty() and now - self._told >= TELL_S:
            self._told, self._shown = now, True
            share = min(100, 100 * done // max(1, self._total))
            print(f"\r{self._what}: {done:,} of {self._total:,} ({share} %)\x1b[K", end="", file=sys.stderr, flush=True)

    def end(self) -> None:
        """Takes the line away again."""
        if self._shown:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def migrate(arguments: argparse.Namespace) -> int:
    """Moves everything; interrupted at any point, the same command goes on."""
    home = the_home()
    with open_for_maintenance(home) as (name, source):
        known = source.read(facts)
        if arguments.undo:
            return _undo(name, source, known, dry_run=arguments.dry_run)
        _refuse_crew(home)
        _refuse_unfinished(name, known)
        _refuse_moved_elsewhere(name, known, _name(_address(arguments.to)))
        if arguments.dry_run and not _exists(arguments.to):
            words, there = in_words(source.read(counted)), _name(arguments.to)
            print(f"would move {words} from {name} to a new file {there}, and seal {name}; nothing was changed")
            return 0
        with open_for_maintenance(home, arguments.to, must_exist=False) as (there, target):
            _refuse_same(known, target, there)
            counts = source.read(counted)
            words = in_words(counts)
            copier = os.urandom(8).hex()
            closed = SEALED in known and MOVING not in known
            whole = begin(target, name, known["id"], copier, checking_only=arguments.dry_run, closed=closed)
            if arguments.dry_run:
                print(f"would move {words} from {name} to {there}, and seal {name}; nothing was moved")
                return 0
            seal(source, there, copier)
            if not whole:
                total = sum(counts.values())
                source.read(lambda reader: _fill(target, records(reader), copier, total))
            # Only now, when all of it is there and proved: until here, --undo leads back. And before the new one is
            # opened: never can both be written.
            if not closed:
                close_for_good(source, copier)
            if not whole:
                finish(target, copier)
    print(f"moved {words} from {name} to {there}")
    password = " (with its password, where it has one)" if "://" in there else ""
    note(f"the old ledger is sealed; from now on, {go_to(there)}{password}")
    return 0


def _address(text: str) -> str:
    """A target that is not the name of a server is a file; not so what was meant for one, with a password in it."""
    known = text.startswith(("sqlite:///", "postgresql://", "postgres://"))
    if not known and ("://" in text or "=" in text):
        raise UsageError("--to names no engine that there is", hint="postgresql://USER@HOST/DATABASE, or a path")
    return text


def _exists(address: str) -> bool:
    """Whether there is a ledger to look at; a server is always asked."""
    path = address.removeprefix("sqlite:///")
    return "://" in path or os.path.exists(path)


def _refuse_unfinished(name: str, known: Mapping[str, str]) -> None:
    refuse_moved(name, {fact: value for fact, value in known.items() if fact == UNFINISHED})


def _refuse_moved_elsewhere(name: str, known: Mapping[str, str], there: str) -> None:
    if SEALED in known and known[SEALED] != there:
        raise RefusedError(
            f"{name} {'is being' if MOVING in known else 'was'} moved to {known[SEALED]}, not to {there}",
            hint="dogwatch ledger migrate --undo gives up a move that was not finished",
        )


def _refuse_same(known: Mapping[str, str], target: Store, there: str) -> None:
    if target.read(facts)["id"] == known["id"]:
        raise RefusedError(f"{there} is the very ledger to be moved", hint="name another place; nothing was changed")
    if SEALED in target.read(facts):
        raise RefusedError(f"{there} was itself moved elsewhere", hint="name an empty database; nothing was changed")


def _undo(name: str, source: Store, known: Mapping[str, str], *, dry_run: bool) -> int:
    if MOVING not in known:
        hint = "its place is where it was moved to" if SEALED in known else "there is nothing to undo"
        raise RefusedError(f"no move of {name} is under way", hint=hint)
    if dry_run:
        print(f"would give up the move of {name} to {known[SEALED]}, and open it again; nothing was changed")
        return 0
    unseal(source)
    print(f"gave up the move to {known[SEALED]}: {name} may be written again")
    return 0


def _fill(target: Store, content: Iterator[Record], copier: str, total: int) -> None:
    """Writes all of it and reads it back; it is not opened yet."""
    copying = Progress("copying", total)
    counts, checksum = fill(target, content, copier, copying)
    copying.end()
    verifying = Progress("verifying", total)
    verify(target, counts, checksum, verifying)
    verifying.end()


def _refuse_crew(home: Home) -> None:
    if crew_processes(home.path):
        raise RefusedError("the crew is at work on this ledger", hint="dogwatch down, then try again, then dogwatch up")


def export(arguments: argparse.Namespace) -> int:
    """Writes everything, as of one instant; the crew may be at work meanwhile."""
    with open_for_maintenance(the_home()) as (name, ledger):
        _refuse_unfinished(name, ledger.read(facts))
        counts = ledger.read(counted)
        words = in_words(counts)
        if arguments.file != "-" and os.path.exists(arguments.file):
            raise RefusedError(f"{arguments.file} is there already", hint="name a new file; nothing was changed")
        if arguments.dry_run:
            print(f"would write {words} of {name} to {arguments.file}")
            return 0
        progress = Progress("writing", sum(counts.values()))
        with new_file(arguments.file) as file:
            written = ledger.read(lambda reader: write_lines(reader, file, progress))
        progress.end()
    if arguments.file != "-":
        print(f"wrote {in_words(written)} to {arguments.file}")
    return 0


def import_(arguments: argparse.Namespace) -> int:
    """Fills an empty ledger; the whole file is checked before anything is written."""
    home = the_home()
    _refuse_crew(home)
    with unpacked(arguments.file) as file:
        header, counts = checked_file(file, arguments.file)
        words = in_words(counts)
        if arguments.dry_run and not home.has_ledger:
            print(f"would write {words} into a new ledger {home.ledger}; nothing was changed")
            return 0
        with open_for_maintenance(home, must_exist=False) as (name, ledger):
            # An unfinished copy is begun anew.
            refuse_moved(name, {fact: value for fact, value in ledger.read(facts).items() if fact != UNFINISHED})
            source = os.path.basename(os.fsencode(arguments.file)).decode(errors="replace")
            copier = os.urandom(8).hex()
            begin(ledger, source, header["id"], copier, checking_only=arguments.dry_run)
            if arguments.dry_run:
                print(f"would write {words} into {name}; nothing was changed")
                return 0
            file.seek(0)
            _fill(ledger, file_records(file), copier, sum(counts.values()))
            finish(ledger, copier, header["version"])
    print(f"wrote {words} into {name}")
    return 0


def compact(arguments: argparse.Namespace) -> int:
    """Archives old events; the crew may be at work meanwhile."""
    keep_s = _seconds(arguments.keep)
    with open_for_maintenance(the_home()) as (name, ledger):
        refuse_moved(name, ledger.read(facts))
        before = SystemClock().now().wall - keep_s
        total = ledger.read(lambda reader: old_events(reader, before))
        if arguments.dry_run:
            print(f"would archive up to {total:,} events older than {arguments.keep}; nothing was changed")
            return 0
        progress = Progress("archiving", total)
        events = plain = packed = 0
        while (part := ledger.run(lambda tx: compact_part(tx, before)))[0]:
            events, plain, packed = events + part[0], plain + part[1], packed + part[2]
            progress(events)
        progress.end()
        if events:
            ledger.shrink()
    print(
        f"archived {events:,} events of {name}: {size(plain)} became {size(packed)}"
        if events
        else "nothing is that old"
    )
    return 0


def _seconds(text: str) -> float:
    found = re.fullmatch(r"([0-9]{1,6})([smhdw])", text)
    if found is None:
        raise UsageError(f"--keep is {text!r}", hint="a number and one of s, m, h, d, w: 30d, 12h")
    return int(found[1]) * _TIMES[found[2]]


def adopt(arguments: argparse.Namespace) -> int:
    """Makes this home the one that works with the ledger, and every holder from before stale."""
    home = the_home()
    if not home.ledger_url:
        raise RefusedError("the ledger is a file of this home", hint="adopt is for a ledger on a server")
    with open_for_maintenance(home) as (name, ledger):
        refuse_moved(name, ledger.read(facts))
        other, held = ledger.run(bound_to if arguments.dry_run else unbind)
        if arguments.dry_run:
            print(f"would take {name} over from {other}, with {held} leases made void; nothing was changed")
            return 0
    from dogwatch.cli.framework import open_ledger

    open_ledger(home, must_exist=False).close()
    print(f"took {name} over from {other}: {held} leases are void")
    note("dogwatch up starts looking after its unfinished runs, here")
    return 0
