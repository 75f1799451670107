"""All commands, each with its group and its line in the overview: those that have a file of their own here, and those
that are made from the verbs of the door. Most commands need to know nothing of verbs, and load nothing of them."""

from __future__ import annotations

COMMANDS: dict[str, tuple[str, str]] = {
    "run": ("For operators", "run a pipeline file until it is delivered or has failed"),
    "up": ("For operators", "look after all unfinished runs, also after a reboot"),
    "down": ("For operators", "stop everything on this machine; `up` goes on with it"),
    "status": ("For operators", "show runs, phases, agents and what they are doing"),
    "watch": ("For operators", "look at the agents in your own tmux, and touch nothing"),
    "explain": ("For operators", "say in sentences what an agent is doing and why dogwatch did what it did"),
    "queue": ("For operators", "show who waits to be started, for what, and how much memory there is"),
    "waits": ("For operators", "show who waits for whom, down to the processes"),
    "events": ("For operators", "show what happened, or follow it"),
    "logs": ("For operators", "show the log of a crew member"),
    "attach": ("For operators", "look at an agent's terminal, or a crew member's live log"),
    "check-in": ("For operators", "ask an agent how far it is, without disturbing it"),
    "record": ("For operators", "make a scenario for rehearsals from what the agents of a run have done"),
    "backtest": ("For operators", "replay recorded runs with other thresholds, and say what would have changed"),
    "kill": ("For operators", "end a run, or one incarnation of an agent"),
    "spec": ("For operators", "check, explain or describe a pipeline file"),
    "guard": ("For operators", "say whether an agent may run a command, and why not"),
    "trust": ("For operators", "give Claude Code the trust of a folder, so that no agent stops at its dialog"),
    "hooks": ("For operators", "put the guard into your own Claude Code settings"),
    "ledger": ("For operators", "look at the ledger, check it, move it, copy it, archive old events"),
    "harness": ("For operators", "try an installed client, and say what still holds of what was tested"),
    "notify": ("For operators", "send a test notification"),
    "doctor": ("For operators", "check this machine, with a fix for each finding"),
    "demo": ("For operators", "run two pipelines, break four things, and see each mended"),
    "sim": ("For operators", "simulate the crew on a virtual machine, with faults drawn from a seed"),
    "model": ("For operators", "play a language model for real agent CLIs, by a scenario, for tests"),
    "version": ("For operators", "print the version"),
    "completions": ("For operators", "print completions for bash, zsh or fish"),
    "crew": ("", "serve as a crew member (dogwatch starts these itself)"),
}
"""The commands with a file of their own."""

GROUPS: dict[str, tuple[str, str, str]] = {
    "mail": (
        "read, acknowledge or send mail",
        "Read, acknowledge or send mail. For agents; every message arrives once, by its id.",
        'dogwatch mail send writer "the figures are in data/tides.csv"',
    ),
}
"""What is said of a command with several verbs, where their own lines would say too much: its line in the overview, its
help text and its example."""


def verbs_of(command: str) -> list[str]:
    """The names of the verbs that the command is made from; none where it is not made from verbs."""
    from dogwatch.door.registry import VERBS, place

    return [name for name in VERBS.names() if place(name)[0] == command]


def words_of(command: str) -> tuple[str, str, str]:
    """What is said of a command that is made from verbs: its line in the overview, its help text and its example."""
    from dogwatch.door.registry import VERBS

    if command in GROUPS:
        return GROUPS[command]
    first, *others = [VERBS.load(name) for name in verbs_of(command)]
    if not others:
        return first.line, first.words or "", first.example
    line = "; ".join(verb.line for verb in (first, *others))
    return line, line, first.example


def all_commands() -> dict[str, tuple[str, str]]:
    """Every command with its group and its line in the overview, in the order in which people read them."""
    from dogwatch.door.registry import VERBS, place

    shown = {name: entry for name, entry in COMMANDS.items() if entry[0]}
    agents = {command: ("For agents", words_of(command)[0]) for command in (place(name)[0] for name in VERBS.names())}
    return {**shown, **agents, **COMMANDS}
