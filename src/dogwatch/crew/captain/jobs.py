"""The one machine for durable jobs: what a process of its own does for a run, until its result is on the ledger.

An attempt is recorded before it is started. A captain that takes over finds its result, waits for its process, or makes
the next attempt. Gates, check-ins and notices say only what differs.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Generic, TypeVar

from dogwatch.coordination import jobs
from dogwatch.crew.captain.admitting import must_wait
from dogwatch.crew.captain.helm import Helm
from dogwatch.model.admission import Launch
from dogwatch.model.jobs import JobRecord
from dogwatch.model.process import ProcessId

J = TypeVar("J", bound=JobRecord)
R = TypeVar("R")


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempts:
    """How often a job is tried."""

    attempts_max: int
    pauses_s: Sequence[float] = ()
    """Before the second attempt, the third and so on; where there are none, the next one follows at once."""
    counts_unconfirmed: bool = False
    """Whether an attempt counts whose captain died before it knew the process. Else it is made again under its own
    number: it says nothing of the job."""


@dataclass(frozen=True, slots=True)
class Ended(Generic[R]):
    """How an attempt has ended; `again` where another one may end better."""

    result: R
    again: bool = False


class Job(ABC, Generic[J, R]):
    """One job, as its kind does it. `note` records an attempt, in the transaction that lets it in."""

    note: Callable[..., None] = staticmethod(jobs.intend)

    @property
    @abstractmethod
    def attempts(self) -> Attempts: ...

    @abstractmethod
    def attempt(self, number: int) -> J:
        """The record of a new attempt."""

    def launch(self, record: J) -> Launch | None:
        """What the gate is asked with before each attempt; None where it need not be asked."""
        return None

    @abstractmethod
    def start(self, record: J) -> ProcessId | Ended[R]:
        """The process of the attempt, or what came of it where it could not be started."""

    @abstractmethod
    def result(self, record: J) -> Ended[R] | None:
        """What came of the attempt, or None where that is not known yet."""

    @abstractmethod
    def lost(self, record: J) -> R:
        """What came of an attempt that is over and has left no result."""

    def accompany(self, record: J) -> None:
        """What there is to do in each step while the attempt is under way."""

    def put_off(self, record: J, result: R) -> None:
        """The attempt has failed, and the next one waits for its time."""

    @abstractmethod
    def conclude(self, record: J, result: R) -> None:
        """The job is done."""


def advance(helm: Helm, job: Job[J, R], known: J | None) -> bool:
    """One step of the job, which never waits: it is started, or looked after. True when the attempt that was under way
    has ended and no other one was started."""
    if known is None:
        _start(helm, job, job.attempt(1))
        return False
    if known.not_before is not None:
        if not helm.now.is_before(known.not_before):
            _start(helm, job, job.attempt(known.attempt + 1))
        return False
    # A process of another host cannot be asked here: whoever took the run over from there goes on without it.
    process = known.process if known.host == helm.ledger.host else None
    lives = process is not None and helm.world.eyes.life(process) != "dead"
    if lives and process is not None:
        helm.world.eyes.watch_also(process)
    # Looked for after its process: the result is written before that ends.
    ended = job.result(known)
    if ended is not None:
        return _settle(helm, job, known, ended)
    if lives:
        job.accompany(known)
        return False
    rules = job.attempts
    if known.process is None and not rules.counts_unconfirmed and known.attempt <= rules.attempts_max:
        _start(helm, job, job.attempt(known.attempt))
        return False
    return _settle(helm, job, known, Ended(job.lost(known), again=True))


def _start(helm: Helm, job: Job[J, R], record: J) -> None:
    launch = job.launch(record)
    if launch is not None and must_wait(helm, launch):
        return
    life = helm.world.eyes.life
    if not helm.record(partial(jobs.begin, record=record, launch=launch, life=life, note=job.note)):
        return
    started = job.start(record)
    if isinstance(started, Ended):
        _settle(helm, job, record, started)
        return
    helm.record(partial(jobs.confirm, record=record, process=started))
    helm.world.eyes.watch_also(started)


def _settle(helm: Helm, job: Job[J, R], record: J, ended: Ended[R]) -> bool:
    """The job is done, or there is another attempt: after a pause, or at once. False for the last."""
    rules = job.attempts
    if not ended.again or record.attempt >= rules.attempts_max:
        job.conclude(record, ended.result)
    elif rules.pauses_s:
        helm.record(partial(jobs.pause, record=record, seconds=rules.pauses_s[record.attempt - 1]))
        job.put_off(record, ended.result)
    else:
        _start(helm, job, job.attempt(record.attempt + 1))
        return False
    return True
