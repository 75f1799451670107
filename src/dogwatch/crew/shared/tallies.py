"""What is counted of each agent, from its spool and its client's transcripts as they grow.

All of it is cache: a crew member that starts anew reads the files again and counts the same.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import replace

from dogwatch.coordination.usage import AgentTally, SubagentTold, Told
from dogwatch.guard.severity import severity
from dogwatch.harness import Harness
from dogwatch.harness.claude import EVENTS
from dogwatch.harness.neutral import FAILURE_EVENTS
from dogwatch.model.redact import Redactor
from dogwatch.model.sight import Subagent
from dogwatch.model.spool import OWN_EVENTS, SpoolLine, parse
from dogwatch.model.tally import Denial, Failure, Lives, ModelCall, Refusal, Tally, Tokens
from dogwatch.policy.troubles import Troubles, note
from dogwatch.policy.turns import follow, named
from dogwatch.policy.verdicts import OBJECTION_MAX, disagrees
from dogwatch.world.growing import GrowingFile

DENIED = "Denied"
"""The event under which the guard tells of a denial."""
BYTES_MAX = 16 * 1024 * 1024
"""How much is read at one go: who has just started must not be busy with old transcripts for long."""
OTHERS = ("Interrupt", "PreCompress")
"""What other clients than Claude Code tell of besides."""


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
        self._unread: dict[int, Counter[str]] = defaultdict(Counter)
        self._troubles: dict[tuple[int, str], Troubles] = {}
        self._told: list[Told | SubagentTold] = []
        self._running: Mapping[str, Subagent] = {}
        self._begun: dict[str, SubagentTold] = {}
        self._latest = 0
        self._lives: dict[int, dict[str, Lives]] = defaultdict(dict)
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
        if line.event not in OWN_EVENTS and not _is_understood(line):
            self._unread[line.incarnation][line.event] += 1
        self._follow(line)
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

    def _follow(self, line: SpoolLine) -> None:
        """Which sub-agents have begun or come to their end with this line. A new incarnation has none of the old ones:
        what had not told of its end then was lost, and so it is when the client's session ends."""
        if line.incarnation < self._latest:
            return
        if line.incarnation > self._latest:
            self._latest = line.incarnation
            self._change({}, line)
        self._change(follow(self._running, line), line)

    def _change(self, running: Mapping[str, Subagent], line: SpoolLine) -> None:
        before, self._running = self._running, running
        if running is before:
            return
        # There may be many of them, and most lines are about one.
        is_about_one = running and line.event in ("SubagentStart", "SubagentStop")
        for identity in (named(line)[0],) if is_about_one else {**before, **running}:
            known, one = self._begun.get(identity), running.get(identity)
            if known is not None and (one is None or one.since != known.since):
                self._ended(self._begun.pop(identity), line)
            if one is not None and identity not in self._begun:
                key = f"{line.incarnation}:{one.id}:{one.since:.3f}"
                told = SubagentTold(incarnation=line.incarnation, key=key, id=one.id, type=one.type, since=one.since)
                self._begun[identity] = told
                self._told.append(told)
                self._live(told, Lives(started=1))

    def _ended(self, one: SubagentTold, line: SpoolLine) -> None:
        """A client that ends its turn and does not name it any more has ended it; a new session knows nothing of it."""
        how = "ended" if line.event in ("SubagentStop", "SubagentStart", "Stop") else "lost"
        said = _last_words(line) if line.event == "SubagentStop" else ""
        objection = self._redactor.text(said)[:OBJECTION_MAX] if disagrees(said) else ""
        seconds = round(max(0.0, line.mono - one.since), 3)
        self._told.append(replace(one, how=how, seconds=seconds, objection=objection))
        self._live(one, Lives(ended=int(how == "ended"), lost=int(how == "lost"), seconds=seconds))

    def _live(self, one: SubagentTold, more: Lives) -> None:
        lives = self._lives[one.incarnation]
        lives[one.type] = lives.get(one.type, Lives()).plus(more)

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
                lives=dict(self._lives.get(number, {})),
                unread=dict(self._unread.get(number, {})),
            )
            for number in sorted(
                {*models[False], *models[True], *self._errors, *self._denied, *self._lives, *self._unread}
            )
        }
        running = tuple(self._begun.values())
        return AgentTally(incarnations=incarnations, told=tuple(self._told), running=running, behind=behind)


def _is_understood(line: SpoolLine) -> bool:
    """Whether the event is a known one with an object in it. What was cut is only too long."""
    text = line.raw.strip()
    is_cut = line.payload_bytes > len(line.raw)
    is_known = line.event in EVENTS or line.event in OTHERS
    return is_known and text.startswith(b"{") and (is_cut or text.endswith(b"}"))


def _last_words(line: SpoolLine) -> str:
    """What a sub-agent said in the end; of a payload that was cut, what is left of it."""
    payload = line.payload()
    if payload:
        message = payload.get("last_assistant_message")
        return message if isinstance(message, str) else ""
    return line.raw.partition(b'"last_assistant_message"')[2].decode(errors="replace").replace("\\n", "\n")


def _denial(payload: Mapping[str, object]) -> Denial:
    words = {name: str(payload.get(name) or "") for name in ("rule", "reason", "tool", "command")}
    return Denial(words["rule"], severity(words["rule"]), words["reason"][:300], words["tool"], words["command"][:300])
