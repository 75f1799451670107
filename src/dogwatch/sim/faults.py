"""What goes wrong, how often, and how: every fault is drawn from the seed.

A seed does not have all of them: most bugs show where few things go wrong together, and some only where many do. So
each seed first draws which faults it has, and how often they come.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from random import Random
from typing import ClassVar, Literal

from dogwatch.coordination import orders
from dogwatch.ledger.records import load
from dogwatch.model import keys
from dogwatch.model.brief import Header
from dogwatch.model.memory import GB
from dogwatch.model.records import RunRecord
from dogwatch.sim.agents import VirtualAgent
from dogwatch.sim.berths import Berth
from dogwatch.sim.faulty import FaultyMachine
from dogwatch.sim.fragile import FragileStore
from dogwatch.sim.memory import MB

Occasion = Literal["work", "review", "spawn", "paste", "press", "gate", "hour"]


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that goes wrong: with which probability on its occasion, or how often in an hour."""

    name: str
    occasion: Occasion
    rate: float
    what: str


FAULTS = (
    Fault("agent_dies", "work", 0.04, "an agent's process dies at the end of its work, before it has written anything"),
    Fault("silent_turn", "work", 0.05, "an agent ends its turn and has neither written nor reported anything"),
    Fault("lost_report", "work", 0.05, "an agent has written its outputs, and its report is lost"),
    Fault("hang", "work", 0.03, "an agent gives no sign of life any more in an open turn; some come back"),
    Fault("provider_error", "work", 0.03, "the provider ends an agent's turn with an error"),
    Fault("permission_dialog", "work", 0.02, "a dialog asks for a permission until a person has answered it"),
    Fault("slow_work", "work", 0.05, "a task takes several times as long as usual"),
    Fault("task_fails", "work", 0.02, "an agent reports that its task cannot be done"),
    Fault("call_repeated", "work", 0.05, "an agent's call is made twice, because its answer was lost"),
    Fault("reviewer_revises", "review", 0.2, "a reviewer asks for a revision"),
    Fault("spawn_dies", "spawn", 0.04, "an agent's process dies in the moment of its start"),
    Fault("spawn_fails", "spawn", 0.02, "an agent cannot be started"),
    Fault("spawn_unknown", "spawn", 0.03, "the terminal does not answer when an agent is to be started"),
    Fault("paste_lost", "paste", 0.03, "what was pasted never shows in the composer"),
    Fault("enter_lost", "press", 0.03, "a key that was sent has no effect"),
    Fault("gate_fails", "gate", 0.04, "a gate's command exits with an error"),
    Fault("agent_killed", "hour", 4.0, "an agent's process dies, whatever it is doing"),
    Fault("session_gone", "hour", 2.0, "an agent's process dies together with its terminal session"),
    Fault("captain_killed", "hour", 4.0, "a captain is killed between two steps"),
    Fault("watchdog_killed", "hour", 3.0, "a watchdog is killed between two steps"),
    Fault("dispatcher_killed", "hour", 3.0, "the dispatcher is killed between two steps"),
    Fault("killed_in_step", "hour", 12.0, "a crew member is killed in a step, before or after one of its commits"),
    Fault("crew_stopped", "hour", 3.0, "a crew member lives and does nothing, for a while"),
    Fault("ledger_locked", "hour", 2.0, "the ledger cannot be written for a while"),
    Fault("clock_jump", "hour", 1.0, "the wall clock is set forward or back"),
    Fault("reboot", "hour", 0.5, "the machine boots: all processes are gone, and the monotonic clock begins anew"),
    Fault("leak", "hour", 1.0, "an agent's memory grows without end"),
    Fault("memory_spike", "hour", 3.0, "a tool of an agent takes much memory for a while"),
    Fault("subagent_fan_out", "hour", 2.0, "an agent starts many sub-agents at once"),
    Fault("operator_kills_run", "hour", 0.4, "the operator ends a run"),
    Fault("operator_kills_agent", "hour", 1.0, "the operator ends an incarnation of an agent"),
    Fault("operator_asks", "hour", 1.0, "the operator has an agent asked how far it is"),
)
OUT_OF_MEMORY = "out_of_memory"
"""Not drawn: the kernel takes the largest agent when memory has run out."""

DEEDS = {
    "agent_dies": "die",
    "silent_turn": "silent",
    "lost_report": "lose_report",
    "hang": "hang",
    "provider_error": "provider",
    "permission_dialog": "dialog",
    "task_fails": "fail",
}
MISHAPS = {
    "spawn_dies": "die",
    "spawn_fails": "fail",
    "spawn_unknown": "unknown",
    "paste_lost": "lost",
    "enter_lost": "lost",
    "gate_fails": "fail",
}
SHARE = 0.4
"""So many of all faults a seed has."""
STRENGTHS = (0.0, 1.0, 2.0, 5.0)
LASTS = 0.7
"""For this share of a run's hours faults come; then everything must come to rest."""


class Faults:
    """Draws what goes wrong on one machine, does it and counts it. `ordered` hears of each incarnation that the
    operator wants to end."""

    def __init__(
        self,
        machine: FaultyMachine,
        random: Random,
        ordered: Callable[[VirtualAgent], None],
        *,
        with_faults: bool = True,
    ) -> None:
        self._machine = machine
        self._random = random
        self._ordered = ordered
        self.counts: Counter[str] = Counter()
        self.set_back_s = 0.0
        """By how much the wall clock was set back in all."""
        self._rates: dict[str, list[tuple[Fault, float]]] = {}
        strength = random.choice(STRENGTHS) if with_faults else 0.0
        for fault in FAULTS:
            if random.random() < SHARE and strength:
                self._rates.setdefault(fault.occasion, []).append((fault, fault.rate * strength))
        self._until_s = machine.setup.hours * 3600 * LASTS

    def begin(self) -> None:
        """From now on."""
        self._plan_next()

    def count(self, name: str, what: str = "") -> None:
        """Notes that it has happened."""
        self.counts[name] += 1
        self._machine.last_fault_s = self._machine.elapsed_s
        self._machine.tell(name, what)

    # On occasions.

    def deed(self, agent: VirtualAgent, header: Header) -> str:
        """What the agent does with the message; empty for what is usual."""
        name = self._drawn("review" if header.kind == "checkpoint" else "work")
        if header.kind not in ("dispatch", "nudge", "checkpoint", "mail", "offer") or not name:
            return ""
        if name == "reviewer_revises":
            self.count(name, agent.key)
            return "revise"
        if name == "call_repeated":
            self.count(name, agent.key)
            agent.repeats_calls = True
            return ""
        deed = DEEDS.get(name, "")
        if not deed or (deed == "fail" and header.subject not in agent.orders) or header.kind == "offer":
            return ""
        self.count(name, agent.key)
        if deed in ("hang", "dialog"):
            self._come_back(agent, deed)
        return deed

    def _come_back(self, agent: VirtualAgent, deed: str) -> None:
        """A person answers a dialog after a while; of what hangs, some go on by themselves."""
        if deed == "dialog" or self._random.random() < 0.4:
            ill = "hung" if deed == "hang" else "dialog"
            agent.after(self._random.uniform(20, 600), lambda: agent.recover() if agent.ill == ill else None)

    def stretched(self, agent: VirtualAgent, seconds: float) -> float:
        """How long it takes after all."""
        if self._drawn("work") == "slow_work":
            self.count("slow_work", agent.key)
            return seconds * self._random.uniform(3, 10)
        return seconds

    def mishap(self, occasion: str, agent: VirtualAgent | None) -> str:
        """What goes wrong with a spawn, a paste, a key or a gate."""
        name = self._drawn(occasion)
        if name:
            self.count(name, agent.key if agent is not None else "")
        return MISHAPS.get(name, "")

    def _drawn(self, occasion: str) -> str:
        rates = self._rates.get(occasion)
        if not rates or self._machine.elapsed_s > self._until_s:
            return ""
        draw = self._random.random()
        for fault, rate in rates:
            draw -= rate
            if draw < 0:
                return fault.name
        return ""

    # By the hour.

    def _plan_next(self) -> None:
        rates = self._rates.get("hour")
        if not rates:
            return
        at_s = self._machine.elapsed_s + self._random.expovariate(sum(rate for _, rate in rates) / 3600)
        if at_s < self._until_s:
            self._machine.at(at_s, self._strike)

    def _strike(self) -> None:
        names, weights = zip(*((fault.name, rate) for fault, rate in self._rates["hour"]), strict=True)
        name = self._random.choices(names, weights)[0]
        what = self._STRIKES[name](self)
        if what:
            self.count(name, what)
        self._plan_next()

    def _agent(self) -> VirtualAgent | None:
        living = [one for one in self._machine.clients.values() if one.lives]
        return self._random.choice(living) if living else None

    def _member(self, name: str = "") -> Berth | None:
        crew = [b for b in self._machine.crew if b.member is not None and not b.stopped and b.name == (name or b.name)]
        return self._random.choice(crew) if crew else None

    def _run(self) -> str:
        return self._random.choice(self._machine.open_runs) if self._machine.open_runs else ""

    def _kill_agent(self) -> str:
        agent = self._agent()
        if agent is not None:
            self._machine.kill(agent.process)
        return agent.key if agent is not None else ""

    def _end_session(self) -> str:
        agent = self._agent()
        if agent is not None:
            agent.has_session = False
            self._machine.kill(agent.process)
        return agent.key if agent is not None else ""

    def _kill_member(self, name: str) -> str:
        berth = self._member(name)
        if berth is None:
            return ""
        self._machine.kill(berth.process)
        return f"{berth.name} {berth.run}".strip()

    def _kill_in_step(self) -> str:
        berth = self._member()
        if berth is None or not isinstance(berth.ledger, FragileStore):
            return ""
        berth.ledger.kill_in, berth.ledger.unwritten = self._random.randint(1, 8), self._random.random() < 0.5
        return f"{berth.name} {berth.run}".strip()

    def _stop_member(self) -> str:
        berth = self._member()
        if berth is None:
            return ""
        self._machine.stop(berth)
        after_s = self._random.uniform(5, 120)
        self._machine.at(self._machine.elapsed_s + after_s, lambda: self._machine.resume(berth))
        return f"{berth.name} {berth.run}".strip()

    def _lock(self) -> str:
        seconds = self._random.uniform(1, 60)
        self._machine.locked_until_s = self._machine.elapsed_s + seconds
        return f"{seconds:.0f} s"

    def _jump(self) -> str:
        seconds = self._random.choice((-1, 1)) * self._random.uniform(1, 4000)
        self._machine.clock.step_wall(seconds)
        self.set_back_s += max(0.0, -seconds)
        return f"{seconds:.0f} s"

    def _reboot(self) -> str:
        self._machine.reboot()
        return self._machine.now.boot

    def _leak(self) -> str:
        agent = self._agent()
        if agent is None:
            return ""
        agent.body = replace(
            agent.body, leak_bytes_s=self._random.uniform(1, 40) * MB, leaks_since=self._machine.now.mono
        )
        return agent.key

    def _spike(self) -> str:
        agent, mono = self._agent(), self._machine.now.mono
        if agent is None:
            return ""
        size = int(self._random.uniform(1, 8) * GB)
        agent.body.spikes.append((mono, mono + self._random.uniform(10, 300), size))
        return agent.key

    def _fan_out(self) -> str:
        agent = self._agent()
        if agent is None or agent.turn.state != "working" or agent.hung:
            return ""
        for _ in range(self._random.randint(5, 30)):
            agent.start_subagent("explorer", self._random.uniform(5, 120))
        return agent.key

    def _order(self, run: str, agent: str) -> None:
        order = partial(orders.order_end, run=run, agent=agent, item_id=self._machine.op_id())
        self._machine.ledger.run(order)
        self._machine.ring(run)

    def _end_run(self) -> str:
        run = self._run()
        record = self._machine.ledger.read(lambda reader: load(reader, RunRecord, keys.run(run))) if run else None
        if record is None or record.over:
            return ""
        self._order(run, "")
        return run

    def _end_agent(self) -> str:
        agent = self._agent()
        if agent is None:
            return ""
        self._ordered(agent)
        self._order(agent.run.run, agent.name)
        return agent.key

    def _ask(self) -> str:
        agent = self._agent()
        if agent is None:
            return ""
        ask = partial(orders.ask_agent, run=agent.run.run, agent=agent.name, to=agent.name, question="How far are you?")
        self._machine.ledger.run(partial(ask, item_id=self._machine.op_id()))
        self._machine.ring(agent.run.run)
        return agent.key

    _STRIKES: ClassVar[Mapping[str, Callable[[Faults], str]]] = {
        "agent_killed": _kill_agent,
        "session_gone": _end_session,
        "captain_killed": lambda self: self._kill_member("captain"),
        "watchdog_killed": lambda self: self._kill_member("watchdog"),
        "dispatcher_killed": lambda self: self._kill_member("dispatcher"),
        "killed_in_step": _kill_in_step,
        "crew_stopped": _stop_member,
        "ledger_locked": _lock,
        "clock_jump": _jump,
        "reboot": _reboot,
        "leak": _leak,
        "memory_spike": _spike,
        "subagent_fan_out": _fan_out,
        "operator_kills_run": _end_run,
        "operator_kills_agent": _end_agent,
        "operator_asks": _ask,
    }
