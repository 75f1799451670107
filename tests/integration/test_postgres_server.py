"""The tests' own PostgreSQL: what it promises about death, hanging, standbys, pooling and leaving nothing behind."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from support.helpers import wait_for
from support.postgres import Pooler, Server, binaries, database, new_server, postgres, reachable, run_tool

__all__ = ["database", "postgres"]


@pytest.fixture
def server() -> Iterator[Server]:
    """A server of the test's own, to be hurt."""
    with new_server() as server:
        yield server


def connect(url: str) -> psycopg.Connection[tuple[object, ...]]:
    """Without prepared statements: they are a server connection's own, and a pooler gives it to others."""
    return psycopg.connect(url, autocommit=True, connect_timeout=30, prepare_threshold=None)


def backend(connection: psycopg.Connection[tuple[object, ...]]) -> object:
    """The process that really serves this connection now."""
    row = connection.execute("SELECT pg_backend_pid()").fetchone()
    assert row is not None
    return row[0]


def shared_memory(data: Path) -> str:
    """The id of the server's segment of System V shared memory."""
    return (data / "postmaster.pid").read_text().splitlines()[6].split()[1]


def segments() -> set[str]:
    return {line.split()[1] for line in Path("/proc/sysvipc/shm").read_text().splitlines()[1:]}


def test_a_new_server_has_the_settings_for_tests_and_those_asked_for() -> None:
    with new_server(fsync="on", application_name="it's") as server:
        names = "fsync synchronous_commit full_page_writes application_name server_encoding lc_messages".split()
        settings = dict(server.execute("SELECT name, setting FROM pg_settings"))
        assert [settings[name] for name in names] == ["on", "on", "off", "it's", "UTF8", "C"]
        assert settings["data_directory"] == str(server.data)
        assert server.execute("SELECT current_user") == [("dogwatch",)]
        with psycopg.connect(f"host={server.folder} port={server.port} user=dogwatch dbname=postgres") as local:
            assert local.execute("SELECT inet_server_port()").fetchone() == (None,)


def test_new_settings_come_with_a_reload_or_a_start(server: Server) -> None:
    server.configure(work_mem="5MB", max_connections=33)
    server.reload()
    assert server.execute("SHOW work_mem") + server.execute("SHOW max_connections") == [("5MB",), ("80",)]
    server.stop()
    assert server.members() == []
    server.start()
    assert server.execute("SHOW work_mem") + server.execute("SHOW max_connections") == [("5MB",), ("33",)]


def test_a_killed_server_comes_back_with_what_was_committed_and_only_that(server: Server) -> None:
    url, pid = server.new_database("kept"), server.pid
    server.execute("CREATE TABLE t AS SELECT 1 AS n", "kept")
    with psycopg.connect(url) as connection:
        connection.execute("INSERT INTO t VALUES (2)")
        server.kill()
        with pytest.raises(psycopg.OperationalError):
            connection.execute("SELECT 1")
    assert server.members() == []
    with pytest.raises(psycopg.OperationalError, match="refused"):
        psycopg.connect(url)
    with socket.socket() as thief, pytest.raises(OSError, match="in use"):
        thief.bind(("127.0.0.1", server.port))
    server.start()
    assert server.pid != pid
    assert server.execute("TABLE t", "kept") == [(1,)]
    assert "was not properly shut down" in server.log.read_text()


def test_a_stopped_server_was_shut_down_properly(server: Server) -> None:
    server.execute("CREATE TABLE t AS SELECT 1 AS n")
    with psycopg.connect(server.url()) as idle:
        server.stop()
        with pytest.raises(psycopg.OperationalError):
            idle.execute("SELECT 1")
    server.start()
    assert server.execute("TABLE t") == [(1,)]
    assert "was not properly shut down" not in server.log.read_text()


def test_a_paused_server_hangs_until_it_is_resumed(server: Server) -> None:
    with connect(server.url()) as connection:
        server.pause()
        answers: list[object] = []
        asking = threading.Thread(target=lambda: answers.append(backend(connection)))
        asking.start()
        with pytest.raises(psycopg.errors.ConnectionTimeout):
            psycopg.connect(server.url(), connect_timeout=2)
        assert answers == []
        server.resume()
        asking.join(60)
        assert answers == [connection.info.backend_pid]
    assert server.execute("SELECT 1") == [(1,)]


def test_a_server_outlives_the_thread_that_started_it(server: Server) -> None:
    server.kill()
    starting = threading.Thread(target=server.start)
    starting.start()
    starting.join(120)
    pid = server.pid
    assert server.execute("SELECT 1") == [(1,)]
    assert server.members().count(pid) == 1


def test_a_synchronous_standby_has_every_acknowledged_row_when_it_is_promoted(server: Server) -> None:
    server.execute("CREATE TABLE t (n int)")
    acknowledged: list[int] = []

    def write() -> None:
        with connect(server.url()) as connection:
            for number in range(10**9):
                connection.execute("INSERT INTO t VALUES (%s)", (number,))
                acknowledged.append(number)

    def write_until_it_fails() -> None:
        with pytest.raises(psycopg.OperationalError):
            write()

    with server.standby(synchronous=True) as standby:
        with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
            standby.execute("INSERT INTO t VALUES (-1)")
        writing = threading.Thread(target=write_until_it_fails)
        writing.start()
        wait_for(lambda: len(acknowledged) > 200, 60, "some rows")
        server.kill()
        writing.join(60)
        standby.promote()
        kept = {n for (n,) in standby.execute("TABLE t")}
        assert kept >= set(acknowledged)
        standby.execute("INSERT INTO t VALUES (-1)")
        assert standby.execute("SELECT count(*) FROM t") == [(len(kept) + 1,)]


def test_a_commit_waits_for_the_synchronous_standby(server: Server) -> None:
    server.execute("CREATE TABLE t (n int)")
    waiting = "SELECT 1 FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
    with server.standby(synchronous=True) as standby:
        standby.pause()
        committing = threading.Thread(target=server.execute, args=("INSERT INTO t VALUES (1)",))
        committing.start()
        wait_for(lambda: server.execute(waiting), 60, "the commit to wait")
        assert server.execute("TABLE t") == []
        standby.resume()
        committing.join(60)
        assert server.execute("TABLE t") == [(1,)]


def test_an_asynchronous_standby_catches_up_after_its_death(server: Server) -> None:
    server.execute("CREATE TABLE t (n int)")
    with server.standby(synchronous=False) as standby:
        standby.kill()
        server.execute("INSERT INTO t VALUES (1)")
        standby.start()
        wait_for(lambda: standby.execute("TABLE t") == [(1,)], 60, "the row on the standby")


def test_the_pooler_gives_one_server_connection_to_many_clients(postgres: Server, database: str) -> None:
    name = database.rpartition("/")[2]
    with Pooler(postgres) as pooler:
        pooler.start()
        with connect(pooler.url(name)) as one, connect(pooler.url(name)) as other:
            first = backend(one)
            assert backend(other) == first, "a free server connection serves the next transaction, whose ever it is"
            with other.transaction():
                assert backend(other) == first
                assert backend(one) != first, "between two transactions a client's server process may change"
                assert backend(other) == first, "and within one it does not"
            # The pid that the client was told is the pooler's invention: it names no process of the server.
            for client in (one, other):
                assert client.info.backend_pid != backend(client)
            told = [one.info.backend_pid, other.info.backend_pid]
            found = postgres.execute("SELECT pid FROM pg_stat_activity WHERE pid IS NOT NULL")
            assert not {(pid,) for pid in told} & set(found)


def test_a_pooler_dies_hangs_and_comes_back_on_the_same_port(postgres: Server) -> None:
    with Pooler(postgres, default_pool_size=1) as pooler:
        pooler.start()
        with connect(pooler.url()) as client:
            pooler.kill()
            with pytest.raises(psycopg.OperationalError):
                client.execute("SELECT 1")
        with pytest.raises(psycopg.OperationalError, match="refused"):
            connect(pooler.url())
        pooler.start()
        pooler.pause()
        with pytest.raises(psycopg.errors.ConnectionTimeout):
            psycopg.connect(pooler.url(), connect_timeout=2)
        pooler.resume()
        with connect(pooler.url()) as client:
            assert client.execute("SHOW port").fetchone() == (str(postgres.port),)
        pooler.stop()
        assert pooler.members() == []
    assert not pooler.folder.exists()


@pytest.fixture
def users(postgres: Server) -> Iterator[dict[str, psycopg.Connection[tuple[object, ...]]]]:
    """Who uses which database; torn down after the fixture `database`, when that has to be gone in spite of them."""
    users: dict[str, psycopg.Connection[tuple[object, ...]]] = {}
    yield users
    left = {name for (name,) in postgres.execute("SELECT datname FROM pg_database")}
    for name, user in users.items():
        with pytest.raises(psycopg.OperationalError):
            user.execute("SELECT 1")
        user.close()
        assert name not in left


def test_a_database_goes_with_its_test_even_while_somebody_uses_it(
    users: dict[str, psycopg.Connection[tuple[object, ...]]], postgres: Server, database: str
) -> None:
    user = connect(database)
    users[user.info.dbname] = user
    user.execute("CREATE TABLE t (n int)")
    assert user.info.port == postgres.port
    assert user.info.dbname in {name for (name,) in postgres.execute("SELECT datname FROM pg_database")}


@pytest.mark.parametrize("state", ["running", "paused", "killed"])
def test_nothing_is_left_of_a_closed_server(server: Server, state: str) -> None:
    segment = shared_memory(server.data)
    assert segment in segments()
    if state == "paused":
        server.pause()
    if state == "killed":
        server.kill()
    server.close()
    server.close()
    assert server.members() == []
    assert not server.folder.exists()
    assert segment not in segments()


PARENT = """
from support.postgres import Pooler, new_server
server = new_server()
pooler = Pooler(server)
pooler.start()
if {paused}:
    server.pause()
print(server.pid, server.folder, pooler.pid, pooler.folder, flush=True)
input()
"""


@pytest.mark.parametrize("paused", [False, True])
def test_a_server_goes_when_the_test_process_is_killed(paused: bool) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", PARENT.format(paused=paused)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment) as parent:
        try:
            assert parent.stdout is not None
            server, data, pooler, folder = parent.stdout.readline().decode().split()
            segment = shared_memory(Path(data) / "data")
            alive = [Path("/proc", pid, "cwd") for pid in (server, pooler)]
            assert [os.readlink(path) for path in alive] == [f"{data}/data", folder]
            assert segment in segments()
        finally:
            parent.send_signal(signal.SIGKILL)
        wait_for(lambda: not any(os.path.lexists(path) for path in alive), 60, "the servers to go")
        wait_for(lambda: not any(os.path.exists(path) for path in (data, folder)), 60, "the folders to go")
        assert segment not in segments()


def test_programs_that_the_servers_user_cannot_reach_are_copied(tmp_path: Path) -> None:
    package = binaries().parent.parent
    private = tmp_path / "private"
    private.mkdir(0o700)
    for part in (f"{package.name}/pginstall", f"{package.name}.libs"):
        shutil.copytree(package.parent / part, private / part)
    found = reachable(private / package.name)
    assert found.is_relative_to(private) == (os.geteuid() != 0)
    for program in "initdb postgres pg_ctl pg_basebackup pg_dump pg_restore psql".split():
        run_tool(found / program, "--version")
