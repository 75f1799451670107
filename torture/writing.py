"""Who writes events and documents, and who follows the events."""

from __future__ import annotations

import functools
import random

from dogwatch.errors import ConflictError
from dogwatch.ledger.api import START, Document, Tx
from dogwatch.testing.events import PlainEvent
from torture.journal import CHAOS, LAST_LOOK, Journal
from torture.worker import BrokenError, Worker

PAGE_EVENTS = 200
SHARED_DOCUMENTS = 3
PARTS_MAX = 5


class Writer(Worker):
    """Appends numbered events, some in groups, some with a change of a document that the writers share."""

    def begin(self) -> None:
        pairs = [line.split(f" {self.seat}/") for line in self.journal.tail if line.startswith(("try ", "ack "))]
        numbers = {verb: int(number) for verb, number in pairs}
        acknowledged, tried = numbers.get("ack", 0), numbers.get("try", 0)
        newest = self.read(lambda reader: reader.recent(1, run=self.seat))
        recorded = newest[0].body["n"] if newest else 0
        if not acknowledged <= recorded <= tried:
            raise BrokenError(f"{self.seat} has {recorded} in the ledger, was told {acknowledged} and tried {tried}")
        self._number = acknowledged + 1
        self._may_be_there = tried > acknowledged

    def step(self) -> None:
        op = f"{self.seat}/{self._number}"
        # The shape comes from the operation's own name: a successor tries exactly the same again.
        shape = random.Random(f"{self.post.seed}/{op}")
        parts = 1 if shape.random() < 0.6 else shape.randint(2, PARTS_MAX)
        document = f"shared/{shape.randrange(SHARED_DOCUMENTS)}" if parts > 1 and shape.random() < 0.6 else ""
        is_new = self._write(op, parts, document)
        if self._may_be_there:
            self.journal.write(f"retried {op} {'missing' if is_new else 'there'}")
            self._may_be_there = False
        self.ack(op)
        self._number += 1

    def is_finished(self) -> bool:
        return self.post.board.phase != CHAOS and not self._may_be_there

    def _write(self, op: str, parts: int, document: str) -> bool:
        """False where the whole of it was in the ledger already."""
        while True:
            # Read before the transaction, so that another writer can come in between.
            seen = self.read(lambda reader: _revision(reader.get(document))) if document else 0
            record = functools.partial(self._record, op=op, parts=parts, document=document, seen=seen)
            try:
                return self.commit(op, record)
            except ConflictError:
                self.journal.write(f"conflict {op}")

    def _record(self, tx: Tx, again: bool, *, op: str, parts: int, document: str, seen: int) -> bool:
        for part in range(parts):
            body: dict[str, object] = {"n": self._number, "parts": parts}
            if document and part == parts - 1:
                body |= {"document": document, "revision": tx.put(document, {"op": op}, seen)}
            if tx.append(PlainEvent("written", body, run=self.seat), f"{op}#{part}"):
                continue
            if part == 0 and (again or self._may_be_there):
                return False
            raise BrokenError(f"{op}#{part} was in the ledger before it was written")
        return True


class Follower(Worker):
    """Writes down every event, in the order in which the ledger hands them out."""

    def begin(self) -> None:
        self._record = Journal(self.post.folder / "followed" / self.seat)
        self._cursor = self._record.tail[-1].split(" ")[0] if self._record.tail else START
        self._has_seen_all = False

    def step(self) -> None:
        is_last_look = self.post.board.phase == LAST_LOOK
        page = self.ask(lambda store: store.since(self._cursor, PAGE_EVENTS))
        for event in page:
            if event.kind == "passed":
                effect = f"{event.body['queue']}.{event.body['item']}"
                if not (self.post.folder / "world" / effect).exists():
                    raise BrokenError(f"the event of {effect} was there before its effect")
        self._has_seen_all = is_last_look and not page
        if page:
            self._record.write(*(f"{event.cursor} {event.op_id}" for event in page))
            self._cursor = page[-1].cursor
        else:
            self.ask(lambda store: store.wait(0.1))

    def is_finished(self) -> bool:
        return self._has_seen_all


def _revision(document: Document | None) -> int:
    return document.revision if document else 0
