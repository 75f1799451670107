"""Say whether an agent may run a command, and why not.

The command is read as bash and judged as the guard judges it before an agent's tool call; nothing is run. Exit codes of
explain: 0 allowed, 2 denied.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator

from dogwatch.cli.framework import open_ledger, print_json, the_home
from dogwatch.errors import NotFoundError, UsageError
from dogwatch.guard.judge import Caller, Verdict, judge
from dogwatch.ledger.records import load
from dogwatch.model import keys
from dogwatch.model.records import AgentRecord, RunRecord
from dogwatch.world.processes import boot_id, marked

EXAMPLE = "dogwatch guard explain --as agent 'npm run dev & PID=$!; sleep 5; kill $PID'"
DENIED = 2
ANY_AGENT = "agent"


def configure(parser: argparse.ArgumentParser) -> None:
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="explain")
    explain = verbs.add_parser(
        "explain", help="judge a command, with the rule, the reason and a hint", allow_abbrev=False
    )
    explain.add_argument(
        "--as",
        dest="caller",
        required=True,
        metavar="RUN/AGENT|agent",
        help="who wants to run it; `agent` is one that has started nothing and has no namespace",
    )
    explain.add_argument("--json", action="store_true", help="print {allowed, rule, reason, hint}")
    explain.add_argument(
        "--batch", metavar="FILE", help="judge one JSON string a line (`-`: standard input); one JSON object a line"
    )
    explain.add_argument("command", nargs="?", metavar="COMMAND", help="the command, as one argument")


def execute(arguments: argparse.Namespace) -> int:
    if (arguments.command is None) == (arguments.batch is None):
        raise UsageError("give a COMMAND, or --batch FILE", hint="dogwatch guard explain --help shows what it takes")
    caller = _caller(arguments.caller)
    if arguments.batch is not None:
        for command in _commands(arguments.batch):
            verdict = judge(command, caller)
            print(json.dumps({"allowed": verdict.allowed, "rule": verdict.rule, "reason": verdict.reason}))
        return 0
    verdict = judge(arguments.command, caller)
    if arguments.json:
        print_json(_plain(verdict))
    elif verdict.allowed:
        print("allowed")
    else:
        print(f"denied by {verdict.rule}: {verdict.reason}")
        print(f"hint: {verdict.hint}")
    return 0 if verdict.allowed else DENIED


def _plain(verdict: Verdict) -> dict[str, object]:
    return {"allowed": verdict.allowed, "rule": verdict.rule, "reason": verdict.reason, "hint": verdict.hint}


def _caller(name: str) -> Caller:
    """The agent with what is its own, as far as the ledger and the machine tell."""
    if name == ANY_AGENT:
        return Caller()
    run, slash, agent = name.partition("/")
    if not slash or not run or not agent:
        raise UsageError(f"{name!r} names no agent", hint="RUN/AGENT, as dogwatch status shows it; or just `agent`")
    home = the_home()
    ledger = open_ledger(home)
    of_run = ledger.read(lambda reader: load(reader, RunRecord, keys.run(run)))
    record = ledger.read(lambda reader: load(reader, AgentRecord, keys.agent(run, agent)))
    if of_run is None or record is None:
        raise NotFoundError(f"there is no agent {name!r}", hint="dogwatch status names them; a name is never a prefix")

    def own_pids() -> frozenset[int]:
        found = marked(boot_id(), home.path, run, agent)
        return frozenset(process.pid for process, incarnation in found if incarnation == record.incarnation)

    namespace = record.last is not None and record.last.sandboxed
    return Caller(namespace=namespace, own_pids=own_pids, home=home.path, cwd=of_run.project)


def _commands(path: str) -> Iterator[str]:
    """The commands of a batch; a line that is no JSON string is named by its number."""
    try:
        file = sys.stdin if path == "-" else open(path, encoding="utf-8", errors="surrogateescape")  # noqa: SIM115
        with file:
            for number, line in enumerate(file, 1):
                if line.strip():
                    yield _command(line, number)
    except OSError as error:
        raise NotFoundError(f"{path} cannot be read: {error.strerror}", hint="--batch FILE, or - for stdin") from None


def _command(line: str, number: int) -> str:
    try:
        command = json.loads(line)
    except (ValueError, RecursionError):
        command = None
    if not isinstance(command, str):
        raise UsageError(f"line {number} is no JSON string", hint='each line is one command, such as "ls -la"')
    return command
