"""How far a queue of runs is: a bar with counts, an estimate of the end, what waits for what, and the memory's zone."""

from __future__ import annotations

import heapq
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from statistics import fmean

from dogwatch.cli.rounds import DELIVERED
from dogwatch.cli.snapshot import reasons_to_wait
from dogwatch.cli.table import duration
from dogwatch.coordination.ledgers import working_host
from dogwatch.ledger.api import Reader
from dogwatch.ledger.records import load
from dogwatch.model import keys
from dogwatch.model.memory import HostRecord
from dogwatch.model.moment import Moment
from dogwatch.model.plan import Phase, Plan
from dogwatch.model.records import RunRecord
from dogwatch.values import dataclass

BAR_COLUMNS = 24
OVERRUN = 0.1
"""What a run that takes longer than was thought is given on top, as a share of that."""
BLIND_S = 60.0
"""A look at memory that is older than this is worth a word."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """The runs as they are at one look; `reasons` has why each queued run waits, in the order of the queue."""

    runs: Sequence[RunRecord]
    reasons: Mapping[str, str]
    host: HostRecord | None = None

    @property
    def delivered(self) -> list[RunRecord]:
        return [run for run in self.runs if run.state in DELIVERED]

    @property
    def failed(self) -> list[RunRecord]:
        return [run for run in self.runs if run.over and run.state not in DELIVERED]

    @property
    def queued(self) -> list[RunRecord]:
        known = {run.run: run for run in self.runs if not run.over}
        return [known[name] for name in self.reasons if name in known]

    @property
    def running(self) -> list[RunRecord]:
        return [run for run in self.runs if not run.over and run.run not in self.reasons]


def look(reader: Reader, names: Sequence[str]) -> Standing:
    """What the ledger says of these runs."""
    runs = [run for name in names if (run := load(reader, RunRecord, keys.run(name))) is not None]
    host = load(reader, HostRecord, keys.host(working_host(reader)))
    return Standing(runs=runs, reasons=reasons_to_wait(reader), host=host)


def lines(at: Standing, expected_s: Mapping[str, float], now: Moment) -> list[str]:
    """What stands below the live table. One run alone needs no bar."""
    found = []
    if len(at.runs) > 1:
        found.append(_bar(at))
    if len(at.runs) > 1 and (at.running or at.queued):
        found.append(left_words(left_s(at, expected_s, now), now))
    if at.queued:
        first = at.queued[0].run
        found.append(f"{first} waits: {at.reasons[first]}")
    if len(at.runs) > 1 or (at.host is not None and at.host.zone != "GREEN"):
        found += _zone(at.host, now)
    return ["", *found] if found else []


def _bar(at: Standing) -> str:
    over = len(at.delivered) + len(at.failed)
    filled = BAR_COLUMNS * over // len(at.runs)
    counts = f"{len(at.delivered)} of {len(at.runs)} done, {len(at.running)} running, {len(at.queued)} queued"
    return f"{'█' * filled}{'░' * (BAR_COLUMNS - filled)}  {counts}, {len(at.failed)} failed"


def _zone(host: HostRecord | None, now: Moment) -> list[str]:
    if host is None:
        return []
    if (age_s := now.since(host.at)) > BLIND_S:
        return [f"memory: nobody has looked for {duration(age_s)}"]
    why = f": {host.why}" if host.why else ""
    return [f"memory: {host.zone} for {duration(now.since(host.since))}{why}"]


def begun(run: RunRecord) -> Moment | None:
    """When it was let in; runs of earlier versions were never queued."""
    return run.admitted or run.started


def took_s(run: RunRecord) -> float | None:
    """How long it was going; None where it never was, or still is."""
    start = begun(run)
    return run.ended.since(start) if run.ended is not None and start is not None else None


def left_s(at: Standing, expected_s: Mapping[str, float], now: Moment) -> float | None:
    """How long it will take until all are over, or None where nothing is known to tell it from.

    A run is thought to take as long as those of its file that have delivered, else what its file expects
    (`expected_s`, by file), else as long as those of other files. As many will run at once as did when the latest was
    let in.
    """
    took: dict[str, list[float]] = defaultdict(list)
    for run in at.delivered:
        if (seconds := took_s(run)) is not None:
            took[run.spec].append(seconds)
    thought = {**expected_s, **{spec: fmean(times) for spec, times in took.items()}}
    any_file = fmean([seconds for times in took.values() for seconds in times]) if took else None
    lanes = []
    for run in at.running:
        whole_s = thought.get(run.spec, any_file)
        if whole_s is None:
            return None
        lanes.append(max(whole_s - now.since(begun(run) or now), OVERRUN * whole_s))
    lanes += [0.0] * (max(1, _at_once(at)) - len(lanes))
    heapq.heapify(lanes)
    for run in at.queued:
        whole_s = thought.get(run.spec, any_file)
        if whole_s is None:
            return None
        heapq.heappush(lanes, heapq.heappop(lanes) + whole_s)
    return max(lanes)


def _at_once(at: Standing) -> int:
    """How many were going when the latest was let in: between an end and the next start it is one less for a moment."""
    starts = [(run, start) for run in at.runs if (start := begun(run)) is not None]
    if not starts:
        return 0
    latest = max(start.wall for _, start in starts)
    return sum(run.ended is None or run.ended.wall > latest for run, _ in starts)


def left_words(seconds: float | None, now: Moment) -> str:
    """The estimate for people."""
    if seconds is None:
        return "no estimate yet"
    if seconds < 60:
        return "less than a minute left"
    hours, minutes = divmod(round(seconds / 60), 60)
    length = f"{hours} h {minutes:02d} min" if hours else f"{minutes} min"
    shape = "%H:%M" if seconds < 86_400 else "%a %H:%M"
    return f"about {length} left, ends about {time.strftime(shape, time.localtime(now.wall + seconds))}"


def expected_s(plan: Plan) -> float | None:
    """How long the pipeline should take by what its dispatches say; None where one of them does not."""
    phases = [_phase_s(plan, phase) for phase in plan.phases]
    known = [seconds for seconds in phases if seconds is not None]
    return sum(known) if len(known) == len(phases) else None


def _phase_s(plan: Plan, phase: Phase) -> float | None:
    """Each dispatch begins when what it needs is done and its holder is free; `all` is done when each of them is."""
    own = {dispatch.name for dispatch in phase.dispatches}
    done: dict[str, float] = {}
    free: dict[str, float] = defaultdict(float)
    waiting = list(phase.dispatches)
    while waiting:
        ready = next((d for d in waiting if not (set(d.after) & own) - set(done)), None)
        if ready is None or ready.expect_s is None:
            return None
        waiting.remove(ready)
        holders = plan.holders(ready)
        if ready.address == "any":
            holders = (min(holders, key=lambda holder: free[holder]),)
        needed = max((done[name] for name in ready.after if name in own), default=0.0)
        for holder in holders:
            free[holder] = max(free[holder], needed) + ready.expect_s
        done[ready.name] = max(free[holder] for holder in holders)
    return max(done.values(), default=0.0)


class Narrator:
    """Tells in one line each that a run has started and how it ended, where there is no live table."""

    def __init__(self, before: Sequence[str]) -> None:
        """`before`: the runs that are not worth a word any more."""
        self._started = set(before)
        self._ended = set(before)

    def tell(self, at: Standing) -> list[str]:
        """What is new since the last look."""
        found = []
        over = len(at.delivered) + len(at.failed)
        for run in at.runs:
            if run.run not in self._started and begun(run) is not None:
                self._started.add(run.run)
                found.append(f"{run.run}: started")
            if run.run not in self._ended and run.over:
                self._ended.add(run.run)
                after = took_s(run)
                how = run.state + (f" after {duration(after)}" if after is not None else "")
                cause = f" ({run.cause})" if run.cause else ""
                found.append(f"{run.run}: {how}{cause}, {over} of {len(at.runs)} over")
        return found
