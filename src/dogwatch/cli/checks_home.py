"""The doctor's checks of dogwatch's own things: home, ledger, dispatcher, entry point."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterator, Mapping
from contextlib import closing

from dogwatch.cli.checks import Finding, answer, size
from dogwatch.coordination.ledgers import known_host, working_host
from dogwatch.errors import DogwatchError
from dogwatch.ledger import open_store
from dogwatch.ledger.api import Reader, Store
from dogwatch.ledger.migrations import APPLICATION_ID, VERSION
from dogwatch.ledger.records import load, load_all
from dogwatch.model import keys
from dogwatch.model.records import AgentRecord, CrewRecord
from dogwatch.spec.host import load_host
from dogwatch.world.clock import SystemClock
from dogwatch.world.home import Home, find_home
from dogwatch.world.processes import life

DISK_BYTES_PROBLEM = 100 * 1024**2
DISK_BYTES_WARNING = 1024**3
LOG_BYTES_WARNING = 256 * 1024**2
TRANSACTION_S_WARNING = 60
# Where SQLite keeps its user version and its application id in the first page of a file.
HEADER_BYTES, VERSION_AT, APPLICATION_AT = 100, 60, 68


def home_findings(environment: Mapping[str, str]) -> Iterator[Finding]:
    """Everything below DOGWATCH_HOME, and whether agents can find dogwatch."""
    yield _entry_point()
    try:
        home = find_home(environment)
    except DogwatchError as error:
        yield Finding("home", "problem", error.message, error.hint)
        return
    yield _home(home)
    yield _disk(home)
    yield _host_settings(home)
    yield from _ledger(home)


def _entry_point() -> Finding:
    found = shutil.which("dogwatch")
    if not found:
        return Finding("entry point", "warning", "dogwatch is not on PATH", "add the folder that holds it to PATH")
    code, line = answer([found, "version"])
    if code != 0:
        return Finding("entry point", "problem", f"{found}: {line or f'exit code {code}'}", "install dogwatch again")
    return Finding("entry point", "ok", f"{found} ({line})")


def _home(home: Home) -> Finding:
    try:
        facts = os.stat(home.path)
    except FileNotFoundError:
        folder = _existing(home.path)
        if os.access(folder, os.W_OK):
            return Finding("home", "ok", f"{home.path} (not there yet; made by the first run)")
        return Finding("home", "problem", f"{home.path} cannot be made: {folder} may not be written", _SET_HOME)
    except OSError as error:
        return Finding("home", "problem", f"{home.path}: {error.strerror}", _SET_HOME)
    if not stat.S_ISDIR(facts.st_mode) or not os.access(home.path, os.W_OK | os.X_OK):
        return Finding("home", "problem", f"{home.path} is no folder that may be written", _SET_HOME)
    if facts.st_uid != os.geteuid():
        return Finding("home", "problem", f"{home.path} belongs to user {facts.st_uid}", _SET_HOME)
    if facts.st_mode & 0o077:
        mode = stat.filemode(facts.st_mode)
        return Finding("home", "warning", f"{home.path} is open to others ({mode})", f"chmod 700 {home.path}")
    return Finding("home", "ok", home.path)


_SET_HOME = "set DOGWATCH_HOME to a folder of yours"


def _disk(home: Home) -> Finding:
    space = os.statvfs(_existing(home.path))
    free = space.f_bavail * space.f_frsize
    text = f"{size(free)} free"
    if free < DISK_BYTES_PROBLEM:
        return Finding("disk", "problem", text, "make room: a full disk stops the ledger")
    if free < DISK_BYTES_WARNING:
        return Finding("disk", "warning", text, "make room before a long run")
    return Finding("disk", "ok", text)


def _host_settings(home: Home) -> Finding:
    if not os.path.lexists(home.host):
        return Finding("host.yaml", "ok", "none: the defaults hold")
    try:
        load_host(home.host)
    except DogwatchError as error:
        text = f"{error.message}; a dispatcher goes on with the last settings that were right"
        return Finding("host.yaml", "problem", text, error.hint)
    return Finding("host.yaml", "ok", home.host)


def _ledger(home: Home) -> Iterator[Finding]:
    if home.ledger_url:
        try:
            yield from _ledger_on_server(home)
        except DogwatchError as error:
            yield Finding("ledger", "problem", error.message, error.hint)
        return
    if not home.has_ledger:
        yield Finding("ledger", "ok", "none yet; made by the first run")
        return
    try:
        application, version = _header(home.ledger)
    except OSError as error:
        yield Finding("ledger", "problem", f"{home.ledger}: {error.strerror}", "check its owner and mode")
        return
    if application == APPLICATION_ID and version < VERSION:
        # Opening it would bring it up to date, and a doctor changes nothing.
        yield Finding("ledger", "ok", f"version {version}, to be brought to {VERSION} by the next command")
        return
    try:
        yield from _open_ledger(home)
    except DogwatchError as error:
        yield Finding("ledger", "problem", error.message, error.hint)


def _ledger_on_server(home: Home) -> Iterator[Finding]:
    with closing(open_store(home.ledger, SystemClock(), host=known_host(home))) as ledger:
        state, agents = _crew(ledger), _rings(ledger)
        measures, complaints = ledger.measures(), ledger.integrity()
    text = f"version {VERSION}, {measures['engine']}, {size(int(measures['bytes']))}"
    if measures["pooled"] == "yes":
        text += ", through a pooler"
    oldest_s = int(measures["oldest_transaction_s"])
    if complaints:
        yield Finding("ledger", "warning", f"{text}; {complaints[0]}", "set it to on in the server's postgresql.conf")
    elif oldest_s > TRANSACTION_S_WARNING:
        fix = "followers of events wait for it: SELECT * FROM pg_stat_activity WHERE backend_xid IS NOT NULL"
        yield Finding("ledger", "warning", f"{text}; a transaction on the server is open for {oldest_s} s", fix)
    else:
        yield Finding("ledger", "ok", text)
    yield _dispatcher(*state)
    yield from agents


def _rings(ledger: Store) -> list[Finding]:
    """Which of the guard's rings hold for each living agent."""
    now = SystemClock().now()
    records = ledger.read(
        lambda r: [agent for one in r.scan(keys.ACTIVE) for agent in load_all(r, AgentRecord, keys.agents(one.key[7:]))]
    )
    found = []
    for agent in records:
        if agent.process is None or life(agent.process, now.boot) != "alive":
            continue
        text = f"{agent.run}/{agent.agent}: {', '.join(agent.rings)}"
        if len(agent.rings) > 1:
            found.append(Finding("rings", "ok", text))
        else:
            fix = "without a namespace or a hook only accidents are caught: install bubblewrap; sandbox: auto"
            found.append(Finding("rings", "warning", text, fix))
    return found


def _crew(ledger: Store) -> tuple[CrewRecord | None, int, bool]:
    def fn(reader: Reader) -> tuple[CrewRecord | None, int, bool]:
        host = working_host(reader)
        is_down = reader.get(keys.down(host)) is not None
        return load(reader, CrewRecord, keys.dispatcher(host)), len(reader.scan(keys.ACTIVE)), is_down

    return ledger.read(fn)


def _open_ledger(home: Home) -> Iterator[Finding]:
    with closing(open_store(home.ledger, SystemClock(), host=known_host(home))) as ledger:
        state, agents = _crew(ledger), _rings(ledger)
    log_bytes = os.path.getsize(home.ledger + "-wal") if os.path.exists(home.ledger + "-wal") else 0
    text = f"version {VERSION}, {size(os.path.getsize(home.ledger))}, write-ahead log {size(log_bytes)}"
    if not os.access(home.ledger, os.W_OK):
        yield Finding("ledger", "problem", f"{home.ledger} may not be written", "check its owner and mode")
    elif log_bytes > LOG_BYTES_WARNING:
        fix = f"a process keeps an old snapshot open: fuser -v {home.ledger}"
        yield Finding("ledger", "warning", text, fix)
    else:
        yield Finding("ledger", "ok", text)
    yield _dispatcher(*state)
    yield from agents


def _dispatcher(record: CrewRecord | None, active: int, down: bool) -> Finding:
    state = life(record.process, SystemClock().now().boot) if record is not None else "dead"
    if record is not None and state == "alive":
        return Finding("dispatcher", "ok", f"alive (pid {record.process.pid}), unfinished runs: {active}")
    if state == "unknown":
        return Finding("dispatcher", "warning", "its process could not be looked at", "check that /proc is readable")
    if not active:
        return Finding("dispatcher", "ok", "not running, and no run is unfinished")
    why = "stopped by dogwatch down" if down else "dead"
    return Finding("dispatcher", "warning", f"{why}, unfinished runs: {active}", "dogwatch up")


def _header(path: str) -> tuple[int, int]:
    """The application id and version in the file; no store of this process may be open on it."""
    with open(path, "rb") as file:
        head = file.read(HEADER_BYTES).ljust(HEADER_BYTES, b"\0")
    number = [int.from_bytes(head[at : at + 4], "big") for at in (APPLICATION_AT, VERSION_AT)]
    return number[0], number[1]


def _existing(path: str) -> str:
    """The path, or the nearest folder above it that exists."""
    while not os.path.exists(path):
        path = os.path.dirname(path)
    return path
