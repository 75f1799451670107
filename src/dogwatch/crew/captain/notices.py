"""What a person must be told: put on a queue together with what it is about, and sent from there, once each.

The captain only starts senders, one at a time, and looks what has become of them. One whose sender was started by a
captain that was killed is started again under its own number, and the second sender waits for the first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from dogwatch.coordination import notices
from dogwatch.crew.captain.helm import Helm
from dogwatch.crew.captain.jobs import Attempts, Ended, Job, advance
from dogwatch.ledger.api import Item
from dogwatch.ledger.records import load_all
from dogwatch.model import keys
from dogwatch.model.jobs import NoticeRecord
from dogwatch.model.process import ProcessId
from dogwatch.model.view import RunView

ATTEMPTS = Attempts(attempts_max=3, pauses_s=(5.0, 30.0))
Ways = Sequence[tuple[str, str]]
"""Each way with why it failed; empty where it took the notice."""
NO_WAY: Ways = (("nothing", "is configured any more"),)


def unsent(helm: Helm) -> bool:
    """Whether anything is still to be sent: a captain that leaves a run that is over waits for it."""
    return bool(helm.ledger.read(lambda reader: reader.items(keys.notices_queue(helm.run))))


def send_notices(helm: Helm, view: RunView) -> None:
    """One step of the sending, which never waits: looks after the sender that is at it, or starts the next."""
    items = helm.ledger.read(lambda reader: reader.items(keys.notices_queue(helm.run)))
    if not items:
        return
    known = {r.item: r for r in helm.ledger.read(lambda r: load_all(r, NoticeRecord, keys.notices(helm.run)))}
    for item in items:
        record = known.get(item.id)
        if record is not None and record.sending and not advance(helm, NoticeJob(helm, view, item), record):
            return
    for item in items:
        record = known.get(item.id)
        if record is not None and record.sending:
            continue
        if record is None or record.not_before is None or not helm.now.is_before(record.not_before):
            advance(helm, NoticeJob(helm, view, item), record)
            return


@dataclass(frozen=True, slots=True)
class NoticeJob(Job[NoticeRecord, Ways]):
    """A notice on all its ways; where one does not take it, those are tried again."""

    helm: Helm
    view: RunView
    item: Item

    @property
    def attempts(self) -> Attempts:
        return ATTEMPTS

    def attempt(self, number: int) -> NoticeRecord:
        return NoticeRecord(run=self.helm.run, item=self.item.id, attempt=number)

    def start(self, record: NoticeRecord) -> ProcessId | Ended[Ways]:
        ways = self.helm.world.hands.ways(self.view.plan.notify)
        if not ways.has_ways:
            return Ended(NO_WAY)
        try:
            return self.helm.world.hands.start_notice(record.run, record.item, self.item.body, record.attempt, ways)
        except OSError as error:
            return Ended([("the sender", f"cannot be started: {error.strerror}")], again=True)

    def result(self, record: NoticeRecord) -> Ended[Ways] | None:
        found = self.helm.world.hands.notice_result(record.run, record.item, record.attempt)
        return None if found is None else Ended(found, again=bool(_reasons(found)))

    def lost(self, record: NoticeRecord) -> Ways:
        return [("the sender", "died")]

    def put_off(self, record: NoticeRecord, result: Ways) -> None:
        self._log(record.attempt, _reasons(result))

    def conclude(self, record: NoticeRecord, result: Ways) -> None:
        taken, reasons = [way for way, reason in result if not reason], _reasons(result)
        # Without a way no attempt is left.
        attempts = ATTEMPTS.attempts_max if result is NO_WAY else record.attempt
        self.helm.record(
            partial(notices.conclude, item=self.item, record=record, attempts=attempts, taken=taken, reasons=reasons)
        )
        if reasons:
            self._log(attempts, reasons)

    def _log(self, attempt: int, reasons: Sequence[str]) -> None:
        self.helm.log.error("notice_not_taken", notice=self.item.id, attempt=attempt, reason="; ".join(reasons))


def _reasons(result: Ways) -> list[str]:
    if not result:
        return ["there was no way to send it"]
    return [f"{way}: {reason}" for way, reason in result if reason]
