"""Check-ins: an agent is asked how far it is by a second client, which has its conversation and may only read.

A question lies in its queue until what came of it is mail. Each attempt is recorded before it is started: a captain
that takes over finds its result, waits for its process, or starts the next one.
"""

from __future__ import annotations

from functools import partial

from dogwatch.actions import keeper
from dogwatch.actions.check_in import LIMIT_S
from dogwatch.coordination.checkins import CheckInRecord, conclude, confirm, intend
from dogwatch.coordination.launches import check_in_launch
from dogwatch.coordination.queues import checkins_queue
from dogwatch.crew.captain.admitting import admit, must_wait
from dogwatch.crew.captain.helm import Helm
from dogwatch.errors import DogwatchError
from dogwatch.ledger.api import Item, Tx
from dogwatch.ledger.records import load
from dogwatch.model.view import RunView

ATTEMPTS_MAX = 2
AT_ONCE_MAX = 4
ANSWER_CHARACTERS_MAX = 64 * 1024
LAST_LINES = 5
LAST_CHARACTERS = 2000


def look_after_check_ins(helm: Helm) -> None:
    """One step for the oldest questions, which never waits."""
    items = helm.ledger.read(lambda reader: reader.items(checkins_queue(helm.run)))
    if not items:
        return
    view = helm.view()
    for item in items[:AT_ONCE_MAX]:
        _advance(helm, view, item)


def _advance(helm: Helm, view: RunView, item: Item) -> None:
    record = helm.ledger.read(lambda reader: load(reader, CheckInRecord, f"check-in/{helm.run}/{item.id}"))
    if record is None:
        _start(helm, view, item, 1)
        return
    lives = record.process is not None and helm.world.eyes.life(record.process) != "dead"
    # Looked for after its process: the result is written before that ends.
    result = helm.world.hands.check_in_result(helm.run, item.id, record.attempt)
    if result is not None:
        _settle(helm, view, item, record.attempt, *result)
    elif lives and record.process is not None:
        helm.world.eyes.watch_also(record.process)
    elif record.attempt < ATTEMPTS_MAX:
        _start(helm, view, item, record.attempt + 1)
    else:
        _conclude(helm, view, item, record.attempt, "", f"it was broken off {record.attempt} times")


def _start(helm: Helm, view: RunView, item: Item, attempt: int) -> None:
    record = CheckInRecord(run=helm.run, item=item.id, attempt=attempt)
    launch = check_in_launch(view, view.agents[item.body["agent"]], item.id)

    def intended(tx: Tx) -> bool:
        if not admit(helm, tx, launch):
            return False
        intend(tx, record)
        return True

    if must_wait(helm, launch) or not helm.record(intended):
        return
    agent, question = view.agents[item.body["agent"]], str(item.body["question"])
    try:
        process = helm.world.hands.start_check_in(view.run, view.plan, agent, item.id, question, attempt)
    except (DogwatchError, OSError) as error:
        _conclude(helm, view, item, attempt, "", f"it could not be started: {error}")
        return
    helm.record(partial(confirm, record=record, process=process))
    helm.world.eyes.watch_also(process)


def _settle(helm: Helm, view: RunView, item: Item, attempt: int, code: int, printed: str, complaint: str) -> None:
    """Its last message is the answer. Whatever else came of it is told as well, so that nobody waits for one."""
    # Tokens are taken out before anything is cut off.
    printed, complaint = helm.log.redactor.text(printed), helm.log.redactor.text(complaint)
    if code == 0 and printed:
        _conclude(helm, view, item, attempt, printed[:ANSWER_CHARACTERS_MAX], "", code)
        return
    reason = "it ended without a word (exit code 0)" if code == 0 else f"exit code {code}"
    if code == keeper.TIMED_OUT:
        reason = f"it did not answer within {LIMIT_S:g} s"
    lines = f"{printed}\n{complaint}".strip()[-LAST_CHARACTERS:].splitlines()[-LAST_LINES:]
    _conclude(helm, view, item, attempt, "\n".join(lines), reason, code)


def _conclude(
    helm: Helm, view: RunView, item: Item, attempt: int, text: str, reason: str, code: int | None = None
) -> None:
    """The mail, the event and the end of the question are one transaction: all of it, once."""
    helm.record(partial(conclude, view=view, item=item, attempt=attempt, text=text, reason=reason, code=code))
    helm.world.hands.forget_check_in(helm.run, item.id, attempt)
