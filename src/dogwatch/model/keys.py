"""The keys under which the ledger keeps everything, and the names of its queues: built here and nowhere else.

A function in the singular names one document. One in the plural, or in capitals, is what the keys of several
begin with.
"""

from __future__ import annotations

ACTIVE = "active/"
CREW = "crew/"
PROFILES = "profile/"
QUEUED = "queued/"
NOTICES = "notice/"
COUNTERS = "counter/"
RUNS = "run/"
PLANS = "plan/"
TASKS = "task/"
MESSAGES = "message/"
HOME = "home"
QUEUE_NUMBER = "queue"


def run(name: str) -> str:
    return f"run/{name}"


def plan(run: str) -> str:
    return f"plan/{run}"


def active(run: str) -> str:
    """There as long as somebody must look after the run."""
    return f"active/{run}"


def queued(run: str) -> str:
    return f"queued/{run}"


def agent(run: str, agent: str) -> str:
    return f"agent/{run}/{agent}"


def agents(run: str) -> str:
    return f"agent/{run}/"


def task(run: str, task: str) -> str:
    return f"task/{run}/{task}"


def tasks(run: str) -> str:
    return f"task/{run}/"


def checkpoint(run: str, checkpoint: str) -> str:
    return f"checkpoint/{run}/{checkpoint}"


def checkpoints(run: str) -> str:
    return f"checkpoint/{run}/"


def message(run: str, message: str) -> str:
    return f"message/{run}/{message}"


def messages(run: str) -> str:
    return f"message/{run}/"


def past_message(run: str, message: str) -> str:
    """A message that has come to its end, kept where nobody reads it in every step."""
    return f"past-message/{run}/{message}"


def held_message(run: str, message: str) -> str:
    """A letter that must not go out yet."""
    return f"held-message/{run}/{message}"


def held_messages(run: str) -> str:
    return f"held-message/{run}/"


def gate(run: str, phase: int, gate: str) -> str:
    return f"gate/{run}/{phase}/{gate}"


def gates(run: str) -> str:
    return f"gate/{run}/"


def check_in(run: str, item: str) -> str:
    return f"check-in/{run}/{item}"


def notice(run: str, item: str) -> str:
    return f"notice/{run}/{item}"


def notices(run: str) -> str:
    return f"notice/{run}/"


def crew(run: str, member: str) -> str:
    """A captain or a watchdog."""
    return f"crew/{run}/{member}"


def crews(run: str) -> str:
    return f"crew/{run}/"


def dispatcher(host: str) -> str:
    return f"dispatcher/{host}"


def place(member: str, of: str) -> str:
    """The lease of a crew member: a captain and a watchdog are those of a run, the dispatcher is that of a host."""
    return f"{member}/{of}"


def revival(host: str) -> str:
    """The lease of whoever starts the host's next dispatcher."""
    return f"revive/dispatcher/{host}"


def host(host: str) -> str:
    return f"host/{host}"


def down(host: str) -> str:
    """There while the operator wants nothing to run on the host."""
    return f"down/{host}"


def decision(run: str, decision: str) -> str:
    return f"decision/{run}/{decision}"


def decisions(run: str) -> str:
    return f"decision/{run}/"


def open_decision(run: str, decision: str) -> str:
    """A decision whose effect is still looked for."""
    return f"open-decision/{run}/{decision}"


def open_decisions(run: str) -> str:
    return f"open-decision/{run}/"


def overdue_subagent(run: str, agent: str, digest: str) -> str:
    return f"overdue/{run}/{agent}/{digest}"


def overdue_subagents(run: str, agent: str = "") -> str:
    return f"overdue/{run}/{agent}/" if agent else f"overdue/{run}/"


def instructions(run: str, role: str) -> str:
    return f"instructions/{run}/{role}"


def all_instructions(run: str) -> str:
    return f"instructions/{run}/"


def reading(run: str, agent: str) -> str:
    return f"reading/{run}/{agent}"


def readings(run: str) -> str:
    return f"reading/{run}/"


def dispatches(run: str, agent: str) -> str:
    """How many dispatches the agent has got and finished."""
    return f"dispatches/{run}/{agent}"


def all_dispatches(run: str) -> str:
    return f"dispatches/{run}/"


def tally(run: str, agent: str) -> str:
    return f"tally/{run}/{agent}"


def tallies(run: str) -> str:
    return f"tally/{run}/"


def watch(run: str) -> str:
    return f"watch/{run}"


def checks(run: str) -> str:
    return f"checks/{run}"


def hold(run: str, account: str) -> str:
    return f"hold/{run}/{account}"


def permit(host: str, holder: str) -> str:
    return f"permit/{host}/{holder}"


def permits(host: str, kind: str = "") -> str:
    return f"permit/{host}/{kind}:" if kind else f"permit/{host}/"


def wait(host: str, holder: str) -> str:
    return f"waits/{host}/{holder}"


def waits(host: str, kind: str = "") -> str:
    return f"waits/{host}/{kind}:" if kind else f"waits/{host}/"


def profile(harness: str, pipeline: str, role: str) -> str:
    return f"profile/{harness}/{pipeline}/{role}"


def profiles(harness: str) -> str:
    return f"profile/{harness}/"


def counter(pipeline: str) -> str:
    """The number of the pipeline's latest run."""
    return f"counter/{pipeline}"


def history(pipeline: str, role: str) -> str:
    """How long the role's tasks took in earlier runs."""
    return f"history/{pipeline}/{role}"


def alerts_queue(run: str) -> str:
    """The watchdog's alerts."""
    return f"alerts/{run}"


def checkins_queue(run: str) -> str:
    """The questions that agents are asked without being disturbed."""
    return f"checkins/{run}"


def verdicts_queue(run: str) -> str:
    """What sub-agents have said against work in the end."""
    return f"verdicts/{run}"


def orders_queue(run: str) -> str:
    """The operator's orders."""
    return f"orders/{run}"


def notices_queue(run: str) -> str:
    """What a person must be told of the run."""
    return f"notices/{run}"
