"""Run two pipelines of four scripted agents each, break four things on purpose, and see each noticed and mended.

It needs no model key and uses a temporary home, which is gone afterwards. Exit code 0 when both runs are delivered.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import sys
import tempfile
from functools import partial

from dogwatch.cli.fleet import Keeper, bring_up, runs_of, take_down
from dogwatch.cli.framework import INTERRUPTED, open_ledger
from dogwatch.cli.mishaps import Mishap, inject_and_follow, mishaps
from dogwatch.cli.run import conclude, end_runs, follow
from dogwatch.coordination.runs import create_run
from dogwatch.errors import NotFoundError
from dogwatch.ledger.api import Store
from dogwatch.spec import load
from dogwatch.world.home import Home, find_home

EXAMPLE = "dogwatch demo"


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--keep", action="store_true", help="keep the temporary home and the outputs, and say where")
    parser.add_argument("--quiet", action="store_true", help="show no live table, only the summary")


def execute(arguments: argparse.Namespace) -> int:
    folder = tempfile.mkdtemp(prefix="dogwatch-demo-")
    home = find_home({**os.environ, "DOGWATCH_HOME": f"{folder}/home"})
    truth = f"{folder}/truth.jsonl"
    # The crew and the agents inherit both: the demo touches no other home, and the agents note what they really do.
    os.environ.update(DOGWATCH_HOME=home.path, SCRIPTED_TRUTH=truth)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    ledger = open_ledger(home, must_exist=False)
    runs: list[str] = []
    try:
        runs = start(home, ledger, folder)
        broken = mishaps(*runs)
        watch(home, ledger, runs, broken, truth, quiet=arguments.quiet)
        code = summary(ledger, runs, broken)
    except KeyboardInterrupt:
        print("interrupted: ending everything …", file=sys.stderr)
        end_runs(home, ledger, runs)
        code = INTERRUPTED
    finally:
        clean_up(home, ledger, folder, keep=arguments.keep)
    return code


def start(home: Home, ledger: Store, folder: str) -> list[str]:
    """Two runs of the same pipeline; each has one of the agents that misbehave."""
    spec = example("overnight")
    runs = []
    for settings in ({"writer": "steady"}, {"researcher": "steady"}):
        create = partial(create_run, plan=load(spec, settings), project=folder, output=f"{folder}/out", spec_path=spec)
        runs.append(ledger.run(create).run)
    bring_up(home, ledger)
    return runs


def example(name: str) -> str:
    """The pipeline file of an example, in a checkout or in an installed package."""
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    for folder in (os.path.join(package, "examples"), os.path.join(package, "..", "..", "examples")):
        path = os.path.normpath(os.path.join(folder, name, "pipeline.yaml"))
        if os.path.exists(path):
            return path
    raise NotFoundError(f"the example {name} is not installed", hint="run the demo from a checkout: make demo")


def watch(home: Home, ledger: Store, runs: list[str], broken: list[Mishap], truth: str, *, quiet: bool) -> None:
    """Follows the runs; with each look, the mishaps are injected when their time has come, and followed."""
    keeper = Keeper(home, ledger)

    def look() -> list[str]:
        keeper.look()
        inject_and_follow(ledger, broken, truth)
        return ["", *(mishap.line() for mishap in broken)]

    follow(ledger, runs, look, quiet=quiet)
    look()


def summary(ledger: Store, runs: list[str], broken: list[Mishap]) -> int:
    """Each fault with its times, then the runs; a fault that was not noticed or not mended is a failure."""
    print(f"{'fault':<52} {'noticed':>9} {'mended':>9}")
    for mishap in broken:
        print(f"{mishap.title:<52} {mishap.noticed_after():>9} {mishap.mended_after():>9}")
    code = conclude(runs_of(ledger, runs), with_outputs=False)
    if code == 0 and not all(mishap.mended for mishap in broken):
        print("error: not every fault was injected, noticed and mended", file=sys.stderr)
        return 1
    return code


def clean_up(home: Home, ledger: Store, folder: str, *, keep: bool) -> None:
    """Nothing keeps running, and nothing is left on the disk unless it was asked for."""
    take_down(home, ledger)
    ledger.close()
    if keep:
        print(f"kept: {folder} (DOGWATCH_HOME={home.path})")
    else:
        shutil.rmtree(folder, ignore_errors=True)
