"""Who works on items: claimers of errands, and stages of a pipeline with effects outside."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Sequence

from dogwatch.errors import ConflictError, StaleError
from dogwatch.ledger.api import Item, Tx
from dogwatch.testing.events import PlainEvent
from torture.journal import CHAOS
from torture.worker import TTL_S, WORK_S_MAX, BrokenError, Worker

TTL_DRAIN_S = 3.0
SLOW_S_MAX = 1.5 * TTL_S
SLOW_EVERY = 20
BACKLOG_MAX = 20
QUEUE = "errands"
STAGES = ("stage-a", "stage-b", "stage-c")


class Claimer(Worker):
    """Pushes items and works on whatever it can claim."""

    queues: Sequence[str] = (QUEUE,)

    def begin(self) -> None:
        if op := self.unacknowledged("push/"):
            is_new = self._push(op, may_be_there=True)
            self.journal.write(f"retried {op} {'missing' if is_new else 'there'}")

    def step(self) -> None:
        first, chosen = self.queues[0], self.random.choice(self.queues)
        if self.random.random() < 0.5 and self.post.board.phase == CHAOS:
            if len(self.read(lambda reader: reader.items(first))) < BACKLOG_MAX:
                self._push(f"push/{first}/{self.name}.{self.next_number()}", may_be_there=False)
        elif item := self._claim(chosen):
            with contextlib.suppress(StaleError):
                self._handle(item)

    def is_finished(self) -> bool:
        if self.post.board.phase == CHAOS:
            return False
        return not self.read(lambda reader: [item for queue in self.queues for item in reader.items(queue)])

    def finish(self, item: Item) -> None:
        """The work, and then its record and the item's end in one transaction."""
        self.conclude(item, "done", "")

    def conclude(self, item: Item, kind: str, following: str) -> None:
        """Acks the item, records it, and pushes it on to the `following` queue where there is one."""
        op = f"{kind}/{item.queue}/{item.id}"
        body = {"queue": item.queue, "item": item.id, "fence": item.fence, "holder": item.holder, "next": following}
        ack_first = self.random.random() < 0.5

        def record(tx: Tx, again: bool) -> bool:
            if ack_first and not again:
                tx.ack(item)
            if not tx.append(PlainEvent(kind, body, run=self.seat), op):
                if again:
                    return False
                if not ack_first:
                    tx.ack(item)  # Refused, where another claimer was faster.
                raise BrokenError(f"{self.name} may ack {item.queue} {item.id}, which is done")
            if not ack_first or again:
                tx.ack(item)
            if following and tx.push(following, {"item": item.id}, item.id) is None:
                raise BrokenError(f"{following} had seen {item.id} before it left {item.queue}")
            return True

        if self.commit(op, record):
            self.ack(op)

    def _push(self, op: str, *, may_be_there: bool) -> bool:
        _, queue, item = op.split("/")
        push_first = self.random.random() < 0.5

        def record(tx: Tx, again: bool) -> bool:
            pushed = tx.push(queue, {"item": item}, item) if push_first else ""
            added = tx.append(PlainEvent("pushed", {"queue": queue, "item": item}, run=self.seat), op)
            pushed = pushed if push_first else tx.push(queue, {"item": item}, item)
            if added != (pushed is not None) or not (added or again or may_be_there):
                raise BrokenError(f"{op}: the event was {'' if added else 'not '}new, and the push answered {pushed}")
            return added

        is_new = self.commit(op, record)
        self.ack(op)
        return is_new

    def _claim(self, queue: str) -> Item | None:
        op = f"claim/{queue}/{self.name}.{self.next_number()}"
        ttl_s = TTL_S if self.post.board.phase == CHAOS else TTL_DRAIN_S

        def record(tx: Tx, again: bool) -> Item | None:
            item = tx.claim(queue, self.name, ttl_s)
            if item is not None:
                body = {"queue": queue, "item": item.id, "fence": item.fence, "holder": item.holder}
                if not tx.append(PlainEvent("claimed", body, run=self.seat), op):
                    # The claim before the server went away stands, and ends by itself; this one is undone.
                    raise ConflictError("claimed twice") if again else BrokenError(f"{op} was there before it was made")
            return item

        try:
            item = self.commit(op, record)
        except ConflictError:
            return None
        if item is not None:
            self.ack(op)
            if item.body != {"item": item.id} or item.holder != self.name:
                raise BrokenError(f"claimed {item}")
        return item

    def _handle(self, item: Item) -> None:
        chance = self.random.random() if self.post.board.phase == CHAOS else 1.0
        if chance < 0.05:
            return  # Left to its claim's end.
        # Work on some items outlasts its claim at times: then another claimer is at it when the first comes to its end.
        is_slow = int(item.id.rsplit(".", 1)[1]) % SLOW_EVERY == 0
        time.sleep(self.random.uniform(0, SLOW_S_MAX if is_slow else WORK_S_MAX))
        if chance < 0.15:
            self.commit(f"give back {item.queue} {item.id}", lambda tx, again: tx.give_back(item))
            return
        if chance < 0.35:
            item = self.commit(f"extend {item.queue} {item.id}", lambda tx, again: tx.extend(item, TTL_S))
            time.sleep(self.random.uniform(0, WORK_S_MAX))
        self.finish(item)


class Stage(Claimer):
    """Takes items through a pipeline; each stage has an effect in a folder that stands for the outside world."""

    queues = STAGES

    def finish(self, item: Item) -> None:
        try:
            effect = self.post.folder / "world" / f"{item.queue}.{item.id}"
            os.close(os.open(effect, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        except FileExistsError:
            self.journal.write(f"repeated {item.queue}.{item.id}")
        time.sleep(self.random.uniform(0, WORK_S_MAX))
        self.conclude(item, "passed", {"stage-a": "stage-b", "stage-b": "stage-c"}.get(item.queue, ""))
