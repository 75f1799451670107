"""What a person must be told: put on a queue together with what it is about, and sent from there, once each.

The captain only starts senders, one at a time, and looks what has become of them. An attempt is recorded before it is
started; one whose sender was started by a captain that was killed is started again under its own number, and the
second sender waits for the first.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from dogwatch.coordination.notices import PAUSES_S, NoticeRecord, conclude, confirm, intend, notices_queue
from dogwatch.crew.captain.helm import Helm
from dogwatch.ledger.api import Item
from dogwatch.ledger.records import load_all
from dogwatch.model.view import RunView


def unsent(helm: Helm) -> bool:
    """Whether anything is still to be sent: a captain that leaves a run that is over waits for it."""
    return bool(helm.ledger.read(lambda reader: reader.items(notices_queue(helm.run))))


def send_notices(helm: Helm, view: RunView) -> None:
    """One step of the sending, which never waits: looks after the sender that is at it, or starts the next."""
    items = helm.ledger.read(lambda reader: reader.items(notices_queue(helm.run)))
    if not items:
        return
    known = {r.item: r for r in helm.ledger.read(lambda r: load_all(r, NoticeRecord, f"notice/{helm.run}/"))}
    for item in items:
        record = known.get(item.id)
        if record is not None and record.sending and not _settle(helm, view, item, record):
            return
    for item in items:
        record = known.get(item.id)
        if record is not None and record.sending:
            continue
        if record is None or record.not_before is None or not helm.now.is_before(record.not_before):
            _start(helm, view, item, 1 if record is None else record.attempt + 1)
            return


def _settle(helm: Helm, view: RunView, item: Item, record: NoticeRecord) -> bool:
    """What has become of the attempt; False while its sender is at it."""
    if record.process is not None:
        helm.world.eyes.watch_also(record.process)
    result = helm.world.hands.notice_result(helm.run, item.id, record.attempt)
    if result is None and record.process is not None and helm.world.eyes.life(record.process) == "dead":
        # It may have written its result between the two looks.
        result = helm.world.hands.notice_result(helm.run, item.id, record.attempt)
        result = [("the sender", "died")] if result is None else result
    if result is not None:
        _conclude(helm, item, record.attempt, result)
        return True
    if record.process is None:
        _start(helm, view, item, record.attempt)
    return False


def _start(helm: Helm, view: RunView, item: Item, attempt: int) -> None:
    record = NoticeRecord(run=helm.run, item=item.id, attempt=attempt)
    helm.record(partial(intend, record=record))
    ways = helm.world.hands.ways(view.plan.notify)
    if not ways.has_ways:
        _conclude(helm, item, len(PAUSES_S) + 1, [("nothing", "is configured any more")])
        return
    try:
        process = helm.world.hands.start_notice(helm.run, item.id, item.body, attempt, ways)
    except OSError as error:
        _conclude(helm, item, attempt, [("the sender", f"cannot be started: {error.strerror}")])
        return
    helm.record(partial(confirm, record=record, process=process))
    helm.world.eyes.watch_also(process)


def _conclude(helm: Helm, item: Item, attempt: int, result: Sequence[tuple[str, str]]) -> None:
    """The notice is done, for good, or waits for its next attempt."""
    taken = tuple(way for way, reason in result if not reason)
    reasons = [f"{way}: {reason}" for way, reason in result if reason]
    if not result:
        reasons = ["there was no way to send it"]
    helm.record(partial(conclude, run=helm.run, item=item, attempt=attempt, taken=taken, reasons=reasons))
    if reasons:
        helm.log.error("notice_not_taken", notice=item.id, attempt=attempt, reason="; ".join(reasons))
