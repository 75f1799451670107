"""What is recorded of a run: its events in their order, and what its agents' hooks said, all on one axis of time."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from dogwatch.errors import NotFoundError, RefusedError
from dogwatch.harness import harness
from dogwatch.ledger.api import START, Store, StoredEvent
from dogwatch.ledger.records import load_run
from dogwatch.model import keys
from dogwatch.model.brief import headers
from dogwatch.model.moment import Moment
from dogwatch.model.sight import Sight, Turn
from dogwatch.model.spool import OWN_EVENTS, SpoolLine, parse
from dogwatch.model.view import RunView
from dogwatch.policy.diagnosis import CONTEXT_FULL
from dogwatch.policy.turns import WRITERS, fold
from dogwatch.world.home import Home

PAGE = 500
BYTES_MAX = 512 * 1024 * 1024
"""A spool that is larger is not read: an agent can write what it likes into it."""


@dataclass(frozen=True, slots=True)
class Boot:
    """One boot of the machine during the run: its first moment there, and when that was on the axis."""

    first: Moment
    t: float


class Axis:
    """Seconds since the run was made. Within a boot the monotonic clock counts, between two only the wall clock can."""

    def __init__(self, moments: Sequence[Moment]) -> None:
        self._boots: list[Boot] = []
        latest: Moment | None = None
        for moment in moments:
            if self._boot(moment.boot) is None:
                t = self.t(latest) + moment.since(latest) if latest is not None else 0.0
                self._boots.append(Boot(moment, t))
            latest = moment

    def t(self, moment: Moment) -> float:
        """When that was."""
        return self.of_boot(moment.boot, moment.mono)

    def of_boot(self, boot: str, mono: float) -> float:
        """When the monotonic clock of that boot stood there; a boot that no event is of counts as the first."""
        known = self._boot(boot) or self._boots[0]
        return known.t + mono - known.first.mono

    def now(self, t: float) -> Moment:
        """The moment then."""
        boot = next((boot for boot in reversed(self._boots) if boot.t <= t), self._boots[0])
        return boot.first.plus(t - boot.t)

    def _boot(self, name: str) -> Boot | None:
        return next((boot for boot in self._boots if boot.first.boot == name), None)


@dataclass(frozen=True, slots=True)
class Past:
    """An event, and when it happened."""

    t: float
    event: StoredEvent


@dataclass(frozen=True, slots=True)
class Said:
    """A line of a spool: when, the turn after it, and which of dogwatch's messages it carried."""

    t: float
    turn: Turn
    event: str
    messages: tuple[str, ...] = ()
    wrote: str = ""
    wall: float = 0.0

    @property
    def is_own(self) -> bool:
        """Whether the client did something without being told to."""
        return self.event not in OWN_EVENTS and self.event not in ("UserPromptSubmit", "SessionStart", "SessionEnd")


@dataclass(frozen=True, slots=True)
class Alert:
    """An alert of the record: what the watchdog saw then, which nothing else tells any more."""

    t: float
    agent: str
    incarnation: int
    body: Mapping[str, Any]

    @property
    def kind(self) -> str:
        return str(self.body.get("diagnosis", ""))

    @property
    def quiet_since(self) -> float:
        return self.t - float(self.body.get("quiet_s", 0.0))

    @property
    def evidence(self) -> Sequence[str]:
        return [str(line) for line in self.body.get("evidence", ())]


@dataclass(slots=True)
class Silence:
    """The time from one line of an incarnation's spool to the next, with the alerts that were raised in it."""

    begun: float
    ended: float
    said: Said | None
    alerts: list[Alert] = field(default_factory=list)
    plain: Sight | None = None
    """What a replay makes of it where nothing special was seen; made when it is first needed."""


class Voice:
    """What one incarnation's hooks said, and what was seen of it when an alert was raised."""

    def __init__(self, begun: float, ended: float, said: list[Said], alerts: Sequence[Alert]) -> None:
        self.said = said
        self.wrote = [one for one in said if one.wrote]
        first = Silence(min([begun, *(one.t for one in said[:1])]), ended, None)
        self._silences = [first, *(Silence(one.t, ended, one) for one in said)]
        for before, after in zip(self._silences, self._silences[1:], strict=False):
            before.ended = after.begun
        self._begun = [one.begun for one in self._silences]
        for alert in alerts:
            self.at(alert.t).alerts.append(alert)

    def at(self, t: float) -> Silence:
        """The silence in which that time lies."""
        return self._silences[max(0, bisect_right(self._begun, t) - 1)]


@dataclass(frozen=True)
class Recording:
    """A run that is over. `final` is what the ledger has of it now: plans and names do not change in a run."""

    final: RunView
    axis: Axis
    events: Sequence[Past]
    voices: Mapping[tuple[str, int], Voice]
    blind: frozenset[str]
    """The agents with hooks whose spools are not there any more."""

    @cached_property
    def alerts(self) -> list[Alert]:
        return list(_alerts(self.events))

    @property
    def end(self) -> float:
        """When the run was over."""
        return next((past.t for past in self.events if past.event.kind == "run_ended"), self.events[-1].t)


def read_recording(ledger: Store, home: Home, run: str) -> Recording:
    """Everything that is recorded of a run; nothing is written. NotFoundError, or RefusedError where it goes on."""
    if ledger.read(lambda reader: reader.get(keys.run(run))) is None:
        raise NotFoundError(f"there is no run {run!r}", hint="dogwatch status lists all runs")
    final = ledger.read(lambda reader: load_run(reader, run))
    if not final.run.over:
        raise RefusedError(
            f"{run} still goes on", hint="its record is whole when it has ended: dogwatch status shows it"
        )
    found = list(_events(ledger, run))
    if not found:
        raise NotFoundError(f"there are no events of {run} in the ledger", hint="dogwatch events shows what there is")
    axis = Axis([final.run.created, *(event.at for event in found)])
    events, t = [], 0.0
    for event in found:
        t = max(t, axis.t(event.at))
        events.append(Past(t, event))
    voices, blind = _voices(final, axis, events, home)
    return Recording(final, axis, events, voices, blind)


def _events(ledger: Store, run: str) -> Iterator[StoredEvent]:
    cursor = START
    while page := ledger.since(cursor, PAGE, run):
        yield from page
        cursor = page[-1].cursor


def _alerts(events: Sequence[Past]) -> Iterator[Alert]:
    for past in events:
        if past.event.kind == "alert_raised":
            body = past.event.body
            yield Alert(past.t, past.event.agent, int(body.get("incarnation", 0)), body)


def _voices(
    final: RunView, axis: Axis, events: Sequence[Past], home: Home
) -> tuple[dict[tuple[str, int], Voice], frozenset[str]]:
    """What was said by each incarnation that was started, and whose spools are gone."""
    started: dict[tuple[str, int], tuple[float, str]] = {}
    ended: dict[tuple[str, int], float] = {}
    for past in events:
        agent, body = past.event.agent, past.event.body
        if past.event.kind == "agent_spawned" and "process" in body:
            started[agent, int(body["incarnation"])] = (past.t, str(body["process"]["boot"]))
        elif past.event.kind in ("agent_restarted", "agent_reclaimed"):
            ended[agent, int(body["incarnation"]) - 1] = past.t
    alerts: dict[tuple[str, int], list[Alert]] = {}
    for alert in _alerts(events):
        alerts.setdefault((alert.agent, alert.incarnation), []).append(alert)
    voices, blind, spools = {}, set(), {}
    for (agent, incarnation), (begun, boot) in started.items():
        if agent not in spools:
            spools[agent] = _lines(home.spool(final.run.run, agent))
        lines = spools[agent]
        role = final.role_of(agent)
        client = harness(role.harness) if role is not None else None
        if lines is None and client is not None and client.hooks:
            blind.add(agent)
        own = [line for line in lines or () if line.incarnation == incarnation]
        said = list(_said(own, axis, boot, client))
        until = ended.get((agent, incarnation), events[-1].t)
        voices[agent, incarnation] = Voice(begun, until, said, alerts.get((agent, incarnation), ()))
    return voices, frozenset(blind)


def _lines(path: str) -> list[SpoolLine] | None:
    try:
        with open(path, "rb") as file:
            return [line for raw in file.read(BYTES_MAX).split(b"\n") if (line := parse(raw)) is not None]
    except OSError:
        return None


def _said(lines: Sequence[SpoolLine], axis: Axis, boot: str, client: Any) -> Iterator[Said]:
    turn, latest = Turn(), 0.0
    for line in lines:
        turn = fold(turn, line)
        if line.event == "StopFailure" and turn.failure and client is not None:
            failure = client.failure(line.event, line.payload())
            if failure is not None and failure.type == "context_exhausted":
                turn = replace(turn, failure=CONTEXT_FULL)
        latest = max(latest, axis.of_boot(boot, line.mono))
        prompted = line.event == "UserPromptSubmit"
        messages = tuple(one.kind for one in headers(line.raw.decode(errors="replace"))) if prompted else ()
        yield Said(latest, turn, line.event, messages, _written(line), line.wall)


def _written(line: SpoolLine) -> str:
    """The file that a tool has written; empty where it is none."""
    if line.event != "PostToolUse":
        return ""
    payload = line.payload()
    given = payload.get("tool_input")
    path = given.get("file_path") if isinstance(given, dict) else None
    return path if isinstance(path, str) and str(payload.get("tool_name")).lower() in WRITERS else ""
