"""What is read of a run: every part of it has its place, and the simulator notices when one changes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from dogwatch.coordination.runs import create_run
from dogwatch.ledger.api import Document, Reader, Tx
from dogwatch.ledger.plain_records import PlainReading
from dogwatch.ledger.records import VIEWED, load_run
from dogwatch.model.plan import ByteCheck, Phase, Plan, Role
from dogwatch.model.records import AgentRecord
from dogwatch.sim.ledger import SimStore
from dogwatch.testing.clock import ManualClock

PLAN = Plan(
    name="v",
    roles=(Role(name="writer", harness="scripted", instructions="/rules.md"),),
    phases=(Phase(name="draft"),),
    deliverable=ByteCheck(path="draft.md"),
)
RUN = "v-1"


class Recorded(PlainReading):
    """A reader that notes what it was asked for, and remembers no view."""

    host = ""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self.keys: list[str] = []

    def get(self, key: str) -> Document | None:
        self.keys.append(key)
        return self._reader.get(key)

    def scan(self, prefix: str) -> list[Document]:
        self.keys.append(prefix)
        return list(self._reader.scan(prefix))


@pytest.fixture
def store() -> Iterator[SimStore]:
    store = SimStore(ManualClock())
    store.run(lambda tx: create_run(tx, PLAN, "/project", "/out", "/v.yaml"))
    yield store
    store.close()


def test_all_that_is_in_a_view_is_listed(store: SimStore) -> None:
    def read(reader: Reader) -> list[str]:
        recorded = Recorded(reader)
        load_run(recorded, RUN)  # type: ignore[arg-type]
        return recorded.keys

    keys = store.read(read)
    assert {key.partition("/")[0] for key in keys} == VIEWED
    assert {key.split("/")[1] for key in keys} == {RUN}


def test_a_view_is_the_same_until_something_of_it_changes(store: SimStore) -> None:
    first = store.read(lambda reader: load_run(reader, RUN))
    store.run(lambda tx: (tx.put(f"watch/{RUN}", {}), tx.put("agent/v-10/writer", {})))
    assert store.read(lambda reader: load_run(reader, RUN)) is first

    def touch(tx: Tx) -> None:
        document = tx.get(f"agent/{RUN}/writer")
        assert document is not None
        tx.put(document.key, document.body)

    store.run(touch)
    second = store.read(lambda reader: load_run(reader, RUN))
    assert second is not first
    assert second == first


def test_what_was_undone_is_not_remembered(store: SimStore) -> None:
    def given_up(tx: Tx) -> None:
        document = tx.get(f"agent/{RUN}/writer")
        assert document is not None
        tx.put(document.key, {**document.body, "life": {"kind": "given_up", "cause": "x"}})
        assert load_run(tx, RUN).agents["writer"].state == "ERROR"
        raise KeyError(RUN)

    before: AgentRecord = store.read(lambda reader: load_run(reader, RUN)).agents["writer"]
    with pytest.raises(KeyError):
        store.run(given_up)
    assert store.read(lambda reader: load_run(reader, RUN)).agents["writer"] == before
