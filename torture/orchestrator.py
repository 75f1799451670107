"""The orchestrator: starts workers, kills and stops them at random instants, starts successors, and in the end lets
everybody finish."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import gc
import os
import random
import signal
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from dogwatch.ledger import open_store
from dogwatch.ledger.api import START, Reader, StoredEvent
from dogwatch.world.clock import SystemClock
from torture.claiming import QUEUE, STAGES
from torture.engines import Engine
from torture.journal import CHAOS, DRAIN, LAST_LOOK, Board, read_lines
from torture.roles import PAUSABLE, work
from torture.verify import History
from torture.worker import TTL_S, Post

ROTA = ("writer", "claimer", "holder", "stage")
HIT_S_MEAN = 0.14
TICK_S = 0.01
PAUSE_SHARE = 0.25
BLACKOUT_SHARE = 0.01
STILLBORN_SHARE = 0.1
STILLBORN_S_MAX = 0.02
OUTAGE_KILL_SHARE = 0.1
LATE_SUCCESSOR_SHARE = 0.3
LATE_S_MAX = 0.5
FIRST_KILLS = 6
DRAIN_S_MAX = 90.0
PAGE_EVENTS = 2000
PR_SET_PDEATHSIG = 1


@dataclass(frozen=True)
class Plan:
    """How much of it."""

    seed: int
    kills: int
    workers: int
    server_kills: int


@dataclass
class Seat:
    """A place that is always taken again."""

    name: str
    number: int
    incarnation: int = 0
    pid: int = 0
    start_at: float = 0.0
    kill_at: float | None = None
    resume_at: float | None = None

    @property
    def role(self) -> str:
        return self.name.partition("-")[0]


class Orchestrator:
    """One run. What it decides comes from the seed; how far each worker is at that instant, only the machine knows."""

    def __init__(self, plan: Plan, folder: Path, engine: Engine, show: Callable[[Orchestrator], None]) -> None:
        self.plan = plan
        self.kills = self.blackouts = self.pauses = self.server_kills = 0
        self.began = time.monotonic()
        self._folder = folder
        self._engine = engine
        self._show = show
        self._random = random.Random(plan.seed)
        names = [f"{ROTA[number % len(ROTA)]}-{number}" for number in range(plan.workers)]
        names.append(f"follower-{plan.workers}")
        self._seats = [Seat(name, number) for number, name in enumerate(names)]
        self.board = Board(len(self._seats))
        self._deaths: list[str] = []
        self._is_drained = False
        self._is_interrupted = False
        self._outages: list[tuple[float, float]] = []
        for part in ("journals", "followed", "world", "errors"):
            (folder / part).mkdir()

    def run(self) -> History:
        """The chaos, the end of all work, and what is known then."""
        gc.collect()
        gc.freeze()  # Keeps the collector of a worker from copying what it shares with this process.
        # Ctrl-C takes effect between two ticks only: in the middle of a kill, it would leave the pid of a process that
        # is gone already, and that number may by then be somebody else's.
        before = signal.signal(signal.SIGINT, self._interrupt)
        try:
            self._chaos()
            if not self._deaths:
                self._drain()
        finally:
            for seat in self._seats:
                if seat.pid:
                    self._kill(seat)
            signal.signal(signal.SIGINT, before)
            gc.unfreeze()
        return self._look()

    def _interrupt(self, *_: object) -> None:
        self._is_interrupted = True

    def _tick(self, seconds: float) -> None:
        self._show(self)
        time.sleep(seconds)
        if self._is_interrupted:
            raise KeyboardInterrupt

    def _chaos(self) -> None:
        next_hit = time.monotonic()
        while self.kills < self.plan.kills and not self._deaths:
            now = time.monotonic()
            for seat in self._seats:
                self._tend(seat, now)
            if now >= next_hit:
                self._hit(now)
                # The first ones come fast: they meet workers that are just making the ledger.
                mean = TICK_S / 2 if self.kills < FIRST_KILLS else HIT_S_MEAN
                next_hit = time.monotonic() + self._random.expovariate(1 / mean)
            due = [next_hit, *(at for seat in self._seats for at in (seat.kill_at, seat.resume_at) if at is not None)]
            self._tick(min(TICK_S, max(0.0, min(due) - time.monotonic())))

    def _tend(self, seat: Seat, now: float) -> None:
        """Whatever is due for a seat."""
        if not seat.pid:
            if now >= seat.start_at:
                self._start(seat)
        elif seat.kill_at is not None and now >= seat.kill_at:
            self._kill_counted(seat)
        elif seat.resume_at is not None and now >= seat.resume_at:
            seat.resume_at = None
            os.kill(seat.pid, signal.SIGCONT)
        else:
            self._notice_death(seat)

    def _hit(self, now: float) -> None:
        if self._engine.has_server and self.server_kills * self.plan.kills < self.kills * self.plan.server_kills:
            self._kill_server()
            return
        living = [seat for seat in self._seats if seat.pid]
        if not living:
            return
        if self._random.random() < BLACKOUT_SHARE:
            self.blackouts += 1
            for seat in living:
                self._kill_counted(seat)
            return
        seat = self._random.choice(living)
        if seat.role in PAUSABLE and seat.resume_at is None and self._random.random() < PAUSE_SHARE:
            os.kill(seat.pid, signal.SIGSTOP)
            seat.resume_at = now + TTL_S * self._random.uniform(1.2, 3)
            self.pauses += 1
        else:
            self._kill_counted(seat)

    def _kill_server(self) -> None:
        """All of it, for a while; or one process of it, so that it restarts by itself."""
        down = time.monotonic()
        self.server_kills += 1
        if self._random.random() < 0.5:
            self._engine.kill_one(self._random)
        else:
            self._engine.kill()
            time.sleep(self._random.uniform(0, LATE_S_MAX))
            for seat in self._seats:
                if seat.pid and self._random.random() < OUTAGE_KILL_SHARE:
                    self._kill_counted(seat)
            self._engine.start()
        self._outages.append((down, time.monotonic()))

    def _kill_counted(self, seat: Seat) -> None:
        if self._kill(seat):
            self.kills += 1
        late = self._random.random() < LATE_SUCCESSOR_SHARE
        seat.start_at = time.monotonic() + (self._random.uniform(0, LATE_S_MAX) if late else 0)

    def _kill(self, seat: Seat) -> bool:
        """Whether it was this kill that ended it."""
        os.kill(seat.pid, signal.SIGKILL)
        return self._ended(seat, os.waitpid(seat.pid, 0)[1])

    def _notice_death(self, seat: Seat) -> None:
        pid, status = os.waitpid(seat.pid, os.WNOHANG)
        if pid:
            self._ended(seat, status)

    def _ended(self, seat: Seat, status: int) -> bool:
        code = os.waitstatus_to_exitcode(status)
        by_us = code == -signal.SIGKILL
        if not by_us and (code != 0 or self.board.phase == CHAOS):
            error = self._folder / "errors" / f"{seat.name}.{seat.incarnation}"
            text = error.read_text() if error.exists() else "no error was left behind"
            self._deaths.append(f"{seat.name} ended by itself with {code}:\n{text.rstrip()}")
        seat.pid, seat.kill_at, seat.resume_at = 0, None, None
        return by_us

    def _start(self, seat: Seat) -> None:
        seat.incarnation += 1
        if self.board.phase == CHAOS and self._random.random() < STILLBORN_SHARE:
            seat.kill_at = time.monotonic() + self._random.uniform(0, STILLBORN_S_MAX)
        post = Post(
            seat.name, seat.number, seat.incarnation, self._folder, self._engine.url, self.plan.seed, self.board
        )
        orchestrator = os.getpid()
        seat.pid = os.fork()
        if seat.pid == 0:
            _live(post, orchestrator)

    def _drain(self) -> None:
        """Everybody goes on and finishes; nobody is killed any more. Followers last, so that they see all of it."""
        deadline = time.monotonic() + DRAIN_S_MAX
        for seat in self._seats:
            seat.kill_at = None
            if seat.resume_at is not None:
                seat.resume_at = None
                os.kill(seat.pid, signal.SIGCONT)
            if not seat.pid:
                self._start(seat)
        followers = [seat for seat in self._seats if seat.role == "follower"]
        self.board.phase = DRAIN
        self._await([seat for seat in self._seats if seat not in followers], deadline)
        self.board.phase = LAST_LOOK
        self._await(followers, deadline)
        self._is_drained = not self._deaths

    def _await(self, seats: Sequence[Seat], deadline: float) -> None:
        while (working := [seat for seat in seats if seat.pid]) and not self._deaths:
            if time.monotonic() > deadline:
                names = ", ".join(seat.name for seat in working)
                self._deaths.append(f"not finished {DRAIN_S_MAX:.0f} s after the last kill: {names}")
                return
            for seat in working:
                self._notice_death(seat)
            self._tick(TICK_S)

    def _look(self) -> History:
        with contextlib.closing(open_store(self._engine.url, SystemClock())) as store:
            deadline = time.monotonic() + 10 * TTL_S
            while (left := store.read(_left)) and time.monotonic() < deadline:
                time.sleep(TTL_S / 10)
            events = list(_pages(store.since))
            revisions = store.read(lambda reader: {document.key: document.revision for document in reader.scan("")})
            by_run = {
                seat.name: [event.cursor for event in _pages(functools.partial(store.since, run=seat.name))]
                for seat in self._seats
            }
        return History(
            events=events,
            journals={path.name: read_lines(path) for path in sorted((self._folder / "journals").iterdir())},
            followed={path.name: read_lines(path) for path in sorted((self._folder / "followed").iterdir())},
            by_run=by_run,
            revisions=revisions,
            effects=frozenset(path.name for path in (self._folder / "world").iterdir()),
            left=left,
            outages=self._outages,
            deaths=[*self._deaths, *self._engine.inspect(len(events))],
            pauses=self.pauses,
            is_drained=self._is_drained,
        )


def _left(reader: Reader) -> list[str]:
    items = [item for queue in (QUEUE, *STAGES) for item in reader.items(queue)]
    leases = reader.leases("")
    return [f"{item.queue} {item.id}" for item in items] + [f"{lease.name} of {lease.holder}" for lease in leases]


def _pages(since: Callable[[str, int], Sequence[StoredEvent]]) -> Iterator[StoredEvent]:
    cursor = START
    while page := since(cursor, PAGE_EVENTS):
        yield from page
        cursor = page[-1].cursor


def _live(post: Post, orchestrator: int) -> None:
    """A worker's process from the fork to its end; it dies with the orchestrator."""
    code = 1
    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() == orchestrator:
            work(post)
            code = 0
    except BaseException:
        (post.folder / "errors" / f"{post.seat}.{post.incarnation}").write_text(traceback.format_exc())
    finally:
        os._exit(code)
