"""`python -m torture`: kills users of a ledger at random instants; exit code 0 when nothing was lost, 1 otherwise."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from torture.engines import ENGINES, new_engine
from torture.orchestrator import ROTA, Orchestrator, Plan
from torture.report import Progress, figures, show
from torture.verify import violations

WORKERS_MIN = 2 * len(ROTA)
KILLS_PER_SERVER_KILL = 50


def main(arguments: Sequence[str]) -> int:
    """One run, from its flags to its verdict."""
    flags = _flags(arguments)
    plan = Plan(flags.seed, flags.kills, flags.workers, flags.server_kills)
    print(f"seed {plan.seed}", flush=True)
    folder = Path(tempfile.mkdtemp(prefix="torture-", dir=flags.folder))
    keep = True
    try:
        found = _torture(flags.engine, plan, folder, flags.json)
        keep = flags.keep or bool(found)
    except KeyboardInterrupt:
        keep = flags.keep
        print("\ninterrupted; all workers were ended", file=sys.stderr)
        return 130
    finally:
        if keep:
            print(f"the ledger and the journals are in {folder}")
        else:
            shutil.rmtree(folder)
    return 1 if found else 0


def _torture(engine_name: str, plan: Plan, folder: Path, json_path: str) -> Sequence[str]:
    """What was violated; all of it has been printed."""
    engine = new_engine(engine_name, folder)
    try:
        progress = Progress()
        run = Orchestrator(plan, folder, engine, progress)
        history = run.run()
        progress.clear()
    finally:
        engine.close()
    found = violations(history)
    table = figures(engine_name, run, history, time.monotonic() - run.began)
    show(table)
    if json_path:
        Path(json_path).write_text(json.dumps({**table, "violated": found}, indent=2) + "\n")
    for sentence in found:
        print(f"VIOLATED: {sentence} (seed {plan.seed})")
    if not found:
        print("nothing lost, nothing twice")
    return found


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.exit(64, f"error: {message}\nhint: python -m torture --help\n")


def _flags(arguments: Sequence[str]) -> argparse.Namespace:
    parser = _Parser(prog="python -m torture", description=__doc__)
    parser.add_argument("--engine", choices=ENGINES, default=ENGINES[0])
    parser.add_argument("--kills", type=int, default=1000, help="how many workers to kill (1000)")
    parser.add_argument("--seed", type=int, help="repeats the decisions of an earlier run (default: a new one)")
    parser.add_argument("--workers", type=int, default=WORKERS_MIN, help="how many besides the follower (8)")
    parser.add_argument("--server-kills", type=int, help="how often to kill the server, if there is one (kills / 50)")
    parser.add_argument("--json", default="", metavar="FILE", help="writes the figures to FILE")
    parser.add_argument("--folder", metavar="DIR", help="where to work (default: the folder for temporary files)")
    parser.add_argument("--keep", action="store_true", help="keeps the ledger and the journals")
    flags = parser.parse_args(arguments)
    if flags.workers < WORKERS_MIN or flags.kills < 1:
        parser.error(f"at least {WORKERS_MIN} workers and one kill are needed")
    if flags.folder is not None and not Path(flags.folder).is_dir():
        parser.error(f"there is no folder {flags.folder}")
    if flags.seed is None:
        flags.seed = int.from_bytes(os.urandom(4))
    if flags.server_kills is None:
        flags.server_kills = -(-flags.kills // KILLS_PER_SERVER_KILL)
    return flags


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
