"""Who gets in at a PostgreSQL ledger, who hears of a commit, and whose clock counts between hosts."""

from __future__ import annotations

import select
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from urllib.parse import quote

import psycopg
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from contract.parts.opener import UrlOpener
from contract.parts.processes import child
from dogwatch.errors import (
    DogwatchError,
    LedgerAwayError,
    LedgerError,
    LedgerReadOnlyError,
    LedgerTooNewError,
    StaleError,
    UsageError,
)
from dogwatch.ledger import open_store
from dogwatch.ledger.api import START, Item, Lease, Store
from dogwatch.ledger.postgres import PostgresStore
from dogwatch.model.moment import Moment
from dogwatch.testing.clock import ManualClock
from dogwatch.testing.events import PlainEvent
from dogwatch.world.clock import SystemClock
from support.helpers import wait_for
from support.postgres import Server, database, new_server, postgres
from support.wire import Proxy

__all__ = ["database", "postgres"]

SECRET = "s3cr3t"  # noqa: S105


@contextmanager
def opened(url: str, host: str = "", clock: ManualClock | None = None, bells: str = "") -> Iterator[PostgresStore]:
    with closing(PostgresStore(url, clock or SystemClock(), host=host, bells=bells)) as store:
        yield store


def append(store: Store, n: int) -> None:
    store.run(lambda tx: tx.append(PlainEvent("kind", {"n": n})))


def quiet(store: Store) -> None:
    """Empties the doorbell, and waits until it stays empty."""

    def is_quiet() -> bool:
        return not store.wait(0) and not select.select([store.fileno()], [], [], 0.3)[0]

    wait_for(is_quiet, what="an empty doorbell")


# Hosts.


@contextmanager
def two_hosts(url: str, wall_b: float) -> Iterator[tuple[PostgresStore, PostgresStore, ManualClock]]:
    """Stores of two hosts whose clocks have nothing to do with each other, and the first one's clock."""
    clock = ManualClock(Moment("boot-a", 1000, 1_700_000_000))
    strange = ManualClock(Moment("boot-b", 5, wall_b))
    with opened(url, "a", clock) as a, opened(url, "b", strange) as b:
        yield a, b, clock


@pytest.mark.parametrize("wall_b", [0.0, 9e12], ids=["long-ago", "far-future"])
def test_a_lease_of_another_host_ends_by_the_servers_clock_alone(
    postgres: Server, database: str, wall_b: float
) -> None:
    def acquire(store: Store, holder: str) -> Lease | None:
        return store.run(lambda tx: tx.acquire("lease", holder, 600))

    with two_hosts(database, wall_b) as (a, b, _):
        mine = acquire(a, "a")
        assert mine is not None
        assert acquire(b, "b") is None
        assert [lease.holder for lease in b.read(lambda reader: reader.leases(""))] == ["a"]
        b.run(lambda tx: tx.check(mine))
        pass_by(postgres, database, "leases SET expires_server = expires_server - 600")
        theirs = acquire(b, "b")
        assert theirs is not None
        assert theirs.fence > mine.fence
        for late in (lambda: a.run(lambda tx: tx.check(mine)), lambda: a.run(lambda tx: tx.renew(mine, 600))):
            with pytest.raises(StaleError):
                late()
        a.run(lambda tx: tx.release(mine))
        assert acquire(a, "a") is None
        b.run(lambda tx: tx.check(theirs))


@pytest.mark.parametrize("wall_b", [0.0, 9e12], ids=["long-ago", "far-future"])
def test_a_claim_of_another_host_ends_by_the_servers_clock_alone(
    postgres: Server, database: str, wall_b: float
) -> None:
    def claim(store: Store, holder: str) -> Item | None:
        return store.run(lambda tx: tx.claim("queue", holder, 600))

    with two_hosts(database, wall_b) as (a, b, _):
        a.run(lambda tx: tx.push("queue", {}, "item"))
        mine = claim(a, "a")
        assert mine is not None
        assert claim(b, "b") is None
        assert [item.state for item in b.read(lambda reader: reader.items("queue"))] == ["claimed"]
        pass_by(postgres, database, "items SET claim_server = claim_server - 600")
        theirs = claim(b, "b")
        assert theirs is not None
        assert theirs.fence > mine.fence
        with pytest.raises(StaleError):
            a.run(lambda tx: tx.extend(mine, 600))
        with pytest.raises(StaleError):
            a.run(lambda tx: tx.ack(mine))
        b.run(lambda tx: tx.ack(theirs))


@pytest.mark.parametrize("wall_b", [0.0, 9e12], ids=["long-ago", "far-future"])
def test_an_items_own_time_ends_for_another_host_by_the_servers_clock(
    postgres: Server, database: str, wall_b: float
) -> None:
    with two_hosts(database, wall_b) as (a, b, _):
        a.run(lambda tx: tx.push("queue", {}, "item", ttl_s=600))
        assert [item.state for item in b.read(lambda reader: reader.items("queue"))] == ["ready"]
        claimed = b.run(lambda tx: tx.claim("queue", "b", 60))
        assert claimed is not None
        b.run(lambda tx: tx.give_back(claimed))
        pass_by(postgres, database, "items SET ttl_server = ttl_server - 600")
        assert b.read(lambda reader: reader.items("queue")) == []
        assert b.run(lambda tx: tx.claim("queue", "b", 60)) is None


def test_after_a_reboot_a_hosts_own_leases_and_claims_are_free_at_once_and_for_others_not_yet(database: str) -> None:
    with two_hosts(database, 0) as (a, b, clock):
        a.run(lambda tx: (tx.push("queue", {}, "item"), tx.acquire("lease", "a", 600)))
        assert a.run(lambda tx: tx.claim("queue", "a", 600)) is not None
        clock.reboot()
        assert b.run(lambda tx: tx.acquire("lease", "b", 600)) is None
        assert b.run(lambda tx: tx.claim("queue", "b", 600)) is None
        assert a.run(lambda tx: tx.acquire("lease", "new", 600)) is not None
        assert a.run(lambda tx: tx.claim("queue", "new", 600)) is not None


def pass_by(server: Server, url: str, change: str) -> None:
    """Time passes on the server."""
    server.execute(f"UPDATE dogwatch.{change}", url.rpartition("/")[2])


# Doorbells.


def test_rings_for_other_hosts_are_few_however_many_commits_there_are(database: str) -> None:
    with opened(database), ExitStack() as stack:
        listener = stack.enter_context(psycopg.connect(database, autocommit=True))
        listener.execute("LISTEN dogwatch")
        writers = [stack.enter_context(child(UrlOpener(database), "append", name, "0")) for name in "abcdefgh"]
        for writer in writers:
            assert writer.stdout is not None
            assert writer.stdout.readline() == "1\n"
        list(listener.notifies(timeout=0))
        (before,) = listener.execute("SELECT count(*) FROM dogwatch.events").fetchone() or (0,)
        begun = time.monotonic()
        rings = len(list(listener.notifies(timeout=2)))
        lasted_s = time.monotonic() - begun
        (after,) = listener.execute("SELECT count(*) FROM dogwatch.events").fetchone() or (0,)
    assert 0 < rings <= 25 * lasted_s
    assert after - before > 2 * rings


def test_another_host_is_woken_for_a_single_commit_and_for_the_last_one_of_a_burst(database: str) -> None:
    with opened(database, "a") as store, opened(database, "b") as other:
        quiet(store)
        for _ in range(3):
            append(other, 0)
            # By a notification: looking by itself is for `wait`.
            assert select.select([store.fileno()], [], [], 60)[0]
            assert store.wait(0)
            quiet(store)
        for n in range(1, 60):
            append(other, n)
        # What could not be rung for at once is rung for while it waits; the first wait is over at once.
        other.wait(0)
        other.wait(0.5)
        assert select.select([store.fileno()], [], [], 60)[0]
        assert store.since(START, 1000)[-1].body == {"n": 59}
        quiet(store)
        append(other, 60)
        other.close()
        assert select.select([store.fileno()], [], [], 60)[0]
        assert store.since(START, 1000)[-1].body == {"n": 60}


def test_short_commands_that_write_at_the_same_time_wake_others_and_do_not_flood_them(database: str) -> None:
    with opened(database, "a") as store, psycopg.connect(database, autocommit=True) as listener:
        listener.execute("LISTEN dogwatch")
        quiet(store)
        for n in range(20):
            with opened(database, "b") as short:
                append(short, n)
        rung = [notify.payload for notify in listener.notifies(timeout=0.5)]
        assert 0 < len(rung) <= 20
        assert len(rung) == len(set(rung))
        assert store.wait(0)


def test_processes_of_one_host_ring_for_each_other_without_the_server(database: str, tmp_path: Path) -> None:
    bells = str(tmp_path / "bells")
    with opened(database, "a", bells=bells) as store, opened(database, "a", bells=bells) as other:
        quiet(store)
        other._ring_due = time.monotonic() + 600
        append(other, 1)
        assert select.select([store.fileno()], [], [], 60)[0]
        assert store.wait(0)
        other.run(lambda tx: tx.get("key"))
        assert not select.select([store.fileno()], [], [], 0.3)[0]


# Addresses and rights.


def refused(kind: type[DogwatchError], url: str) -> DogwatchError:
    """Opening it raises `kind` with a hint and without the password."""
    with pytest.raises(DogwatchError) as caught:
        open_store(url, SystemClock()).close()
    error = caught.value
    assert type(error) is kind, error
    assert error.hint
    assert SECRET not in str(error)
    cause: BaseException | None = error
    while cause is not None:
        assert SECRET not in str(cause)
        cause = cause.__cause__
    return error


@pytest.mark.parametrize(
    "address",
    [
        "u:{}@[::1/d",
        "u:{}%zz@127.0.0.1:1/d",
        "u:x@{}@127.0.0.1:1/d",
        "u:x/{}@127.0.0.1:1/d",
        "u:x\0{}@127.0.0.1:1/d",
        "u:{}@127.0.0.1:1/d?nonsense=1",
        "u:{}@127.0.0.1:1/d?sslmode",
        "u:{}@127.0.0.1:1/d?connect_timeout=soon",
        "127.0.0.1:1/d?password={}&x%zz=1",
    ],
)
def test_an_address_that_cannot_be_read_is_refused_without_showing_it(address: str) -> None:
    refused(UsageError, "postgresql://" + address.format(SECRET))


@pytest.mark.parametrize(
    "address",
    ["u:{}@127.0.0.1:1/d", "127.0.0.1:1/d?password={}", "u:{}@127.0.0.1:1,127.0.0.1:2/d", "u:{}@/d?host=/nowhere"],
)
def test_a_server_that_is_not_there_is_named_without_the_password(address: str) -> None:
    error = refused(LedgerAwayError, "postgresql://" + address.format(SECRET))
    assert "127.0.0.1" in error.message or "/nowhere" in error.message


PIECES = st.text(st.characters(exclude_categories=["Cs"]), max_size=8) | st.sampled_from(
    ["", "%00", "%zz", "@", ":", "[", "]", "/", "?", "&", "=", "'", '"']
)


@settings(
    max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
)
@given(
    user=PIECES,
    host=st.sampled_from(["", "127.0.0.1", "[::1]", "[::1", "%2Fnowhere", "127.0.0.1,127.0.0.1", "@", "\udc80"]),
    port=st.sampled_from(["", ":1", ":0", ":x", ":99999", ":1,2", ":-1", ":"]) | PIECES.map(":{}".format),
    path=PIECES,
    query=st.sampled_from(["", "?", "?sslmode=x", "?connect_timeout=x", "?port=x"]) | PIECES.map("?{}=1".format),
)
@example(user="", host="", port="", path="", query="")
def test_whatever_is_given_for_an_address_is_refused_in_dogwatchs_own_words(
    monkeypatch: pytest.MonkeyPatch, user: str, host: str, port: str, path: str, query: str
) -> None:
    # Nothing that runs here may be found by default.
    monkeypatch.setenv("PGHOST", "/nowhere")
    monkeypatch.setenv("PGPORT", "1")
    for password in (SECRET, SECRET + path):
        with pytest.raises(DogwatchError) as caught:
            open_store(f"postgresql://{quote(user)}:{password}@{host}{port}/{path}{query}", SystemClock())
        assert caught.value.hint
        assert SECRET not in str(caught.value)


@pytest.fixture(scope="module")
def guarded() -> Iterator[Server]:
    """A server that asks for passwords."""
    with new_server() as server:
        server.execute("CREATE ROLE guest LOGIN PASSWORD 's3cr3t'")
        server.new_database("theirs")
        hba = server.data / "pg_hba.conf"
        hba.write_text("host all dogwatch 127.0.0.1/32 trust\nhost all all 127.0.0.1/32 scram-sha-256\n")
        server.reload()
        yield server


def guest(server: Server, database: str, password: str = SECRET) -> str:
    return f"postgresql://guest:{password}@127.0.0.1:{server.port}/{database}"


def test_a_wrong_password_user_or_database_is_named_as_the_server_does(guarded: Server) -> None:
    assert "password" in refused(LedgerAwayError, guest(guarded, "theirs", SECRET + "x")).message
    assert "missing" in refused(LedgerAwayError, guest(guarded, "missing")).message
    assert "nobody" in refused(LedgerAwayError, guarded.url("theirs").replace("dogwatch@", "nobody:x@")).message


def test_a_user_without_rights_is_told_which_are_needed(guarded: Server) -> None:
    assert "CREATE" in refused(LedgerReadOnlyError, guest(guarded, "theirs")).hint
    with opened(guarded.url("theirs")) as store:
        append(store, 1)
    refused(LedgerReadOnlyError, guest(guarded, "theirs"))
    guarded.execute("GRANT USAGE ON SCHEMA dogwatch TO guest", "theirs")
    guarded.execute("GRANT SELECT ON ALL TABLES IN SCHEMA dogwatch TO guest", "theirs")
    with opened(guest(guarded, "theirs")) as store:
        assert len(store.since(START, 10)) == 1
        with pytest.raises(LedgerReadOnlyError) as caught:
            append(store, 2)
        assert caught.value.hint
        assert SECRET not in str(caught.value)
        assert len(store.since(START, 10)) == 1


def test_the_ledger_of_a_newer_dogwatch_is_refused(postgres: Server, database: str) -> None:
    with opened(database) as store:
        append(store, 1)
    name = database.rpartition("/")[2]
    ((version,),) = postgres.execute("SELECT value FROM dogwatch.facts WHERE name = 'version'", name)
    postgres.execute("UPDATE dogwatch.facts SET value = '999' WHERE name = 'version'", name)
    assert "upgrade" in refused(LedgerTooNewError, database).hint
    postgres.execute(f"UPDATE dogwatch.facts SET value = '{version}' WHERE name = 'version'", name)
    with opened(database) as store:
        assert len(store.since(START, 10)) == 1


def test_a_server_that_is_too_old_is_refused(postgres: Server, database: str) -> None:
    ((version,),) = postgres.execute("SHOW server_version_num")
    name = database.rpartition("/")[2]
    with Proxy(postgres.port, name, replace=(version.encode(), b"120022")) as proxy:
        error = refused(LedgerError, proxy.url)
    assert "PostgreSQL 12" in error.message
    assert postgres.execute("SELECT 1 FROM pg_namespace WHERE nspname = 'dogwatch'", name) == []


def test_a_databases_own_settings_change_nothing(postgres: Server, database: str) -> None:
    name = database.rpartition("/")[2]
    for setting in (
        "default_transaction_isolation = 'serializable'",
        "extra_float_digits = -15",
        "bytea_output = 'escape'",
        "synchronous_commit = 'off'",
        "search_path = 'nowhere'",
    ):
        postgres.execute(f'ALTER DATABASE "{name}" SET {setting}')
    clock = ManualClock(Moment("boot", 1234.123456789012, 1_700_000_000.987654))
    with opened(database, clock=clock) as store:
        append(store, 1)
        (event,) = store.since(START, 10)
        assert event.at == clock.now()


def test_many_processes_may_open_an_empty_database_at_once(database: str) -> None:
    opener = UrlOpener(database)
    with ExitStack() as stack:
        writers = [stack.enter_context(child(opener, "append", str(n), "1")) for n in range(6)]
        for writer in writers:
            assert writer.wait(60) == 0
    with opened(database) as store:
        assert len(store.since(START, 100)) == 6
