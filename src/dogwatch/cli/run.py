"""Run a pipeline file until it is delivered or has failed.

With --rehearse the agents' real clients talk to a scripted model on this machine: no key, no cost, the same gates. They
work on a copy of the project, and their homes are new ones (docs/rehearsal.md).

Exit codes: 0 all runs delivered (COMPLETED, or PARTIAL where the pipeline allows it), 1 a run failed,
2 kept for no consensus, 65 the pipeline file has errors, 130 interrupted.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import sys
from collections.abc import Callable
from functools import partial

from dogwatch.cli.fleet import Keeper, bring_up, keep_up, order, runs_of, wait_until
from dogwatch.cli.framework import INTERRUPTED, open_ledger, print_json, the_home
from dogwatch.cli.rehearsing import scenario_for, set_stage
from dogwatch.cli.table import note
from dogwatch.coordination.runs import create_run
from dogwatch.errors import MissingToolError, UsageError
from dogwatch.harness import harness
from dogwatch.harness.environment import differing
from dogwatch.ledger.api import Store
from dogwatch.model.codec import encode
from dogwatch.model.plan import Plan
from dogwatch.model.records import RunRecord, Stage
from dogwatch.spec import load
from dogwatch.world.home import Home

EXAMPLE = "dogwatch run examples/overnight/pipeline.yaml --runs 2 --set topic=tides"
RUNS_MAX = 64
END_WAIT_S = 60.0


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("spec", help="the pipeline file")
    parser.add_argument("--runs", type=int, default=1, metavar="N", help="how many runs side by side (default 1)")
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
    parser.add_argument("--quiet", action="store_true", help="show no live table")


def execute(arguments: argparse.Namespace) -> int:
    if not 1 <= arguments.runs <= RUNS_MAX:
        raise UsageError(f"--runs is {arguments.runs}", hint=f"a number from 1 to {RUNS_MAX}")
    if shutil.which("tmux") is None:
        raise MissingToolError("tmux is not installed", hint="apt-get install tmux")
    plan = load(arguments.spec, overrides(arguments.set))
    project = os.path.abspath(arguments.project)
    if not os.path.isdir(project):
        raise UsageError(f"there is no folder {project}", hint="--project names an existing folder")
    home = the_home()
    spec = os.path.abspath(arguments.spec)
    made = [_ingredients(arguments, home, plan, project, number == 0) for number in range(arguments.runs)]
    ledger = open_ledger(home, must_exist=False)
    runs: list[str] = []
    try:
        # A Ctrl-C must not come between a run that was made and its name: nobody would end it.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            for plan_, project_, output, stage in made:
                make = partial(create_run, plan=plan_, project=project_, output=output, spec_path=spec, stage=stage)
                runs.append(ledger.run(make).run)
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        crew = bring_up(home, ledger)
        if others := _others(plan, crew.process.pid, arguments.rehearse):
            note(f"note: agents get these variables as the crew was started with, not as this shell has them: {others}")
            note("hint: dogwatch down ends the crew and keeps the runs; dogwatch up starts it from this shell")
        if arguments.detach:
            print("\n".join(runs))
            return 0
        keeper = Keeper(home, ledger)
        follow(ledger, runs, keeper.look, quiet=arguments.quiet or arguments.json)
    except KeyboardInterrupt:
        print("interrupted: ending the runs …", file=sys.stderr)
        end_runs(home, ledger, runs)
        return INTERRUPTED
    return conclude(runs_of(ledger, runs), as_json=arguments.json)


def _ingredients(
    arguments: argparse.Namespace, home: Home, plan: Plan, project: str, is_first: bool
) -> tuple[Plan, str, str, Stage | None]:
    """What one run is made of: its plan, where its agents work, where its outputs go, and its stage."""
    stage = None
    if arguments.rehearse:
        scene = set_stage(home, plan, project, scenario_for(arguments.spec, arguments.scenario), arguments.in_place)
        plan, project, stage = scene.plan, scene.project, scene.stage
        for line in scene.notes if is_first else ():
            note(f"note: {line}")
    elif arguments.scenario or arguments.in_place:
        raise UsageError("--scenario and --in-place are for rehearsals", hint="add --rehearse")
    if arguments.output:
        output = os.path.abspath(arguments.output)
    else:
        output = os.path.join(project if stage is None else stage.folder, "out")
    try:
        os.makedirs(output, exist_ok=True)
    except OSError as error:
        message = f"the outputs cannot be written to {output}: {error.strerror}"
        raise UsageError(message, hint="--output names a folder that can be made") from None
    return plan, project, output, stage


def _others(plan: Plan, dispatcher: int, rehearse: bool) -> str:
    """The variables that matter to the agents and are others in the dispatcher's environment, which they inherit. To a
    rehearsal only the PATH matters."""
    try:
        with open(f"/proc/{dispatcher}/environ", "rb") as file:
            pairs = [os.fsdecode(pair).partition("=") for pair in file.read().split(b"\0") if pair]
    except OSError:
        return ""
    theirs = {name: value for name, _, value in pairs}
    names = {name for role in plan.roles for name in differing(os.environ, theirs, harness(role.harness), role)}
    return ", ".join(sorted(names & {"PATH"} if rehearse else names))


def overrides(settings: list[str]) -> dict[str, str]:
    """The words of --set as a mapping."""
    found = {}
    for setting in settings:
        name, equals, value = setting.partition("=")
        if not equals or not name:
            raise UsageError(f"--set {setting!r} is not K=V", hint="for example --set topic=tides")
        found[name] = value
    return found


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
    for run in runs_of(ledger, runs):
        if not run.over:
            order(ledger, run.run, cause="interrupted by the operator")
    try:
        keep_up(home, ledger)
        wait_until(ledger, lambda: all(run.cleared for run in runs_of(ledger, runs)), END_WAIT_S)
    except KeyboardInterrupt:
        print("hint: dogwatch status shows what is left, dogwatch down ends it", file=sys.stderr)


def conclude(runs: list[RunRecord], *, as_json: bool, with_outputs: bool = True) -> int:
    """The outcome on standard output, and the exit code."""
    if as_json:
        print_json([encode(run) for run in runs])
    else:
        for run in runs:
            what = f"{run.run} (a rehearsal)" if run.stage is not None else run.run
            print(f"{what}: {run.state}" + (f" ({run.cause})" if run.cause else ""))
            if with_outputs and run.state in ("COMPLETED", "PARTIAL"):
                print(f"  outputs: {run.output}")
        delivered = sum(run.state in ("COMPLETED", "PARTIAL") for run in runs)
        print(f"delivered {delivered}/{len(runs)}")
    if any(run.state == "NO_CONSENSUS" for run in runs):
        return 2
    return 0 if all(run.state in ("COMPLETED", "PARTIAL") for run in runs) else 1
