"""Opening the ledger of a home, whichever engine keeps it."""

from __future__ import annotations

import contextlib
import os
import socket
from dataclasses import replace

from dogwatch.errors import LedgerError, RefusedError
from dogwatch.ledger import LOCK_WAIT_S, open_store
from dogwatch.ledger.api import Clock, Json, Reader, Store, Tx
from dogwatch.ledger.grants import void_grants
from dogwatch.ledger.records import load_all, save
from dogwatch.model import keys
from dogwatch.model.admission import PermitRecord
from dogwatch.world.home import Home


def open_home_ledger(home: Home, clock: Clock, lock_wait_s: float = LOCK_WAIT_S) -> Store:
    """The ledger of the home; a file is made where there is none."""
    try:
        os.makedirs(home.path, mode=0o700, exist_ok=True)
        if not home.ledger_url:
            return open_store(home.ledger, clock, host=host_or_none(home), lock_wait_s=lock_wait_s)
        return open_store(home.ledger, clock, host=host_of(home), bells=home.bells)
    except OSError as error:
        message = f"cannot use {home.path}: {error.strerror}"
        raise LedgerError(message, hint="set DOGWATCH_HOME to a folder of yours") from None


def bind(home: Home, ledger: Store) -> None:
    """Makes this home the one that works with the ledger. Two crews on one ledger would take each other for dead, so
    another home is refused while the first has unfinished runs. A file is its home's own, wherever it came from, and
    whoever has copied it to a server may have it there."""
    mine = {"host": ledger.host, "path": home.path, "hostname": socket.gethostname()}
    if not home.ledger_url:
        mine = {**mine, "in": "file"}

    def fn(tx: Tx) -> None:
        document = tx.get(keys.HOME)
        if document is not None and document.body["host"] != mine["host"]:
            if home.ledger_url and _is_on_server(document.body) and tx.keys(keys.ACTIVE):
                raise RefusedError(
                    f"this ledger has unfinished runs of another home: {_words(document.body)}",
                    hint="end them there with dogwatch kill RUN; where that machine is gone: dogwatch ledger adopt",
                )
            # A dispatcher of that home may still be there, with nothing to do: it finds its place gone, and leaves.
            for lease in tx.leases(""):
                tx.release(lease)
            _take_over(tx, document.body["host"])
        tx.put(keys.HOME, mine)

    known = ledger.read(lambda reader: reader.get(keys.HOME))
    if known is None or known.body != mine:
        ledger.run(fn)


def unbind(tx: Tx) -> tuple[str, int]:
    """Takes the ledger from the home that works with it: every holder from before is stale. Returns what
    `bound_to` said of it."""
    before, document = bound_to(tx), tx.get(keys.HOME)
    void_grants(tx)
    if document is not None and document.body["host"] != tx.host:
        _take_over(tx, document.body["host"])
    tx.delete(keys.HOME)
    return before


def _take_over(tx: Tx, former: str) -> None:
    """The fleet's records are this host's to go on with; those of the former one alone are nobody's any more. The runs
    that it had let in have their places here now."""
    let_in = [permit for permit in load_all(tx, PermitRecord, keys.permits(former, "run")) if permit.launch.run]
    for prefix in (keys.permits(former), keys.waits(former)):
        for key in tx.keys(prefix):
            tx.delete(key)
    for key in (keys.host(former), keys.dispatcher(former), keys.down(former)):
        tx.delete(key)
    for permit in let_in:
        if tx.get(keys.active(permit.launch.run)) is not None:
            save(tx, replace(permit, host=tx.host, process=None))


def working_host(reader: Reader) -> str:
    """The host that works with the ledger, for those who only look; this one where none does yet."""
    document = reader.get(keys.HOME)
    return str(document.body["host"]) if document is not None else reader.host


def bound_to(reader: Reader) -> tuple[str, int]:
    """Which home works with the ledger, in words, and how many leases there are."""
    document = reader.get(keys.HOME)
    return _words(document.body) if document is not None else "no home", len(reader.leases(""))


def refuse_other_home(home: Home, ledger: Store) -> None:
    """RefusedError where the ledger is that of another home: reading is all that this one may do."""
    document = ledger.read(lambda reader: reader.get(keys.HOME)) if home.ledger_url else None
    if document is not None and document.body["host"] != ledger.host and _is_on_server(document.body):
        raise RefusedError(
            f"this ledger is that of another home: {_words(document.body)}",
            hint="do it there; where that machine is gone for good: dogwatch ledger adopt",
        )


def known_host(home: Home) -> str:
    """The same as `host_of`, and empty where the home has no name yet: for those who must change nothing."""
    with contextlib.suppress(OSError):
        return _read_host(f"{home.path}/host")
    return ""


def host_or_none(home: Home) -> str:
    """The same as `host_of`, and empty where the home cannot be written: its ledger can still be read, and nothing is
    written there under any name."""
    try:
        return host_of(home)
    except OSError:
        return ""


def _is_on_server(bound: Json) -> bool:
    """Whether the home worked with the ledger on a server, and may do so still: of a file, this is a copy."""
    return bound.get("in") != "file"


def _words(bound: Json) -> str:
    return f"{bound['path']} on {bound['hostname']}"


def host_of(home: Home) -> str:
    """The name of this home among all hosts of a ledger, made once."""
    path = f"{home.path}/host"
    os.makedirs(home.path, mode=0o700, exist_ok=True)
    for _ in range(2):
        with contextlib.suppress(FileNotFoundError):
            if name := _read_host(path):
                return name
        temporary = f"{path}.{os.getpid()}"
        with open(temporary, "w", encoding="ascii", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
            file.write(os.urandom(8).hex())
            file.flush()
            os.fsync(file.fileno())
        try:
            # Whoever is first has it: a second one finds the name taken, and reads it.
            os.link(temporary, path)
        except FileExistsError:
            pass
        finally:
            os.unlink(temporary)
    raise LedgerError(f"{path} is empty", hint="remove it while nothing of this home runs, then try again")


def _read_host(path: str) -> str:
    with open(path, encoding="ascii") as file:
        return file.read().strip()
