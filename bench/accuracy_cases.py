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
    "stop_refused": "Not a step but a hook: nothing refuses a Stop now, so `stop_loop` only repeats the hook 0.1 s "
    "apart; under a blocking hook it should count refusals and have a pace: stop_loop: {times: N, seconds: N}.",
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


def _script(*rules: Mapping[str, Any], **top: Any) -> dict[str, Any]:
    return {"work_s": "<work_s>", **top, "rules": list(rules)}


def _on(kind: str, *do: Any, **match: Any) -> dict[str, Any]:
    return {"on": kind, **match, "do": list(do)}


def _sh(command: str) -> dict[str, Any]:
    return {"tool": {"command": ["sh", "-c", command]}}


FINISH = ("write_outputs", {"report": "done"})
SHELL: Mapping[str, Any] = {"shell": True}
DEAF = _on("nudge", "silent")
"""Nudges change nothing: without this rule the scripted agent mends itself at the first one."""
BURN = _sh("timeout <tool_s> sh -c 'while :; do :; done' || true")
JOB = _sh("sleep <job_s> > /dev/null 2>&1 &")
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

HEALTHY: tuple[Case, ...] = (
    # Long tools
    Case(
        name="quiet-long-tool",
        what="A tool sleeps for a long time, prints nothing and uses no cpu; then the task is finished.",
        truth=("long_tool",),
        why="The tool's process lives under an open turn.",
        row="F05",
        healthy=True,
        template=_script(_on("dispatch", {"tool": "<tool_s>"}, *FINISH)),
        numbers={"tool_s": Span(45, 40, 80)},
        since="tool_start time.sleep",
        until="tool_end Bash",
        settle_s=30,
        watch_s=80,
    ),
    Case(
        name="tool-that-burns-cpu",
        what="A tool burns a whole core for a long time without a word, and finishes.",
        truth=("long_tool",),
        why="Cpu under an open tool call is work, and only one call is made: no loop.",
        row="F05",
        healthy=True,
        template=_script(_on("dispatch", {"work": "<work_s>"}, BURN, *FINISH)),
        numbers={"tool_s": Span(42, 38, 60), "cpu": Span(1, 1, 1)},
        since="tool_start timeout",
        until="tool_end Bash",
        settle_s=30,
        watch_s=60,
    ),
    Case(
        name="tool-past-its-expected-time",
        what="A quiet tool takes longer than 1.5 times what the whole task was expected to take, and finishes.",
        truth=("long_tool",),
        why="Past its deadline a living tool is reported with its child and the advice to wait, never touched.",
        row="F05",
        healthy=True,
        template=_script(_on("dispatch", {"tool": "<tool_s>"}, *FINISH)),
        numbers={"tool_s": Span(50, 45, 70), "expect_s": Span(20, 15, 25)},
        since="tool_start time.sleep",
        until="tool_end Bash",
        settle_s=30,
        watch_s=70,
    ),
    Case(
        name="tool-with-a-tree-of-children",
        what="A tool is a shell that starts a shell that starts a sleeping child; only the leaf lives long.",
        truth=("long_tool",),
        why="The work is in the grandchild; the processes above it only wait for it.",
        row="F05",
        healthy=True,
        template=_script(_on("dispatch", _sh("sh -c 'sleep <tool_s>; true'; true"), *FINISH)),
        numbers={"tool_s": Span(44, 40, 70)},
        since="tool_start sleep",
        until="tool_end Bash",
        settle_s=30,
        watch_s=70,
    ),
    Case(
        name="polls-for-mail-in-a-tool",
        what="The worker asks its partner and polls its mail in one tool call until the answer comes.",
        truth=("long_tool", "waiting"),
        why="Both are right: a tool's process lives under an open turn, and what it does is to wait for the partner.",
        healthy=True,
        pipeline="two agents mailing",
        template=_script(
            _on(
                "dispatch",
                ASK,
                _sh("for i in $(seq <polls>); do dogwatch mail read | grep -q found && exit 0; sleep <gap_s>; done"),
                *FINISH,
            )
        ),
        partner_template=_script(
            _on("mail", "continue", {"work": "<answer_s>"}, {"mail_send": {"to": "worker", "text": "found: 42"}})
        ),
        numbers={"answer_s": Span(36, 34, 45), "polls": Span(120, 120, 120), "gap_s": Span(1, 0.5, 2)},
        since="tool_start seq",
        until="tool_end Bash",
        settle_s=30,
        watch_s=60,
    ),
    # Open turns that look dead
    Case(
        name="silent-reasoning",
        what="The model thinks for a long time: no hook, no cpu, no child; only the seconds on the screen go on.",
        truth=("working",),
        why="The turn is open and the live region moves.",
        healthy=True,
        template=_script(_on("dispatch", {"work": "<work_s>"}, {"wait": "<wait_s>"}, *FINISH)),
        numbers={"wait_s": Span(20, 12, 26)},
        until="turn_end",
        watch_s=35,
        swap=(0, 1),
    ),
    Case(
        name="reasoning-between-tools",
        what="Short tools with long silent pauses between them.",
        truth=("working",),
        why="Each pause is shorter than any threshold for an open turn, and hooks come again.",
        healthy=True,
        template=_script(
            _on(
                "dispatch",
                {"wait": "<first_s>"},
                {"tool": "<tool_s>"},
                {"wait": "<second_s>"},
                {"tool": "<tool_s>"},
                {"wait": "<third_s>"},
                *FINISH,
            )
        ),
        numbers={
            "first_s": Span(5, 3.5, 12),
            "second_s": Span(12, 6, 20),
            "third_s": Span(8, 4, 15),
            "tool_s": Span(0.5, 0.2, 3),
        },
        until="turn_end",
        watch_s=60,
        swap=(0, 2),
    ),
    Case(
        name="output-late-in-one-piece",
        what="Nothing is written for most of the time; then a large file comes at once, and the report.",
        truth=("working",),
        why="Tools are called all the time; that no file has come yet says nothing.",
        healthy=True,
        template=_script(
            _on(
                "dispatch",
                {"work": "<long_s>"},
                {"write": {"path": "report.md", "bytes": "<size>"}},
                {"write": {"path": "data.json", "content": "{}"}},
                {"report": "done"},
            )
        ),
        numbers={"long_s": Span(35, 32, 60), "size": Span(3_000_000, 1_000_000, 8_000_000)},
        until="turn_end",
        watch_s=65,
        swap=(1, 2),
    ),
    Case(
        name="compaction-in-the-middle",
        what="The client compacts its context in the middle of the task and goes on with it.",
        truth=("working",),
        why="A compaction is a part of the turn, and the agent has not forgotten its task.",
        row="F11",
        healthy=True,
        template=_script(
            _on("dispatch", {"work": "<work_s>"}, {"compact": "<compact_s>"}, {"work": "<rest_s>"}, *FINISH)
        ),
        numbers={"compact_s": Span(3, 1, 6)},
        until="turn_end",
        watch_s=15,
    ),
    Case(
        name="long-compaction",
        what="A compaction takes long: no hook from its begin to its end, and a status line that does not move.",
        truth=("working",),
        why="The hooks say that a compaction has begun, and the client does it.",
        row="F11",
        healthy=True,
        template=_script(_on("dispatch", {"work": "<work_s>"}, {"compact": "<compact_s>"}, *FINISH)),
        numbers={"compact_s": Span(18, 12, 25)},
        since="compact_start",
        until="turn_end",
        watch_s=30,
    ),
    Case(
        name="prompt-flashes-between-tools",
        what="Between two tool calls the screen looks idle for an instant, three times over.",
        truth=("working",),
        why="No Stop came, and the next tool begins at once.",
        row="F10",
        healthy=True,
        template=_script(_on("dispatch", *[{"flash_prompt": "<flash_s>"}] * 3, *FINISH)),
        numbers={"flash_s": Span(0.3, 0.1, 0.8)},
        until="turn_end",
        watch_s=15,
    ),
    Case(
        name="prompt-shows-for-longer-between-tools",
        what="Between two tool calls the screen looks idle for nearly as long as a nudge takes.",
        truth=("working",),
        why="The hooks outrank the screen: no Stop came, so the turn is open.",
        row="F10",
        healthy=True,
        template=_script(
            _on("dispatch", {"work": "<work_s>"}, {"flash_prompt": "<flash_s>"}, {"work": "<rest_s>"}, *FINISH)
        ),
        numbers={"flash_s": Span(2.5, 1.5, 2.8)},
        until="turn_end",
        watch_s=15,
    ),
    Case(
        name="redraws-while-it-works",
        what="The window changes its size again and again while the agent works: everything is drawn anew.",
        truth=("working",),
        why="A redraw is neither progress nor a fault.",
        healthy=True,
        outside="resize",
        template=_script(_on("dispatch", {"work": "<long_s>"}, *FINISH)),
        numbers={"long_s": Span(14, 12, 20), "outside_s": Span(1, 0, 2)},
        until="turn_end",
        watch_s=25,
    ),
    Case(
        name="stopped-for-a-moment",
        what="The client's process is stopped for a short while, as by a machine that sleeps, and goes on.",
        truth=("working",),
        why="It is alive again before any threshold, and had nothing lost.",
        row="F17",
        healthy=True,
        outside="sigstop_briefly",
        template=_script(_on("dispatch", {"work": "<long_s>"}, *FINISH), **SHELL),
        numbers={"long_s": Span(12, 10, 16), "outside_s": Span(2, 1, 5), "stopped_s": Span(2, 1, 4)},
        until="turn_end",
        watch_s=30,
    ),
    Case(
        name="tool-killed-from-outside",
        what="The running tool is killed by somebody else; the agent sees the exit code and goes on.",
        truth=("working",),
        why="A tool that failed is the agent's business; the client lives.",
        healthy=True,
        outside="kill_tool",
        template=_script(_on("dispatch", {"tool": "<never_s>"}, {"work": "<long_s>"}, *FINISH)),
        numbers={"long_s": Span(6, 4, 10), "outside_s": Span(2, 1, 4)},
        outside_after="tool_start time.sleep",
        until="turn_end",
        watch_s=20,
    ),
    Case(
        name="takes-much-memory-and-works",
        what="The client's memory grows by a good deal while it works, and stays.",
        truth=("working",),
        why="Memory is a matter of zones; this agent makes progress.",
        healthy=True,
        template=_script(
            _on(
                "dispatch",
                {"grow": {"mb": "<mb>", "seconds": "<rest_s>"}},
                {"say": "The data is loaded."},
                {"work": "<rest_s>"},
                *FINISH,
            )
        ),
        numbers={"mb": Span(120, 60, 160)},
        until="turn_end",
        watch_s=15,
        swap=(0, 1),
    ),
    Case(
        name="heartbeats-in-a-long-silence",
        what="The agent thinks for long and says now and then that it is alive.",
        truth=("working",),
        why="Its turn is open and it says so itself.",
        healthy=True,
        template=_script(
            _on("dispatch", *[step for _ in range(4) for step in ({"wait": "<wait_s>"}, "heartbeat")], *FINISH)
        ),
        numbers={"wait_s": Span(9, 6, 20)},
        until="turn_end",
        watch_s=90,
    ),
    # Repetitions that are no loop
    Case(
        name="same-check-between-edits",
        what="The same check is run again and again, and between two runs the agent writes something new.",
        truth=("working",),
        why="The call is the same, but new bytes come each time.",
        row="F06",
        healthy=True,
        template=_script(
            _on(
                "dispatch",
                *[
                    step
                    for number in range(12)
                    for step in (
                        _sh("sleep <gap_s>; echo 1 failed; exit 1"),
                        {"write": {"path": f"src/part-{number}.py", "content": f"part = {number}\n"}},
                    )
                ],
                *FINISH,
            )
        ),
        numbers={"gap_s": Span(0.6, 0.3, 1.5)},
        until="turn_end",
        watch_s=40,
    ),
    Case(
        name="looks-at-a-build-a-few-times",
        what="The agent asks for the state of a build with the same command three times, then goes on.",
        truth=("working",),
        why="A few equal calls with a pause are waiting for something that comes.",
        healthy=True,
        template=_script(
            _on(
                "dispatch", *[_sh("sleep <gap_s>; echo pending")] * 3, _sh("echo passed"), {"work": "<rest_s>"}, *FINISH
            )
        ),
        numbers={"gap_s": Span(2.5, 1, 4)},
        until="turn_end",
        watch_s=25,
    ),
    Case(
        name="many-different-failing-tools",
        what="Tool after tool fails, each with another command, until the agent finds what works.",
        truth=("working",),
        why="Failures are not repetitions: every call is a new attempt.",
        healthy=True,
        template=_script(
            _on("dispatch", *[_sh(f"sleep <gap_s>; cat missing-{number}.txt") for number in range(15)], *FINISH)
        ),
        numbers={"gap_s": Span(0.5, 0.3, 1.2)},
        until="turn_end",
        watch_s=25,
    ),
    Case(
        name="stops-twice",
        what="The agent's work is reported; the Stop hook runs twice because the client asks once more.",
        truth=("idle", "working"),
        why="After the first Stop it is idle, before the second its turn may still count as open: both are right.",
        healthy=True,
        template=_script(_on("dispatch", {"work": "<work_s>"}, *FINISH, {"stop_loop": 1})),
        since="stop_again",
        watch_s=10,
        row="F61",
    ),
    # Screens full of bad words
    Case(
        name="old-error-above-an-idle-prompt",
        what="An error and a question stand high up in the transcript; the agent is at its prompt and owes nothing.",
        truth=("idle",),
        why="Only the live region counts, and it is a prompt.",
        row="F09",
        healthy=True,
        pipeline="nothing",
        template=_script(_on("start", "old_error")),
        since="ready",
        watch_s=40,
    ),
    Case(
        name="old-error-while-it-works",
        what="An old error and an old question stand above the status line of an agent that works.",
        truth=("working",),
        why="Only the live region counts, and it is busy.",
        row="F09",
        healthy=True,
        template=_script(_on("dispatch", "old_error", {"work": "<long_s>"}, *FINISH)),
        numbers={"long_s": Span(8, 5, 15)},
        until="turn_end",
        watch_s=20,
        swap=(0, 1),
    ),
    Case(
        name="very-large-screen-of-bad-words",
        what="The transcript is hundreds of lines of errors, retries, dialogs and shell prompts that the agent quotes.",
        truth=("working",),
        why="It quotes a log; the status line, the hooks and the tools say that it works.",
        row="F09",
        healthy=True,
        template=_script(_on("dispatch", {"say": ILL_WORDS * 60}, {"work": "<long_s>"}, *FINISH)),
        numbers={"long_s": Span(8, 5, 15)},
        until="turn_end",
        watch_s=20,
    ),
    Case(
        name="quotes-a-dialog-and-is-idle",
        what="The last thing that the agent said is word for word a permission dialog; it is at its prompt, all done.",
        truth=("idle",),
        why="The composer stands below it: no dialog is open. The task is reported.",
        row="F09",
        healthy=True,
        template=_script(_on("dispatch", "continue", {"say": ILL_WORDS})),
        since="turn_end",
        watch_s=40,
    ),
    # Nothing to do
    Case(
        name="idle-without-work",
        what="The agent is at its prompt and was never given anything.",
        truth=("idle",),
        why="Idle with nothing dispatched is healthy for ever.",
        row="F04",
        healthy=True,
        pipeline="nothing",
        template=_script(),
        since="ready",
        watch_s=100,
    ),
    Case(
        name="idle-after-its-task",
        what="The task is finished and reported; the agent stays at its prompt.",
        truth=("idle",),
        why="It owes nothing any more.",
        row="F04",
        healthy=True,
        template=_script(),
        since="turn_end",
        watch_s=60,
    ),
    Case(
        name="its-task-comes-later",
        what="The agent's task waits for another agent's task, which takes long; the agent is at its prompt.",
        truth=("idle",),
        why="Nothing is dispatched to it yet, so it owes nothing.",
        row="F04",
        healthy=True,
        pipeline="later task",
        template=_script(),
        since="ready",
        watch_s=60,
    ),
    Case(
        name="background-job-left-running",
        what="The agent has finished and reported; a job that it started in the background runs on.",
        truth=("idle",),
        why="No turn is open and nothing is owed; the job is its own process, not its work.",
        healthy=True,
        template=_script(_on("dispatch", JOB, {"work": "<work_s>"}, *FINISH)),
        numbers={"job_s": Span(60, 50, 90)},
        since="turn_end",
        watch_s=45,
        swap=(0, 1),
    ),
    Case(
        name="draft-of-a-person",
        what="A person has half written something into the composer of an idle agent.",
        truth=("idle",),
        why="Nothing is owed, and the draft is a person's.",
        row="F40",
        healthy=True,
        pipeline="nothing",
        template=_script(_on("start", {"draft": "please have a look at the"})),
        since="draft",
        watch_s=40,
    ),
    Case(
        name="draft-while-a-task-waits",
        what="A person's draft stands in the composer, so the task cannot be typed; the agent knows nothing of it.",
        truth=("idle",),
        why="The agent has not got the task: it is idle, not silent. Typing would spoil the draft.",
        row="F40",
        healthy=True,
        template=_script(_on("start", {"draft": "before you go on, could you"})),
        since="draft",
        watch_s=40,
    ),
    Case(
        name="enter-swallowed-once",
        what="The Enter after the pasted task only redraws the screen; the next one submits it, and all goes well.",
        truth=("working",),
        why="The delivery is repeated until its receipt; then the agent works as it should.",
        row="F41",
        healthy=True,
        template=_script(_on("start", {"swallow_enter": "<enters>"}), _on("dispatch", {"work": "<long_s>"}, *FINISH)),
        numbers={"enters": Span(1, 1, 2), "long_s": Span(5, 3, 10)},
        until="turn_end",
        watch_s=20,
    ),
    # Starts
    Case(
        name="slow-start",
        what="The client takes most of the time that a start may take.",
        truth=("starting",),
        why="It is within `startup_s`.",
        row="F33",
        healthy=True,
        template=_script(start_delay_s="<delay_s>"),
        numbers={"delay_s": Span(4.5, 3, 5.2)},
        since="started",
        until="ready",
        watch_s=6,
    ),
    Case(
        name="thinks-before-its-first-prompt-is-free",
        what="After its start the client is busy with itself for a while; the task that is typed waits in its queue.",
        truth=("starting", "working", "idle"),
        why="It has started and said so, is busy on the screen, and has not got its task yet: each is a fair name.",
        healthy=True,
        template=_script(_on("start", {"work": "<delay_s>"})),
        numbers={"delay_s": Span(4, 2, 5)},
        since="ready",
        until="turn_start",
        watch_s=8,
    ),
    # Errors of the provider that pass
    Case(
        name="provider-hiccup",
        what="The API is overloaded for two short attempts; then the turn goes on and the task is finished.",
        truth=("provider_wait",),
        why="The client retries by itself and gets through.",
        row="F07",
        healthy=True,
        template=_script(
            _on("dispatch", {"provider_error": {"retries": 2, "seconds": "<retry_s>"}}, {"work": "<work_s>"}, *FINISH)
        ),
        numbers={"retry_s": Span(2.5, 2, 4)},
        since="provider_error",
        until="provider_ok",
        settle_s=1,
        watch_s=10,
    ),
    # Waiting for others that are on their way
    Case(
        name="sub-agent-in-the-background",
        what="The turn has ended with Stop while a sub-agent works; its end wakes the agent, which then finishes.",
        truth=("waiting", "working"),
        why="The agent waits for its sub-agent, and taken together they work: both are right.",
        row="F14",
        healthy=True,
        pipeline="task then sub-agent",
        template=_script(
            _on("dispatch", {"subagent": {"type": "explorer", "seconds": "<sub_s>", "output": "sub.md"}}, "silent"),
            DEAF,
        ),
        numbers={"sub_s": Span(8, 5, 10)},
        since="turn_end",
        until="subagent_end",
        watch_s=12,
    ),
    Case(
        name="works-beside-its-sub-agent",
        what="A sub-agent runs in the background while the agent itself goes on with tools.",
        truth=("working",),
        why="Its own turn is open and tools are called.",
        healthy=True,
        pipeline="task then sub-agent",
        template=_script(
            _on("dispatch", {"subagent": {"seconds": "<sub_s>"}}, {"work": "<long_s>"}, *FINISH, times=1),
            _on("notification", {"say": "Good to know."}),
        ),
        numbers={"sub_s": Span(6, 4, 10), "long_s": Span(9, 5, 15)},
        until="turn_end",
        watch_s=20,
    ),
    Case(
        name="waits-for-mail-on-its-way",
        what="The worker has asked its partner, has stopped, and goes on when the answer comes, which it does.",
        truth=("waiting",),
        why="Its question is open with a partner that lives and works; nothing but the answer helps.",
        row="F01",
        healthy=True,
        pipeline="two agents mailing",
        template=_script(
            _on("dispatch", {"work": "<work_s>"}, ASK, "silent"), _on("mail", "continue", *DONE_BY_NAME), DEAF
        ),
        partner_template=_script(
            _on("mail", {"work": "<answer_s>"}, {"mail_send": {"to": "worker", "text": "found: 42"}}, "continue")
        ),
        numbers={"answer_s": Span(8, 5, 10)},
        since="turn_end",
        until="turn_start",
        settle_s=1,
        before=("working", "idle"),
        watch_s=20,
    ),
    Case(
        name="waits-for-a-partner-that-hangs",
        what="The worker has asked its partner and has stopped; the partner hangs over the mail and never answers.",
        truth=("waiting",),
        why="The worker does nothing wrong: the fault is the partner's, who must be recovered in its place.",
        row="F01",
        healthy=True,
        pipeline="two agents mailing",
        template=_script(
            _on("dispatch", {"work": "<work_s>"}, ASK, "silent"), _on("mail", "continue", *DONE_BY_NAME), DEAF
        ),
        partner_template=_script(_on("mail", "hang")),
        since="turn_end",
        until="turn_start",
        settle_s=1,
        before=("working", "idle"),
        watch_s=30,
    ),
    Case(
        name="waits-for-a-partner-that-died",
        what="The worker has asked its partner and has stopped; the partner is killed each time it gets the mail.",
        truth=("waiting",),
        why="The mail is open and attributed to the partner; a restart of the worker would change nothing.",
        row="F01",
        healthy=True,
        pipeline="two agents mailing",
        template=_script(
            _on("dispatch", {"work": "<work_s>"}, ASK, "silent"), _on("mail", "continue", *DONE_BY_NAME), DEAF
        ),
        partner_template=_script(_on("mail", {"wait": "<answer_s>"}, "crash")),
        numbers={"answer_s": Span(1, 0.5, 3)},
        since="turn_end",
        until="turn_start",
        settle_s=1,
        before=("working", "idle"),
        watch_s=30,
    ),
    Case(
        name="waits-for-its-review",
        what="The worker's task is reported, and its partner takes its time over the review.",
        truth=("idle", "waiting"),
        why="It owes nothing, so it is idle; and it is the review that it waits for: both are right.",
        row="F13",
        healthy=True,
        pipeline="review",
        template=_script(),
        partner_template=_script(_on("checkpoint", {"work": "<review_s>"}, "approve")),
        numbers={"review_s": Span(15, 8, 25)},
        since="turn_end",
        until="turn_start",
        watch_s=30,
    ),
    Case(
        name="nearly-full-context-and-works",
        what="Most of the context is used; the client says so, and goes on to the end of its task.",
        truth=("working",),
        why="A low context is a thing to know, not a fault: it works.",
        row="F11",
        healthy=True,
        template=_script(_on("dispatch", {"context": 0.97}, {"work": "<long_s>"}, *FINISH)),
        numbers={"long_s": Span(12, 8, 16)},
        since="context",
        until="wrote",
        settle_s=1,
        watch_s=20,
    ),
)

FAULTS: tuple[Case, ...] = (
    # silent_turn
    Case(
        name="falls-silent-after-work",
        what="The agent works for a while, writes nothing, and stops at its prompt with the task unfinished.",
        truth=("silent_turn",),
        why="Stop came, the prompt is idle, the task is open, and no other process works for it.",
        row="F04",
        allowed=("NUDGE",),
        template=_script(_on("dispatch", {"work": "<long_s>"}, "silent")),
        numbers={"long_s": Span(4, 1, 8)},
        since="turn_end",
        until="turn_start",
        settle_s=3.5,
        before=("working", "idle"),
        watch_s=12,
    ),
    Case(
        name="asks-in-plain-words-and-stops",
        what="Instead of working, the agent asks whether it shall go on, and stops.",
        truth=("silent_turn",),
        why="Nobody is there to answer; by hooks and screen its turn is over and its task is open.",
        row="F04",
        allowed=("NUDGE", "ESCALATE"),
        template=_script(_on("dispatch", {"say": "I have a plan. Shall I proceed? (y/n)"}, "silent")),
        since="turn_end",
        until="turn_start",
        settle_s=3.5,
        before=("working", "idle"),
        watch_s=12,
    ),
    Case(
        name="falls-silent-after-each-nudge",
        what="The agent stops with the task unfinished, and after every nudge it stops again.",
        truth=("silent_turn",),
        why="Each time Stop comes and nothing was done.",
        row="F04",
        allowed=("NUDGE", "RESTART", "REPLACE", "ESCALATE"),
        template=_script(_on("dispatch", {"work": "<work_s>"}, "silent"), DEAF),
        since="turn_end",
        settle_s=3.5,
        before=("working", "idle"),
        watch_s=25,
    ),
    Case(
        name="half-of-the-outputs-and-silent",
        what="One of the two outputs is written, then the agent stops.",
        truth=("silent_turn",),
        why="Not done: an output is missing.",
        row="F04",
        allowed=("NUDGE",),
        template=_script(
            _on("dispatch", {"work": "<work_s>"}, {"write": {"path": "report.md", "content": "Half of it."}}, "silent")
        ),
        since="turn_end",
        until="turn_start",
        settle_s=3.5,
        before=("working", "idle"),
        watch_s=12,
        swap=(0, 1),
    ),
    Case(
        name="forgets-its-task-after-a-compaction",
        what="After a compaction in the middle of the task the agent no longer knows of it and stops.",
        truth=("silent_turn",),
        why="Its turn is over and its task is open; the brief must be delivered again.",
        row="F11",
        allowed=("NUDGE",),
        template=_script(_on("dispatch", {"work": "<work_s>"}, {"compact": "<compact_s>"}, "silent")),
        numbers={"compact_s": Span(2, 1, 5)},
        since="turn_end",
        until="turn_start",
        settle_s=3.5,
        before=("working", "idle"),
        watch_s=12,
    ),
    Case(
        name="silent-with-a-job-in-the-background",
        what="A job runs on in the background, and the agent has stopped with the task unfinished; nothing wakes it.",
        truth=("silent_turn",),
        why="The job belongs to no open call and its end tells the agent nothing.",
        row="F04",
        allowed=("NUDGE",),
        template=_script(_on("dispatch", JOB, {"work": "<work_s>"}, "silent")),
        numbers={"job_s": Span(40, 30, 60)},
        since="turn_end",
        until="turn_start",
        settle_s=3.5,
        before=("working", "idle"),
        watch_s=15,
        swap=(0, 1),
    ),
    Case(
        name="interrupted-without-a-stop",
        what="Esc ends the turn in the middle of a tool: the prompt is idle, and no Stop hook ever comes.",
        truth=("silent_turn",),
        why="The task is open and nobody works on it; only the screen and the tool's death say so, hence late.",
        row="F04",
        allowed=("NUDGE", "ESCALATE"),
        outside="escape",
        outside_after="tool_start time.sleep",
        template=_script(_on("dispatch", {"tool": "<never_s>"})),
        numbers={"outside_s": Span(2, 1, 5)},
        since="interrupted",
        until="turn_start",
        settle_s=60,
        before=("working", "idle"),
        watch_s=70,
    ),
    # looping
    Case(
        name="spins-for-ever",
        what="The agent burns cpu and makes the same tool call for ever.",
        truth=("looping",),
        why="The same call again and again, and no new byte comes of it.",
        row="F06",
        allowed=("NUDGE", "INTERRUPT", "RESTART", "REPLACE", "ESCALATE"),
        template=_script(_on("dispatch", {"work": "<work_s>"}, "spin")),
        since="spinning",
        until="turn_end",
        settle_s=10,
        watch_s=25,
    ),
    Case(
        name="repeats-a-failing-call",
        what="The same command fails sixty times in the same way, without any cpu.",
        truth=("looping",),
        why="Equal calls with equal results and no new file, whether or not they burn cpu.",
        row="F06",
        allowed=("NUDGE", "INTERRUPT", "RESTART", "REPLACE", "ESCALATE"),
        template=_script(_on("dispatch", *[_sh("sleep <gap_s>; make deploy-missing; exit 2")] * 60, "silent")),
        numbers={"gap_s": Span(0.5, 0.4, 1)},
        since="tool_start deploy-missing",
        until="turn_end",
        settle_s=12,
        watch_s=28,
    ),
    Case(
        name="loops-over-two-calls",
        what="Two calls follow each other for ever, each undoing what the other asks for; nothing is written.",
        truth=("looping",),
        why="A loop of two calls is a loop.",
        row="F06",
        allowed=("NUDGE", "INTERRUPT", "RESTART", "REPLACE", "ESCALATE"),
        template=_script(
            _on("dispatch", *[_sh("sleep <gap_s>; cat plan.md"), _sh("sleep <gap_s>; ls -l")] * 30, "silent")
        ),
        numbers={"gap_s": Span(0.5, 0.4, 1)},
        since="tool_start plan.md",
        until="turn_end",
        settle_s=15,
        watch_s=28,
        swap=(0, 1),
    ),
    Case(
        name="loops-and-talks",
        what="The agent makes the same call again and again, and says each time in other words that it nearly works.",
        truth=("looping",),
        why="Words on the screen are no progress: the call is the same and no file comes.",
        row="F06",
        allowed=("NUDGE", "INTERRUPT", "RESTART", "REPLACE", "ESCALATE"),
        template=_script(
            _on(
                "dispatch",
                *[
                    step
                    for number in range(50)
                    for step in ({"say": f"Attempt {number}: I see it now."}, _sh("sleep <gap_s>; make check"))
                ],
                "silent",
            )
        ),
        numbers={"gap_s": Span(0.5, 0.4, 1)},
        since="tool_start check",
        until="turn_end",
        settle_s=12,
        watch_s=24,
    ),
    # provider_wait
    Case(
        name="overloaded-for-long",
        what="The API is overloaded (529) for many attempts, and the client retries all the time.",
        truth=("provider_wait",),
        why="The live region says so, and the client retries.",
        row="F07",
        allowed=("HOLD", "ESCALATE"),
        template=_script(
            _on("dispatch", {"work": "<work_s>"}, {"provider_error": {"retries": 10, "seconds": "<retry_s>"}}, *FINISH)
        ),
        numbers={"retry_s": Span(4, 3.5, 8)},
        since="provider_error",
        until="provider_ok",
        settle_s=2,
        watch_s=35,
    ),
    Case(
        name="rate-limited-with-long-pauses",
        what="The rate limit is reached (429); the client retries with long pauses.",
        truth=("provider_wait",),
        why="A 429 is not a crash: the client waits for its turn.",
        row="F07",
        allowed=("HOLD", "ESCALATE"),
        template=_script(
            _on("dispatch", {"provider_error": {"code": 429, "retries": 4, "seconds": "<retry_s>"}}, *FINISH)
        ),
        numbers={"retry_s": Span(12, 9, 20)},
        since="provider_error",
        until="provider_ok",
        settle_s=2,
        watch_s=40,
    ),
    Case(
        name="server-error-ends-the-turn",
        what="After its retries the client gives up with an API error (500): the turn is over, the task is open.",
        truth=("provider_wait", "silent_turn"),
        why="The cause is the provider, and the effect is a prompt with an open task: both are right.",
        row="F07",
        allowed=("HOLD", "NUDGE", "ESCALATE"),
        template=_script(
            _on("dispatch", {"provider_error": {"code": 500, "retries": 2, "seconds": "<retry_s>", "final": True}}),
            _on("nudge", {"provider_error": {"code": 500, "retries": 2, "seconds": "<retry_s>", "final": True}}),
        ),
        numbers={"retry_s": Span(1, 0.5, 2)},
        since="turn_end",
        until="turn_start",
        settle_s=3.5,
        before=("working", "idle"),
        watch_s=12,
    ),
    # context_exhausted
    Case(
        name="context-runs-full",
        what="The context fills up in the middle of the task; the turn ends, and every further one ends like it.",
        truth=("context_exhausted",),
        why="The client says that nothing more fits in; words to it change nothing.",
        row="F11",
        allowed=("RESTART", "REPLACE", "ESCALATE"),
        template=_script(
            _on("dispatch", {"work": "<work_s>"}, {"context": 0.7}, {"context": {"used": 0.99, "full": True}})
        ),
        since="turn_end",
        until="turn_start",
        settle_s=3.5,
        before=("working", "idle"),
        watch_s=12,
    ),
    Case(
        name="context-full-although-compacted",
        what="The client has compacted its context, goes on with a tool, and the context is full again.",
        truth=("context_exhausted",),
        why="The compaction has not helped: the turn ended because nothing more fits in.",
        row="F11",
        allowed=("RESTART", "REPLACE", "ESCALATE"),
        template=_script(
            _on("dispatch", {"context": 0.9}, {"compact": 1}, _sh("ls -l"), {"context": {"used": 1.0, "full": True}})
        ),
        since="turn_end",
        until="turn_start",
        settle_s=3.5,
        before=("working", "idle"),
        watch_s=12,
    ),
    # awaiting_permission
    Case(
        name="permission-dialog",
        what="The client asks for permission to run a command, and nobody is there.",
        truth=("awaiting_permission",),
        why="The hook and the dialog in the live region say so.",
        row="F08",
        allowed=("ESCALATE",),
        template=_script(_on("dispatch", {"work": "<work_s>"}, {"permission": "make deploy"}, *FINISH)),
        since="dialog_open permission",
        until="dialog_answer",
        settle_s=1,
        watch_s=40,
    ),
    Case(
        name="permission-below-an-old-error",
        what="The dialog is open below a screen of older errors and older questions.",
        truth=("awaiting_permission",),
        why="The live region is the dialog; what stands above it is past.",
        row="F08",
        allowed=("ESCALATE",),
        template=_script(_on("dispatch", "old_error", {"say": ILL_WORDS}, {"permission": "git push"}, *FINISH)),
        since="dialog_open permission",
        until="dialog_answer",
        settle_s=1,
        watch_s=20,
        swap=(0, 1),
    ),
    Case(
        name="permission-while-a-sub-agent-runs",
        what="The client asks for permission while its sub-agent works in the background and ends.",
        truth=("awaiting_permission",),
        why="What holds the agent up is the dialog; the sub-agent will not answer it.",
        row="F08",
        allowed=("ESCALATE",),
        pipeline="task then sub-agent",
        template=_script(
            _on("dispatch", {"subagent": {"seconds": "<sub_s>"}}, {"permission": "curl -O x.csv"}, *FINISH)
        ),
        numbers={"sub_s": Span(5, 2, 9)},
        since="dialog_open permission",
        until="dialog_answer",
        settle_s=1,
        watch_s=20,
    ),
    # startup_dialog
    Case(
        name="trust-dialog",
        what="At its start the client asks whether the folder is trusted; Enter would leave.",
        truth=("startup_dialog",),
        why="The dialog is all that is on the screen, before any hook.",
        row="F20",
        allowed=("ESCALATE",),
        template=_script(_on("start", "startup_dialog")),
        since="dialog_open startup",
        until="dialog_answer",
        settle_s=6,
        before=("starting",),
        watch_s=20,
    ),
    Case(
        name="trust-dialog-after-a-slow-start",
        what="The client starts slowly, and then asks whether the folder is trusted.",
        truth=("startup_dialog",),
        why="It has come as far as its dialog: not slow any more, but held up.",
        row="F20",
        allowed=("ESCALATE",),
        template=_script(_on("start", "startup_dialog"), start_delay_s="<delay_s>"),
        numbers={"delay_s": Span(4, 2, 5)},
        since="dialog_open startup",
        until="dialog_answer",
        settle_s=4,
        before=("starting",),
        watch_s=20,
    ),
    Case(
        name="trust-dialog-in-the-second-life",
        what="The first incarnation dies over the task; the second one asks at its start for trust in the folder.",
        truth=("startup_dialog",),
        why="A restart has met a dialog; a further restart would meet it again.",
        row="F20",
        allowed=("RESTART", "ESCALATE"),
        template=_script(
            _on("dispatch", {"work": "<work_s>"}, "crash", incarnation=1),
            _on("start", "startup_dialog", incarnation=[2, 3, 4, 5]),
        ),
        since="dialog_open startup",
        until="dialog_answer",
        settle_s=6,
        before=("starting",),
        watch_s=20,
    ),
    # startup_stall
    Case(
        name="never-shows-a-prompt",
        what="The client says that it starts, and never comes to its prompt.",
        truth=("startup_stall",),
        why="`startup_s` is over, and there is neither a hook nor a prompt nor a dialog.",
        row="F20",
        allowed=("RESTART", "REPLACE", "ESCALATE"),
        template=_script(start_delay_s="<never_s>"),
        since="started",
        until="ready",
        settle_s=6.5,
        before=("starting",),
        watch_s=15,
    ),
    Case(
        name="stopped-while-it-starts",
        what="The client's process is stopped from outside while it starts, and stays so.",
        truth=("startup_stall", "stalled"),
        why="It never comes to its prompt, because its process is stopped: both are right.",
        row="F20",
        allowed=("RESTART", "REPLACE", "ESCALATE"),
        outside="sigstop",
        outside_after="started",
        template=_script(start_delay_s="<delay_s>", **SHELL),
        numbers={"delay_s": Span(4, 3, 5), "outside_s": Span(1, 0.2, 2)},
        since="started",
        until="ready",
        settle_s=6.5,
        before=("starting",),
        watch_s=15,
    ),
    # stalled
    Case(
        name="hangs-in-the-turn",
        what="In the middle of the task the client blocks for good: no cpu, no hook, no child, a frozen busy screen.",
        truth=("stalled",),
        why="Nothing moves any more, not even the seconds in the status line.",
        row="F35",
        allowed=LADDER,
        template=_script(_on("dispatch", {"work": "<long_s>"}, "hang")),
        numbers={"long_s": Span(2, 1, 6)},
        since="hung",
        settle_s=34,
        watch_s=45,
    ),
    Case(
        name="hangs-before-its-first-task",
        what="The client shows its prompt, then blocks for good; what is typed is never taken.",
        truth=("stalled",),
        why="The dispatch gets no receipt, and nothing moves.",
        row="F35",
        allowed=LADDER,
        template=_script(_on("start", "hang")),
        since="hung",
        settle_s=42,
        before=("starting", "working", "idle"),
        watch_s=55,
    ),
    Case(
        name="hangs-over-a-background-job",
        what="The client blocks for good while a job of an earlier call still runs in the background.",
        truth=("stalled",),
        why="The job belongs to no open call, so it is no sign of life of this turn.",
        row="F35",
        allowed=LADDER,
        template=_script(_on("dispatch", JOB, {"work": "<work_s>"}, "hang")),
        numbers={"job_s": Span(80, 60, 100)},
        since="hung",
        settle_s=34,
        watch_s=45,
        swap=(0, 1),
    ),
    Case(
        name="stopped-in-the-turn",
        what="Somebody stops the client's process (SIGSTOP) while it works; it stays stopped.",
        truth=("stalled",),
        why="The process is there, and by its own state it does nothing.",
        row="F35",
        allowed=LADDER,
        outside="sigstop",
        template=_script(_on("dispatch", {"work": "<long_s>"}, *FINISH), **SHELL),
        numbers={"long_s": Span(40, 30, 60), "outside_s": Span(2, 1, 6)},
        since="outside",
        settle_s=34,
        watch_s=45,
    ),
    Case(
        name="stopped-over-a-short-tool",
        what="The client is stopped (SIGSTOP) while its tool runs; the tool ends soon, and nobody takes its result.",
        truth=("stalled",),
        why="The tool's process is a zombie: no living child, no cpu, a stopped client.",
        row="F35",
        allowed=LADDER,
        outside="sigstop",
        outside_after="tool_start time.sleep",
        template=_script(_on("dispatch", {"tool": "<tool_s>"}, *FINISH), **SHELL),
        numbers={"tool_s": Span(4, 3, 6), "outside_s": Span(1, 0.5, 2)},
        since="outside",
        settle_s=40,
        before=("working", "long_tool"),
        watch_s=50,
    ),
    # exited
    Case(
        name="crash-that-leaves-a-shell",
        what="The client is killed in the middle of the task; its pane lives on with a shell prompt.",
        truth=("exited",),
        why="The process is gone, whatever the session shows.",
        row="F02",
        allowed=("RESTART", "REPLACE"),
        template=_script(_on("dispatch", {"work": "<work_s>"}, {"crash": "SIGKILL"}), **SHELL),
        since="crashed",
        until="started",
        settle_s=1,
        watch_s=10,
    ),
    Case(
        name="leaves-to-a-shell-in-good-order",
        what="The client ends as if a person had left it, with its last hook, and a shell takes its place.",
        truth=("exited",),
        why="The process is gone with the task open.",
        row="F02",
        allowed=("RESTART", "REPLACE"),
        template=_script(_on("dispatch", {"work": "<work_s>"}, "shell"), **SHELL),
        since="exiting",
        until="started",
        settle_s=1,
        watch_s=10,
    ),
    Case(
        name="segmentation-fault",
        what="The client dies of SIGSEGV; nothing takes its place in the pane.",
        truth=("exited",),
        why="The process is gone, the dead pane remains.",
        row="F02",
        allowed=("RESTART", "REPLACE"),
        template=_script(_on("dispatch", {"work": "<long_s>"}, {"crash": "SIGSEGV"})),
        numbers={"long_s": Span(2, 0.5, 6)},
        since="crashed",
        until="started",
        settle_s=1,
        watch_s=10,
    ),
    Case(
        name="exits-with-an-error-code",
        what="In the middle of the task the client leaves with exit code 1.",
        truth=("exited",),
        why="The process is gone with the task open.",
        row="F02",
        allowed=("RESTART", "REPLACE"),
        template=_script(_on("dispatch", {"work": "<work_s>"}, {"exit": "<code>"})),
        numbers={"code": Span(1, 1, 120)},
        since="exiting",
        until="started",
        settle_s=1,
        watch_s=10,
    ),
    Case(
        name="killed-over-a-living-tool",
        what="The client is killed from outside while its tool runs; the tool's process lives on without it.",
        truth=("exited",),
        why="The client is gone; what is left of it is an orphan that must be ended before a restart.",
        row="F02",
        allowed=("RESTART", "REPLACE"),
        outside="sigkill",
        outside_after="tool_start time.sleep",
        template=_script(_on("dispatch", {"tool": "<tool_s>"}, *FINISH)),
        numbers={"tool_s": Span(40, 20, 60), "outside_s": Span(2, 0.5, 10)},
        since="outside",
        until="started",
        settle_s=1,
        before=("working", "long_tool"),
        watch_s=10,
    ),
    Case(
        name="killed-while-idle",
        what="The client is killed at its prompt, with nothing to do.",
        truth=("exited",),
        why="The process is gone; that nothing is owed only makes it less urgent.",
        row="F02",
        allowed=("RESTART", "REPLACE"),
        pipeline="nothing",
        outside="sigkill",
        outside_after="ready",
        template=_script(),
        numbers={"outside_s": Span(3, 1, 8)},
        since="outside",
        until="started",
        settle_s=1,
        before=("idle",),
        watch_s=10,
    ),
    # session_dead
    Case(
        name="session-killed-at-work",
        what="The whole tmux session is killed while the agent works.",
        truth=("session_dead",),
        why="Neither the session nor the process is there.",
        row="F03",
        allowed=("RESTART", "REPLACE"),
        outside="kill_session",
        template=_script(_on("dispatch", {"work": "<long_s>"}, *FINISH)),
        numbers={"long_s": Span(20, 12, 30), "outside_s": Span(2, 0.5, 8)},
        since="outside",
        until="started",
        settle_s=1,
        before=("working", "exited"),
        watch_s=10,
    ),
    Case(
        name="session-killed-while-idle",
        what="The whole tmux session is killed while the agent is at its prompt with nothing to do.",
        truth=("session_dead",),
        why="Neither the session nor the process is there.",
        row="F03",
        allowed=("RESTART", "REPLACE"),
        pipeline="nothing",
        outside="kill_session",
        outside_after="ready",
        template=_script(),
        numbers={"outside_s": Span(3, 1, 8)},
        since="outside",
        until="started",
        settle_s=1,
        before=("idle", "exited"),
        watch_s=10,
    ),
    Case(
        name="session-of-a-hung-client-killed",
        what="The session of a client that hangs is killed.",
        truth=("session_dead",),
        why="The hang is over with the terminal; neither session nor process is there.",
        row="F03",
        allowed=("RESTART", "REPLACE"),
        outside="kill_session",
        outside_after="hung",
        template=_script(_on("dispatch", {"work": "<work_s>"}, "hang")),
        numbers={"outside_s": Span(3, 1, 8)},
        since="outside",
        until="started",
        settle_s=1,
        before=("working", "exited"),
        watch_s=10,
    ),
    # done_unreported
    Case(
        name="report-is-lost",
        what="All outputs are written and the turn ends, but nothing is reported.",
        truth=("done_unreported",),
        why="Every expected file is newer than the dispatch; only the message is missing.",
        row="F34",
        allowed=("RESCUE", "NUDGE"),
        template=_script(_on("dispatch", "lose_report")),
        since="turn_end",
        until="turn_start",
        settle_s=3.5,
        before=("working", "idle", "silent_turn"),
        watch_s=12,
    ),
    Case(
        name="outputs-then-a-crash",
        what="All outputs are written, and the client dies before it has reported.",
        truth=("done_unreported", "exited"),
        why="The process is gone and the work is done: both are right, and the files must be counted before a restart.",
        row="F34",
        allowed=("RESCUE", "RESTART"),
        template=_script(_on("dispatch", {"work": "<work_s>"}, "write_outputs", {"crash": "SIGKILL"})),
        since="crashed",
        until="started",
        settle_s=1,
        watch_s=10,
    ),
    Case(
        name="outputs-then-a-hang",
        what="All outputs are written, and the client blocks for good before it has reported.",
        truth=("done_unreported", "stalled"),
        why="The client hangs and the work is done: both are right; the rescue comes before the restart.",
        row="F34",
        allowed=("RESCUE", *LADDER),
        template=_script(_on("dispatch", {"work": "<work_s>"}, "write_outputs", "hang")),
        since="hung",
        settle_s=34,
        watch_s=45,
    ),
    # wrong_path
    Case(
        name="outputs-in-another-folder",
        what="All outputs are written, but below a folder of the agent's own choice; then it stops.",
        truth=("wrong_path",),
        why="The files are there under their names, in the wrong place; to say only that it is silent misses it.",
        row="F12",
        allowed=("NUDGE", "ESCALATE"),
        template=_script(_on("dispatch", {"work": "<work_s>"}, {"write_outputs": "results/final/"}, "silent"), DEAF),
        since="turn_end",
        until="turn_start",
        settle_s=3.5,
        before=("working", "idle", "silent_turn"),
        watch_s=12,
    ),
    Case(
        name="outputs-with-another-name",
        what="Both outputs are written beside their places, in upper case and with another ending; then it stops.",
        truth=("wrong_path",),
        why="New files of the expected size lie next to the expected names.",
        row="F12",
        allowed=("NUDGE", "ESCALATE"),
        template=_script(
            _on(
                "dispatch",
                {"write": {"path": "REPORT.md", "bytes": "<size>"}},
                {"write": {"path": "data.jsonl", "content": "{}"}},
                "silent",
            ),
            DEAF,
        ),
        numbers={"size": Span(400, 200, 4000)},
        since="turn_end",
        until="turn_start",
        settle_s=3.5,
        before=("working", "idle", "silent_turn"),
        watch_s=12,
        swap=(0, 1),
    ),
    # deadlock
    Case(
        name="two-agents-ask-each-other",
        what="Both have mailed a question to the other and stopped; neither will go on without an answer.",
        truth=("deadlock",),
        why="The worker waits for its partner and the partner for the worker: a cycle.",
        row="F15",
        allowed=("NUDGE", "INTERRUPT", "RESTART", "ESCALATE"),
        pipeline="two agents mailing",
        template=_script(_on("dispatch", {"work": "<work_s>"}, ASK, "silent"), _on("mail", "silent"), DEAF),
        partner_template=_script(
            _on("dispatch", {"mail_send": {"to": "worker", "text": "What is the plan? I wait."}}, "silent"),
            _on("mail", "silent"),
            DEAF,
        ),
        since="fell_silent",
        settle_s=12,
        before=("waiting", "idle", "working"),
        watch_s=25,
    ),
    Case(
        name="two-agents-poll-for-each-others-file",
        what="Both have mailed the other and poll in a tool for the other's output, which neither writes.",
        truth=("deadlock",),
        why="Two living tools, but each ends only when the other agent goes on: a cycle, not long work.",
        row="F15",
        allowed=("NUDGE", "INTERRUPT", "RESTART", "ESCALATE"),
        pipeline="two agents mailing",
        template=_script(
            _on("dispatch", ASK, _sh("for i in $(seq 300); do ls facts.md && exit 0; sleep <gap_s>; done"), *FINISH),
            DEAF,
        ),
        partner_template=_script(
            _on(
                "dispatch",
                {"mail_send": {"to": "worker", "text": "I wait for report.md."}},
                _sh("for i in $(seq 300); do ls report.md && exit 0; sleep <gap_s>; done"),
                *FINISH,
            ),
            DEAF,
        ),
        numbers={"gap_s": Span(1, 0.5, 2)},
        since="tool_start facts.md",
        settle_s=12,
        before=("waiting", "working", "long_tool"),
        watch_s=25,
    ),
    # checkpoint_deadlock
    Case(
        name="approved-and-nothing-written",
        what="The review is approved; the worker stops over the following task again and again and writes nothing.",
        truth=("checkpoint_deadlock",),
        why="APPROVE was given, and the artifact that should follow does not come.",
        row="F13",
        allowed=("NUDGE", "RESTART", "ESCALATE"),
        pipeline="review",
        template=_script(_on("dispatch", {"work": "<work_s>"}, "silent", subject="publish"), DEAF),
        numbers={"checkpoint_s": Span(12, 10, 18)},
        since="fell_silent publish",
        settle_s=19,
        before=("silent_turn", "working", "idle"),
        watch_s=30,
    ),
    Case(
        name="polls-for-an-approval-it-has",
        what="The review is approved at the door; the worker polls in a tool for a file that says so and never comes.",
        truth=("checkpoint_deadlock",),
        why="APPROVE was given, and the worker, who should act, waits for it in another place.",
        row="F13",
        allowed=("NUDGE", "INTERRUPT", "ESCALATE"),
        pipeline="review",
        template=_script(
            _on(
                "dispatch",
                {"say": "I wait for the approval of reading."},
                _sh("for i in $(seq 300); do ls handoff/approved.md && exit 0; sleep <gap_s>; done"),
                *FINISH,
                subject="publish",
            ),
            DEAF,
        ),
        numbers={"checkpoint_s": Span(12, 10, 18), "gap_s": Span(1, 0.5, 2)},
        since="tool_start approved.md",
        settle_s=19,
        before=("working", "long_tool", "waiting"),
        watch_s=30,
    ),
    # subagent_overdue
    Case(
        name="sub-agent-that-never-ends",
        what="The worker has stopped and waits for a sub-agent whose output never comes.",
        truth=("subagent_overdue",),
        why="The sub-agent is past its time and has written nothing; the worker itself must not be restarted for it.",
        row="F21",
        allowed=("NUDGE", "ESCALATE"),
        pipeline="task then sub-agent",
        template=_script(_on("dispatch", {"subagent": {"type": "explorer", "never": True}}, "silent"), DEAF),
        since="subagent_start explorer",
        settle_s=12.5,
        before=("waiting", "working"),
        watch_s=25,
    ),
    Case(
        name="one-of-two-sub-agents-never-ends",
        what="Of two sub-agents one ends in time; the worker hears of it and goes on waiting for the other one.",
        truth=("subagent_overdue",),
        why="That one has ended says nothing about the other, which is past its time.",
        row="F21",
        allowed=("NUDGE", "ESCALATE"),
        pipeline="task then sub-agent",
        template=_script(
            _on(
                "dispatch",
                {"subagent": {"type": "explorer", "never": True}},
                {"subagent": {"type": "tester", "seconds": "<sub_s>", "output": "tests.md"}},
                "silent",
            ),
            _on("notification", "silent"),
            DEAF,
        ),
        numbers={"sub_s": Span(4, 2, 9)},
        since="subagent_start explorer",
        settle_s=12.5,
        before=("waiting", "working"),
        watch_s=25,
        swap=(0, 1),
    ),
    Case(
        name="polls-for-the-file-of-a-sub-agent",
        what="In an open turn the worker polls in a tool for the output of its sub-agent, which never ends.",
        truth=("subagent_overdue",),
        why="The tool lives, but it waits for the sub-agent: the end of the chain is what is overdue.",
        row="F14",
        allowed=("NUDGE", "ESCALATE"),
        pipeline="task then sub-agent",
        template=_script(
            _on(
                "dispatch",
                {"subagent": {"type": "explorer", "never": True, "output": "sub.md"}},
                _sh("for i in $(seq 300); do ls sub.md && exit 0; sleep <gap_s>; done"),
                *FINISH,
            ),
            DEAF,
        ),
        numbers={"gap_s": Span(1, 0.5, 2)},
        since="subagent_start explorer",
        settle_s=12.5,
        before=("waiting", "working", "long_tool"),
        watch_s=25,
    ),
    # stop_loop
    Case(
        name="stops-again-and-again",
        what="The agent tries to stop hundreds of times in one turn, with the task unfinished.",
        truth=("stop_loop",),
        why="Stop after Stop without a prompt or a tool in between, far above the limit of three.",
        row="F61",
        allowed=("INTERRUPT", "ESCALATE"),
        template=_script(_on("dispatch", {"work": "<work_s>"}, {"stop_loop": "<stops>"}, "silent"), DEAF),
        numbers={"stops": Span(1000, 800, 1500)},
        since="stop_again",
        until="turn_end",
        settle_s=2,
        before=("working", "idle", "silent_turn"),
        watch_s=15,
    ),
    Case(
        name="stops-again-and-again-over-finished-work",
        what="All outputs are written but not reported, and the agent tries to stop hundreds of times.",
        truth=("stop_loop", "done_unreported"),
        why="It loops over its stop, and its work is done without a report: both are right.",
        row="F61",
        allowed=("INTERRUPT", "RESCUE", "ESCALATE"),
        template=_script(
            _on("dispatch", {"work": "<work_s>"}, "write_outputs", {"stop_loop": "<stops>"}, "silent"), DEAF
        ),
        numbers={"stops": Span(1000, 800, 1500)},
        since="stop_again",
        until="turn_end",
        settle_s=4,
        before=("working", "idle", "silent_turn"),
        watch_s=15,
    ),
    Case(
        name="stops-again-and-again-between-tools",
        what="Five tries to stop, a tool, five tries to stop, and so on for long: the turn never ends.",
        truth=("stop_loop",),
        why="Each row of tries is above the limit of three; a tool call of a moment between them is no way out of it.",
        row="F61",
        allowed=("INTERRUPT", "ESCALATE"),
        template=_script(
            _on(
                "dispatch",
                *[step for number in range(100) for step in ({"stop_loop": "<stops>"}, _sh(f"echo still {number}"))],
                "silent",
            ),
            DEAF,
        ),
        numbers={"stops": Span(5, 5, 8)},
        since="stop_again",
        until="turn_end",
        settle_s=3,
        before=("working", "idle", "silent_turn"),
        watch_s=15,
    ),
)

CASES: tuple[Case, ...] = HEALTHY + FAULTS
