"""Notices: what a person must be told, queued in the same transaction as what it is about, and sent once each."""

from __future__ import annotations

import re
from collections.abc import Sequence

from dogwatch.coordination import jobs
from dogwatch.ledger.api import Item, Tx
from dogwatch.ledger.records import load, load_plan
from dogwatch.model import keys
from dogwatch.model.events.operator import NoticeFailed, NoticeSent
from dogwatch.model.jobs import NoticeRecord
from dogwatch.model.keys import notices_queue
from dogwatch.model.plan import NoticeKind
from dogwatch.model.records import CrewRecord

TITLE_MAX = 200
BODY_MAX = 4000
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")


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


def conclude(
    tx: Tx, item: Item, record: NoticeRecord, attempts: int, taken: Sequence[str], reasons: Sequence[str]
) -> None:
    """The notice is done: sent, or given up for these reasons."""
    run = record.run
    jobs.close(tx, record, item)
    sent = NoticeSent(
        notice=item.id,
        kind_=item.body["kind"],
        title=str(item.body["title"]),
        attempts=attempts,
        ways=tuple(taken),
        run=run,
        agent=str(item.body["agent"]),
    )
    failed = NoticeFailed(
        notice=sent.notice,
        kind_=sent.kind_,
        title=sent.title,
        attempts=attempts,
        ways=sent.ways,
        reason="; ".join(reasons),
        run=run,
        agent=sent.agent,
    )
    tx.append(failed if reasons else sent, f"notice:{run}:{item.id}")


def _machine_has_ways(tx: Tx, run: str) -> bool:
    """Whether the captain, who sends the notices, found a way in its environment when it joined. Before it has joined,
    the dispatcher's answer counts: the captain inherits its environment."""
    sender = load(tx, CrewRecord, keys.crew(run, "captain")) or load(tx, CrewRecord, keys.dispatcher(tx.host))
    return sender is not None and sender.notifies
