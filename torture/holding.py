"""Who holds leases, and writes only under their guard."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping
from dataclasses import dataclass

from dogwatch.errors import ConflictError, StaleError
from dogwatch.ledger.api import Lease, Tx
from dogwatch.testing.events import PlainEvent
from torture.journal import CHAOS
from torture.worker import TTL_S, WORK_S_MAX, BrokenError, Worker

SLOTS: Mapping[str, int] = {"mutex": 1, "permits": 3}


@dataclass
class Hand:
    """One holder of one lease; a worker has several, so that there are more of them than slots."""

    lease_name: str
    holder: str
    lease: Lease | None = None


class Holder(Worker):
    """Holds leases, and writes only under their guard."""

    def begin(self) -> None:
        # Some come back under their predecessor's name and get its lease again, others have to wait for its end.
        name = self.seat if self.post.number % 2 else self.name
        self._hands = [Hand("mutex", name), Hand("permits", name), Hand("permits", name + "'")]

    def step(self) -> None:
        hand = self.random.choice(self._hands)
        if hand.lease is None:
            hand.lease = self._acquire(hand.lease_name, hand.holder)
            return
        try:
            hand.lease = self._use(hand.lease)
        except StaleError:
            hand.lease = None
        time.sleep(self.random.uniform(0, WORK_S_MAX))

    def is_finished(self) -> bool:
        if self.post.board.phase == CHAOS:
            return False
        for lease in [hand.lease for hand in self._hands if hand.lease is not None]:
            self._release(lease)
        return True

    def _acquire(self, name: str, holder: str) -> Lease | None:
        def record(tx: Tx, again: bool) -> tuple[Lease | None, bool]:
            lease = tx.acquire(name, holder, TTL_S, SLOTS[name])
            if lease is None:
                return None, False
            self.journal.write(f"try grant/{name}/{lease.fence}")
            body = {"name": name, "slot": lease.slot, "fence": lease.fence, "holder": holder}
            return lease, tx.append(PlainEvent("granted", body, run=self.seat), f"grant/{name}/{lease.fence}")

        lease, is_new = self.commit(f"acquire {name}", record)
        if lease is not None:
            self.journal.write(f"held {name} {lease.fence} {lease.slot} {lease.holder}")
            if is_new:
                self.ack(f"grant/{name}/{lease.fence}")
        return lease

    def _use(self, lease: Lease) -> Lease | None:
        chance = self.random.random()
        if chance < 0.1:
            self._release(lease)
            return None
        if chance < 0.3:
            return self.commit(f"renew {lease.name}", lambda tx, again: tx.renew(lease, TTL_S))
        return self._write(lease, with_renewal=chance < 0.4)

    def _release(self, lease: Lease) -> None:
        self.commit(f"release {lease.name}", lambda tx, again: tx.release(lease))

    def _write(self, lease: Lease, *, with_renewal: bool) -> Lease:
        op = f"fenced/{self.name}/{self.next_number()}"
        document = f"fenced/{lease.name}/{lease.slot}"
        check_first = self.random.random() < 0.5

        def record(tx: Tx, again: bool) -> Lease:
            if check_first:
                tx.check(lease)
            body = {"name": lease.name, "slot": lease.slot, "fence": lease.fence, "holder": lease.holder}
            revision = tx.put(document, body)
            if not tx.append(
                PlainEvent("fenced", {**body, "document": document, "revision": revision}, run=self.seat), op
            ):
                # Undone again: the try before the server went away has brought it in.
                raise ConflictError("written twice") if again else BrokenError(f"{op} was there before it was written")
            renewed = tx.renew(lease, TTL_S) if with_renewal else lease
            if not check_first:
                tx.check(renewed)
            return renewed

        with contextlib.suppress(ConflictError):
            lease = self.commit(op, record)
        self.ack(op)
        return lease
