"""Was anything lost, or did anything happen twice? Pure functions from a history to sentences on what was violated."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field

from dogwatch.ledger.api import StoredEvent
from torture.holding import SLOTS

SHOWN_MAX = 5


@dataclass(frozen=True, kw_only=True)
class History:
    """All that is known after the chaos."""

    events: Sequence[StoredEvent]
    """What the ledger hands out from the start."""
    journals: Mapping[str, Sequence[str]]
    """What each seat tried and was told, line by line."""
    followed: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Each follower's record: a cursor and an operation in every line."""
    by_run: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """The cursors that the ledger hands out for each seat when it is asked for that seat's events only."""
    revisions: Mapping[str, int] = field(default_factory=dict)
    """The documents at the end."""
    effects: Set[str] = frozenset()
    """What happened in the outside world."""
    left: Sequence[str] = ()
    """Items still in a queue and leases still held, long after all work should have ended."""
    outages: Sequence[tuple[float, float]] = ()
    """From when to when the server was away."""
    deaths: Sequence[str] = ()
    """Workers that ended by themselves."""
    pauses: int = 0
    is_drained: bool = True
    """Whether all workers came to their end; otherwise open work is no violation of its own."""


def violations(history: History) -> list[str]:
    """Every broken promise as a sentence; of many of one kind the first few."""
    found: list[str] = []
    for check in CHECKS:
        sentences = list(check(history))
        found += sentences[:SHOWN_MAX]
        if len(sentences) > SHOWN_MAX:
            found.append(f"... and {len(sentences) - SHOWN_MAX} more of this kind")
    return found


def lines_of(history: History, verb: str) -> Iterator[str]:
    """What follows `verb` in all journals."""
    for lines in history.journals.values():
        for line in lines:
            if line.startswith(verb + " "):
                yield line[len(verb) + 1 :]


def workers_lived(history: History) -> Iterator[str]:
    """No worker fails by itself, and an error is explained by an outage since its worker was last well."""
    yield from history.deaths
    for line in lines_of(history, "error"):
        began, ended, text = line.split(" ", 2)
        if not any(float(began) <= up and down <= float(ended) for down, up in history.outages):
            yield f"an error without an outage: {text}"


def acknowledged_is_there(history: History) -> Iterator[str]:
    """What was acknowledged is in the ledger, whole and once; what is there was tried by somebody."""
    recorded: Counter[str] = Counter()
    parts: dict[str, int] = {}
    for op_id, times in Counter(event.op_id for event in history.events).items():
        if times > 1:
            yield f"{op_id} is in the ledger {times} times"
    for event in history.events:
        op = event.op_id.partition("#")[0]
        recorded[op] += 1
        parts[op] = event.body.get("parts", 1)
    for op, times in recorded.items():
        if times < parts[op]:
            yield f"only {times} of {parts[op]} events of the transaction {op} are in the ledger"
    for op, times in Counter(lines_of(history, "ack")).items():
        if op not in recorded:
            yield f"{op} was acknowledged and is not in the ledger"
        if times > 1:
            yield f"{op} was acknowledged {times} times"
    tried = set(lines_of(history, "try"))
    yield from (f"{op} is in the ledger and was never tried" for op in recorded if op not in tried)


def writers_are_in_order(history: History) -> Iterator[str]:
    """Each writer's numbers come one after the other, without a gap."""
    last: dict[str, int] = defaultdict(int)
    for event in history.events:
        if event.kind == "written":
            number = event.body["n"]
            if number - last[event.run] not in (0, 1):
                yield f"{event.run} has {number} after {last[event.run]}"
            last[event.run] = number


def runs_are_whole(history: History) -> Iterator[str]:
    """Asked for one run's events, the ledger hands out those and no others."""
    for run, cursors in history.by_run.items():
        if list(cursors) != [event.cursor for event in history.events if event.run == run]:
            yield f"the events of {run} are not the same when asked for alone"


def documents_count(history: History) -> Iterator[str]:
    """A document's revisions come one after the other in the order of the events, and the last one stands."""
    last: dict[str, int] = defaultdict(int)
    for event in history.events:
        if key := event.body.get("document"):
            if event.body["revision"] != last[key] + 1:
                yield f"{key} has revision {event.body['revision']} after {last[key]} ({event.op_id})"
            last[key] = event.body["revision"]
    for key in sorted(last.keys() | history.revisions.keys()):
        if last[key] != history.revisions.get(key, 0):
            yield f"{key} has revision {history.revisions.get(key, 0)} after {last[key]} changes"


def items_are_done_once(history: History) -> Iterator[str]:
    """Every item pushed is done once, by its last claim, and goes on to where it was sent."""
    pushed: Counter[tuple[str, str]] = Counter()
    done: Counter[tuple[str, str]] = Counter()
    fences: dict[tuple[str, str], int] = defaultdict(int)
    for event in history.events:
        if event.kind not in ("pushed", "claimed", "done", "passed"):
            continue
        key = (event.body["queue"], event.body["item"])
        name = " ".join(key)
        if event.kind == "pushed":
            pushed[key] += 1
            continue
        if not pushed[key]:
            yield f"{name} was {event.kind} before it was pushed"
        if done[key]:
            yield f"{name} was {event.kind} when it was done already"
        fence = event.body["fence"]
        if event.kind == "claimed":
            if fence <= fences[key]:
                yield f"{name} was claimed with fence {fence} after {fences[key]}"
            fences[key] = fence
            continue
        if fence != fences[key]:
            yield f"{name} was {event.kind} with fence {fence} when {fences[key]} had been granted"
        done[key] += 1
        if event.body["next"]:
            pushed[event.body["next"], event.body["item"]] += 1
    for key, times in pushed.items():
        if times > 1:
            yield f"{' '.join(key)} was pushed {times} times"
        if history.is_drained and not done[key]:
            yield f"{' '.join(key)} was pushed and never done"
    if history.is_drained:
        yield from (f"{what} is left" for what in history.left)


def effects_match(history: History) -> Iterator[str]:
    """Each passage of a stage has had its effect outside, and no effect stays without its record."""
    recorded = {f"{e.body['queue']}.{e.body['item']}" for e in history.events if e.kind == "passed"}
    yield from (f"{effect} is recorded and never happened" for effect in sorted(recorded - history.effects))
    if history.is_drained:
        yield from (f"{effect} happened and is not recorded" for effect in sorted(history.effects - recorded))


def fences_hold(history: History) -> Iterator[str]:
    """A grant has one holder and a higher fence than all before it, and ends when its slot is granted anew."""
    grants: dict[tuple[str, int], tuple[int, str]] = {}
    highest: dict[str, int] = defaultdict(int)
    in_slot: dict[tuple[str, int], int] = {}
    for event in history.events:
        if event.kind not in ("granted", "fenced"):
            continue
        body = event.body
        name, slot, fence, holder = body["name"], body["slot"], body["fence"], body["holder"]
        if event.kind == "granted":
            if fence <= highest[name]:
                yield f"{name} was granted with fence {fence} after {highest[name]}"
            if not 0 <= slot < SLOTS[name]:
                yield f"slot {slot} of {name} was granted, which has {SLOTS[name]}"
            highest[name] = max(highest[name], fence)
            grants[name, fence] = (slot, holder)
            in_slot[name, slot] = fence
        elif grants.get((name, fence)) != (slot, holder):
            yield f"{holder} wrote as {name} slot {slot} fence {fence}, which was never granted to it"
        elif in_slot[name, slot] != fence:
            yield f"{holder} wrote as {name} slot {slot} fence {fence} after {in_slot[name, slot]} had been granted"
    for line in sorted(set(lines_of(history, "held"))):
        name, fence_text, slot_text, holder = line.split(" ")
        if grants.get((name, int(fence_text))) != (int(slot_text), holder):
            yield f"{holder} was told that it holds {name} slot {slot_text} fence {fence_text}, which is not recorded"


def slots_suffice(history: History) -> Iterator[str]:
    """From its first event to its last a grant stands; at no event do more of them stand than there are slots."""
    span: dict[tuple[str, int], list[int]] = {}
    for position, event in enumerate(history.events):
        if event.kind in ("granted", "fenced"):
            span.setdefault((event.body["name"], event.body["fence"]), [position, position])[1] = position
    for name, slots in SLOTS.items():
        spans = [(first, last, fence) for (of, fence), (first, last) in span.items() if of == name]
        edges = sorted((at, change, fence) for a, b, fence in spans for at, change in ((a, 0), (b, 1)))
        standing: list[int] = []
        for _, is_end, fence in edges:
            if is_end:
                standing.remove(fence)
                continue
            standing.append(fence)
            if len(standing) > slots:
                yield f"{name} has {slots} slots and was held by {len(standing)} at once: fences {standing}"


def followers_saw_all(history: History) -> Iterator[str]:
    """A follower's record is what the ledger hands out from the start: nothing missing, nothing twice, in order."""
    every = [f"{event.cursor} {event.op_id}" for event in history.events]
    for name, seen in history.followed.items():
        expected = every if history.is_drained else every[: len(seen)]
        if list(seen) == expected:
            continue
        missing, strange = Counter(expected) - Counter(seen), Counter(seen) - Counter(expected)
        yield from (f"{name} missed {line.split(' ', 1)[1]}" for line in missing)
        yield from (f"{name} saw {line.split(' ', 1)[1]} twice or from nowhere" for line in strange)
        if not missing and not strange:
            at = next(i for i, (line, other) in enumerate(zip(seen, expected, strict=True)) if line != other)
            yield f"{name} saw {seen[at]} where the ledger has {expected[at]}"


def pauses_were_noticed(history: History) -> Iterator[str]:
    """With so many pauses some holder must have been refused; otherwise the harness has proved nothing by them."""
    if history.pauses >= 20 and not any(lines_of(history, "refused")):
        yield f"no stale holder was refused in {history.pauses} pauses"


CHECKS = (
    workers_lived,
    acknowledged_is_there,
    writers_are_in_order,
    runs_are_whole,
    documents_count,
    items_are_done_once,
    effects_match,
    fences_hold,
    slots_suffice,
    followers_saw_all,
    pauses_were_noticed,
)
