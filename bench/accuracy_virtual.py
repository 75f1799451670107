"""The corpus on a virtual clock: many variations of each case, with dogwatch's own `judge` at every look.

The agents are the model of `bench/accuracy_model.py`. What the eyes would see of them becomes a Sight, by the very
`Track` and screen patterns of the crew. The captain is a small model of what it does with tasks, messages and alerts:
the figures are about the diagnoses, and the real crew is measured on real screens.

The usual approach runs on the same scenarios in worlds of its own: a poll every five minutes.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from typing import Any

from bench.accuracy_cases import CASES
from bench.accuracy_form import Case, limits, partner, scenario, variations
from bench.accuracy_model import WALL, Agent, Message, Time
from bench.accuracy_verdict import Act, Deed, Said, Trace, Verdict, judge_trace, product_limits
from dogwatch.crew.captain.posting import ENTER_AGAIN_S
from dogwatch.crew.shared.tracks import Track
from dogwatch.harness import harness
from dogwatch.model.delivery import Delivered, Queued, Read, Typing
from dogwatch.model.folders import folder_at
from dogwatch.model.life import NotStarted, Running
from dogwatch.model.moment import Moment
from dogwatch.model.plan import ByteCheck, Checkpoint, Dispatch, Limits, Output, Phase, Plan, Role
from dogwatch.model.process import ProcessId
from dogwatch.model.records import AgentRecord, CheckpointRecord, MessageRecord, RunRecord, SettledStall, TaskRecord
from dogwatch.model.records import Verdict as Vote
from dogwatch.model.sight import OutputSight, Sight
from dogwatch.model.view import RunView
from dogwatch.policy.diagnosis import Diagnosis
from dogwatch.policy.judge import judge
from dogwatch.policy.ladder import LOOK_AGAIN_S, ONCE_S
from dogwatch.policy.waits import waits
from dogwatch.testing.scenario import parse
from dogwatch.world.census import Member, Tree
from dogwatch.world.files import is_misnamed

UNIT = 10.0
SEED = 1
POSITIVES, HEALTHY = 240, 240
NOT_MODELLED: Mapping[str, str] = {
    "redraws-while-it-works": "a window's change of size: the model draws each screen anew anyway",
    "takes-much-memory-and-works": "memory: the tree of the model has none, and no diagnosis rests on it",
}
"""Parts of cases that the model leaves out; the rest of these cases is modelled and counted."""
BOOT = "virtual"
EARLY_S = 0.1
ENTER_S = 0.3
ACCEPT_S = 0.3
RESTART_S = 0.5
LIFE_BEFORE_UNITS = 200.0
"""How long the beginning of a label is waited for."""
POLL_S, STRIKES = 300.0, 3
USUAL_UNITS = 200.0
OUTPUTS: Mapping[str, tuple[str, ...]] = {
    "analyse": ("report.md", "data.json"),
    "collect": ("facts.md",),
    "publish": ("final.md",),
    "keep": ("keeper.md",),
}


class World:
    """One run of a case: its agents, its files, and what the captain keeps of it."""

    def __init__(self, case: Case, parameters: Mapping[str, float]) -> None:
        self.case, self.parameters = case, parameters
        self.time = Time()
        self.files: dict[str, tuple[int, float]] = {}
        self.limits = Limits(**product_limits(limits(case, parameters), UNIT))  # type: ignore[arg-type]
        self.trace = Trace(case=case, unit=UNIT, late_s=self.limits.sweep_s, early_s=EARLY_S)
        self.plan = _plan(case, self.limits, parameters)
        self.scripts = {"worker": parse(scenario(case, parameters, UNIT))}
        if case.partner_template or case.pipeline in ("two agents mailing", "review"):
            self.scripts["partner"] = parse(partner(case, parameters, UNIT))
        now = self.moment
        self.run = RunRecord(
            run="t-1",
            spec="",
            project_folder=folder_at(""),
            output_folder=folder_at(""),
            created=now,
            state="RUNNING",
            started=now,
        )
        self.agents: dict[str, Agent] = {}
        self.records: dict[str, AgentRecord] = {}
        self.tasks: dict[str, TaskRecord] = {}
        self.messages: dict[str, MessageRecord] = {}
        self.checkpoints: dict[str, CheckpointRecord] = {}
        self.tracks: dict[str, Track] = {}
        self._pids = 100
        self._ids = 0
        for name in self.scripts:
            self.spawn(name, 1)
        self._open()

    @property
    def moment(self) -> Moment:
        return Moment(BOOT, self.time.now, WALL + self.time.now)

    @property
    def view(self) -> RunView:
        return RunView(
            plan=self.plan,
            run=self.run,
            agents=self.records,
            tasks=self.tasks,
            checkpoints=self.checkpoints,
            messages=self.messages,
        )

    # What agents find around them

    def new_pid(self) -> int:
        self._pids += 1
        return self._pids

    def call(self, agent: str, words: Sequence[str]) -> None:
        match list(words):
            case ["report", _, "--task", task]:
                self._reported(agent, task)
            case ["checkpoint", "approve", name]:
                self._approved(agent, name)
            case ["mail", "send", to, text]:
                self.send(to, "mail", f"from-{agent}", sender=agent, text=text)
            case ["mail", "read"]:
                self.has_mail(agent, "")
            case ["mail", "ack", identity]:
                self.messages.pop(identity, None)

    def has_mail(self, agent: str, text: str) -> bool:
        found = False
        for message in [one for one in self.messages.values() if one.to == agent and one.kind == "mail"]:
            self.messages[message.id] = replace(message, delivery=Read(at=self.moment, delivered=message.told))
            found = found or text in message.body
        return found

    def has_died(self, agent: str) -> None:
        self.time.after(0.01, self.died)

    def died(self) -> None:
        """Somebody watches the processes: the world of dogwatch looks at once."""

    # The captain

    def spawn(self, name: str, incarnation: int) -> None:
        def did(deed: Deed) -> None:
            if name == "worker":
                self.trace.deeds.append(deed)
                if deed.matches(self.case.outside_after) and self.case.outside and not self.was_outside:
                    self.was_outside = True
                    self.time.after(self.parameters["outside_s"] * UNIT, self._outside)
            if deed.did == "ready":
                self.time.after(self.parameters["dispatch_s"] * UNIT, lambda: self.free(agent))

        agent = self.agents[name] = Agent(self, name, incarnation, self.scripts[name], did)
        process = ProcessId(BOOT, agent.root, agent.root)
        life = Running(since=self.moment, process=process, pane="%1")
        old = self.records.get(name, AgentRecord(run="t-1", agent=name, role=name, busy=True, life=life))
        self.records[name] = replace(old, incarnation=incarnation, life=life)

    was_outside = False

    def free(self, agent: Agent) -> None:
        """From now on messages are typed to it."""
        self._free.add(agent)
        self.post()

    def _open(self) -> None:
        self._free: set[Agent] = set()
        for name, checkpoint in (("reading", self.case.pipeline == "review"),):
            if checkpoint:
                self.checkpoints[name] = CheckpointRecord(run="t-1", checkpoint=name, phase=0)
        self.tasks["keep"] = self._task("keep", "keeper", len(self.plan.phases) - 1, state="claimed")
        if self.case.pipeline != "nothing":
            self.tasks["analyse"] = self._task("analyse", "worker", 0)
            if self.case.pipeline != "later task":
                self.time.after(0.5, lambda: self._dispatch("analyse"))
        if self.case.pipeline == "two agents mailing":
            self.tasks["collect"] = self._task("collect", "partner", 0)
            self.time.after(0.5, lambda: self._dispatch("collect"))

    def _task(self, name: str, holder: str, phase: int, state: str = "pending") -> TaskRecord:
        outputs = tuple(Output(path=path) for path in OUTPUTS[name])
        return TaskRecord(
            run="t-1",
            task=name,
            dispatch=name,
            phase=phase,
            holders=(holder,),
            text="Do it.",
            outputs=outputs,
            state=state,
            agent=holder if state == "claimed" else "",
            expect_s=limits(self.case, self.parameters)["expect_s"] * UNIT,
            dispatched=self.moment if state == "claimed" else None,
        )

    def _dispatch(self, name: str) -> None:
        task = self.tasks[name]
        holder = task.holders[0]
        marker = {path: self._signature(path) for path in OUTPUTS[name]}
        self.tasks[name] = replace(
            task,
            state="claimed",
            agent=holder,
            incarnation=self.records[holder].incarnation,
            dispatched=self.moment,
            delivered=None,
            marker=marker,
        )
        self.records[holder] = self.records[holder].while_running(lambda life: replace(life, nudges=0))
        self.send(holder, "dispatch", name)

    def send(self, to: str, kind: str, subject: str, *, sender: str = "captain", text: str = "") -> None:
        self._ids += 1
        identity = "m" + hashlib.sha256(f"{self._ids}".encode()).hexdigest()[:10]
        self.messages[identity] = MessageRecord(
            run="t-1",
            id=identity,
            to=to,
            sender=sender,
            kind=kind,
            subject=subject,
            body=text,
            queued=self.moment,
            incarnation=self.records[to].incarnation,
            delivery=Queued(),
        )
        self.time.after(0.1, self.post)

    def post(self) -> None:
        """Types what waits to whom it can be typed, and notes what was received."""
        for name, agent in self.agents.items():
            waiting = self.view.waiting_messages(name)
            if not waiting or not agent.alive or agent not in self._free:
                continue
            message = waiting[0]
            if message.id in agent.turn.receipts:
                self._received(message)
            elif not message.step and agent.turn.state == "idle" and agent.composer == "" and self._is_idle(agent):
                self.messages[message.id] = replace(message, typing=Typing(step="pasted", at=self.moment))
                self._type(agent, message)

    def _type(self, agent: Agent, message: MessageRecord) -> None:
        files = OUTPUTS.get(message.subject, ()) if message.kind == "dispatch" else ()
        agent.paste(Message(message.kind, message.id, message.subject, files))

        def enter() -> None:
            agent.enter()
            self.time.after(0.1, self.post)
            if agent.composer:
                self.time.after(ENTER_AGAIN_S, enter)

        self.time.after(ENTER_S, enter)

    def _is_idle(self, agent: Agent) -> bool:
        return harness("scripted").read(agent.lines()).state == "idle"

    def _received(self, message: MessageRecord) -> None:
        read = message.delivery if isinstance(message.delivery, Read) else None
        delivery = replace(read, delivered=self.moment) if read is not None else Delivered(at=self.moment)
        self.messages[message.id] = replace(message, delivery=delivery, typing=None)
        task = self.tasks.get(message.subject)
        if message.kind == "dispatch" and task is not None:
            self.tasks[task.task] = replace(task, delivered=self.moment)
        self.post()

    def _reported(self, agent: str, name: str) -> None:
        task = self.tasks.get(name)
        if task is not None and task.state == "claimed" and task.agent == agent:
            self.tasks[name] = replace(task, state="reported")
            self.time.after(ACCEPT_S, lambda: self._judge_report(name))

    def _judge_report(self, name: str) -> None:
        task = self.tasks[name]
        if not self._is_fresh(task):
            self.tasks[name] = replace(task, state="returned")
            self._dispatch(name)
            return
        self.tasks[name] = replace(task, state="accepted", finished=self.moment)
        if task.agent == "worker":
            self.trace.accepted.append(self.time.now)
        if name == "analyse" and self.case.pipeline == "review":
            self.checkpoints["reading"] = replace(self.checkpoints["reading"], state="asked", round=1)
            self.send("partner", "checkpoint", "reading")

    def _approved(self, agent: str, name: str) -> None:
        record = self.checkpoints.get(name)
        if record is None or record.state != "asked":
            return
        vote = Vote(approve=True, note="", round=record.round)
        self.checkpoints[name] = replace(record, state="approved", verdicts={agent: vote}, closed=self.moment)
        self.run = replace(self.run, phase=1)
        self.tasks["publish"] = self._task("publish", "worker", 1)
        self._dispatch("publish")

    def restart(self, name: str) -> None:
        """A new incarnation; what it held goes back, letters go on to it."""
        agent = self.agents[name]
        agent.alive = False
        task = self.view.task_of(name)
        if task is not None:
            self.tasks[task.task] = replace(task, state="returned")
        record = self.records[name] = replace(self.records[name], life=NotStarted())
        for message in [one for one in self.messages.values() if one.to == name]:
            if message.kind == "mail":
                incarnation = record.incarnation + 1
                self.messages[message.id] = replace(message, delivery=Queued(), typing=None, incarnation=incarnation)
            else:
                del self.messages[message.id]

        def again() -> None:
            self.spawn(name, record.incarnation + 1)
            if task is not None:
                self._dispatch(task.task)

        self.time.after(RESTART_S, again)

    def _is_fresh(self, task: TaskRecord) -> bool:
        return all(self._signature(one.path) not in ("", task.marker.get(one.path, "")) for one in task.outputs)

    def _signature(self, path: str) -> str:
        return json.dumps(self.files[path]) if path in self.files else ""

    # From outside

    def _outside(self) -> None:
        agent, word = self.agents["worker"], self.case.outside
        self.trace.deeds.append(Deed(self.time.now, "outside", word))
        if word == "sigkill":
            agent.kill()
        elif word.startswith("sigstop"):
            agent.stop()
            if word == "sigstop_briefly":
                self.time.after(self.parameters["stopped_s"] * UNIT, agent.go_on)
        elif word == "kill_session":
            agent.hang_up()
        elif word == "kill_tool":
            agent.kill_tool()
        elif word == "escape":
            agent.escape()

    # The eyes

    def sight(self, name: str) -> Sight:
        agent, now = self.agents[name], self.time.now
        record = self.records[name]
        lines = agent.lines()
        seen = harness("scripted").read(lines) if lines else None
        tree = self._tree(agent) if agent.root_lives else None
        track = self.tracks.get(name)
        if track is None or track.process != record.process:
            track = self.tracks[name] = Track(record.process, now)
        screen = seen.state if seen is not None else "unknown"
        track.note(screen, lines, tree, agent.turn.pid, now)
        task = self.view.task_of(name)
        fresh = False
        outputs: tuple[OutputSight, ...] = ()
        elsewhere: tuple[str, ...] = ()
        if task is not None:
            fresh = self._is_fresh(task)
            outputs = tuple(self._output(one.path, task) for one in task.outputs)
            if not fresh and agent.turn.state == "idle":
                elsewhere = self._elsewhere(name, task)
        return Sight(
            process="alive" if agent.root_lives else "dead",
            session=agent.session,  # type: ignore[arg-type]
            turn=agent.turn,
            tree=track.tree,
            screen=screen,
            screen_since=track.screen_since,
            watched_since=track.watched_since,
            life=track.life,
            composer=seen.composer if seen is not None else None,
            lines=tuple(line.rstrip() for line in lines if line.strip())[-12:],
            outputs=outputs,
            outputs_fresh=fresh,
            elsewhere=elsewhere,
        )

    def _tree(self, agent: Agent) -> Tree:
        now = self.time.now

        def member(pid: int, name: str, since: float, state: str) -> Member:
            return Member(ProcessId(BOOT, pid, pid), name, 0.0, 1, now - since, state)

        client = member(agent.pid, "python", agent.born, "T" if agent.stopped else "S")
        below = tuple(member(child.pid, child.name, child.since, "S") for child in agent.living())
        if agent.root == agent.pid:
            return Tree(client, below, agent.cpu_s(), 1)
        launcher = member(agent.root, "python" if agent.alive else "sh", agent.born, "S")
        return Tree(launcher, (client, *below) if agent.alive else (), agent.cpu_s(), 1)

    def _output(self, path: str, task: TaskRecord) -> OutputSight:
        size, changed = self.files.get(path, (0, 0.0))
        return OutputSight(path, size, changed, bool(size) and self._signature(path) != task.marker.get(path, ""))

    def _elsewhere(self, name: str, task: TaskRecord) -> tuple[str, ...]:
        """What `files.elsewhere` would find: of the same name anywhere, or of a similar one in the right place."""
        missing = [one.path for one in task.outputs if one.path not in self.files]
        names = {os.path.basename(path) for path in missing}
        places = {one.path for other in self.view.tasks.values() for one in other.outputs}
        since = task.dispatched.wall if task.dispatched else 0.0
        own = {os.path.basename(path) for path in self.agents[name].turn.wrote}
        return tuple(
            path
            for path, (_, changed) in self.files.items()
            if (
                os.path.basename(path) in names
                or (os.path.basename(path) in own and any(is_misnamed(path, one) for one in missing))
            )
            and path not in places
            and changed >= since
        )


class Watched(World):
    """A run under dogwatch: a look every `sweep_s`, and what the captain does about it."""

    def __init__(self, case: Case, parameters: Mapping[str, float]) -> None:
        super().__init__(case, parameters)
        self._held_until = 0.0
        self.time.after(parameters["sweep_phase"] * self.limits.sweep_s, self._sweep_on)

    def died(self) -> None:
        self.sweep()

    def _sweep_on(self) -> None:
        self.sweep()
        self.time.after(self.limits.sweep_s, self._sweep_on)

    def sweep(self) -> None:
        """One look at all agents."""
        self.post()
        names = [name for name, record in self.records.items() if record.process is not None]
        sights = {name: self.sight(name) for name in names}
        view, now = self.view, self.moment
        found_waits = waits(view, sights, now)
        for name in names:
            found = judge(view, name, sights[name], found_waits, now)
            if name == "worker":
                self.trace.add(Said(self.time.now, found.kind, "; ".join(found.evidence)))
            self._tend(name, sights[name])
            record = self.records[name]
            if found.action and record.running and not record.was_alerted(found.stall, now):
                acted = self._act(name, found)
                again_s = LOOK_AGAIN_S if not acted else ONCE_S if found.action == "ESCALATE" else self.limits.nudge_s
                settled = SettledStall(stall=found.stall, again=now.plus(again_s))
                self.records[name] = replace(self.records[name], settled=settled, alerts=record.alerts + 1)

    def _act(self, name: str, found: Diagnosis) -> bool:
        record, duty = self.records[name], self.view.duty_of(name)
        action: str = found.action
        if action == "RESCUE":
            task = self.view.task_of(name)
            if task is None:
                return False
            self.tasks[task.task] = replace(task, state="reported", rescued=True)
            self.time.after(ACCEPT_S, lambda: self._judge_report(task.task))
        elif action == "PROBE":
            if record.probed is not None:
                return False
            self.records[name] = record.while_running(lambda life: replace(life, probed=self.moment))
            self.send(name, "health_check", name)
        elif action == "HOLD":
            if self.time.now < self._held_until:
                return True
            self._held_until = self.time.now + self.limits.hold_s
        elif action == "INTERRUPT":
            self.agents[name].escape()
        elif action == "NUDGE":
            if duty is None or any(one.kind == "nudge" for one in self.view.waiting_messages(name)):
                return False
            if record.nudges < self.limits.nudges_max:
                self.records[name] = record.while_running(lambda life: replace(life, nudges=life.nudges + 1))
                self.send(name, "nudge", duty.subject)
            elif duty.kind in ("offer", "mail"):
                return False
            else:
                action = "RESTART"
        self._note(name, action, found.kind)
        if action == "RESTART":
            self.restart(name)
        return True

    def _tend(self, name: str, sight: Sight) -> None:
        """Who was asked for a sign of life has given one, or is started again."""
        record = self.records[name]
        if record.probed is None:
            return
        if max(sight.turn.newest, sight.life) > record.probed.mono:
            self.records[name] = record.while_running(lambda life: replace(life, probed=None))
        elif self.moment.since(record.probed) >= self.limits.probe_s and sight.process == "alive":
            self._note(name, "RESTART", "stalled")
            self.restart(name)

    def _note(self, name: str, action: str, because: str) -> None:
        if name == "worker":
            self.trace.acts.append(Act(self.time.now, action, because))


class Polled(World):
    """A run under the usual approach: a poll every five minutes asks whether the session is there and whether the
    expected outputs have changed; three polls without a change are critical, and the agent is started again."""

    def __init__(self, case: Case, parameters: Mapping[str, float]) -> None:
        super().__init__(case, parameters)
        self.limits = replace(self.limits, sweep_s=POLL_S)
        self.trace.late_s = POLL_S
        self._strikes = 0
        self._latest: object = None
        self.time.after(parameters["sweep_phase"] * POLL_S, self._poll)

    def _poll(self) -> None:
        self.time.after(POLL_S, self._poll)
        agent, task = self.agents["worker"], self.view.task_of("worker")
        if self.records["worker"].process is None:
            return
        # Without `remain-on-exit`, which nobody sets who does not know of it, a session ends with its last process.
        if agent.session != "alive":
            self._restart("session_dead")
            return
        if task is None or all(one.path in self.files for one in task.outputs):
            self._strikes, said = 0, "working"
        else:
            latest = (task.task, [self.files.get(one.path) for one in task.outputs])
            self._strikes = self._strikes + 1 if latest == self._latest else 0
            self._latest = latest
            said = "critical" if self._strikes >= STRIKES else "working"
        if said == "critical":
            self._restart(said)
        else:
            self.trace.add(Said(self.time.now, said))

    def _restart(self, why: str) -> None:
        self._strikes = 0
        self.trace.add(Said(self.time.now, why))
        self.trace.acts.append(Act(self.time.now, "RESTART", why))
        self.restart("worker")

    def sweep_post(self) -> None:
        self.post()
        self.time.after(1.0, self.sweep_post)


def watched(case: Case, parameters: Mapping[str, float]) -> Watched:
    """The case under dogwatch, to the end of its label."""
    world = Watched(case, parameters)
    trace = world.trace

    def is_over() -> bool:
        begin = trace.begin
        if begin is None:
            return world.time.now >= 1000 + LIFE_BEFORE_UNITS * UNIT
        tail = UNIT if case.healthy else 4 * UNIT
        ends = [begin + case.watch_s * UNIT] + ([trace.until] if trace.until is not None else [])
        return world.time.now >= min(ends) + tail

    world.time.run(is_over, 1000 + (LIFE_BEFORE_UNITS + 2 * case.watch_s) * UNIT)
    trace.end = world.time.now
    return world


def polled(case: Case, parameters: Mapping[str, float]) -> Verdict:
    """The case under the usual approach. A fault counts as seen with either of its two words, whatever the fault is.
    A healthy agent is judged while its label holds, a fault for as long as the approach may need."""
    world = Polled(case, parameters)
    world.sweep_post()
    trace = world.trace
    trace.case = replace(case, truth=("critical", "session_dead")) if not case.healthy else case
    begins = 1000 + LIFE_BEFORE_UNITS * UNIT
    world.time.run(lambda: trace.begin is not None, begins)
    begin = world.time.now
    span = case.watch_s if case.healthy else USUAL_UNITS
    trace.case = replace(trace.case, watch_s=span, settle_s=span)
    world.time.run(lambda: case.healthy and trace.until is not None, begin + span * UNIT)
    trace.end = world.time.now
    return replace(judge_trace(trace), case=case, wrong=())


def plan_of(cases: Sequence[Case], positives: int, healthy: int, seed: int) -> list[tuple[Case, Mapping[str, float]]]:
    """The same number of variations for each case, so that there are at least as many as asked for."""
    found: list[tuple[Case, Mapping[str, float]]] = []
    for wanted, kind in ((positives, False), (healthy, True)):
        mine = [case for case in cases if case.healthy == kind]
        each = -(-wanted // len(mine)) if mine else 0
        found += [(case, one) for case in mine for one in variations(case, each, seed)]
    return found


def _both(work: tuple[str, Mapping[str, float]]) -> tuple[Verdict, Verdict]:
    case = next(case for case in CASES if case.name == work[0])
    return judge_trace(watched(case, work[1]).trace), polled(case, work[1])


def measure(
    cases: Sequence[Case], positives: int = POSITIVES, healthy: int = HEALTHY, seed: int = SEED
) -> tuple[list[Verdict], list[Verdict]]:
    """All verdicts, on dogwatch and on the usual approach."""
    work = [(case.name, parameters) for case, parameters in plan_of(cases, positives, healthy, seed)]
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        pairs = list(pool.map(_both, work, chunksize=4))
    return [one for one, _ in pairs], [usual for _, usual in pairs]


def _plan(case: Case, own: Limits, parameters: Mapping[str, float]) -> Plan:
    def dispatch(name: str, to: str, **more: Any) -> Dispatch:
        outputs = tuple(Output(path=path) for path in OUTPUTS[name])
        expect_s = limits(case, parameters)["expect_s"] * UNIT
        return Dispatch(name=name, to=to, task="Do it.", outputs=outputs, expect_s=expect_s, **more)

    keep, analyse = dispatch("keep", "keeper"), dispatch("analyse", "worker")
    if case.pipeline == "review":
        reading = Checkpoint(name="reading", artifact="report.md", author="analyse", reviewers=("partner",))
        first = Phase(name="first", dispatches=(analyse,), checkpoints=(reading,))
        phases: tuple[Phase, ...] = (first, Phase(name="second", dispatches=(dispatch("publish", "worker"), keep)))
    else:
        found = [keep]
        if case.pipeline == "two agents mailing":
            found.append(dispatch("collect", "partner"))
        if case.pipeline != "nothing":
            found.append(analyse)
        phases = (Phase(name="first", dispatches=tuple(found)),)
    roles = tuple(Role(name=name, harness="scripted") for name in ("worker", "partner", "keeper"))
    return Plan(name="t", roles=roles, phases=phases, deliverable=ByteCheck(path="keeper.md"), limits=own)
