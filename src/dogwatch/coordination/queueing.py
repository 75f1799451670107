"""The queue of runs: a run leaves it when it is let in, or when it ends before it has begun."""

from __future__ import annotations

from dataclasses import replace

from dogwatch.coordination.admission import Further, Life, ask, release
from dogwatch.coordination.launches import run_holder
from dogwatch.coordination.notices import push_notice
from dogwatch.ledger.api import Tx
from dogwatch.ledger.records import change
from dogwatch.model import keys
from dogwatch.model.admission import Answer, Launch, QueuedRun
from dogwatch.model.events.admission import RunAdmitted
from dogwatch.model.events.runs import RunCleared, RunEnded
from dogwatch.model.keys import orders_queue
from dogwatch.model.lifecycle import RUN
from dogwatch.model.records import RunRecord


def admit(tx: Tx, queued: QueuedRun, launch: Launch, life: Life, further: Further) -> Answer:
    """Asks the gate for the run: it is let in, waits on, or ends because it never can be let in."""
    answer = ask(tx, launch, life, further)
    if answer.verdict == "admit":
        tx.delete(queued.key)
        run = change(tx, RunRecord, keys.run(queued.run), lambda record: replace(record, admitted=tx.now))
        waited_s = round(tx.now.since(run.created), 3)
        event = RunAdmitted(
            waited_s=waited_s,
            peak_bytes=int(launch.demand.mean_bytes),
            learnt=launch.demand.learnt,
            run=queued.run,
        )
        tx.append(event, f"admitted:{queued.run}")
    elif answer.verdict == "refuse":
        end_queued(tx, queued.run, f"it may not run here: {answer.reason}")
    return answer


def end_queued(tx: Tx, run: str, cause: str) -> None:
    """The run ends before it has begun: nothing of it is on the machine. Where somebody wants to be told of it, a
    captain comes for that alone."""
    tx.delete(keys.queued(run))
    release(tx, run_holder(run))
    while (item := tx.claim(orders_queue(run), "dispatcher", 60.0)) is not None:
        tx.ack(item)

    is_told = push_notice(tx, run, "ended", "run", "the run ended as FAILED", cause)

    def ended(record: RunRecord) -> RunRecord:
        return replace(record, state=RUN.step(record.state, "FAILED"), ended=tx.now, cause=cause, cleared=not is_told)

    change(tx, RunRecord, keys.run(run), ended)
    tx.append(RunEnded(state="FAILED", cause=cause, sha256="", run=run), f"ended:{run}")
    if not is_told:
        tx.delete(keys.active(run))
        tx.append(RunCleared(processes=0, run=run), f"cleared:{run}")
