"""Check-ins: an agent is asked how far it is by a second client, which has its conversation and may only read.

A question lies in its queue until what came of it is mail.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from dogwatch.actions import keeper
from dogwatch.actions.check_in import LIMIT_S
from dogwatch.coordination import checkins
from dogwatch.coordination.launches import check_in_launch
from dogwatch.crew.captain.helm import Helm
from dogwatch.crew.captain.jobs import Attempts, Ended, Job, advance
from dogwatch.errors import DogwatchError
from dogwatch.ledger.api import Item
from dogwatch.ledger.records import load
from dogwatch.model.admission import Launch
from dogwatch.model.jobs import CheckInRecord
from dogwatch.model.keys import checkins_queue
from dogwatch.model.process import ProcessId
from dogwatch.model.records import AgentRecord
from dogwatch.model.view import RunView

ATTEMPTS = Attempts(attempts_max=2, counts_unconfirmed=True)
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
        job = CheckInJob(helm, view, item)
        key = job.attempt(1).key
        advance(helm, job, helm.ledger.read(partial(load, kind=CheckInRecord, key=key)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What came of a check-in: what was said, and why that is no answer where it is none."""

    text: str = ""
    reason: str = ""
    code: int | None = None


@dataclass(frozen=True, slots=True)
class CheckInJob(Job[CheckInRecord, Answer]):
    """A question to an agent's copy. Each attempt may cost a model's answer, so that each one counts."""

    helm: Helm
    view: RunView
    item: Item

    @property
    def attempts(self) -> Attempts:
        return ATTEMPTS

    @property
    def agent(self) -> AgentRecord:
        return self.view.agents[self.item.body["agent"]]

    def attempt(self, number: int) -> CheckInRecord:
        return CheckInRecord(run=self.helm.run, item=self.item.id, attempt=number)

    def launch(self, record: CheckInRecord) -> Launch:
        return check_in_launch(self.view, self.agent, record.item)

    def start(self, record: CheckInRecord) -> ProcessId | Ended[Answer]:
        question = str(self.item.body["question"])
        try:
            return self.helm.world.hands.start_check_in(
                self.view.run, self.view.plan, self.agent, record.item, question, record.attempt
            )
        except (DogwatchError, OSError) as error:
            return Ended(Answer(reason=f"it could not be started: {error}"))

    def result(self, record: CheckInRecord) -> Ended[Answer] | None:
        """Its last message is the answer. Whatever else came of it is told as well, so that nobody waits for one."""
        found = self.helm.world.hands.check_in_result(self.helm.run, record.item, record.attempt)
        if found is None:
            return None
        code = found[0]
        # Tokens are taken out before anything is cut off.
        printed, complaint = (self.helm.log.redactor.text(text) for text in found[1:])
        if code == 0 and printed:
            return Ended(Answer(text=printed[:ANSWER_CHARACTERS_MAX], code=code))
        reason = "it ended without a word (exit code 0)" if code == 0 else f"exit code {code}"
        if code == keeper.TIMED_OUT:
            reason = f"it did not answer within {LIMIT_S:g} s"
        lines = f"{printed}\n{complaint}".strip()[-LAST_CHARACTERS:].splitlines()[-LAST_LINES:]
        return Ended(Answer(text="\n".join(lines), reason=reason, code=code))

    def lost(self, record: CheckInRecord) -> Answer:
        return Answer(reason=f"it was broken off {record.attempt} times")

    def conclude(self, record: CheckInRecord, result: Answer) -> None:
        text, reason, code = result.text, result.reason, result.code
        self.helm.record(
            partial(
                checkins.conclude, view=self.view, item=self.item, record=record, text=text, reason=reason, code=code
            )
        )
        self.helm.world.hands.forget_check_in(self.helm.run, record.item, record.attempt)
