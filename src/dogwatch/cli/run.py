"""Run pipeline files until they are delivered or have failed.

Several files, or several rounds, make a queue: as many runs are let in as the machine can hold, in their order. With
--prefix they are named PREFIX-tFILE-rROUND, and the same command goes on where it was interrupted: what is delivered
stays done, what still runs is followed, what failed is made again (docs/queue.md).

With --rehearse the agents' real clients talk to a scripted model on this machine: no key, no cost, the same gates. They
work on a copy of the project, and their homes are new ones (docs/rehearsal.md).

Exit codes: 0 all runs delivered (COMPLETED, or PARTIAL where the pipeline allows it), 1 a run failed,
2 kept for no consensus, 65 the pipeline file has errors, 130 interrupted.
"""

from __future__ import annotations

import argparse
import os
import secrets
import shutil
import signal
import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from dogwatch.cli import outcome, progress
from dogwatch.cli.fleet import Keeper, bring_up, keep_up, order, runs_of, wait_until
from dogwatch.cli.framework import INTERRUPTED, open_ledger, print_json, the_home
from dogwatch.cli.rehearsing import scenario_for, set_stage
from dogwatch.cli.rounds import DELIVERED, is_kept, wanted
from dogwatch.cli.table import note, wants_colour, width_of
from dogwatch.coordination.rounds import Ingredients, Wanted, attempts_of, make_runs
from dogwatch.errors import MissingToolError, UsageError
from dogwatch.harness import harness
from dogwatch.harness.environment import differing
from dogwatch.ledger.api import Reader, Store
from dogwatch.model.plan import Plan
from dogwatch.model.records import RunRecord
from dogwatch.spec import load
from dogwatch.values import dataclass
from dogwatch.world.clock import SystemClock
from dogwatch.world.home import Home

EXAMPLE = "dogwatch run tides.yaml eels.yaml --rounds 3 --prefix ct-v6 --set topic=tides"
ROUNDS_MAX = 64
RUNS_MAX = 256
END_WAIT_S = 60.0


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("spec", nargs="+", help="the pipeline file; several make a queue")
    parser.add_argument(
        "--rounds",
        "--runs",
        dest="rounds",
        type=int,
        default=1,
        metavar="N",
        help="how many runs of each file (default 1)",
    )
    parser.add_argument(
        "--prefix", default="", metavar="WORD", help="name the runs WORD-t1-r1 …, and go on with those that are there"
    )
    parser.add_argument(
        "--parallel",
        default="auto",
        metavar="N",
        help="at most N of these runs at once; auto (the default): as many as the machine can hold",
    )
    parser.add_argument(
        "--set", action="append", default=[], metavar="K=V", help="set a variable, or any value by its dotted path"
    )
    parser.add_argument("--project", default=".", metavar="DIR", help="where the agents work (default: here)")
    parser.add_argument("--output", default="", metavar="DIR", help="where outputs go (default: PROJECT/out)")
    parser.add_argument("--rehearse", action="store_true", help="with a scripted model in place of the real ones")
    parser.add_argument(
        "--scenario",
        default="",
        metavar="FILE",
        help="what the scripted model says (default: NAME.rehearsal.yaml beside the pipeline file, else made from it)",
    )
    parser.add_argument("--in-place", action="store_true", help="rehearse in the project itself, not in a copy of it")
    parser.add_argument("--detach", action="store_true", help="start the runs and leave; see dogwatch status")
    parser.add_argument("--json", action="store_true", help="print the runs' records at the end")
    parser.add_argument("--quiet", action="store_true", help="show no live table, and no line for each run")


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    """The runs of one call: their names, in order, and which of them had delivered before."""

    wants: Sequence[Wanted]
    names: Sequence[str]
    before: Sequence[str] = ()
    prefix: str = ""


def execute(arguments: argparse.Namespace) -> int:
    ceiling = _check(arguments)
    files = [(os.path.abspath(spec), load(spec, overrides(arguments.set))) for spec in arguments.spec]
    project = os.path.abspath(arguments.project)
    if not os.path.isdir(project):
        raise UsageError(f"there is no folder {project}", hint="--project names an existing folder")
    home = the_home()
    wants = wanted(files, arguments.rounds, arguments.prefix, project, arguments.rehearse)
    known = _known(home, wants)
    made_of = _ingredients(arguments, home, wants, known)
    ledger = open_ledger(home, must_exist=False)
    group = arguments.prefix or (f"group-{secrets.token_hex(4)}" if ceiling else "")
    before = [one[-1].run for one in known if is_kept(one) and one[-1].over]
    names: list[str] = []
    try:
        # A Ctrl-C must not come between runs that were made and their names: nobody would end them.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            there = [[run.run for run in one] for one in known]
            make = partial(make_runs, wants=wants, known=there, made_of=made_of, group=group, ceiling=ceiling)
            names += ledger.run(make)
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        queue = Queue(wants=wants, names=names, before=before, prefix=arguments.prefix)
        quiet = arguments.quiet or arguments.json
        if not quiet:
            _tell_known(known, queue)
        if len(before) < len(names):
            crew = bring_up(home, ledger)
            _tell_others([plan for _, plan in files], crew.process.pid, arguments.rehearse)
        if arguments.detach:
            print("".join(f"{name}\n" for name in names if name not in before), end="")
            return 0
        _follow(home, ledger, queue, quiet=quiet)
    except KeyboardInterrupt:
        print("interrupted: ending the runs …", file=sys.stderr)
        end_runs(home, ledger, names)
        if arguments.prefix:
            note("hint: the same command goes on; what is delivered stays done")
        return INTERRUPTED
    return _conclude(ledger, queue, as_json=arguments.json)


def _check(arguments: argparse.Namespace) -> int:
    """UsageError for words that cannot be meant; returns the ceiling, 0 for none."""
    if not 1 <= arguments.rounds <= ROUNDS_MAX:
        raise UsageError(f"--rounds is {arguments.rounds}", hint=f"a number from 1 to {ROUNDS_MAX}")
    total = len(arguments.spec) * arguments.rounds
    if total > RUNS_MAX:
        raise UsageError(f"these are {total} runs", hint=f"at most {RUNS_MAX} at once; make the rounds in turn")
    if not arguments.rehearse and (arguments.scenario or arguments.in_place):
        raise UsageError("--scenario and --in-place are for rehearsals", hint="add --rehearse")
    if shutil.which("tmux") is None:
        raise MissingToolError("tmux is not installed", hint="apt-get install tmux")
    if arguments.parallel == "auto":
        return 0
    if not arguments.parallel.isdecimal() or not 1 <= int(arguments.parallel) <= RUNS_MAX:
        raise UsageError(f"--parallel is {arguments.parallel}", hint=f"auto, or a number from 1 to {RUNS_MAX}")
    return int(arguments.parallel)


def _known(home: Home, wants: Sequence[Wanted]) -> list[list[RunRecord]]:
    """What the ledger has of each run already. Without names, or without a ledger, that is nothing."""
    if not wants[0].name or not home.has_ledger:
        return [[] for _ in wants]
    ledger = open_ledger(home)
    try:
        return ledger.read(lambda r: [attempts_of(r, want) for want in wants])
    finally:
        ledger.close()


def _ingredients(
    arguments: argparse.Namespace, home: Home, wants: Sequence[Wanted], known: Sequence[Sequence[RunRecord]]
) -> dict[int, Ingredients]:
    """What each run is made of that has to be made. Of each file the first one's notes are told."""
    found: dict[int, Ingredients] = {}
    told = set()
    for number, want in enumerate(wants):
        if is_kept(known[number]):
            continue
        plan, project, stage = want.plan, want.project, None
        if arguments.rehearse:
            scene = set_stage(home, plan, project, scenario_for(want.spec, arguments.scenario), arguments.in_place)
            plan, project, stage = scene.plan, scene.project, scene.stage
            for line in scene.notes if want.spec not in told else ():
                note(f"note: {line}")
            told.add(want.spec)
        output = os.path.abspath(arguments.output or os.path.join(stage.folder if stage else project, "out"))
        try:
            os.makedirs(output, exist_ok=True)
        except OSError as error:
            message = f"the outputs cannot be written to {output}: {error.strerror}"
            raise UsageError(message, hint="--output names a folder that can be made") from None
        root = os.path.expanduser("~")
        found[number] = Ingredients(plan=plan, project=project, output=output, root=root, stage=stage)
    return found


def _tell_known(known: Sequence[Sequence[RunRecord]], queue: Queue) -> None:
    """What happens with the runs that were there already."""
    for attempts, name in zip(known, queue.names, strict=True):
        if not attempts:
            continue
        last = attempts[-1]
        if name in queue.before:
            note(f"{name}: {last.state}, done before")
        elif name == last.run:
            note(f"{name}: goes on")
        else:
            note(f"{last.run}: {last.state} ({last.cause}), made again as {name}")


def _tell_others(plans: Sequence[Plan], dispatcher: int, rehearse: bool) -> None:
    if others := ", ".join(sorted({name for plan in plans for name in _others(plan, dispatcher, rehearse)})):
        note(f"note: agents get these variables as the crew was started with, not as this shell has them: {others}")
        note("hint: dogwatch down ends the crew and keeps the runs; dogwatch up starts it from this shell")


def _others(plan: Plan, dispatcher: int, rehearse: bool) -> set[str]:
    """The variables that matter to the agents and are others in the dispatcher's environment, which they inherit. To a
    rehearsal only the PATH matters."""
    try:
        with open(f"/proc/{dispatcher}/environ", "rb") as file:
            pairs = [os.fsdecode(pair).partition("=") for pair in file.read().split(b"\0") if pair]
    except OSError:
        return set()
    theirs = {name: value for name, _, value in pairs}
    names = {name for role in plan.roles for name in differing(os.environ, theirs, harness(role.harness), role)}
    return names & {"PATH"} if rehearse else names


def overrides(settings: list[str]) -> dict[str, str]:
    """The words of --set as a mapping."""
    found = {}
    for setting in settings:
        name, equals, value = setting.partition("=")
        if not equals or not name:
            raise UsageError(f"--set {setting!r} is not K=V", hint="for example --set topic=tides")
        found[name] = value
    return found


def _follow(home: Home, ledger: Store, queue: Queue, *, quiet: bool) -> None:
    """Waits until all runs are over: with a live table on a terminal, else with a line for each start and end."""
    keeper = Keeper(home, ledger)
    narrator = None if quiet or sys.stderr.isatty() else progress.Narrator(queue.before)
    expected_s = {want.spec: seconds for want in queue.wants if (seconds := progress.expected_s(want.plan)) is not None}

    def look() -> list[str]:
        keeper.look()
        if quiet:
            return []
        at = ledger.read(lambda r: progress.look(r, queue.names))
        if narrator is None:
            return progress.lines(at, expected_s, SystemClock().now())
        for line in narrator.tell(at):
            note(line)
        return []

    if len(queue.before) < len(queue.names):
        follow(ledger, list(queue.names), look, quiet=quiet)
        look()


def follow(ledger: Store, runs: list[str], look: Callable[[], list[str]], *, quiet: bool) -> None:
    """Waits until the runs are over and nothing of them is left, with a live table on a terminal.

    `look` is called at least twice a second; what it returns stands below the table.
    """
    if quiet or not sys.stderr.isatty():
        while not wait_until(ledger, lambda: all(run.cleared for run in runs_of(ledger, runs)), 0.25):
            look()
        return
    from dogwatch.cli.live import show_until_over

    show_until_over(ledger, runs, look)


def end_runs(home: Home, ledger: Store, runs: list[str]) -> None:
    """Ends the runs and waits until nothing of them is left. A second Ctrl-C does not wait; the crew goes on ending."""
    for run in runs_of(ledger, reversed(runs)):
        if not run.over:
            order(ledger, run.run, cause="interrupted by the operator")
    try:
        keep_up(home, ledger)
        wait_until(ledger, lambda: all(run.cleared for run in runs_of(ledger, runs)), END_WAIT_S)
    except KeyboardInterrupt:
        print("hint: dogwatch status shows what is left, dogwatch down ends it", file=sys.stderr)


def _conclude(ledger: Store, queue: Queue, *, as_json: bool) -> int:
    """The outcome on standard output, and the exit code."""
    now = SystemClock().now()

    def read(reader: Reader) -> dict[str, Any]:
        shown = [run.run for want in queue.wants for run in attempts_of(reader, want)] or list(queue.names)
        return outcome.gather(reader, shown, now, queue.prefix)

    runs = runs_of(ledger, queue.names)
    if not queue.prefix and len(runs) == 1 and not as_json:
        return conclude(runs)
    found = ledger.read(read)
    if as_json:
        print_json(found if queue.prefix else found["runs"])
    else:
        print(
            "\n".join(outcome.words(found, queue.before, colour=wants_colour(sys.stdout), width=width_of(sys.stdout)))
        )
    return exit_code(runs)


def conclude(runs: list[RunRecord], *, with_outputs: bool = True) -> int:
    """A few runs, one after the other, on standard output, and the exit code."""
    for run in runs:
        what = f"{run.run} (a rehearsal)" if run.stage is not None else run.run
        print(f"{what}: {run.state}" + (f" ({run.cause})" if run.cause else ""))
        if with_outputs and run.state in DELIVERED:
            print(f"  outputs: {run.output}")
    print(f"delivered {sum(run.state in DELIVERED for run in runs)}/{len(runs)}")
    return exit_code(runs)


def exit_code(runs: Sequence[RunRecord]) -> int:
    """What the command ends with."""
    if any(run.state == "NO_CONSENSUS" for run in runs):
        return 2
    return 0 if all(run.state in DELIVERED for run in runs) else 1
