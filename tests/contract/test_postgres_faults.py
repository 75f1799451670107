"""PostgreSQL killed, hung, cut off in the middle of a commit, or without room: nothing lost and nothing twice."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path

import psycopg
import pytest

from contract.parts.opener import UrlOpener
from contract.parts.processes import child, finish, follow
from dogwatch.errors import LedgerAwayError, LedgerFullError, LedgerLockedError, StaleError
from dogwatch.ledger.api import START, Lease, Reader, Store, Tx
from dogwatch.ledger.compaction import compact_part
from dogwatch.ledger.postgres import RING_S, PostgresStore
from dogwatch.ledger.postgres_session import LOOKING, ServerError, Session
from dogwatch.ledger.postgres_tx import PostgresTx
from dogwatch.testing.events import PlainEvent
from dogwatch.world.clock import SystemClock
from support.helpers import wait_for
from support.postgres import Pooler, Server, database, new_server, postgres
from support.wire import Proxy

__all__ = ["database", "postgres"]

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def own() -> Iterator[Server]:
    """A server for tests that kill it; it runs when a test begins and when it ends."""
    with new_server() as server:
        yield server


@contextmanager
def opened(url: str, away_s: float = 60, answer_s: float = 60, host: str = "") -> Iterator[PostgresStore]:
    store = PostgresStore(url, SystemClock(), away_s=away_s, answer_s=answer_s, host=host)
    try:
        yield store
    finally:
        store.close()


def append(store: Store, n: int) -> None:
    store.run(lambda tx: tx.append(PlainEvent("kind", {"n": n})))


def numbers(store: Store) -> list[int]:
    return [event.body["n"] for event in store.since(START, 10_000)]


@contextmanager
def starting(server: Server) -> Iterator[None]:
    """The server comes back while something else goes on."""
    thread = threading.Thread(target=server.start)
    thread.start()
    try:
        yield
    finally:
        thread.join()


def test_a_server_that_was_killed_and_comes_back_is_found_again(own: Server) -> None:
    with opened(own.new_database()) as store, opened(own.new_database()) as other:
        append(store, 1)
        append(other, 1)
        uses: list[Callable[[Store], object]] = [numbers, newest, append_two]
        for n, use in enumerate(uses, 3):
            own.kill()
            with starting(own):
                use(store)
            append(store, n)
        assert numbers(store) == [1, 3, 4, 2, 5]
        assert numbers(other) == [1]


def test_a_transaction_whose_server_died_in_the_middle_is_made_again_once(own: Server) -> None:
    with opened(own.new_database()) as store:
        attempts = 0

        def write(tx: Tx) -> None:
            nonlocal attempts
            attempts += 1
            tx.append(PlainEvent("kind", {"n": attempts}))
            tx.put("key", {})
            if attempts == 1:
                own.kill()
                own.start()
            tx.append(PlainEvent("kind", {"n": 10 * attempts}))

        def look(reader: Reader) -> object:
            nonlocal attempts
            attempts += 1
            found = reader.get("key")
            if attempts == 1:
                own.kill()
                own.start()
            return found == reader.get("key")

        store.run(write)
        assert numbers(store) == [2, 20]
        attempts = 0
        assert store.read(look)
        document = store.read(lambda reader: reader.get("key"))
        assert document is not None
        assert document.revision == 1


def test_a_server_that_does_not_come_back_is_an_error_with_a_hint_and_no_end(own: Server) -> None:
    with opened(own.new_database(), away_s=0.3) as store:
        append(store, 1)
        store.fileno()
        own.kill()
        try:
            for use in (append_two, numbers, wait_long):
                with pytest.raises(LedgerAwayError) as caught:
                    use(store)
                assert "nothing was changed" in caught.value.hint
                assert "127.0.0.1" in caught.value.message
            with pytest.raises(LedgerAwayError):
                PostgresStore(own.url(), SystemClock())
        finally:
            own.start()
        append(store, 3)
        assert numbers(store) == [1, 3]


def append_two(store: Store) -> None:
    append(store, 2)


def newest(store: Store) -> object:
    return store.read(lambda reader: reader.recent(1))


def wait_long(store: Store) -> None:
    """The loss of the connection is a ring; who goes on waiting is told that the server is away."""
    for _ in range(3):
        store.wait(60)


def test_a_listener_hears_again_when_the_server_is_back(own: Server) -> None:
    url = own.new_database()
    with opened(url) as store, opened(url) as other:
        wait_for(lambda: not store.wait(0), what="an empty doorbell")
        own.kill()
        with starting(own):
            assert store.wait(60)
            append(other, 1)
        wait_for(lambda: store.wait(60) and numbers(store) == [1], what="the first event")
        append(other, 2)
        wait_for(lambda: store.wait(60) and numbers(store) == [1, 2], what="the second event")


@pytest.mark.parametrize("with_reading", [False, True], ids=["one-batch", "several-batches"])
@pytest.mark.parametrize("where", ["before", "after"])
def test_an_event_whose_commit_was_cut_off_is_there_exactly_once(
    postgres: Server, database: str, where: str, with_reading: bool
) -> None:
    def write(tx: Tx) -> int:
        if with_reading:
            tx.get("key")
        tx.append(PlainEvent("kind", {"n": 1}))
        return tx.put("key", {}) if with_reading else 1

    with Proxy(postgres.port, database.rpartition("/")[2]) as proxy, opened(proxy.url) as store:
        proxy.cut_next(where)
        assert store.run(write) == 1
        assert proxy.cuts == 1
        append(store, 2)
        assert numbers(store) == [1, 2]


def test_a_document_whose_commit_never_arrived_is_written_once(postgres: Server, database: str) -> None:
    with Proxy(postgres.port, database.rpartition("/")[2]) as proxy, opened(proxy.url) as store:
        proxy.cut_next("before")
        assert store.run(lambda tx: tx.put("key", {})) == 1
        assert proxy.cuts == 1


def test_a_lost_commit_that_had_written_nothing_is_made_again(postgres: Server, database: str) -> None:
    with Proxy(postgres.port, database.rpartition("/")[2]) as proxy, opened(proxy.url) as store:
        proxy.cut_next("after")
        assert store.run(lambda tx: tx.get("key")) is None
        assert proxy.cuts == 1


def test_a_commit_of_which_nothing_at_all_came_back_is_never_made_twice(postgres: Server, database: str) -> None:
    with Proxy(postgres.port, database.rpartition("/")[2]) as proxy, opened(proxy.url) as store:
        proxy.cut_next("silent")
        append(store, 1)
        proxy.cut_next("silent")
        with suppress(LedgerAwayError):
            store.run(lambda tx: tx.put("key", {}))
        assert proxy.cuts == 2
        append(store, 2)
        assert numbers(store) == [1, 2]
        document = store.read(lambda reader: reader.get("key"))
        assert document is not None
        assert document.revision == 1


@pytest.mark.parametrize("where", ["before", "after", "silent"])
def test_a_renewal_whose_commit_was_cut_off_is_made_again(postgres: Server, database: str, where: str) -> None:
    with Proxy(postgres.port, database.rpartition("/")[2]) as proxy, opened(proxy.url) as store:
        lease = store.run(lambda tx: tx.acquire("lease", "a", 600))
        assert lease is not None
        proxy.cut_next(where)
        renewed = store.run(lambda tx: tx.renew(lease, 600))
        assert proxy.cuts == 1
        assert store.read(lambda reader: reader.leases("")) == [renewed]


def test_a_commit_that_may_still_come_is_not_made_again(postgres: Server, database: str) -> None:
    name = database.rpartition("/")[2]
    with Proxy(postgres.port, name) as proxy, opened(proxy.url, away_s=0.3) as store:
        lease = store.run(lambda tx: tx.acquire("lease", "a", 600))
        assert lease is not None
        uses: list[Callable[[Store], object]] = [append_two, lambda store: store.run(lambda tx: tx.renew(lease, 600))]
        for use in uses:
            proxy.cut_next("left")
            with pytest.raises(LedgerAwayError) as caught:
                use(store)
            assert "look before trying again" in caught.value.hint
        assert proxy.cuts == 2
        assert store.read(lambda reader: reader.leases("")) == [lease]
        assert newest(store) == []


def test_a_commit_in_doubt_whose_event_may_be_in_the_archive_is_not_made_again(
    postgres: Server, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_told = PostgresStore._is_told

    def archive_first(store: PostgresStore, session: Session, tx: PostgresTx) -> bool:
        with opened(database) as other:
            wait_for(other.settled, what="all events told")
            other.run(lambda tx: compact_part(tx, time.time() + 3600))
        return is_told(store, session, tx)

    with Proxy(postgres.port, database.rpartition("/")[2]) as proxy, opened(proxy.url) as store:
        monkeypatch.setattr(PostgresStore, "_is_told", archive_first)
        proxy.cut_next("after")
        with pytest.raises(LedgerAwayError) as caught:
            append(store, 1)
        assert "look before trying again" in caught.value.hint
        assert numbers(store) == [1]


def test_a_commit_is_found_although_the_server_has_not_seen_that_its_client_is_gone(
    postgres: Server, database: str
) -> None:
    with Proxy(postgres.port, database.rpartition("/")[2]) as proxy, opened(proxy.url) as store:
        proxy.cut_next("deaf")
        append(store, 1)
        assert proxy.cuts == 1
        assert numbers(store) == [1]


def test_a_commit_through_a_pooler_is_found_after_the_server_has_lost_ids_in_a_crash() -> None:
    with new_server(wal_writer_delay="10s") as server, Pooler(server) as pooler:
        url = server.new_database()
        with opened(url) as store:
            append(store, 1)
        server.execute("CHECKPOINT")
        with closing(psycopg.connect(url)) as other:
            # Given out and never used, so that the server knows nothing of them when it comes back.
            for _ in range(30):
                other.execute("SELECT pg_current_xact_id()")
                other.rollback()
        pooler.start()
        with Proxy(pooler.port, url.rpartition("/")[2]) as proxy, opened(proxy.url) as store:
            server.kill()
            server.start()
            proxy.cut_next("after")
            append(store, 2)
            assert proxy.cuts == 1
        with opened(url) as store:
            assert numbers(store) == [1, 2]


@contextmanager
def interrupted_while_waiting(database: str) -> Iterator[None]:
    """A Ctrl-C as soon as what is done here waits for a lock."""
    main = threading.get_ident()

    def interrupt() -> None:
        waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted AND locktype = 'relation'"
        with psycopg.connect(database, autocommit=True) as third:
            wait_for(lambda: third.execute(waiting).fetchone() == (1,), what="somebody to wait")
        signal.pthread_kill(main, signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        yield
    thread.join()


@pytest.mark.parametrize("use", ["renewal", "claim"])
def test_who_was_interrupted_while_waiting_for_an_answer_goes_on_with_another_connection(
    database: str, use: str
) -> None:
    with opened(database) as store, closing(psycopg.connect(database)) as blocker:
        lease = store.run(lambda tx: tx.acquire("lease", "a", 600))
        assert lease is not None
        blocker.execute("LOCK TABLE dogwatch.leases, dogwatch.items IN ACCESS EXCLUSIVE MODE")
        with interrupted_while_waiting(database):
            store.run(lambda tx: tx.renew(lease, 600) if use == "renewal" else tx.claim("q", "a", 600))
        blocker.rollback()
        assert store.run(lambda tx: tx.push("q", {}, "a")) == "a"


SENT_AT_ONCE: dict[str, tuple[Callable[[Tx], object], Callable[[Reader], object]]] = {
    "event": (lambda tx: tx.append(PlainEvent("kind", {})), lambda reader: len(reader.recent(10, kinds=("kind",)))),
    "document": (lambda tx: tx.put("key", {}, 1), lambda reader: [one.revision for one in reader.scan("key")]),
    "item": (lambda tx: tx.claim("queue", "a", 600), lambda reader: [item.state for item in reader.items("queue")]),
    "lease": (
        lambda tx: tx.renew(Lease("lease", "a", 0, 1, tx.now, tx.now), 600),
        lambda reader: [lease.renewed.mono for lease in reader.leases("lease")],
    ),
}


@pytest.mark.parametrize("what", SENT_AT_ONCE)
def test_who_has_read_what_is_changed_meanwhile_is_sent_back(database: str, what: str) -> None:
    """However the change is sent: who reads and then writes something else is not alone with it."""
    change, look = SENT_AT_ONCE[what]
    with opened(database) as changing, opened(database) as store, opened(database) as other:
        changing.run(lambda tx: (tx.acquire("lease", "a", 600), tx.put("key", {}, 0), tx.push("queue", {}, "item")))
        calls = 0

        def note(tx: Tx) -> None:
            nonlocal calls
            calls += 1
            found = look(tx)
            if calls == 1:
                changing.run(change)
                # Sees the change, and no note yet: so the note must be of one that has seen it, too.
                other.run(lambda tx: tx.put("seen", {"found": look(tx), "note": tx.get("note") is not None}, 0))
            tx.put("note", {"found": found})

        store.run(note)
        assert calls == 2
        kept, now = store.read(lambda reader: (reader.get("note"), look(reader)))
        assert kept is not None
        assert kept.body == {"found": now}


def test_who_is_set_to_read_only_by_default_can_still_renew(database: str) -> None:
    with opened(f"{database}?options=-cdefault_transaction_read_only%3Don") as store:
        lease = store.run(lambda tx: tx.acquire("lease", "a", 600))
        assert lease is not None
        renewed = store.run(lambda tx: tx.renew(lease, 600))
        assert store.read(lambda reader: reader.leases("")) == [renewed]


def test_a_renewal_that_meets_a_takeover_waits_for_it_and_is_refused(database: str) -> None:
    with opened(database) as store, psycopg.connect(database) as other, ThreadPoolExecutor(1) as pool:
        lease = store.run(lambda tx: tx.acquire("lease", "a", 600))
        assert lease is not None
        other.execute("UPDATE dogwatch.leases SET holder = 'b', fence = fence + 1")
        renewing = pool.submit(store.run, lambda tx: tx.renew(lease, 600))
        waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted AND locktype = 'transactionid'"
        with psycopg.connect(database, autocommit=True) as third:
            wait_for(lambda: third.execute(waiting).fetchone() == (1,), what="the renewal to wait")
        other.commit()
        with pytest.raises(StaleError):
            renewing.result(60)
        held = store.read(lambda reader: reader.leases(""))
        assert [(one.holder, one.fence) for one in held] == [("b", lease.fence + 1)]


def test_a_standby_that_has_not_heard_of_a_commit_does_not_say_what_became_of_it(own: Server) -> None:
    name = own.new_database().rpartition("/")[2]
    with opened(own.url(name)) as store:
        append(store, 1)
    with own.standby(synchronous=False) as standby:
        wait_for(lambda: standby.execute("SELECT count(*) FROM dogwatch.events", name) == [(1,)], what="the standby")
        standby.execute("SELECT pg_wal_replay_pause()")
        with Proxy(own.port, name) as proxy, opened(proxy.url, away_s=0.5) as store:
            proxy.port = standby.port
            proxy.cut_next("after")
            with pytest.raises(LedgerAwayError) as caught:
                append(store, 2)
            assert "look before trying again" in caught.value.hint
            assert proxy.cuts == 1
    with opened(own.url(name)) as store:
        assert numbers(store) == [1, 2]


def test_a_role_that_sees_no_other_session_does_not_take_an_open_one_for_ended(postgres: Server, database: str) -> None:
    name = database.rpartition("/")[2]
    with opened(database) as store:
        append(store, 1)
    # As where one logs in for others: the session belongs to a role whose details the role it works as cannot see.
    postgres.execute("CREATE ROLE blind; GRANT blind TO dogwatch", name)
    try:
        postgres.execute(
            "GRANT USAGE ON SCHEMA dogwatch TO blind; GRANT ALL ON ALL TABLES IN SCHEMA dogwatch TO blind;"
            " GRANT ALL ON ALL SEQUENCES IN SCHEMA dogwatch TO blind",
            name,
        )
        with Proxy(postgres.port, name) as proxy, opened(f"{proxy.url}&options=-crole%3Dblind", away_s=0.3) as store:
            proxy.cut_next("left")
            with pytest.raises(LedgerAwayError) as caught:
                append_two(store)
            assert "look before trying again" in caught.value.hint
            assert numbers(store) == [1]
    finally:
        postgres.execute("DROP OWNED BY blind; DROP ROLE blind", name)


def test_a_hung_server_is_an_error_and_not_a_hang(own: Server) -> None:
    url = own.new_database() + "?connect_timeout=2"
    with opened(url, away_s=0.5, answer_s=0.5) as store:
        append(store, 1)
        own.pause()
        try:
            begun = time.monotonic()
            for use in (numbers, append_two):
                with pytest.raises(LedgerAwayError) as caught:
                    use(store)
                assert caught.value.hint
            assert time.monotonic() - begun < 60
        finally:
            own.resume()
    with opened(url) as store:
        append(store, 3)
        found = numbers(store)
        assert found in ([1, 3], [1, 2, 3], [1, 3, 2])


def test_who_stopped_inside_a_transaction_is_thrown_out_and_cannot_write_late(postgres: Server, database: str) -> None:
    opener = UrlOpener(database)
    name = database.rpartition("/")[2]
    with opened(database) as store, child(opener, "stop_inside", "2") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "inside\n"
        wait_for(lambda: Path(f"/proc/{process.pid}/stat").read_text().rpartition(") ")[2][0] == "T", what="a stop")
        lease = wait_for(lambda: store.run(lambda tx: tx.acquire("lease", "b", 600)), what="the lease to run out")
        look = "SELECT datname FROM pg_stat_activity WHERE state = 'idle in transaction'"
        wait_for(lambda: (name,) not in postgres.execute(look), what="the stopped one to be thrown out")
        store.run(lambda tx: (tx.put("key", {"by": "b"}), tx.append(PlainEvent("kind", {"n": 1}))))
        assert numbers(store) == [1]
        process.send_signal(signal.SIGCONT)
        assert finish(process) == ["stale"]
        assert lease is not None
        assert lease.fence == 2
        document = store.read(lambda reader: reader.get("key"))
        assert document is not None
        assert (document.body, document.revision) == ({"by": "b"}, 1)


def test_a_commit_that_was_lost_in_a_crash_is_not_taken_for_the_stranger_that_got_its_id() -> None:
    # With a slow writer of the log, an id is given out and forgotten again in the crash.
    with new_server(fsync="on", wal_writer_delay="10s") as server:
        url = server.new_database()
        calls = 0

        def write(tx: Tx) -> None:
            nonlocal calls
            calls += 1
            tx.append(PlainEvent("mine", {}), "mine")
            tx.get("key")
            if calls == 1:
                commit = tx.commit  # type: ignore[attr-defined]
                tx.commit = lambda: crash(commit)  # type: ignore[attr-defined]

        def crash(commit: Callable[[], None]) -> None:
            server.kill()
            server.start()
            with opened(url) as strangers:
                for number in range(20):
                    append(strangers, number)
            commit()

        with opened(url) as store:
            store.run(lambda tx: tx.put("key", {}))
            store.run(write)
            assert [event.kind for event in store.since(START, 100)].count("mine") == 1
        assert calls == 2


def half(tx: Tx) -> None:
    tx.append(PlainEvent("half", {"n": 0}))
    raise KeyboardInterrupt


@pytest.mark.parametrize("is_sent", [False, True], ids=["not sent yet", "sent"])
@pytest.mark.parametrize("then", ["close", "wait", "append"])
def test_what_was_broken_off_and_not_even_undone_is_committed_by_nothing_else(
    database: str, monkeypatch: pytest.MonkeyPatch, then: str, is_sent: bool
) -> None:
    def interrupted(tx: PostgresTx) -> None:
        monkeypatch.undo()
        raise KeyboardInterrupt

    def write(tx: Tx) -> None:
        if is_sent:
            tx.put("half", {})
        half(tx)

    with opened(database) as store, opened(database) as other:
        with monkeypatch.context() as slowly:
            # Soon after the first ring there is no second one, however slow this machine is.
            slowly.setattr("dogwatch.ledger.postgres.RING_S", 3600.0)
            append(store, 1)
            append(store, 2)
        assert store._ring_due is not None
        store._ring_due = time.monotonic() + RING_S
        monkeypatch.setattr(PostgresTx, "end", interrupted)
        with pytest.raises(KeyboardInterrupt):
            store.run(write)
        if then == "close":
            store.close()
        elif then == "wait":
            store.wait(0)
            store.wait(0.3)
        else:
            append(store, 3)
        wait_for(other.settled, what="all events told")
        assert numbers(other) == [1, 2, *([3] if then == "append" else [])]
        assert other.read(lambda reader: reader.get("half")) is None


def test_a_store_that_is_closed_within_a_transaction_commits_no_half_of_it(database: str) -> None:
    with opened(database) as store, opened(database) as other:
        append(store, 1)
        append(store, 2)

        def write(tx: Tx) -> None:
            tx.append(PlainEvent("half", {"n": 0}))
            store.close()
            raise ValueError("no more")

        with pytest.raises(ValueError, match="no more"):
            store.run(write)
        assert numbers(other) == [1, 2]


@pytest.mark.parametrize("how", ["interrupted", "refused"])
def test_a_ring_that_cannot_be_made_hurts_no_transaction(database: str, how: str) -> None:
    with opened(database) as store, closing(psycopg.connect(database)) as blocker:
        store.run(lambda tx: tx.put("key", {}, 0))
        store._rung = 0.0
        blocker.execute("LOCK TABLE dogwatch.bell IN ACCESS EXCLUSIVE MODE")
        if how == "interrupted":
            with interrupted_while_waiting(database):
                append(store, 1)
        else:
            append(store, 1)
            assert store._ring_due is not None
            assert store._ring_due > time.monotonic() + 1, "the next transactions do not wait for it again"
        blocker.rollback()
        assert store.run(lambda tx: tx.put("key", {}, 1)) == 2
        assert numbers(store) == [1]


def test_who_was_interrupted_just_after_a_pick_leaves_no_mark(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    finish_batch = Session.finish

    def interrupted(session: Session, begin: str = "") -> None:
        finish_batch(session, begin)
        if begin == LOOKING:
            monkeypatch.undo()
            raise KeyboardInterrupt

    with opened(database) as store, opened(database) as other:
        store.run(lambda tx: [tx.push("queue", {}, name) for name in ("first", "second")])
        monkeypatch.setattr(Session, "finish", interrupted)
        with pytest.raises(KeyboardInterrupt):
            store.run(lambda tx: tx.claim("queue", "a", 600))
        held = f"SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND classid = {0x4447 << 16}"
        with psycopg.connect(database, autocommit=True) as third:
            wait_for(lambda: third.execute(held).fetchone() == (0,), what="the mark to be gone")
        item = other.run(lambda tx: tx.claim("queue", "b", 600))
        assert item is not None
        assert item.id == "first"


def test_only_what_has_no_event_waits_for_its_id(postgres: Server, database: str) -> None:
    with Proxy(postgres.port, database.rpartition("/")[2]) as proxy, opened(proxy.url) as store:
        append(store, 1)
        assert proxy.flushes == 0
        store.run(lambda tx: tx.put("key", {}, 0))
        assert proxy.flushes == 1


REFUSE_AT_THE_END = """
    CREATE SEQUENCE dogwatch.tries;
    CREATE FUNCTION dogwatch.refuse_at_first() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        IF nextval('dogwatch.tries') <= 2 THEN RAISE EXCEPTION 'not now' USING ERRCODE = TG_ARGV[0]; END IF;
        RETURN NULL;
    END $$;
    CREATE CONSTRAINT TRIGGER at_the_end AFTER INSERT OR UPDATE ON dogwatch.{table}
        DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION dogwatch.refuse_at_first('{state}');
"""


@pytest.mark.parametrize("is_framed", [False, True], ids=["by-itself", "framed"])
@pytest.mark.parametrize("table", ["events", "leases", "items"])
def test_what_is_refused_only_when_it_is_committed_is_made_again_once(
    postgres: Server, database: str, table: str, is_framed: bool
) -> None:
    with opened(database) as store:
        lease = store.run(lambda tx: tx.acquire("lease", "a", 600))
        assert lease is not None
        store.run(lambda tx: tx.push("queue", {}, "item"))
        assert store._session is not None
        store._session.is_framed = is_framed
        postgres.execute(REFUSE_AT_THE_END.format(table=table, state="40001"), database.rpartition("/")[2])
        attempts = 0

        def write(tx: Tx) -> object:
            nonlocal attempts
            attempts += 1
            if table == "events":
                return tx.append(PlainEvent("kind", {"n": 1}))
            return tx.renew(lease, 600) if table == "leases" else tx.claim("queue", "b", 600)

        answer = store.run(write)
        assert attempts == 3
        assert numbers(store) == ([1] if table == "events" else [])
        held = store.read(lambda reader: (*reader.leases(""), *(i for i in reader.items("queue") if i.holder)))
        assert held == ((lease,) if table == "events" else (answer,) if table == "leases" else (lease, answer))


def test_a_disk_that_is_full_at_the_commit_is_an_error_and_nothing_is_written(postgres: Server, database: str) -> None:
    with opened(database) as store:
        postgres.execute(REFUSE_AT_THE_END.format(table="events", state="53100"), database.rpartition("/")[2])
        for _ in range(2):
            with pytest.raises(LedgerFullError):
                append(store, 1)
            assert numbers(store) == []
        append(store, 2)
        assert numbers(store) == [2]


def test_who_may_not_even_look_for_an_item_is_told_so_and_goes_on(database: str) -> None:
    with opened(database) as store, closing(psycopg.connect(database)) as foreign:
        store.run(lambda tx: tx.push("queue", {}, "item"))
        foreign.execute("LOCK TABLE dogwatch.items IN ACCESS EXCLUSIVE MODE")
        with pytest.raises(LedgerLockedError):
            store.run(lambda tx: tx.claim("queue", "a", 600))
        append(store, 1)
        foreign.rollback()
        item = store.run(lambda tx: tx.claim("queue", "a", 600))
        assert item is not None
        assert item.fence == 1


def test_a_look_that_is_refused_leaves_nothing_open(database: str) -> None:
    with closing(Session(database, 60)) as session:
        with pytest.raises(ServerError):
            session.ask_apart("SELECT 1 / 0")
        assert session.ask("SELECT 1") == [(1,)]
        assert session.ask_apart("SELECT 2") == [(2,)]


def test_who_is_kept_waiting_by_a_foreign_lock_is_told_so(postgres: Server, database: str) -> None:
    with opened(database) as store, psycopg.connect(database) as foreign:
        store.run(lambda tx: tx.put("key", {}))
        foreign.execute("UPDATE dogwatch.documents SET body = '{}' WHERE key = 'key'")
        with pytest.raises(LedgerLockedError) as caught:
            store.run(lambda tx: tx.put("key", {"n": 2}))
        assert "pg_stat_activity" in caught.value.hint
        foreign.rollback()
        assert store.run(lambda tx: tx.put("key", {})) == 2


def test_every_acknowledged_event_outlives_a_killed_server_and_none_is_there_twice(own: Server) -> None:
    url = own.new_database()
    with ExitStack() as stack:
        writers = [stack.enter_context(child(UrlOpener(url), "persist", name, "40")) for name in "abc"]
        outputs = [writer.stdout for writer in writers if writer.stdout]
        assert [output.readline() for output in outputs] == ["1\n"] * 3
        own.kill()
        own.start()
        said = {name: output.read().split() for name, output in zip("abc", outputs, strict=True)}
        assert [writer.wait(60) for writer in writers] == [0] * 3
    with opened(url) as store:
        events = follow(store)
    for name, lines in said.items():
        assert len(lines) == 39
        acknowledged = [1, *(int(line) for line in lines if line.isdigit())]
        doubtful = {int(line[1:]) for line in lines if line.startswith("?")}
        kept = [event.body["n"] for event in events if event.body["writer"] == name]
        assert len(kept) == len(set(kept))
        assert set(acknowledged) <= set(kept) <= set(acknowledged) | doubtful


def test_a_server_without_room_refuses_writes_keeps_what_it_has_and_goes_on_with_room() -> None:
    own_mounts = ["unshare", "--mount"] if os.geteuid() == 0 else ["unshare", "--mount", "--map-root-user"]
    argv = [*own_mounts, sys.executable, str(HERE / "parts/full_server.py")]
    environment = {**os.environ, "PYTHONPATH": str(HERE.parent)}
    done = subprocess.run(argv, capture_output=True, text=True, timeout=120, check=False, env=environment)
    assert done.returncode == 0, done.stderr
