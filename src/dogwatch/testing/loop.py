"""A small scheduler for the scripted agent: generators that say what they wait for, on one `selectors` wait.

Nothing polls: a job sleeps until its time is over, its process has ended (pidfd) or somebody answers it.
"""

from __future__ import annotations

import os
import selectors
import subprocess
import time
from collections.abc import Callable, Generator
from typing import Any, TypeVar

R = TypeVar("R")


class Answer:
    """Something that comes from elsewhere, such as a key pressed in a dialog."""

    def __init__(self) -> None:
        self.given = False
        self.value: Any = None

    def give(self, value: Any) -> None:
        """Lets the job that waits for it go on with `value`."""
        self.given, self.value = True, value


class Wait:
    """What a job waits for: the first of these. It gets the exit code or the answer, or None when time is over."""

    def __init__(
        self,
        seconds: float | None = None,
        *,
        process: subprocess.Popen[bytes] | None = None,
        answer: Answer | None = None,
    ) -> None:
        self.seconds = seconds
        self.process = process
        self.answer = answer


Steps = Generator[Wait, Any, R]


class Job:
    """A generator under way."""

    def __init__(self, steps: Steps[None], done: Callable[[], None]) -> None:
        self.steps = steps
        self.done = done
        self.wait = Wait(0)
        self.deadline: float | None = time.monotonic()
        self.pidfd = -1


class Loop:
    """All jobs and watched files of the program."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._jobs: list[Job] = []

    def watch(self, file: int, ready: Callable[[], None]) -> None:
        """Calls `ready` whenever `file` can be read."""
        self._selector.register(file, selectors.EVENT_READ, ready)

    def start(self, steps: Steps[None], done: Callable[[], None] = lambda: None) -> Job:
        """Runs `steps` from the next round on, whenever what it waits for has come."""
        job = Job(steps, done)
        self._jobs.append(job)
        return job

    def cancel(self, job: Job) -> None:
        """Ends a job where it waits; its `finally` blocks run, `done` is not called."""
        if job in self._jobs:
            self._jobs.remove(job)
            self._drop_pidfd(job)
            job.steps.close()

    def once(self, timeout_s: float | None) -> None:
        """Waits for the next thing, at most `timeout_s`, and lets everybody concerned go on."""
        now = time.monotonic()
        for job in self._jobs:
            if job.wait.answer is not None and job.wait.answer.given:
                timeout_s = 0.0
            elif job.deadline is not None:
                left = max(0.0, job.deadline - now)
                timeout_s = left if timeout_s is None else min(timeout_s, left)
        for key, _ in self._selector.select(timeout_s):
            key.data()
        now = time.monotonic()
        for job in list(self._jobs):
            if job not in self._jobs:
                continue
            if job.wait.answer is not None and job.wait.answer.given:
                self._resume(job, job.wait.answer.value)
            elif job.deadline is not None and job.deadline <= now:
                self._resume(job, None)

    def _resume(self, job: Job, value: Any) -> None:
        self._drop_pidfd(job)
        try:
            job.wait = job.steps.send(value)
        except StopIteration:
            if job in self._jobs:
                self._jobs.remove(job)
                job.done()
            return
        seconds, process = job.wait.seconds, job.wait.process
        job.deadline = None if seconds is None else time.monotonic() + seconds
        if process is not None:
            job.pidfd = os.pidfd_open(process.pid)
            self._selector.register(job.pidfd, selectors.EVENT_READ, lambda: self._ended(job, process))

    def _ended(self, job: Job, process: subprocess.Popen[bytes]) -> None:
        if job in self._jobs and job.wait.process is process:
            self._resume(job, process.wait())

    def _drop_pidfd(self, job: Job) -> None:
        if job.pidfd >= 0:
            self._selector.unregister(job.pidfd)
            os.close(job.pidfd)
            job.pidfd = -1
