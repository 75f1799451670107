"""Whom the dispatcher may send to rest when memory is short: idle workers alone, and never one that is needed.

Captains and watchdogs are no agents. Whoever works, has work or mail waiting, or is looked at by a person is exempt;
the captain that carries out the order looks again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from dogwatch.model.admission import WaitRecord
from dogwatch.model.memory import HostRecord, HostSettings
from dogwatch.model.moment import Moment
from dogwatch.model.records import AgentWatch
from dogwatch.model.sight import Sight
from dogwatch.model.view import RunView
from dogwatch.policy.admission import CAPS, MEMORY_LIMITS, is_under, waited_s
from dogwatch.policy.diagnoses import traits_of
from dogwatch.policy.needs import has_work, is_done, places_of
from dogwatch.values import dataclass

DONE_S = 60.0
"""So long a worker that no phase needs any more must have been idle before it makes room for who waits."""
STARVED_S = 120.0
"""Somebody with work who has waited for memory for so long is as good a reason as RED."""
ASKED_AGAIN_S = 300.0
"""Whose captain has refused is left out for so long: others may be able to make room."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Want:
    """Somebody with work that is held, and for how long. `places` are the caps that it waits for, as in
    `HostSettings.caps`; none where it waits for memory."""

    waited_s: float
    places: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Reclaim:
    """An order: this incarnation shall rest, and why."""

    run: str
    agent: str
    incarnation: int
    why: str


def want_of(wait: WaitRecord, settings: HostSettings, now: Moment) -> Want | None:
    """What whoever waits there would be helped with; None where nobody who rests could help."""
    launch, limit = wait.launch, wait.answer.limit
    # A run that waits in the queue is no reason to send anybody to rest who will be needed again: only agents starve.
    waiting_s = 0.0 if launch.kind == "run" else waited_s(wait.since, now)
    if limit not in CAPS:
        return Want(waited_s=waiting_s) if limit in MEMORY_LIMITS else None
    if launch.kind == "run":
        return None  # The places of a whole run are free when another one ends.
    keys = [key for key, cap in settings.caps.items() if cap and key.partition(" ")[0] == limit]
    places = frozenset(key for key in keys if is_under(launch, key))
    return Want(waited_s=waiting_s, places=places) if places else None


def choose(
    views: Iterable[RunView],
    watched: Mapping[str, Mapping[str, AgentWatch]],
    host: HostRecord,
    wants: Sequence[Want],
    now: Moment,
    *,
    is_red: bool,
    asked: Collection[tuple[str, str, int]] = (),
) -> Reclaim | None:
    """The idle worker that is to rest next, or None. `is_red` is whether memory is RED and not getting better; `asked`
    are the incarnations that were to rest already."""
    if not is_red and not wants:
        return None
    last = host.reclaimed
    cycle = last is None or last.boot != now.boot or now.since(last) >= host.settings.cycle_s
    found: list[tuple[bool, int, Reclaim]] = []
    for view in views:
        for name, agent in view.agents.items():
            seen = watched.get(view.run.run, {}).get(name)
            # Also a busy one: a reviewer that has voted is BUSY until all have.
            if seen is None or not agent.running or not is_idle(view, name, seen):
                continue
            if (view.run.run, name, agent.incarnation) in asked:
                continue
            role = view.role_of(name)
            mine = places_of(role) if role is not None else ("agents",)
            helped = [want for want in wants if not want.places or want.places.intersection(mine)]
            waiting_s = max((want.waited_s for want in helped), default=None)
            short = is_red or (waiting_s is not None and waiting_s >= STARVED_S)
            idle_s = now.since(seen.since)
            done = is_done(view, name)
            makes_room = done and waiting_s is not None and host.zone != "RED" and idle_s >= DONE_S
            if not makes_room and not (short and cycle and idle_s >= host.settings.idle_s):
                continue
            what = "memory" if any(not want.places for want in helped) else "a place"
            why = f"memory is {host.zone}: {host.why}" if is_red else f"somebody with work waits for {what}"
            memory = host.readings.agents.get(f"{view.run.run}/{name}")
            size = memory.rss_bytes if memory is not None else 0
            found.append((done, size, Reclaim(run=view.run.run, agent=name, incarnation=agent.incarnation, why=why)))
    # Who will not be needed again goes first, and of those the largest.
    return max(found, key=lambda one: one[:2])[2] if found else None


def is_idle(view: RunView, agent: str, seen: AgentWatch) -> bool:
    """Whether the watchdog says that it rests, and the run has nothing for it at this moment."""
    return traits_of(seen.kind).at_rest and not seen.subagents and not has_work(view, agent)


def refusal(view: RunView, agent: str, kind: str, sight: Sight) -> str:
    """Why the captain does not carry out the order after all, by its own look; empty where nothing is in the way."""
    if has_work(view, agent):
        return "there is work or mail for it"
    if sight.process == "dead":
        return ""
    if sight.process == "unknown" or sight.session == "unknown":
        return "it could not be looked at"
    if sight.attached:
        return "a person looks at its terminal"
    if sight.composer:
        return "somebody has typed something into its composer"
    if sight.turn.subagents:
        return "sub-agents of its own run"
    if not traits_of(kind).at_rest:
        return f"it is {kind}"
    return ""
