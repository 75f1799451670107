"""The gate's judgement: may this be started now? Pure: the ledger's permits and the dispatcher's look at memory go in.

Caps look at nothing but permits. The zone pauses launches, and the forecast can only hold a run below the caps.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence

from dogwatch.model.admission import Answer, Launch, PermitRecord, QueuedRun, Verdict, WaitRecord
from dogwatch.model.memory import HostRecord, HostSettings
from dogwatch.model.moment import Moment
from dogwatch.policy.zones import processes_max
from dogwatch.values import dataclass

BLIND_S = 60.0
"""A look at memory that is older than this is none."""
WAVE_S = 60.0
"""How long an agent whose memory is not learnt counts as being on its way."""
PATIENCE_S = 3600.0
"""So long the oldest run waits for others to leave room before it goes on, whatever is expected of it."""
ADMIT = Answer(verdict="admit")
CAPS = frozenset({"agents", "role", "harness", "credential"})
"""The hard caps; whoever has waited longest for one of them is next."""
COUNTED = ("agent", "process")
"""What takes places under the caps, and waits for one in a line."""
MEMORY_LIMITS = frozenset({"zone", "forecast", "processes", "parallel", "wave", "agents", "blind"})
"""What stands in the way of a launch that would go on if there were more memory, or more known of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """What the gate knows: the host as the dispatcher has seen it last, the permits, and who else waits."""

    host: HostRecord | None
    permits: Sequence[PermitRecord]
    waits: Sequence[WaitRecord]
    now: Moment


def first(queue: Iterable[QueuedRun], going: Iterable[PermitRecord]) -> QueuedRun | None:
    """The run that is next: the first of the queue whose group has a place under its own ceiling. Nobody overtakes for
    any other reason."""
    groups = Counter(permit.launch.group for permit in going if permit.launch.group)
    found, number = None, math.inf
    for one in queue:
        # A plain loop, because the queue may be long, and every look at the memory asks.
        if one.number < number and (not one.ceiling or groups[one.group] < one.ceiling):
            found, number = one, one.number
    return found


def gist(answer: Answer) -> tuple[str, str]:
    """What a change of is worth writing down: what is in the way, which zone it is and until when, but not each
    megabyte."""
    words = answer.reason
    return answer.limit, words.partition(":")[0] if answer.limit == "zone" else words.partition("until")[2]


def judge(launch: Launch, at: Situation) -> Answer:
    """Admit, hold or refuse, with the reason."""
    if at.host is None:
        return _hold("blind", "the dispatcher has not looked at the memory yet")
    if at.host.at.boot != at.now.boot:
        return _hold("blind", "the dispatcher has not looked at the memory since the machine booted")
    if at.host.is_unset:
        return _hold("blind", f"the operator's settings cannot be read: {at.host.problem}")
    if (age_s := at.now.since(at.host.at)) > BLIND_S:
        return _hold("blind", f"the dispatcher has not looked at the memory for {age_s:.0f} s")
    if launch.kind == "run":
        return _run(launch, at, at.host)
    if launch.kind == "agent":
        return _caps(launch, at, at.host) or _zone(launch, at.host) or _turn(launch, at, at.host) or ADMIT
    if launch.kind == "process":
        return _caps(launch, at, at.host) or ADMIT
    return _zone(launch, at.host) or ADMIT


def _run(launch: Launch, at: Situation, host: HostRecord) -> Answer:
    runs = [permit.launch for permit in at.permits if permit.launch.kind == "run"]
    if answer := _places(launch, runs, host.settings):
        return answer
    if launch.ceiling:
        going = sum(other.group == launch.group for other in runs)
        if going >= launch.ceiling:
            return _hold("ceiling", f"{going} of its group are running, no more than {launch.ceiling} may")
    if host.zone != "GREEN":
        return _hold("zone", f"memory is {host.zone}: {host.why}")
    starved = next((wait for wait in at.waits if wait.launch.kind == "agent" and _lacks_room(wait)), None)
    if starved is not None:
        return _hold("forecast", f"{_name(starved.launch)} waits for room, and goes first")
    if launch.heavy and not launch.demand.learnt and host.settings.parallel:
        heavy = sum(other.heavy for other in runs)
        if heavy >= host.settings.parallel:
            text = f"{heavy} heavy runs are going, and how much memory this one takes is not learnt yet"
            return _hold("parallel", text)
    return ADMIT


def _places(launch: Launch, runs: Sequence[Launch], settings: HostSettings) -> Answer | None:
    """A run is let in with all the places that it will need at once, or with all there are: two with half of theirs
    would wait for each other."""
    for key, cap in settings.caps.items():
        mine, limit, what = launch.places.get(key, 0), key.partition(" ")[0], _whom(key)
        if mine and not cap:
            return Answer(verdict="refuse", reason=f"{what} may not run on this host", limit=limit)
        taken = sum(min(cap, other.places.get(key, 0)) for other in runs)
        if mine and taken and taken + mine > cap:
            return _hold(limit, f"{what} may have {cap} at once: {taken} are for runs that are going, it needs {mine}")
    return None


def _whom(key: str) -> str:
    return "this host" if key == "agents" else key


def is_under(launch: Launch, key: str) -> bool:
    """Whether the launch takes a place under this cap."""
    kind, _, name = key.partition(" ")
    return kind == "agents" or getattr(launch, kind) == name


def _lacks_room(wait: WaitRecord) -> bool:
    return wait.launch.needed and wait.answer.limit in ("processes", "zone")


def _caps(launch: Launch, at: Situation, host: HostRecord) -> Answer | None:
    """The hard caps: of the host, the role, the harness and the credential."""
    others = [permit.launch for permit in at.permits if permit.launch.kind in COUNTED]
    for key, cap in host.settings.caps.items():
        if not is_under(launch, key):
            continue
        limit, what = key.partition(" ")[0], _whom(key)
        if cap == 0:
            # An agent of a run that goes on waits: the operator may change their mind.
            verdict: Verdict = "hold" if launch.kind == "agent" else "refuse"
            return Answer(verdict=verdict, reason=f"{what} may not run on this host", limit=limit)
        taken = sum(is_under(other, key) for other in others)
        # Who has waited longer for the same place goes first, but nobody without work before somebody with.
        before = [
            wait
            for wait in at.waits
            if wait.answer.limit == limit
            and wait.launch.kind in COUNTED
            and wait.launch.holder != launch.holder
            and wait.launch.needed >= launch.needed
            and is_under(wait.launch, key)
        ]
        mine = waited_s(_since(launch, at), at.now)
        ahead = sum(waited_s(wait.since, at.now) > mine for wait in before)
        if taken + ahead >= cap:
            return _hold(limit, f"{what} may have {cap} at once, {taken} are there" + f", {ahead} wait" * bool(ahead))
    return None


def _zone(launch: Launch, host: HostRecord) -> Answer | None:
    """What has run before takes no more than it took: it may come back in YELLOW. In RED nobody starts."""
    if host.zone == "RED" or (host.zone == "YELLOW" and launch.kind == "agent" and not launch.again):
        return _hold("zone", f"memory is {host.zone}: {host.why}")
    return None


def _turn(launch: Launch, at: Situation, host: HostRecord) -> Answer | None:
    """Agents that are needed go before those that are not needed yet, and what is not learnt goes in waves."""
    living = [permit for permit in at.permits if permit.launch.kind == "agent"]
    if not launch.needed and not host.spacious:
        return _hold("early", "it has no work yet, and not everybody fits at once")
    if not launch.again and living:
        is_first, waited_s = _goes_first(launch, at), at.now.since(_since(launch, at))
        if why := _too_many(launch, living, host, at.now, is_first=is_first, waited_s=waited_s):
            return _hold("processes", why)
    if launch.heavy and not launch.again and not launch.demand.learnt and host.settings.wave:
        unknown = [permit for permit in living if permit.launch.heavy and not permit.launch.demand.learnt]
        fresh = sum(at.now.since(permit.granted) < WAVE_S for permit in unknown)
        if fresh >= host.settings.wave:
            return _hold("wave", f"{fresh} agents were started within the last {WAVE_S:.0f} s")
    return None


def _since(launch: Launch, at: Situation) -> Moment:
    """Since when it has waited. Who has had no work so far has not waited yet."""
    waits = (wait for wait in at.waits if wait.launch.holder == launch.holder)
    return next((wait.since for wait in waits if wait.launch.needed == launch.needed), at.now)


def waited_s(since: Moment, now: Moment) -> float:
    """Who has waited since before the machine booted has waited longest, whatever its clock says."""
    return math.inf if since.boot != now.boot else now.since(since)


def _goes_first(launch: Launch, at: Situation) -> bool:
    """Whether its run is the one that has gone on longest: that comes to its end, one agent after another, while what
    is expected of it does not lead towards RED. Else runs that each lack one more would wait for one another."""
    runs = [permit for permit in at.permits if permit.launch.kind == "run"]
    oldest = max(runs, key=lambda permit: (at.now.since(permit.granted), permit.launch.holder), default=None)
    if oldest is None or oldest.launch.run != launch.run:
        return False
    own = [permit for permit in at.permits if permit.launch.kind == "agent" and permit.launch.run == launch.run]
    return all(at.now.since(permit.granted) >= WAVE_S for permit in own)


def _too_many(
    launch: Launch,
    living: Sequence[PermitRecord],
    host: HostRecord,
    now: Moment,
    *,
    is_first: bool,
    waited_s: float,
) -> str:
    """Why it is one too many, with the sub-agents that it and those who are there are expected to start. Who goes first
    may go half-way from YELLOW to RED, and beyond where nobody else is there or nobody has left for long. As much is
    kept free for anybody of whose sub-agents nothing is known, until it has shown for a while what it does."""
    if is_first and (waited_s >= PATIENCE_S or all(permit.launch.run == launch.run for permit in living)):
        return ""
    each = launch.demand.mean_bytes / launch.demand.agents
    fit = processes_max(host, each)
    spare = (processes_max(host, each, "RED") - fit) // 2
    is_unknown = _is_unknown(launch)
    if is_first and not is_unknown:
        fit += spare
    seen = host.readings.agents
    unseen = [permit.launch.demand.agents for permit in living if _name(permit.launch) not in seen]
    present = {_name(permit.launch) for permit in living}
    gone = sum(one.processes for name, one in seen.items() if name not in present)
    there = host.readings.processes - gone + sum(unseen)
    fresh = [one.launch for one in living if _is_unknown(one.launch) and now.since(one.granted) < WAVE_S]
    shown = [seen[_name(one)].processes - 1 if _name(one) in seen else 0 for one in fresh]
    coming = host.coming + sum(max(0, spare - number) for number in shown)
    own = launch.demand.agents - 1 + spare * is_unknown
    if there + coming + 1 + own <= fit:
        return ""
    more = f", {coming} sub-agents {'may come' if fresh else 'are expected'}" if coming else ""
    mine = f", and {own} of its own" if own else ""
    return f"{there} agents and sub-agents are there{more}{mine}; {fit} fit"


def _is_unknown(launch: Launch) -> bool:
    return launch.heavy and launch.needed and launch.demand.unseen


def _name(launch: Launch) -> str:
    return f"{launch.run}/{launch.agent}"


def _hold(limit: str, reason: str) -> Answer:
    return Answer(verdict="hold", reason=reason, limit=limit)
