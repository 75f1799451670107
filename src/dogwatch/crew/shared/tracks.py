"""What one look remembers of the looks before it: since when a screen stands there, and when there was a sign of life.

All of it is cache: a crew member that starts anew begins with its first look, and gives everybody the benefit of it.
"""

from __future__ import annotations

from collections.abc import Sequence, Set

from dogwatch.harness import Harness
from dogwatch.model.moment import Moment
from dogwatch.model.plan import Output
from dogwatch.model.process import ProcessId
from dogwatch.model.records import RunRecord
from dogwatch.model.sight import Child, Tree, Turn
from dogwatch.model.tally import Failure
from dogwatch.world import census, files

SEARCH_S = 10.0
"""How long the result of a search for misplaced outputs is used again: it walks through folders."""
PAUSE_S = 10.0
"""A watchdog looks every two seconds or more often."""
SANDBOX = "bwrap"
CORES_S = 0.5
"""Over shorter times the kernel's ticks of cpu time say nothing."""


class Track:
    """The looks at one process of an agent."""

    def __init__(self, process: ProcessId | None, mono: float) -> None:
        self.process = process
        self.watched_since = mono
        self.screen_since = mono
        self.life = 0.0
        self.tree: Tree | None = None
        self._noted = mono
        self._screen = ""
        self._lines: Sequence[str] | None = None
        self._cpu_s: float | None = None
        self._children: frozenset[ProcessId] | None = None
        self._cores_from = (0.0, 0.0)
        self._cores: float | None = None
        self._searched = 0.0
        self._heard = -1.0
        self._found: tuple[str, ...] = ()
        self._transcript: tuple[int, int] | None = None
        self._context: float | None = None
        self._ending: tuple[float, Failure] | None = None
        self._clients: dict[int, int] = {}

    def client(self, tree: census.Tree, named: int) -> int:
        """The pid of the client that its hooks call `named`: in a sandbox they know it by another."""
        if tree.root.name != SANDBOX:
            return named
        if named not in self._clients and (found := census.seen_as(tree, named)):
            self._clients[named] = found
        return self._clients.get(named, named)

    def note(self, screen: str, lines: Sequence[str], tree: census.Tree | None, client: int, mono: float) -> None:
        """One more look. `client` is the pid that the hooks name: below a launcher, not the agent's own process."""
        if mono - self._noted > PAUSE_S:
            # Who has not looked for so long has slept, and everybody with it perhaps: that silence is nobody's.
            self.watched_since = mono
        self._noted = mono
        if lines:
            if screen != self._screen:
                self._screen, self.screen_since = screen, mono
            if self._lines is not None and lines != self._lines:
                self.life = mono
            self._lines = lines
        if tree is None:
            return
        children = frozenset(child.process for child in tree.children)
        if self._cpu_s is None:
            self._cores_from = (mono, tree.cpu_s)
        elif tree.cpu_s > self._cpu_s or children != self._children:
            self.life = mono
        self._cpu_s, self._children = tree.cpu_s, children
        since, cpu_s = self._cores_from
        if mono - since >= CORES_S:
            self._cores = max(0.0, tree.cpu_s - cpu_s) / (mono - since)
            self._cores_from = (mono, tree.cpu_s)
        clients = [tree.root, *(child for child in tree.children if child.process.pid == client)]
        self.tree = Tree(
            cores=self._cores,
            rss_bytes=tree.rss_bytes,
            stopped=any(one.state in "Tt" for one in clients),
            children=tuple(Child(one.process.pid, one.name, one.age_s, one.cpu_s) for one in tree.children),
        )

    def transcript(self, path: str, client: Harness) -> tuple[float | None, tuple[float, Failure] | None]:
        """The used share of the context, and the error that has ended the latest turn; the transcript is read only
        where it has changed."""
        if path and (changed := files.changed_tail(path, self._transcript)) is not None:
            self._transcript, tail = changed
            self._context = client.context(tail) if tail else None
            self._ending = client.ending(tail) if tail else None
        return self._context, self._ending

    def elsewhere(
        self, run: RunRecord, outputs: Sequence[Output], known: Set[str], since: Moment, turn: Turn, mono: float
    ) -> tuple[str, ...]:
        """Files that seem to be missing outputs, written since then in other places. `known` are the outputs of all
        tasks; what was found is used again until the agent is heard of."""
        if turn.newest != self._heard or mono - self._searched >= SEARCH_S:
            self._searched, self._heard = mono, turn.newest
            roots = (run.output, run.project)
            self._found = files.elsewhere(roots, run.output, outputs, known, turn.wrote, since.wall)
        return self._found
