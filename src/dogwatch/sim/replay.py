"""Replays a recorded run on a virtual clock: the same policies on what was recorded, under any thresholds.

Events and spools give the records and the turns. Screens and cpu time are not recorded. Where an alert was raised, it
tells what was seen then; elsewhere a client's screen is what its turn says, and whether an agent showed life in a
silence is inferred from what the watchdog did not say of it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from dogwatch.crew.shared.membership import BEAT_S
from dogwatch.harness import harness
from dogwatch.model.moment import Moment
from dogwatch.model.plan import Limits, Plan
from dogwatch.model.records import AgentRecord, TaskRecord
from dogwatch.model.sight import OutputSight, Sight, Turn
from dogwatch.model.view import RunView
from dogwatch.policy.alerts import TIERS, tier_of
from dogwatch.policy.diagnose import plainly_well
from dogwatch.policy.diagnoses import traits_of
from dogwatch.policy.diagnosis import Diagnosis
from dogwatch.policy.judge import judge_all
from dogwatch.policy.route import quiet
from dogwatch.policy.thresholds import claim_s, overdue
from dogwatch.sim.recording import Alert, Recording, Silence
from dogwatch.sim.refold import Records

Key = tuple[str, str, str]
"""The agent, the stall, and what was said or done about it."""
RUN_QUIET, RUN_ENDED = "run_quiet", "run_ended"
UNANSWERED = "unanswered"
LATER_S = 6 * 3600.0
"""How far it is looked ahead for what would have come later."""
SCREENS = {"working": "busy", "idle": "idle", "none": "starting"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Raised:
    """What would have been said or done, and when. `assumed` where it rests on the assumption that nothing but hooks
    showed life. `scene` is what was seen then."""

    t: float
    key: Key
    kind: str
    tier: int = 0
    quiet_s: float = 0.0
    assumed: bool = False
    scene: Scene | None = None

    @property
    def agent(self) -> str:
        return self.key[0]

    @property
    def what(self) -> str:
        return self.key[2]


@dataclass(frozen=True, slots=True)
class Scene:
    """All that was known at one instant."""

    records: RunView
    sights: Mapping[str, Sight]
    progress: Moment | None
    assumed: frozenset[str] = frozenset()


def changed_plan(plan: Plan, changes: Mapping[str, Any]) -> Plan:
    """The plan with other limits; a role or a dispatch that has its own keeps them."""
    return replace(plan, limits=replace(plan.limits, **changes))


def replay(recording: Recording, plan: Plan, *, aided: bool = True) -> dict[Key, Raised]:
    """The first of everything that would have been said and done for each stall, under the plan's limits, as long as
    the world went on as it was recorded. It is `aided` by what the recorded alerts have seen."""
    player = _Player(recording, plan, aided)
    player.play()
    return player.raised


def later(recording: Recording, raised: Raised, plan: Plan) -> float | None:
    """When the same would have come under this plan, had the stall lasted and nobody done anything; None for never."""
    if raised.scene is None:
        return None
    scene, step_s = raised.scene, _step_s(plan.limits)
    # A view keeps what it has looked up, of its own plan.
    frozen = replace(scene, records=replace(scene.records, plan=plan))
    t = raised.t
    while t < raised.t + LATER_S:
        if any(one.key == raised.key for one in _told(frozen, plan, recording.axis.now(t), t, {raised.key[:2]})):
            return t
        t += step_s
    return None


class _Player:
    """One replay under way."""

    def __init__(self, recording: Recording, plan: Plan, aided: bool) -> None:
        self.raised: dict[Key, Raised] = {}
        self._recording = recording
        self._plan = plan
        self._records = Records(recording.final)
        self._aided = aided

    def play(self) -> None:
        """The watchdog looks every few seconds, and after every event. What an event of that instant tells came of the
        look before it, so that is made first."""
        step_s = _step_s(self._plan.limits)
        t, events = 0.0, self._recording.events
        at = 0
        while at < len(events):
            t = min(t + step_s, events[at].t)
            self._look(t)
            is_news = False
            while at < len(events) and events[at].t <= t:
                event = events[at].event
                if event.kind == "run_ended":
                    return
                self._records.fold(event)
                at, is_news = at + 1, True
            if is_news:
                self._look(t)

    def _look(self, t: float) -> None:
        view, now = self._records.view(self._plan), self._recording.axis.now(t)
        held = self._records.held_at
        if held is not None and now.since(held) < self._plan.limits.mass_hold_s:
            return
        sights, assumed = {}, set()
        is_letter = any(message.kind == "mail" for message in view.messages.values()) or bool(view.sent_tasks())
        for name, agent in view.agents.items():
            if agent.running:
                if not is_letter and self._is_well(view, agent, t, now):
                    continue
                sights[name], is_assumed = self._sight(view, agent, t, now)
                if is_assumed:
                    assumed.add(name)
        scene = Scene(view, sights, self._records.progress, frozenset(assumed))
        before = {key[:2] for key in self.raised}
        for one in _told(scene, self._plan, now, t, before):
            self.raised.setdefault(one.key, one)

    def _is_well(self, view: RunView, agent: AgentRecord, t: float, now: Moment) -> bool:
        """Whether the agent is plainly at work or at rest and nobody waits for anybody: most are at most times, and
        nothing is said of them."""
        voice = self._recording.voices.get((agent.agent, agent.incarnation))
        if voice is None or agent.agent in self._recording.blind or agent.probed is not None:
            return False
        silence = voice.at(t)
        if silence.said is None or (self._aided and silence.alerts) or _overdue(view, agent.agent, now):
            return False
        turn = silence.said.turn
        if silence.plain is None:
            silence.plain = Sight(process="alive", session="alive", turn=turn, screen=SCREENS[turn.state])
        owes = turn.state == "idle" and view.owes(agent.agent)
        return plainly_well(silence.plain, view.limits_of(agent.agent), now, owes=owes) is not None

    def _sight(self, view: RunView, agent: AgentRecord, t: float, now: Moment) -> tuple[Sight, bool]:
        """What can be known of the agent then, and whether its lifelessness is only assumed."""
        role = view.role_of(agent.agent)
        voice = self._recording.voices.get((agent.agent, agent.incarnation))
        if role is None or voice is None or agent.agent in self._recording.blind or not harness(role.harness).hooks:
            return Sight(process="alive", session="alive", hooks=False), False
        silence = voice.at(t) if self._aided else replace(voice.at(t), alerts=[])
        turn = silence.said.turn if silence.said is not None else Turn()
        dead = [alert for alert in silence.alerts if alert.t <= t and _is_death(alert)]
        life, assumed = self._life(view, agent, turn, silence, t, now)
        screen, since = _screen(turn, silence, t, now)
        outputs = self._outputs(view.task_of(agent.agent), agent, silence, t, now)
        assert agent.running is not None  # noqa: S101 - the caller has looked
        watched = max(self._mono(agent.running.since, now), self._mono(self._records.watched_since, now))
        gone = bool(dead) and dead[0].kind == "session_dead"
        sight = Sight(
            process="dead" if dead else "alive",
            session="gone" if gone else "dead" if dead else "alive",
            turn=turn,
            screen=screen,
            screen_since=since,
            watched_since=watched,
            life=life,
            outputs=outputs,
            outputs_fresh=bool(outputs) and all(output.is_new for output in outputs),
            elsewhere=tuple(_elsewhere(silence, t)),
        )
        return sight, assumed

    def _life(
        self, view: RunView, agent: AgentRecord, turn: Turn, silence: Silence, t: float, now: Moment
    ) -> tuple[float, bool]:
        """The newest sign of life that is no hook, and whether there may have been newer ones. An alert of a stall says
        how long there was none. Where the watchdog did not say so although the hooks were silent for long enough, there
        was life, and an open tool is taken for one that lives."""
        stalls = [alert.quiet_since for alert in silence.alerts if alert.kind == "stalled"]
        if stalls:
            past = [since for since in stalls if since <= t]
            return (now.mono - (t - max(past)) if past else now.mono), False
        if turn.state != "working":
            return 0.0, False
        recorded = (
            replace(view, plan=self._recording.final.plan) if self._plan is not self._recording.final.plan else view
        )
        duty = view.duty_of(agent.agent)
        limit_s = claim_s(duty.risk if duty else "normal", recorded.limits_of(agent.agent))
        if turn.tools or silence.ended - silence.begun >= limit_s + 2 * _step_s(recorded.plan.limits):
            return now.mono, False
        return 0.0, True

    def _outputs(
        self, task: TaskRecord | None, agent: AgentRecord, silence: Silence, t: float, now: Moment
    ) -> tuple[OutputSight, ...]:
        """The expected outputs, as far as tools told of writing them, or a rescue of finding them."""
        if task is None or task.dispatched is None:
            return ()
        since, run = self._recording.axis.t(task.dispatched), self._recording.final.run
        rescues = [one.quiet_since for one in silence.alerts if one.kind == "done_unreported" and one.quiet_since <= t]
        said = self._recording.voices[agent.agent, agent.incarnation].wrote
        found = []
        for output in task.outputs:
            path = output.path.replace("{agent}", agent.agent).replace("{role}", agent.role).replace("{run}", task.run)
            whole = os.path.normpath(os.path.join(run.output, path))
            wrote = (one for one in said if since < one.t <= t)
            written = [one.wall for one in wrote if os.path.normpath(os.path.join(run.project, one.wrote)) == whole]
            written += [now.wall - (t - rescued) for rescued in rescues[:1]]
            found.append(OutputSight(path, int(bool(written)), max(written, default=0.0), bool(written)))
        return tuple(found)

    def _mono(self, moment: Moment | None, now: Moment) -> float:
        return now.mono - now.since(moment) if moment is not None else 0.0


def _told(scene: Scene, plan: Plan, now: Moment, t: float, before: set[tuple[str, str]]) -> Iterator[Raised]:
    """What the watchdog and the captain would say and do of what they see. `before` are the stalls for which something
    was done already: then the silence itself is spoken of."""
    view = scene.records
    for name, found in judge_all(view, scene.sights, now).items():
        agent, limits = view.agents[name], view.limits_of(name)
        level = tier_of(found, limits)
        told: dict[str, Any] = {"kind": found.kind, "quiet_s": found.quiet_s, "scene": scene, "tier": level}
        told["assumed"] = found.kind == "stalled" and name in scene.assumed
        if found.action:
            yield Raised(t=t, key=(name, found.stall, found.action), **told)
        if level and (not found.action or (name, found.stall) in before):
            yield Raised(t=t, key=(name, found.stall, TIERS[level]), **told)
        yield from _late(view, agent, found, scene, now, t)
        yield from _unanswered(agent, scene, limits, now, t)
    yield from _of_the_run(scene, plan.limits, now, t)


def _late(view: RunView, agent: AgentRecord, found: Diagnosis, scene: Scene, now: Moment, t: float) -> Iterator[Raised]:
    task, times = view.task_of(agent.agent), _overdue(view, agent.agent, now)
    if task is not None and times:
        stall = f"#{agent.incarnation}:overdue:{task.task}:{task.sends}:{times}"
        yield Raised(t=t, key=(agent.agent, stall, "OVERDUE"), kind=found.kind, tier=2, scene=scene)


def _overdue(view: RunView, agent: str, now: Moment) -> int:
    """How often the agent's task is to be spoken of by now."""
    task = view.task_of(agent)
    return overdue(now.since(task.dispatched), task.expect_s) if task is not None and task.dispatched else 0


def _unanswered(agent: AgentRecord, scene: Scene, limits: Limits, now: Moment, t: float) -> Iterator[Raised]:
    """Who was asked for a sign of life and gave none is started again."""
    sight = scene.sights[agent.agent]
    if agent.probed is None or sight.process != "alive" or now.since(agent.probed) < limits.probe_s:
        return
    if max(sight.turn.newest, sight.life) <= now.mono - now.since(agent.probed):
        key = (agent.agent, f"#{agent.incarnation}:{UNANSWERED}", "RESTART")
        yield Raised(t=t, key=key, kind="stalled", quiet_s=now.since(agent.probed), scene=scene)


def _of_the_run(scene: Scene, limits: Limits, now: Moment, t: float) -> Iterator[Raised]:
    """What is said and done of the run as a whole: it makes no progress, or its time is over."""
    view = scene.records
    if view.run.started is not None and now.since(view.run.started) > limits.deadline_s:
        yield Raised(t=t, key=("", "deadline", RUN_ENDED), kind="deadline", scene=scene)
    moments = [view.latest(now), *([scene.progress] if scene.progress is not None else [])]
    latest = min(moments, key=now.since)
    if now.since(latest) < limits.run_quiet_s:
        return
    beyond_s = quiet(view.run, view.tasks.values(), latest, limits, now)
    if beyond_s >= 0:
        key = ("", f"quiet:{latest.mono:.3f}", RUN_QUIET)
        yield Raised(t=t, key=key, kind="no progress", quiet_s=now.since(latest), scene=scene)
    if beyond_s >= limits.run_grace_s:
        yield Raised(t=t, key=("", f"quiet:{latest.mono:.3f}", RUN_ENDED), kind="no progress", scene=scene)


def _step_s(limits: Limits) -> float:
    return min(limits.sweep_s, BEAT_S)


def _screen(turn: Turn, silence: Silence, t: float, now: Moment) -> tuple[str, float]:
    """What an alert of this silence has seen on the screen, else what the turn says of it; and since when."""
    for alert in reversed(silence.alerts):
        pane, since = str(alert.body.get("pane", "unknown")), alert.t - float(alert.body.get("pane_s", 0.0))
        if pane != "unknown" and since <= t:
            return pane, now.mono - (t - since)
    return SCREENS[turn.state], turn.since


def _is_death(alert: Alert) -> bool:
    evidence = alert.evidence
    return traits_of(alert.kind).is_death or bool(evidence and evidence[0].startswith("process:"))


def _elsewhere(silence: Silence, t: float) -> Iterator[str]:
    for alert in silence.alerts:
        if alert.kind == "wrong_path" and alert.quiet_since <= t:
            found = [line.partition("found at ")[2] for line in alert.evidence if line.startswith("files: found at ")]
            yield from found
