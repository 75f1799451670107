"""The command line: one file a command, imported only when it is called.

A command's file has `configure(parser)` and `execute(arguments) -> exit code`; its line in COMMANDS is what the
overview shows. Errors that dogwatch can name end here as `error: …` and `hint: …`.
"""

from __future__ import annotations

import sys

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
    "report": ("For agents", "report a task as done or failed"),
    "claim": ("For agents", "take an offered task"),
    "task": ("For agents", "give a task to another agent, with its marker"),
    "mail": ("For agents", "read, acknowledge or send mail"),
    "checkpoint": ("For agents", "approve an artifact or ask for a revision"),
    "subagent": ("For agents", "document that an overdue sub-agent is skipped"),
    "heartbeat": ("For agents", "say that you are alive"),
    "crew": ("", "serve as a crew member (dogwatch starts these itself)"),
}


def main(argv: list[str] | None = None) -> int:
    """Runs one command and returns its exit code."""
    words = sys.argv[1:] if argv is None else argv
    if words in (["version"], ["--version"], ["-V"]):
        # The fastest answer there is: scripts ask for it often.
        from dogwatch import __version__

        print(f"dogwatch {__version__}")
        return 0
    from dogwatch.cli.framework import run_command

    return run_command(words)
