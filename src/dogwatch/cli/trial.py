"""Tries an installed client for real: an ordinary run of its own, with the scripted model, in a folder that is gone
afterwards. What is seen of it becomes a list of what holds."""

from __future__ import annotations

import json
import os
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import field
from functools import partial
from typing import Any, Literal

from dogwatch.actions.kill import send_signal
from dogwatch.cli.fleet import bring_up, keep_up, take_down
from dogwatch.cli.framework import open_ledger
from dogwatch.cli.rehearsing import set_stage
from dogwatch.coordination.runs import create_run
from dogwatch.harness import Harness
from dogwatch.ledger.api import START, Store, StoredEvent
from dogwatch.ledger.records import load, load_run
from dogwatch.model import keys
from dogwatch.model.life import Running
from dogwatch.model.plan import ByteCheck, Dispatch, Limits, Output, Phase, Plan, Role
from dogwatch.model.records import AgentRecord, RunRecord, WatchRecord
from dogwatch.model.redact import redact
from dogwatch.values import dataclass
from dogwatch.world import tmux
from dogwatch.world.clock import SystemClock
from dogwatch.world.home import Home
from dogwatch.world.probe import ProbeFailedError
from dogwatch.world.spool import SpoolReader

Result = Literal["holds", "does not hold", "not tried"]

LIMIT_S = 180.0
LOOK_S = 0.1
AGENT = "client"
FORBIDDEN = "tmux -L dogwatch-check kill-server"
"""No server has this name: should nothing keep the client from it, nothing happens."""
WAITING = "waiting"
"""The rule by which it is made to wait, until it is killed."""
LINES_MAX = 12
_DEAD = "Pane is dead"
"""What tmux writes below the last words of a program."""
_LIMITS = Limits(startup_s=40, sweep_s=0.5, nudge_s=10, peek_s=10, restarts_max=1, deadline_s=LIMIT_S)


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that dogwatch rests on, and whether it was seen."""

    name: str
    result: Result
    text: str


@dataclass(slots=True)
class _Seen:
    """What has come of the trial so far."""

    events: list[StoredEvent] = field(default_factory=list)
    screens: set[str] = field(default_factory=set)
    strange: tuple[str, ...] = ()
    """A screen that is not known although the hooks say what is done; before any of them, the one that stands there."""
    last: tuple[str, ...] = ()
    context: float | None = None
    killed: float = 0.0
    requests: list[dict[str, Any]] = field(default_factory=list)
    run: RunRecord | None = None

    def of(self, event: str, /, **body: Any) -> list[StoredEvent]:
        return [one for one in self.events if one.kind == event and body.items() <= dict(one.body).items()]


def attempt(client: Harness, program: str, say: Callable[[str], None]) -> tuple[list[Check], tuple[str, ...]]:
    """What holds of the program, and the lines of a screen that was not understood. Nothing is left of the trial."""
    folder = tempfile.mkdtemp(prefix="dogwatch-check-")
    home = Home(f"{folder}/h")
    os.makedirs(f"{folder}/p")
    ledger = open_ledger(home, must_exist=False)
    try:
        seen = _Trial(home, ledger, client, say).play(program, f"{folder}/p")
    finally:
        take_down(home, ledger)
        ledger.close()
        shutil.rmtree(folder, ignore_errors=True)
    return list(_checks(client, seen)), seen.strange


class _Trial:
    def __init__(self, home: Home, ledger: Store, client: Harness, say: Callable[[str], None]) -> None:
        self._home = home
        self._ledger = ledger
        self._client = client
        self._say = say
        self._seen = _Seen()

    def play(self, program: str, project: str) -> _Seen:
        """Runs two tasks; in the second one the client is killed. Looks at it until the run is over."""
        scenario = f"{os.path.dirname(project)}/scenario.json"
        with open(scenario, "w", encoding="utf-8") as file:
            json.dump(_scenario(), file)
        allowed = self._client.rehearsal(project, project, "").permissions
        role = Role(name=AGENT, harness=self._client.name, command=(program,), permissions=allowed)
        scene = set_stage(self._home, _plan(role), project, scenario, in_place=True)
        create = partial(
            create_run,
            plan=scene.plan,
            project=project,
            output=f"{scene.stage.folder}/out",
            spec_path=scenario,
            stage=scene.stage,
        )
        run = self._ledger.run(create).run
        bring_up(self._home, self._ledger)
        self._say("it is started")
        until = time.monotonic() + LIMIT_S
        while time.monotonic() < until and not self._is_over():
            self._seen.requests = list(_requests(f"{scene.stage.folder}/requests.jsonl"))
            self._look(run)
            keep_up(self._home, self._ledger)
            time.sleep(LOOK_S)
        return self._seen

    def _is_over(self) -> bool:
        """Also where it did not even begin: a second start would teach nothing."""
        seen = self._seen
        failed = seen.of("agent_restarted") and not seen.of("guard_proven") and not seen.of("message_delivered")
        return bool(failed) or (seen.run is not None and seen.run.cleared)

    def _look(self, run: str) -> None:
        seen = self._seen
        news = self._ledger.since(seen.events[-1].cursor if seen.events else START, 500)
        for event in news:
            if sentence := _PROGRESS.get((event.kind, str(event.body.get("task") or event.body.get("kind") or ""))):
                self._say(sentence)
        seen.events += news
        view = self._ledger.read(lambda reader: load_run(reader, run))
        watch = self._ledger.read(lambda reader: load(reader, WatchRecord, keys.watch(run)))
        seen.run = view.run
        if watch is not None and AGENT in watch.agents and watch.agents[AGENT].context is not None:
            seen.context = watch.agents[AGENT].context
        agent = view.agents[AGENT]
        if agent.running and agent.running.pane:
            self._look_at(agent, agent.running)

    def _look_at(self, agent: AgentRecord, life: Running) -> None:
        """What stands on its screen, against what its hooks say; and the kill, once it waits in its second task."""
        seen = self._seen
        turn = SpoolReader(self._home.spool(agent.run, AGENT), agent.incarnation).turn()
        try:
            panes, captures = tmux.sweep(self._home.tmux(agent.run), [life.pane])
        except ProbeFailedError:
            return
        lines = captures.get(life.pane, ())
        title = next((pane.title for pane in panes if pane.id == life.pane), "")
        state = self._client.read(lines, title).state
        shown = [line.rstrip() for line in lines if line.strip() and not line.startswith(_DEAD)]
        told = tuple(map(redact, shown))[-LINES_MAX:]
        seen.last = told or seen.last
        expected = {"working": "busy", "idle": "idle"}.get(turn.state)
        if state == expected:
            seen.screens.add(state)
        elif state == "unknown" and told and (expected or turn.newest == 0.0):
            seen.strange = told
        elif turn.newest == 0.0:
            seen.strange = ()
        waits = any(one["rule"] == WAITING for one in seen.requests)
        if not seen.killed and waits and turn.tools:
            seen.killed = time.time()
            send_signal(life.process, signal.SIGKILL, SystemClock().now().boot)


_PROGRESS = {
    ("guard_proven", ""): "its guard fires",
    ("message_delivered", "dispatch"): "it has a task",
    ("task_accepted", "first"): "it has done the first task; in the second it is killed",
    ("agent_restarted", ""): "it is started again",
    ("task_accepted", "second"): "it has done the second task",
}


def _plan(role: Role) -> Plan:
    phases = tuple(
        Phase(
            name=name,
            dispatches=(
                Dispatch(
                    name=name, to=AGENT, task="Write it.", outputs=(Output(path=f"{name}.txt"),), expect_s=LIMIT_S
                ),
            ),
        )
        for name in ("first", "second")
    )
    return Plan(name="check", roles=(role,), phases=phases, deliverable=ByteCheck(path="second.txt"), limits=_LIMITS)


def _scenario() -> dict[str, Any]:
    from dogwatch.testing.model.rehearsal import common_rules, header

    def steps(task: str, before: Sequence[str]) -> list[dict[str, Any]]:
        write = f'python3 -c "import time; time.sleep(2)" && echo {task} > "$DOGWATCH_OUTPUT/{task}.txt"'
        commands = [*before, write, f"dogwatch report done --task {task}"]
        return [*({"shell": command} for command in commands), {"text": "It is written."}]

    waits = {"shell": 'python3 -c "import time; time.sleep(100)"'}
    rules = [
        {"prompt": header("(dispatch|nudge)", "first"), "do": steps("first", [FORBIDDEN])},
        {
            "name": WAITING,
            "prompt": header("dispatch", "second"),
            "times": 1,
            "do": [waits, {"text": "I have waited."}],
        },
        {"prompt": header("(dispatch|nudge)", "second"), "do": steps("second", [])},
    ]
    return {"rules": [*rules, *common_rules()]}


def _requests(path: str) -> Iterator[dict[str, Any]]:
    """What the client has asked the model for its work."""
    if os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            found = [json.loads(line) for line in file if line.endswith("\n")]
        yield from (one for one in found if one["rule"] and not one["side"])


def _checks(client: Harness, seen: _Seen) -> Iterator[Check]:
    """Each thing in the order in which it can be seen; what could not be reached was not tried."""
    reached = bool(seen.of("agent_spawned"))
    for name, text, holds, wrong in _questions(client, seen):
        if holds is None:
            yield Check(name, "not tried", wrong)
        elif holds:
            yield Check(name, "holds", text)
        elif not reached:
            yield Check(name, "not tried", "it did not come so far")
        else:
            yield Check(name, "does not hold", wrong or _reason(seen))
            # What follows may still have been seen; what was not, was not reached.
            reached = name in _INDEPENDENT


_INDEPENDENT = ("forbidden", "busy screen", "idle screen", "tokens", "context", "goes on")
"""What can fail without keeping anything else from being tried."""


def _questions(client: Harness, seen: _Seen) -> Iterator[tuple[str, str, bool | None, str]]:
    """Name, what it means where it holds, whether it holds (None: it has no such thing), and what is wrong."""
    delivered = seen.of("message_delivered", kind="dispatch")
    tries = int(delivered[0].body.get("tries", 0)) if delivered else 0
    has_begun = bool(seen.of("guard_proven") or delivered)
    yield "start", "it starts, and asks nothing", has_begun, ""
    guards = bool(seen.of("guard_proven")) if client.guards else None
    yield "guard", "its hook refuses a prompt on purpose", guards, "" if client.guards else "its hooks deny nothing"
    late = f"a message was typed {tries} times before its hooks told of it" if tries > 1 else ""
    yield "message", "a message is typed once, and its own hook is the receipt", tries == 1, late
    yield "tool", "it runs a command without asking, and reports", bool(seen.of("task_accepted", task="first")), ""
    denied = bool(seen.of("guard_denied")) if client.guards else None
    yield "forbidden", f"`{FORBIDDEN}` is denied", denied, "it was not denied"
    for state, when in (("busy", "while a tool runs"), ("idle", "at its prompt")):
        wrong = f"its screen was never read as {state} {when}"
        yield f"{state} screen", f"its screen is read as {state} {when}", state in seen.screens, wrong
    calls = sum(int(event.body.get("calls") or 0) for event in seen.of("usage_recorded"))
    yield "tokens", "its transcript tells of its model calls", calls > 0, "no model call was read from its transcript"
    yield "context", "it tells how much of its context is used", seen.context is not None, "its context was not read"
    after = [one for one in seen.requests if seen.killed and one["time"] > seen.killed]
    first = seen.requests[0]["messages"] if seen.requests else 0
    goes_on = bool(after) and after[0]["messages"] > first
    yield (
        "goes on",
        "after a kill it goes on with its conversation",
        goes_on,
        "after a kill it began a new conversation",
    )
    over = seen.run is not None and seen.run.state == "COMPLETED" and seen.run.cleared
    yield "end", "the run is delivered, and nothing of it is left", over, ""


def _reason(seen: _Seen) -> str:
    """What dogwatch itself has made of it."""
    told = [str(event.body.get("diagnosis") or event.body.get("reason") or "") for event in seen.events]
    named = [text for text in told if text]
    last = f"; its last line: {seen.last[-1].strip()}" if seen.last else ""
    return f"{named[-1].replace('_', ' ') if named else 'it did not come to it in time'}{last}"
