"""The simulator's ledger under the ledger's contract, side by side with SQLite, and what is true of it alone."""

from __future__ import annotations

import json
import select
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import asdict, replace
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from contract.ledger_contract import LedgerContract
from contract.parts.archive import ArchiveContract
from dogwatch.errors import DogwatchError, LedgerError, LedgerLockedError
from dogwatch.ledger import open_store
from dogwatch.ledger.api import START, Clock, Item, Lease, Reader, Store, StoredEvent, Tx
from dogwatch.ledger.records import change, load, load_all, save
from dogwatch.model.life import NotStarted
from dogwatch.model.records import AgentRecord, TaskRecord
from dogwatch.model.redact import Redactor
from dogwatch.sim.ledger import SimLedger, SimStore
from dogwatch.testing.clock import ManualClock
from dogwatch.testing.events import PlainEvent
from dogwatch.world.clock import SystemClock
from support.records import agent_record


class SimOpener:
    """Opens stores on one ledger in memory, which has no address: no other process and no other thread has it."""

    url = ""

    def __init__(self) -> None:
        self._ledger = SimLedger()
        self._opened: list[SimStore] = []

    def __call__(self, clock: Clock | None = None) -> SimStore:
        self._opened.append(SimStore(clock or SystemClock(), self._ledger))
        return self._opened[-1]

    def close(self) -> None:
        for store in self._opened:
            store.close()


@pytest.fixture
def opener() -> Iterator[SimOpener]:
    made = SimOpener()
    yield made
    made.close()


class TestSimLedger(LedgerContract):
    """The contract, but for what the memory of one thread cannot have."""


OTHER_PROCESSES = (
    "test_a_follower_misses_nothing_of_several_writers_and_sees_the_order_of_the_commits",
    "test_no_increment_of_several_writers_is_lost",
    "test_every_item_goes_to_exactly_one_of_several_claimers",
    "test_a_commit_of_another_process_rings_the_doorbell",
    "test_no_acknowledged_append_is_lost_when_its_writers_are_killed",
    "test_a_cursor_of_recent_misses_nothing_that_is_committed_later",
    "test_six_processes_share_a_queue_with_nothing_twice_and_nothing_left",
    "test_only_one_of_several_processes_is_inside_a_lease_at_a_time",
    "test_a_store_that_was_interrupted_anywhere_gives_right_answers_and_loses_nothing",
)
"""Each starts processes that open the same ledger: nobody else can get at this process's memory."""
OTHER_THREADS = (
    "test_of_two_that_each_read_what_the_other_writes_the_second_decides_anew",
    "test_who_found_nothing_and_wrote_for_that_reason_was_right",
)
"""Each opens the same address in several threads at once; a simulation has one, and its ledger no address."""
ARCHIVE = tuple(name for name in vars(ArchiveContract) if name.startswith("test_"))
"""Old events are packed by statements on tables, and this ledger has none."""

for left_out in (*OTHER_PROCESSES, *OTHER_THREADS, *ARCHIVE):
    assert hasattr(LedgerContract, left_out), left_out
    setattr(TestSimLedger, left_out, None)


NAMES = st.sampled_from(["a", "a/b", "task/a", "b", "", "é"])
BODIES = st.sampled_from(
    [{}, {"n": 1, "t": (1, 2)}, {"token": "ghp_" + "a" * 36}, {"x": float("nan")}, {"deep": [{"k": None}]}]
)
REVISIONS = st.sampled_from([None, 0, 1, 2, -1])
TTLS = st.sampled_from([1, 3, 7.5, 0])
WHO = st.sampled_from(["x", "y"])
HELD = st.integers(0, 3)
"""Which of the latest leases or items is used, also one that no longer stands."""
CALLS = st.one_of(
    st.tuples(st.just("append"), NAMES, BODIES, st.sampled_from(["", "op-1", "op-2"]), NAMES),
    st.tuples(st.just("put"), NAMES, BODIES, REVISIONS),
    st.tuples(st.just("delete"), NAMES, REVISIONS),
    st.tuples(st.just("acquire"), NAMES, WHO, TTLS, st.integers(0, 3)),
    st.tuples(st.sampled_from(["renew", "check", "release"]), HELD, TTLS),
    st.tuples(st.just("push"), NAMES, BODIES, st.sampled_from(["1", "2", "3"]), st.sampled_from([None, 1, 5, -1])),
    st.tuples(st.just("claim"), NAMES, WHO, TTLS, st.sampled_from(["", "", "2"])),
    st.tuples(st.sampled_from(["extend", "ack", "give_back"]), HELD, TTLS),
)
STEPS = st.one_of(
    st.tuples(st.just("run"), st.lists(CALLS, max_size=6)),
    st.tuples(st.just("fail"), st.lists(CALLS, max_size=6)),
    st.tuples(st.just("advance"), st.sampled_from([0.5, 1, 3])),
    st.tuples(st.just("step_wall"), st.sampled_from([-100, 100])),
    st.tuples(st.just("reboot"), st.none()),
)


class Hand:
    """Makes calls on one store and remembers what it was granted."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.leases: list[Lease] = []
        self.items: list[Item] = []

    def transaction(self, calls: list[Any], *, fails: bool) -> list[Any]:
        """What each call answered, and what was to be seen inside; a refusal counts as an answer."""
        answers: list[Any] = []

        def fn(tx: Tx) -> None:
            answers.extend(self._answer(tx, *call) for call in calls)
            answers.append(view(tx))
            if fails:
                raise ZeroDivisionError

        try:
            self.store.run(fn)
        except ZeroDivisionError:
            answers.append("undone")
        return answers

    def _answer(self, tx: Tx, verb: str, *arguments: Any) -> Any:
        try:
            return self._call(tx, verb, *arguments)
        except DogwatchError as error:
            return type(error), str(error)

    def _call(self, tx: Tx, verb: str, *arguments: Any) -> Any:
        if verb == "append":
            kind, body, op_id, run = arguments
            return tx.append(PlainEvent(kind, body, run=run, agent="agent"), op_id)
        if verb == "push":
            queue, body, identity, ttl_s = arguments
            return tx.push(queue, body, identity, ttl_s=ttl_s)
        held: list[Any] = self.leases if verb in ("renew", "check", "release") else self.items
        if verb in ("renew", "check", "release", "extend", "ack", "give_back"):
            number, ttl_s = arguments
            if number >= len(held):
                return None
            return getattr(tx, verb)(held[-1 - number], *([ttl_s] if verb in ("renew", "extend") else []))
        answer = getattr(tx, verb)(*arguments)
        if isinstance(answer, Lease):
            self.leases.append(answer)
        elif isinstance(answer, Item):
            self.items.append(answer)
        return answer


def plain(events: Sequence[StoredEvent]) -> list[StoredEvent]:
    """The events without their cursors, which mean something only to the engine that has made them."""
    return [replace(event, cursor="") for event in events]


def told(store: Store) -> list[list[StoredEvent]]:
    """What follows the start and each event, all of it or a little, of every run or of one."""
    cursors = [START, *(event.cursor for event in store.since(START, 99))]
    return [plain(store.since(cursor, n, run)) for cursor in cursors for n in (2, 99) for run in ("", "a")]


def view(reader: Reader) -> list[Any]:
    """Everything that can be read."""
    return [
        list(reader.scan("")),
        list(reader.scan("a/")),
        list(reader.keys("a")),
        list(reader.queues("a")),
        list(reader.leases("")),
        *(list(reader.items(queue)) for queue in ("a", "a/b", "b", "none")),
        *(
            plain(reader.recent(n, run, kinds))
            for n in (2, 99)
            for run in ("", "a")
            for kinds in ((), ("a", "b"), ("",))
        ),
    ]


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(steps=st.lists(STEPS, max_size=12))
def test_any_calls_are_answered_as_by_sqlite(steps: list[tuple[str, Any]]) -> None:
    clock = ManualClock()
    with TemporaryDirectory(prefix="dw") as folder, closing(open_store(f"{folder}/ledger.db", clock)) as sqlite:
        ours, theirs = Hand(SimStore(clock)), Hand(sqlite)
        for verb, argument in steps:
            if verb in ("run", "fail"):
                answers = [hand.transaction(argument, fails=verb == "fail") for hand in (ours, theirs)]
                assert answers[0] == answers[1]
            else:
                getattr(clock, verb)(*([] if argument is None else [argument]))
            assert ours.store.read(view) == sqlite.read(view)
            assert told(ours.store) == told(sqlite)


def everything(store: Store) -> list[Any]:
    return [store.read(lambda reader: [view(reader), list(reader.items("queue"))]), store.since(START, 1000)]


def filled(store: Store) -> Lease:
    def fn(tx: Tx) -> Lease:
        for number in range(3):
            tx.put(f"key/{number}", {"n": number})
            tx.push("queue", {"n": number}, f"item-{number}")
            tx.append(PlainEvent("kind", {"n": number}, run="run"), f"op-{number}")
        lease = tx.acquire("lease", "holder", 60, slots=2)
        assert lease is not None
        return lease

    return store.run(fn)


def test_a_failure_half_way_through_every_kind_of_change_leaves_no_trace() -> None:
    clock = ManualClock()
    store = SimStore(clock)
    lease = filled(store)
    before = everything(store)

    def fail(tx: Tx) -> None:
        tx.put("key/1", {"n": "changed"})
        tx.put("key/1", {"n": "changed again"})
        tx.delete("key/0")
        tx.put("key/0", {"n": "new"})
        tx.delete("key/2")
        tx.put("key/3", {})
        tx.append(PlainEvent("kind", {}, run="run"), "op-new")
        tx.append(PlainEvent("other", {}))
        for _ in range(2):
            item = tx.claim("queue", "a", 60)
            assert item is not None
            tx.ack(item)
        tx.push("queue", {})
        tx.push("queue-2", {})
        tx.renew(lease, 600)
        tx.release(lease)
        assert tx.acquire("lease", "other", 60, slots=2)
        assert tx.acquire("lease-2", "other", 60)
        raise ZeroDivisionError

    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            store.run(fail)
        assert everything(store) == before
    assert store.integrity() == []

    def go_on(tx: Tx) -> list[Any]:
        second = tx.acquire("lease", "other", 60, slots=2)
        return [
            tx.append(PlainEvent("kind", {}), "op-new"),
            tx.put("key/0", {}),
            second and second.fence,
            tx.push("queue", {}),
        ]

    assert store.run(go_on) == [True, 2, 2, f"{4:016x}"]
    assert [item.id for item in store.read(lambda reader: reader.items("queue"))][:3] == ["item-0", "item-1", "item-2"]


def test_another_store_can_read_but_not_write_while_a_transaction_is_open() -> None:
    ledger = SimLedger()
    store, other = (SimStore(ManualClock(), ledger) for _ in range(2))
    filled(store)
    before = everything(store)

    def write(tx: Tx) -> None:
        tx.delete("key/0")
        item = tx.claim("queue", "a", 60)
        assert item is not None
        tx.ack(item)
        tx.append(PlainEvent("kind", {}))
        assert everything(other) == before
        with pytest.raises(LedgerLockedError):
            other.run(lambda inner: inner.put("key", {}))

    store.run(write)
    assert everything(other) == everything(store) != before
    assert other.run(lambda tx: tx.put("key", {})) == 1


def test_the_same_calls_leave_the_same_bytes() -> None:
    def play() -> bytes:
        clock = ManualClock()
        store = SimStore(clock)
        lease = filled(store)
        for number in range(20):
            clock.advance(1)

            def step(tx: Tx, number: int = number) -> None:
                pushed = tx.push("queue", {"n": number})
                tx.append(PlainEvent("pushed", {"id": pushed, "n": number}, run="run", agent=f"agent-{number % 3}"))
                item = tx.claim("queue", "holder", 5)
                tx.append(PlainEvent("claimed", {"id": item and item.id}))
                if number % 4 == 3:
                    raise ZeroDivisionError
                tx.renew(lease, 60)
                tx.put("key/now", {"at": tx.now.mono})

            try:
                store.run(step)
            except ZeroDivisionError:
                store.run(lambda tx: tx.append(PlainEvent("failed", {})))
        told = [asdict(event) for event in store.since(START, 1000)]
        kept = store.read(lambda r: [[asdict(one) for one in r.scan("")], [asdict(one) for one in r.items("queue")]])
        return json.dumps([told, kept]).encode()

    first = play()
    assert first == play()
    assert first.count(b'"pushed"') > 10


def test_an_id_is_made_that_no_queue_has_seen() -> None:
    store = SimStore(ManualClock())
    taken = f"{2:016x}"

    def fill(tx: Tx) -> list[str | None]:
        return [tx.push("queue", {}, taken), *(tx.push(queue, {}) for queue in ("queue", "other", "queue"))]

    assert len({identity for identity in store.run(fill) if identity}) == 4


AGENT = agent_record(run="run")


def loaded(store: Store) -> AgentRecord | None:
    return store.read(lambda reader: load(reader, AgentRecord, AGENT.key))


def test_an_unchanged_record_is_the_very_same_object() -> None:
    ledger = SimLedger()
    store, other = (SimStore(ManualClock(), ledger) for _ in range(2))
    store.run(lambda tx: save(tx, AGENT))
    first = loaded(store)
    assert first == AGENT
    assert loaded(other) is first
    assert store.run(lambda tx: load_all(tx, AgentRecord, "agent/run/")) == [first]
    changed = store.run(lambda tx: change(tx, AgentRecord, AGENT.key, lambda agent: replace(agent, busy=True)))
    assert loaded(other) == changed != first
    store.shrink()
    assert loaded(other) == changed


def test_no_record_of_a_transaction_that_was_undone_is_ever_seen() -> None:
    store = SimStore(ManualClock())
    store.run(lambda tx: save(tx, AGENT))

    def attempt(health: str) -> Callable[[Tx], None]:
        def fn(tx: Tx) -> None:
            change(tx, AgentRecord, AGENT.key, lambda agent: replace(agent, health=health))
            seen = load(tx, AgentRecord, AGENT.key)
            assert seen is not None
            assert seen.health == health
            raise ZeroDivisionError

        return fn

    # The second attempt has the same key and revision as the first, and another body.
    for health in ("stalled", "unresponsive"):
        with pytest.raises(ZeroDivisionError):
            store.run(attempt(health))
        assert loaded(store) == AGENT

    def remove(tx: Tx) -> None:
        tx.delete(AGENT.key)
        assert load(tx, AgentRecord, AGENT.key) is None
        save(tx, replace(AGENT, role="other"))
        assert load_all(tx, AgentRecord, "agent/") == [replace(AGENT, role="other")]
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        store.run(remove)
    assert loaded(store) == AGENT
    store.run(lambda tx: tx.delete(AGENT.key))
    assert loaded(store) is None


def test_a_reader_of_an_earlier_instant_sees_the_record_of_that_instant() -> None:
    ledger = SimLedger()
    store, other = (SimStore(ManualClock(), ledger) for _ in range(2))
    store.run(lambda tx: save(tx, AGENT))

    def look(reader: Reader) -> list[AgentRecord | None]:
        other.run(lambda tx: save(tx, replace(AGENT, busy=True)))
        assert loaded(other) == replace(AGENT, busy=True)
        return [load(reader, AgentRecord, AGENT.key)]

    assert store.read(look) == [AGENT]
    assert loaded(store) == replace(AGENT, busy=True)


def test_one_document_may_be_read_as_different_kinds() -> None:
    store = SimStore(ManualClock())
    task = TaskRecord(run="run", task="t", dispatch="t", phase=0, holders=("writer",), text="Write.")
    store.run(lambda tx: save(tx, task))

    def look(reader: Reader) -> list[object]:
        return [load(reader, TaskRecord, task.key), load(reader, AgentRecord, AGENT.key), reader.get(task.key)]

    assert store.read(look)[:2] == [task, None]
    store.run(
        lambda tx: tx.put("task/run/t", {"run": "run", "agent": "a", "role": "r", "life": {"kind": "not_started"}})
    )
    again = AgentRecord(run="run", agent="a", role="r", life=NotStarted())
    assert store.read(lambda reader: load(reader, AgentRecord, task.key)) == again


def test_what_the_writer_does_with_its_body_later_changes_nothing() -> None:
    store = SimStore(ManualClock())
    body: dict[str, Any] = {"list": [1], "tuple": (1, 2)}

    def write(tx: Tx) -> None:
        tx.put("key", body)
        tx.push("queue", body)
        tx.append(PlainEvent("kind", body))
        body["list"].append(2)
        body["more"] = True

    store.run(write)
    expected = {"list": [1], "tuple": [1, 2]}
    assert store.read(lambda r: [d.body for d in r.scan("")] + [i.body for i in r.items("queue")]) == [expected] * 2
    assert [event.body for event in store.since(START, 1)] == [expected]


def test_who_changes_a_body_that_was_read_is_found_out() -> None:
    store = SimStore(ManualClock())
    store.run(lambda tx: (tx.put("key", {"list": []}), tx.put("other", {})))
    assert store.integrity() == []
    document = store.read(lambda reader: reader.get("key"))
    assert document is not None
    document.body["list"].append(1)
    assert store.integrity() == ["the body of the document key was changed by somebody who has read it"]


def test_the_stores_own_secrets_are_taken_out() -> None:
    store = SimStore(ManualClock())
    store.redactor = Redactor({"correct-horse-battery": "PASSPHRASE"})
    body = {"said": "it is correct-horse-battery"}
    store.run(lambda tx: (tx.put("key", body), tx.put("task/run/t", body), tx.append(PlainEvent("kind", body))))
    bodies = store.read(lambda reader: [document.body for document in reader.scan("")])
    assert bodies == [{"said": "it is [redacted:PASSPHRASE]"}, body]
    assert store.since(START, 1)[0].body == bodies[0]


def test_the_doorbell_rings_for_others_and_not_for_renewals() -> None:
    ledger = SimLedger()
    store, other = (SimStore(ManualClock(), ledger) for _ in range(2))
    lease = filled(other)
    assert store.wait(0)
    assert not store.wait(0)
    for silent in (
        lambda tx: tx.renew(lease, 60),
        lambda tx: tx.check(lease),
        lambda tx: tx.get("key/0"),
        lambda tx: tx.delete("none"),
        lambda tx: tx.append(PlainEvent("kind", {}), "op-0"),
        lambda tx: tx.push("queue", {}, "item-0"),
    ):
        other.run(silent)
        assert not select.select([store.fileno()], [], [], 0)[0]
    with pytest.raises(ZeroDivisionError):
        other.run(lambda tx: (tx.put("key/0", {}), 1 / 0))
    assert not store.wait(0)
    for told in (lambda tx: tx.put("key/0", {}), lambda tx: tx.release(lease), lambda tx: tx.claim("queue", "a", 9)):
        other.run(told)
        assert select.select([store.fileno()], [], [], 0)[0]
        assert store.wait(0)
    store.close()
    other.close()


def test_a_store_that_is_closed_refuses_and_its_ledger_stays() -> None:
    ledger = SimLedger()
    store = SimStore(ManualClock(), ledger)
    store.run(lambda tx: tx.put("key", {"n": 1}))
    store.close()
    for use in (
        lambda: store.run(lambda tx: tx.put("key", {})),
        lambda: store.read(lambda reader: reader.get("key")),
        lambda: store.since(START, 1),
        store.fileno,
    ):
        with pytest.raises(LedgerError):
            use()
    assert keys(SimStore(ManualClock(), ledger)) == ["key"]


def keys(store: Store) -> list[str]:
    return [document.key for document in store.read(lambda reader: reader.scan(""))]


def test_nothing_is_read_from_a_transaction_that_is_over() -> None:
    store = SimStore(ManualClock())
    store.run(lambda tx: tx.put("key", {}))
    uses: list[Callable[[Reader], object]] = [
        lambda reader: reader.get("key"),
        lambda reader: reader.scan(""),
        lambda reader: reader.items("queue"),
        lambda reader: reader.leases(""),
        lambda reader: reader.recent(1),
    ]
    readers: list[Reader] = [store.read(lambda reader: reader), store.run(lambda tx: tx)]
    for reader in readers:
        for use in uses:
            with pytest.raises(LedgerError, match="over"):
                use(reader)


def test_it_says_how_much_it_holds() -> None:
    store = SimStore(ManualClock())
    assert store.measures() == {"engine": "memory", "bytes": 0}
    store.run(lambda tx: (tx.put("key", {"n": 1}), tx.push("queue", {}), tx.append(PlainEvent("kind", {"n": 10}))))
    assert store.measures()["bytes"] == len('{"n":1}') + len("{}") + len('{"n":10}')
    assert store.settled()
