"""What a person must be told: put on a queue together with what it is about, and sent from there, once each.

The captain only starts senders, one at a time, and looks what has become of them. An attempt is recorded before it is
started; one whose sender was started by a captain that was killed is started again under its own number, and the
second sender waits for the first.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from dogwatch.crew.helm import Helm
from dogwatch.ledger.api import Item, Tx
from dogwatch.ledger.records import load, load_all, load_plan, save
from dogwatch.model.moment import Moment
from dogwatch.model.plan import NoticeKind
from dogwatch.model.process import ProcessId
from dogwatch.model.records import CrewRecord
from dogwatch.model.view import RunView

PAUSES_S = (5.0, 30.0)
"""Before the second and the third attempt; there is no fourth."""
TITLE_MAX = 200
BODY_MAX = 4000
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")


def notices_queue(run: str) -> str:
    """What a person must be told of the run."""
    return f"notices/{run}"


@dataclass(frozen=True, slots=True, kw_only=True)
class NoticeRecord:
    """A notice that is being sent: its latest attempt, with the sender's process; none while it waits for the next."""

    run: str
    item: str
    attempt: int = 1
    sending: bool = True
    process: ProcessId | None = None
    not_before: Moment | None = None

    @property
    def key(self) -> str:
        return f"notice/{self.run}/{self.item}"


def push_notice(tx: Tx, run: str, kind: NoticeKind, key: str, title: str, body: str, agent: str = "") -> bool:
    """Has a person told, in the same transaction as what it is about. `key` names the occasion: the same occasion is
    told once, however often it is pushed. False where it was pushed before, or nobody wants to be told."""
    plan = load_plan(tx, run)
    if plan is None or kind not in plan.notify.on or not (plan.notify.has_ways or _machine_has_ways(tx, run)):
        return False
    if plan.sensitive:
        # What stands on screens and in mail must not leave the machine either.
        body = f"The pipeline is sensitive; dogwatch events {run} tells more."
    notice = {
        "kind": kind,
        "run": run,
        "agent": agent,
        "title": _CONTROL.sub("", title)[:TITLE_MAX],
        "body": _CONTROL.sub("", body)[:BODY_MAX],
    }
    return tx.push(notices_queue(run), notice, f"{kind}:{key}") is not None


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


def _machine_has_ways(tx: Tx, run: str) -> bool:
    """Whether the captain, who sends the notices, found a way in its environment when it joined. Before it has joined,
    the dispatcher's answer counts: the captain inherits its environment."""
    sender = load(tx, CrewRecord, f"crew/{run}/captain") or load(tx, CrewRecord, "crew//dispatcher")
    return sender is not None and sender.notifies


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
    helm.record(lambda tx: save(tx, record))
    ways = helm.world.hands.ways(view.plan.notify)
    if not ways.has_ways:
        _conclude(helm, item, len(PAUSES_S) + 1, [("nothing", "is configured any more")])
        return
    try:
        process = helm.world.hands.start_notice(helm.run, item.id, item.body, attempt, ways)
    except OSError as error:
        _conclude(helm, item, attempt, [("the sender", f"cannot be started: {error.strerror}")])
        return
    helm.record(lambda tx: save(tx, replace(record, process=process)))
    helm.world.eyes.watch_also(process)


def _conclude(helm: Helm, item: Item, attempt: int, result: Sequence[tuple[str, str]]) -> None:
    """The notice is done, for good, or waits for its next attempt."""
    taken = [way for way, reason in result if not reason]
    reasons = [f"{way}: {reason}" for way, reason in result if reason]
    if not result:
        reasons = ["there was no way to send it"]
    told = {"notice": item.id, "kind": item.body["kind"], "title": item.body["title"], "attempts": attempt}
    agent = str(item.body["agent"])

    def fn(tx: Tx) -> None:
        if reasons and attempt <= len(PAUSES_S):
            again = tx.now.plus(PAUSES_S[attempt - 1])
            save(tx, NoticeRecord(run=helm.run, item=item.id, attempt=attempt, sending=False, not_before=again))
            return
        claimed = tx.claim(item.queue, "captain", 60.0, item.id)
        if claimed is not None:
            tx.ack(claimed)
        tx.delete(f"notice/{helm.run}/{item.id}")
        op_id = f"notice:{helm.run}:{item.id}"
        if reasons:
            failed = {**told, "ways": taken, "reason": "; ".join(reasons)}
            tx.append("notice_failed", failed, op_id, run=helm.run, agent=agent)
        else:
            tx.append("notice_sent", {**told, "ways": taken}, op_id, run=helm.run, agent=agent)

    helm.record(fn)
    if reasons:
        helm.log.error("notice_not_taken", notice=item.id, attempt=attempt, reason="; ".join(reasons))
