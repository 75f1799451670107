"""The records of jobs: what a process of its own does for a run, so that it outlives the captain that started it."""

from __future__ import annotations

from abc import ABC, abstractmethod

from dogwatch.model import keys
from dogwatch.model.moment import Moment
from dogwatch.model.process import ProcessId
from dogwatch.values import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRecord(ABC):
    """A job's latest attempt: with its process and that one's host once they are known, or with when the next attempt
    may be made."""

    run: str
    attempt: int = 1
    process: ProcessId | None = None
    host: str = ""
    not_before: Moment | None = None

    @property
    @abstractmethod
    def key(self) -> str: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckInRecord(JobRecord):
    """A question that is being asked; `item` is its place in the queue of questions."""

    item: str

    @property
    def key(self) -> str:
        return keys.check_in(self.run, self.item)


@dataclass(frozen=True, slots=True, kw_only=True)
class NoticeRecord(JobRecord):
    """A notice that is being sent; `item` is its place in the queue of notices."""

    item: str

    @property
    def key(self) -> str:
        return keys.notice(self.run, self.item)

    @property
    def sending(self) -> bool:
        """Whether an attempt is under way; else it waits for the next one."""
        return self.not_before is None
