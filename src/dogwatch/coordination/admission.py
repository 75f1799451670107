"""The one gate: whatever dogwatch starts asks here, in one transaction with its intent, and gets a permit or waits.

A permit belongs to a run, an agent, a gate, a check-in or a program. It has no time of its own that could run out under
a holder that is only slow: it is given back on evidence, by whoever sees first that its process is dead. So it is never
leaked for longer than the next look, and never granted twice.

A permit is one of a host, and so is a place among those who wait. Only its own are looked at here: whether a process of
another host lives cannot be known.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from dogwatch.ledger.api import Reader, Tx
from dogwatch.ledger.records import UNREADABLE, load, load_all, load_whole, save
from dogwatch.model import keys
from dogwatch.model.admission import Answer, Launch, PermitRecord, WaitRecord
from dogwatch.model.codec import decode
from dogwatch.model.events.admission import LaunchHeld
from dogwatch.model.life import Finished, NotStarted, Resting, Starting
from dogwatch.model.memory import HostRecord
from dogwatch.model.moment import Moment
from dogwatch.model.process import ProcessId
from dogwatch.model.records import AgentRecord, RunRecord
from dogwatch.policy.admission import ADMIT, CAPS, Situation, judge
from dogwatch.policy.needs import has_work

Life = Callable[[ProcessId], str]
Further = Callable[[Situation], Answer | None]
"""What else may be in the way where the caps and the zone are not."""


def situation(reader: Reader, now: Moment) -> Situation:
    """What the gate knows now."""
    return Situation(
        host=load(reader, HostRecord, keys.host(reader.host)),
        permits=load_all(reader, PermitRecord, keys.permits(reader.host)),
        waits=load_all(reader, WaitRecord, keys.waits(reader.host)),
        now=now,
    )


def look(reader: Reader, launch: Launch, life: Life, now: Moment, further: Further = lambda at: None) -> Answer:
    """What the gate would say, without asking for a place."""
    at = situation(reader, now)
    mine = next((permit for permit in at.permits if permit.launch.holder == launch.holder), None)
    if mine is not None and not is_gone(reader, mine, life) and not _is_predecessor_s(reader, mine):
        return ADMIT
    at = replace(at, permits=[permit for permit in at.permits if permit is not mine])
    answer = judge(launch, at)
    if answer.verdict == "hold":
        # Somebody in the way may be dead, and nobody has noticed yet.
        at = replace(at, permits=[permit for permit in at.permits if not is_gone(reader, permit, life)])
        if answer.limit in CAPS:
            at = replace(at, waits=[wait for wait in at.waits if not _has_left(reader, wait, life)])
        answer = judge(launch, at)
    return (further(at) or answer) if answer.verdict == "admit" else answer


def ask(tx: Tx, launch: Launch, life: Life, further: Further = lambda at: None) -> Answer:
    """Admit with a permit, hold with a place among those who wait, or refuse. Asking again changes nothing."""
    answer = look(tx, launch, life, tx.now, further)
    waiting = load(tx, WaitRecord, keys.wait(tx.host, launch.holder))
    if answer.verdict == "hold":
        if waiting is None or (waiting.answer, waiting.launch) != (answer, launch):
            # Who has had no work so far has not waited yet.
            same = waiting is not None and waiting.launch.needed == launch.needed
            since = waiting.since if waiting is not None and same else tx.now
            save(tx, WaitRecord(host=tx.host, launch=launch, since=since, answer=answer))
        if waiting is None or waiting.answer.limit != answer.limit:
            event = LaunchHeld(
                holder=launch.holder, limit=answer.limit, reason=answer.reason, run=launch.run, agent=launch.agent
            )
            tx.append(event)
        return answer
    if waiting is not None:
        tx.delete(waiting.key)
    if answer.verdict == "admit":
        permit = PermitRecord(host=tx.host, launch=launch, granted=tx.now, process=launch.process)
        known = load(tx, PermitRecord, permit.key)
        if known is None or is_gone(tx, known, life) or _is_predecessor_s(tx, known):
            save(tx, permit)
    return answer


def note_process(tx: Tx, holder: str, process: ProcessId) -> None:
    """The permit's holder has this process from now on."""
    permit = load(tx, PermitRecord, keys.permit(tx.host, holder))
    if permit is not None and permit.process != process:
        save(tx, replace(permit, process=process))


def process_of(reader: Reader, holder: str) -> ProcessId | None:
    """The process that the permit is noted for."""
    permit = load(reader, PermitRecord, keys.permit(reader.host, holder))
    return permit.process if permit is not None else None


def release(tx: Tx, holder: str) -> None:
    """The place is free: its holder is done."""
    tx.delete(keys.permit(tx.host, holder))
    tx.delete(keys.wait(tx.host, holder))


def abandoned(reader: Reader, life: Life) -> tuple[list[PermitRecord], list[WaitRecord]]:
    """The permits whose holders are gone, and those who wait for nothing any more."""
    permits = load_all(reader, PermitRecord, keys.permits(reader.host))
    waits = load_all(reader, WaitRecord, keys.waits(reader.host))
    gone = [permit for permit in permits if is_gone(reader, permit, life)]
    return gone, [wait for wait in waits if _has_left(reader, wait, life)]


def free_abandoned(tx: Tx, life: Life) -> int:
    """Gives back the places of those who are gone; returns how many."""
    freed, left = abandoned(tx, life)
    for permit in freed:
        tx.delete(permit.key)
    for wait in left:
        tx.delete(wait.key)
    return len(freed)


def is_gone(reader: Reader, permit: PermitRecord, life: Life) -> bool:
    """Whether there is evidence that the permit's holder is gone. What is just being started is not gone, also where
    nobody knows its process yet: whoever started it finds it, or its run ends."""
    launch = permit.launch
    if permit.process is not None and life(permit.process) != "dead":
        return False
    if launch.run and _is_cleared(reader, launch.run):
        return True
    if launch.kind == "run":
        return False
    if launch.kind == "process":
        return True
    if launch.kind == "agent":
        try:
            agent = load(reader, AgentRecord, keys.agent(launch.run, launch.agent))
        except UNREADABLE:
            return False  # one broken record must not stop everybody at the gate; its run's end gives the place back
        if agent is None:
            return True
        # When its run ended it may have been about to start: then the permit stays until the run is cleared.
        current, may_start = agent.process, isinstance(agent.life, Starting | Finished)
    else:
        document = reader.get(launch.holder.replace(":", "/", 1))
        if document is None:
            return True
        noted = document.body.get("process")
        current = decode(ProcessId, noted) if noted is not None else None
        may_start = document.body.get("state", "intended") == "intended"
    return not may_start if current is None else life(current) == "dead"


def _is_predecessor_s(reader: Reader, permit: PermitRecord) -> bool:
    """Whether the permit is that of an agent's earlier incarnation, which may still be there: the gate is asked again
    for the next one."""
    if permit.launch.kind != "agent":
        return False
    agent = load(reader, AgentRecord, keys.agent(permit.launch.run, permit.launch.agent))
    return agent is not None and isinstance(agent.life, NotStarted | Resting)


def _has_left(reader: Reader, wait: WaitRecord, life: Life) -> bool:
    """Whether nobody waits there any more: the run is over, the agent is given up or has started, the program is
    dead."""
    launch = wait.launch
    if launch.kind == "process":
        return launch.process is None or life(launch.process) == "dead"
    run = load(reader, RunRecord, keys.run(launch.run)) if launch.run else None
    if launch.run and (run is None or run.over):
        return True
    if launch.kind == "run":
        return reader.get(keys.queued(launch.run)) is None
    if launch.kind == "agent":
        agent = load(reader, AgentRecord, keys.agent(launch.run, launch.agent))
        if agent is None or not agent.gate_reason:
            return True
        # Who rests waits as soon as there is work for it again, and not longer than that.
        view = load_whole(reader, launch.run) if isinstance(agent.life, Resting) else None
        return view is not None and not has_work(view, launch.agent)
    document = reader.get(launch.holder.replace(":", "/", 1)) if launch.kind == "gate" else None
    return document is not None and document.body.get("state") != "intended"


def _is_cleared(reader: Reader, run: str) -> bool:
    record = load(reader, RunRecord, keys.run(run))
    return record is None or record.cleared
