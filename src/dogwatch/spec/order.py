"""Which dispatch comes before which: by the phases, and within a phase by `after`."""

from __future__ import annotations

from graphlib import CycleError, TopologicalSorter

from dogwatch.spec.source import Source
from dogwatch.spec.survey import DispatchEntry, Survey

CYCLES_MAX = 20


class Order:
    """The order of a file's dispatches. An earlier phase comes first as a whole."""

    def __init__(self, found: Survey) -> None:
        self.dispatches = {entry.name: entry for entry in found.dispatches}
        self._before: dict[str, frozenset[str]] = {}

    def comes_before(self, first: DispatchEntry, second: DispatchEntry) -> bool:
        """Whether `second` cannot begin before `first` is accepted."""
        return first.phase < second.phase or (first.phase == second.phase and first.name in self.before(second.name))

    def before(self, name: str) -> frozenset[str]:
        """All dispatches that `name` waits for through `after`, directly or through others."""
        if name not in self._before:
            seen: set[str] = set()
            waiting = [name]
            while waiting:
                entry = self.dispatches.get(waiting.pop())
                for other, _ in entry.after if entry else ():
                    if other not in seen:
                        seen.add(other)
                        waiting.append(other)
            self._before[name] = frozenset(seen)
        return self._before[name]


def apply(source: Source, found: Survey) -> None:
    """Reports every cycle of dispatches that wait for each other."""
    graph = {entry.name: {name for name, _ in entry.after} - {entry.name} for entry in found.dispatches}
    for _ in range(CYCLES_MAX):
        try:
            TopologicalSorter(graph).prepare()
            return
        except CycleError as error:
            cycle: list[str] = error.args[1]
        first, second = cycle[0], cycle[1]
        place = next(
            place for entry in found.dispatches if entry.name == second for name, place in entry.after if name == first
        )
        chain = " waits for ".join(reversed(cycle))
        source.report(place, f"these dispatches wait for each other: {chain}", "remove one `after`")
        graph[second].discard(first)
