"""The labelled corpus for the accuracy of diagnoses: what agents really do, and what must be said about it.

The labels come from what the scripted agent's steps do and from the words of the design, never from what dogwatch
answers. A third of the kinds and more are healthy agents that look ill.

**Time.** All times are in units; `UNIT` is how many seconds one takes. One unit stands for ten seconds of the
defaults, so that `LIMITS` keeps their proportions: a nudge after 3 units is a nudge after 30 seconds. A runner on real
screens takes `UNIT` or less, one on a virtual clock takes 10. Steps whose time the scenario cannot set stay as they
are: one call of `spin` takes 0.4 s, one round of `stop_loop` 0.1 s and a hook.

**Numbers.** A template holds `<name>` wherever a number of the case stands: alone for the number itself, within a
text for its digits. Names that end with `_s` are times in units, the others are counts. A number with the name of a
limit is that limit for the case. `tool_s` is the time of a tool that has a command of its own, and `cpu` the share of
a core that it burns. Every value between `low` and `high` keeps the label true, in any combination.

**When a label holds.** From the first line of the ground truth that matches `since` to the next one that matches
`until` (or for `watch_s` where there is none, or it does not come sooner). A match is the word of `did`, and after
a space a text that occurs in the line; the word `outside` is the runner's own deed. In the first `settle_s` of that
time the labels in `before` are as right as those in `truth`. Outside of that time no label is judged, only actions.

**What the agent was given** (`pipeline`). The label is always about the agent `worker`. In every run another agent,
`keeper`, works on a task of its own as long as the case is watched, so that the run does not end before.

- `nothing`: no task.
- `task`: the task `analyse` with the outputs `report.md` and `data.json`.
- `later task`: the same task, but `after` the one of `keeper`, so that it does not come.
- `task then sub-agent`: as `task`; a sub-agent of the worker may take `subagent_s`.
- `two agents mailing`: as `task`; an agent `partner` with the scenario `partner` has the task `collect` with the
  output `facts.md`, which it gets at its start; the worker's mail comes when its first turn is over.
- `review`: as `task`; then `partner` reviews `report.md` at the checkpoint `reading`; then comes the worker's task
  `publish` with the output `final.md`.

**What is done from outside** (`outside`), `outside_s` after the first line that matches `outside_after`.

- `sigkill`, `sigstop`: the signal, to the agent's own process (the one that writes the ground truth).
- `sigstop_briefly`: SIGSTOP, and SIGCONT after `stopped_s`. Agents that are stopped run under a launcher
  (`shell: true`): tmux at once continues a stopped process that is its pane's own.
- `kill_session`: tmux ends its session.
- `kill_tool`: SIGKILL to the process group of the running tool.
- `escape`: the key Esc, typed into its terminal.
- `resize`: its window changes between two sizes, ten times, one unit apart.
"""

from __future__ import annotations

import random
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

UNIT = 1.0

LIMITS: Mapping[str, float] = {
    "sweep_s": 0.2,
    "startup_s": 6,
    "receipt_s": 2,
    "nudge_s": 3,
    "peek_s": 3,
    "probe_s": 3,
    "claim_s": 30,
    "tier_1_s": 30,
    "tier_2_s": 60,
    "tier_3_s": 90,
    "mail_s": 12,
    "subagent_s": 12,
    "checkpoint_s": 60,
    "expect_s": 180,
}
"""What the labels suppose, in units. The design gives no number for `mail_s` and `subagent_s`; these are ours."""

DIAGNOSES = (
    "working",
    "long_tool",
    "silent_turn",
    "looping",
    "provider_wait",
    "awaiting_permission",
    "startup_dialog",
    "exited",
    "session_dead",
    "context_exhausted",
    "done_unreported",
    "wrong_path",
    "waiting",
    "deadlock",
    "checkpoint_deadlock",
    "subagent_overdue",
    "stop_loop",
    "idle",
    "starting",
)

NAMES_WANTED: Mapping[str, str] = {
    "stalled": "a client that hangs or is stopped: its process is there and gives no sign of life. No name of the list "
    "is true of it: `working` hides it, and `silent_turn` is an agent at its prompt. The design's ladder says "
    "`stalled`.",
    "startup_stall": "a client that shows neither a prompt nor a dialog within `startup_s`; `starting` is true only "
    "until then. Row F20 calls it a startup stall.",
}
"""Labels for which the list of diagnoses has no word. A runner may map them to the word that dogwatch uses."""

STEPS_WANTED: Mapping[str, str] = {
    "await_mail": "await_mail: {from: NAME, seconds: N}: stays in the open turn, without hooks, until a mail from NAME "
    "is delivered (by hook or by prompt) or the time is over. Now an agent can wait for mail only by stopping or by a "
    "polling tool.",
    "resume": "resume: TASK: goes on with a task from a rule for another kind of message, as a nudge does. Now a rule "
    "for mail must write the outputs by name and report with a `tool` step, as `report` takes its task from the "
    "message.",
    "burn": "burn: N: the client itself burns cpu for N seconds (for ever without N) without a hook or a redraw. "
    "`spin` always makes tool calls, `hang` uses no cpu.",
    "print": "print: {lines: N, seconds: N}: lines in the transcript while a tool runs, as a tool that streams its "
    "output. Now a tool's output never shows.",
    "loop": "loop: {times: N, do: [...]}: repeats steps, so that a loop of two calls need not be written out.",
}
"""What the scripted agent cannot do, and what a step for it should mean."""

PIPELINES = ("nothing", "task", "later task", "task then sub-agent", "two agents mailing", "review")
OUTSIDE = ("", "sigkill", "sigstop", "sigstop_briefly", "kill_session", "kill_tool", "escape", "resize")
ACTIONS = ("RESCUE", "NUDGE", "PROBE", "INTERRUPT", "RESTART", "REPLACE", "HOLD", "ESCALATE")

_PLACE = re.compile(r"<([a-z0-9_]+)>")


class Span(NamedTuple):
    """A number of a case: what it is, and between which values the label stays true."""

    value: float
    low: float
    high: float


COMMON: Mapping[str, Span] = {
    "work_s": Span(1, 0.5, 2),
    "dispatch_s": Span(0.5, 0, 3),
    "sweep_s": Span(0.2, 0.1, 0.4),
    "rest_s": Span(3, 2, 5),
    "never_s": Span(1000, 1000, 1000),
}
"""Numbers of every case: the work on a dispatch, the time from the prompt to the task, the time between two looks, the
rest of a task, and a time that is never over while the case is watched."""


@dataclass(frozen=True, kw_only=True)
class Case:
    """One kind of scenario with its label."""

    name: str
    what: str
    truth: tuple[str, ...]
    why: str
    template: Mapping[str, Any]
    partner_template: Mapping[str, Any] = field(default_factory=dict)
    pipeline: str = "task"
    healthy: bool = False
    allowed: tuple[str, ...] = ()
    row: str = ""
    final: bool = False
    numbers: Mapping[str, Span] = field(default_factory=dict)
    swap: tuple[int, int] | None = None
    """Two steps of the first rule whose order does not matter."""
    since: str = "turn_start"
    until: str = ""
    settle_s: float = 0
    before: tuple[str, ...] = ("working",)
    watch_s: float = 20
    outside: str = ""
    outside_after: str = "turn_start"

    @property
    def scenario(self) -> dict[str, Any]:
        """The scenario file with the case's own numbers, on the scale of `UNIT`."""
        return scenario(self)

    @property
    def partner(self) -> dict[str, Any]:
        """The scenario file of the agent `partner`."""
        return partner(self)

    @property
    def limits(self) -> dict[str, float]:
        """The limits in units, with the case's own ones."""
        return limits(self)


def scenario(case: Case, parameters: Mapping[str, float] | None = None, unit: float = UNIT) -> dict[str, Any]:
    """The worker's scenario file with other numbers (a variation) or on another scale."""
    values = _values(case, parameters)
    filled: dict[str, Any] = _filled(case.template, values, unit)
    if case.swap and values.get("swapped"):
        first, second = case.swap
        do = filled["rules"][0]["do"]
        do[first], do[second] = do[second], do[first]
    return filled


def partner(case: Case, parameters: Mapping[str, float] | None = None, unit: float = UNIT) -> dict[str, Any]:
    """The partner's scenario file, likewise."""
    filled: dict[str, Any] = _filled(case.partner_template, _values(case, parameters), unit)
    return filled


def limits(case: Case, parameters: Mapping[str, float] | None = None) -> dict[str, float]:
    """The limits in units, with the case's or the variation's own."""
    values = _values(case, parameters)
    return {name: values.get(name, limit) for name, limit in LIMITS.items()}


def variations(case: Case, n: int, seed: int) -> list[dict[str, float]]:
    """`n` variations of the case's numbers that keep its label true, always the same ones for the same seed.

    Besides the numbers: `seed` of the outputs' content, `sweep_phase` (which part of the time between two looks has
    gone when the agent is ready), and `swapped` (1: the two steps of `swap` are exchanged).
    """
    dice = random.Random(f"{seed}/{case.name}")
    found = []
    for _ in range(n):
        one: dict[str, float] = {"seed": dice.randrange(1 << 30), "sweep_phase": round(dice.random(), 6)}
        if case.swap:
            one["swapped"] = dice.randrange(2)
        for name, span in sorted({**COMMON, **case.numbers}.items()):
            one[name] = (
                round(dice.uniform(span.low, span.high), 3)
                if name.endswith("_s")
                else dice.randint(int(span.low), int(span.high))
            )
        found.append(one)
    return found


def _values(case: Case, parameters: Mapping[str, float] | None) -> dict[str, float]:
    own = {name: span.value for name, span in {**COMMON, **case.numbers}.items()}
    return {**own, **(parameters or {})}


def _filled(part: Any, values: Mapping[str, float], unit: float) -> Any:
    """A template with its numbers; times are multiplied by `unit`."""
    if isinstance(part, Mapping):
        return {key: _filled(value, values, unit) for key, value in part.items()}
    if isinstance(part, list | tuple):
        return [_filled(value, values, unit) for value in part]
    if not isinstance(part, str):
        return part

    def number(name: str) -> float:
        return round(values[name] * unit, 4) if name.endswith("_s") else int(values[name])

    if alone := _PLACE.fullmatch(part):
        return number(alone[1])
    return _PLACE.sub(lambda found: str(number(found[1])), part)


def script(*rules: Mapping[str, Any], **top: Any) -> dict[str, Any]:
    return {"work_s": "<work_s>", **top, "rules": list(rules)}


def on(kind: str, *do: Any, **match: Any) -> dict[str, Any]:
    return {"on": kind, **match, "do": list(do)}


def sh(command: str) -> dict[str, Any]:
    return {"tool": {"command": ["sh", "-c", command]}}


FINISH = ("write_outputs", {"report": "done"})
SHELL: Mapping[str, Any] = {"shell": True}
DEAF = on("nudge", "silent")
"""Nudges change nothing: without this rule the scripted agent mends itself at the first one."""
BURN = sh("timeout <tool_s> sh -c 'while :; do :; done' || true")
JOB = sh("sleep <job_s> > /dev/null 2>&1 &")
"""A background job that outlives the tool call that started it."""
ASK = {"mail_send": {"to": "partner", "text": "Where are the facts? I wait for them."}}
DONE_BY_NAME = (
    {"write": {"path": "report.md", "content": "All that was found, with the facts."}},
    {"write": {"path": "data.json", "content": "{}"}},
    {"tool": {"command": ["dogwatch", "report", "done", "--task", "analyse"]}},
)
ILL_WORDS = (
    "API Error: 529 Overloaded · Retrying in 8s · attempt 3/10\n"
    "429 Rate limited\nDo you want to proceed?\n❯ 1. Yes\n  2. No\nDo you trust the files in this folder?\n"
    "Segmentation fault (core dumped)\nuser@host:~$\nContext left until auto-compact: 0%\n"
)
LADDER = ("PROBE", "RESTART", "REPLACE", "ESCALATE")
