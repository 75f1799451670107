"""What is counted of each agent, from its spool and its client's transcripts as they grow.

All of it is cache: a crew member that starts anew reads the files again and counts the same.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from dogwatch.guard.severity import severity
from dogwatch.harness import Harness
from dogwatch.harness.neutral import FAILURE_EVENTS
from dogwatch.model.redact import Redactor
from dogwatch.model.spool import SpoolLine, parse
from dogwatch.model.tally import Denial, Failure, ModelCall, Refusal, Tally, Tokens
from dogwatch.policy.troubles import Trouble, Troubles, note
from dogwatch.world.growing import GrowingFile

DENIED = "Denied"
"""The event under which the guard tells of a denial."""
BYTES_MAX = 16 * 1024 * 1024
"""How much is read at one go: who has just started must not be busy with old transcripts for long."""


@dataclass(frozen=True, slots=True)
class Told:
    """An error or denial that is to be put on the ledger, once: `key` is the same whoever reads it."""

    incarnation: int
    key: str
    trouble: Trouble


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentTally:
    """What was counted of an agent by incarnation, and all that is to be told of it, oldest first. `behind` is whether
    there is more to read."""

    incarnations: Mapping[str, Tally] = field(default_factory=dict)
    told: Sequence[Told] = ()
    behind: bool = False


class TallyReader:
    """Counts for one agent, over all its incarnations."""

    def __init__(self, spool: str, harness: Harness, redactor: Redactor | None = None) -> None:
        self._harness = harness
        self._redactor = redactor or Redactor()
        self._spool = GrowingFile(spool)
        self._clear()

    def _clear(self) -> None:
        self._restarts = self._spool.restarts
        self._conversations: dict[str, None] = {}
        self._files: dict[str, GrowingFile] = {}
        self._is_fresh = True
        self._starts: dict[int, float] = {}
        self._calls: dict[str, tuple[tuple[int, str, bool], Tokens]] = {}
        self._refused: set[str] = set()
        self._sums: dict[tuple[int, str, bool], Tokens] = {}
        self._errors: dict[int, Counter[str]] = defaultdict(Counter)
        self._denied: dict[int, Counter[str]] = defaultdict(Counter)
        self._troubles: dict[tuple[int, str], Troubles] = {}
        self._told: list[Told] = []
        self._tally: AgentTally | None = None

    def read(self, bytes_max: int = BYTES_MAX) -> tuple[AgentTally, int]:
        """The counts after what was written since, and how many bytes that were."""
        if bytes_max <= 0:
            return replace(self._tally or AgentTally(), behind=True), 0
        used, spool_behind, is_new = self._read_spool(bytes_max)
        # A line of a transcript may come a moment after the hook that goes with it.
        look_around, self._is_fresh = is_new or self._is_fresh, is_new
        if look_around:
            for conversation in self._conversations:
                for path in self._harness.transcripts(conversation):
                    self._files.setdefault(path, GrowingFile(path))
        behind = spool_behind
        for path, file in self._files.items():
            if not behind and (look_around or path in self._conversations):
                more, behind = self._read_transcript(file, bytes_max - used)
                used += more
        if used or self._tally is None or self._tally.behind != behind:
            self._tally = self._result(behind)
        if behind:
            self._is_fresh = True
        return self._tally, used

    def _read_spool(self, bytes_max: int) -> tuple[int, bool, bool]:
        used, is_behind = 0, True
        while is_behind and used < bytes_max:
            lines, is_behind = self._spool.lines(bytes_max - used)
            if self._spool.restarts != self._restarts:
                self._clear()
            if not lines:
                is_behind = False
            for raw in lines:
                used += len(raw) + 1
                line = parse(raw)
                if line is not None:
                    self._take(line)
        return used, is_behind, used > 0

    def _read_transcript(self, file: GrowingFile, bytes_max: int) -> tuple[int, bool]:
        used, is_behind = 0, True
        while is_behind and used < bytes_max:
            lines, is_behind = file.lines(bytes_max - used)
            if not lines:
                return used, False
            for raw in lines:
                used += len(raw) + 1
                entry = self._harness.entry(raw)
                if isinstance(entry, ModelCall):
                    self._count(entry)
                elif isinstance(entry, Refusal) and entry.id not in self._refused:
                    self._refused.add(entry.id)
                    # What is kept of a line is cut; half a token would not be found any more.
                    told = self._harness.entry(self._redactor.text(raw.decode(errors="replace")).encode())
                    if isinstance(told, Refusal):
                        self._fail(self._incarnation(entry.at), told.failure, entry.at, "transcript")
        return used, is_behind

    def _take(self, line: SpoolLine) -> None:
        self._starts.setdefault(line.incarnation, line.wall)
        if line.event == "SessionStart":
            path = line.payload().get("transcript_path")
            if isinstance(path, str) and path:
                self._conversations[path] = None
        elif line.event == DENIED:
            denial = _denial(self._redactor.value(line.payload()))
            self._denied[line.incarnation][denial.rule] += 1
            self._tell(line.incarnation, denial, line.mono, "spool")
        elif line.event in FAILURE_EVENTS:
            failure = self._harness.failure(line.event, self._redactor.value(line.payload()))
            if failure is not None:
                self._fail(line.incarnation, failure, line.mono, "spool")

    def _fail(self, incarnation: int, failure: Failure, at: float, source: str) -> None:
        self._errors[incarnation][failure.type] += 1
        self._tell(incarnation, failure, at, source)

    def _tell(self, incarnation: int, found: Failure | Denial, at: float, source: str) -> None:
        known = self._troubles.get((incarnation, source), Troubles())
        self._troubles[incarnation, source], trouble = note(known, found, at)
        if trouble is not None:
            self._told.append(Told(incarnation, f"{incarnation}:{source}:{trouble.number}", trouble))

    def _count(self, call: ModelCall) -> None:
        """A call is counted once, with the largest numbers that any of its lines has."""
        place, before = self._calls.get(call.id, ((self._incarnation(call.at), call.model, call.subagent), Tokens()))
        now = before.larger(call.tokens)
        if now != before:
            self._calls[call.id] = (place, now)
            self._sums[place] = self._sums.get(place, Tokens()).plus(now.minus(before))

    def _incarnation(self, wall: float) -> int:
        """Which incarnation did something then: they may all go on with one conversation, in one file."""
        begun = [number for number, start in self._starts.items() if start <= wall]
        return max(begun) if begun else min(self._starts, default=1)

    def _result(self, behind: bool) -> AgentTally:
        models: dict[bool, dict[int, dict[str, Tokens]]] = {False: defaultdict(dict), True: defaultdict(dict)}
        for (incarnation, model, subagent), tokens in self._sums.items():
            models[subagent][incarnation][model] = tokens
        incarnations = {
            str(number): Tally(
                own=models[False].get(number, {}),
                subagents=models[True].get(number, {}),
                errors=dict(self._errors.get(number, {})),
                denied=dict(self._denied.get(number, {})),
            )
            for number in sorted({*models[False], *models[True], *self._errors, *self._denied})
        }
        return AgentTally(incarnations=incarnations, told=tuple(self._told), behind=behind)


def _denial(payload: Mapping[str, object]) -> Denial:
    words = {name: str(payload.get(name) or "") for name in ("rule", "reason", "tool", "command")}
    return Denial(words["rule"], severity(words["rule"]), words["reason"][:300], words["tool"], words["command"][:300])
