"""Records as tests need them: everything that a test does not talk about has a plain value."""

from __future__ import annotations

from typing import Any

from dogwatch.model.delivery import Queued
from dogwatch.model.life import NotStarted, Running
from dogwatch.model.moment import Moment
from dogwatch.model.process import ProcessId
from dogwatch.model.records import AgentRecord, MessageRecord

RUN = "r-1"
PROCESS = ProcessId("boot", 42, 7)
LONG_AGO = Moment("boot", 1.0, 1.0)


def agent_record(agent: str = "writer", **facts: Any) -> AgentRecord:
    """The first incarnation of an agent, which was not started yet."""
    plain = {"run": RUN, "agent": agent, "role": agent, "incarnation": 1, "life": NotStarted()}
    return AgentRecord(**{**plain, **facts})


def living_agent(agent: str = "writer", *, since: Moment, process: ProcessId = PROCESS, **facts: Any) -> AgentRecord:
    """An agent whose process runs, and was seen to be ready at this time."""
    return agent_record(agent, **{"life": running(since, process), **facts})


def running(since: Moment, process: ProcessId = PROCESS, **more: Any) -> Running:
    """The life of an agent that was started then."""
    return Running(since=since, process=process, **more)


def message_record(**facts: Any) -> MessageRecord:
    """A letter of the captain's to the writer, still on its way."""
    plain = {
        "run": RUN,
        "id": "m1",
        "to": "writer",
        "sender": "captain",
        "kind": "mail",
        "subject": "hello",
        "body": "",
        "queued": LONG_AGO,
        "incarnation": 1,
        "delivery": Queued(),
    }
    return MessageRecord(**{**plain, **facts})
