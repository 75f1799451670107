"""Try an installed client, and say what still holds of what dogwatch was tested with.

check: starts the client in a new home, with the scripted model in place of the real one: no key, no cost, no trace. It
gets two tasks, is asked to do what is forbidden, and is killed once. Without CLIENT all that are installed are tried.

Exit codes of check: 0 everything holds, 1 something does not or was not tried, 130 interrupted.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict

from dogwatch.cli.checks import answer
from dogwatch.cli.framework import print_json
from dogwatch.cli.table import clean, columns, note, wants_colour
from dogwatch.cli.trial import Check, attempt
from dogwatch.errors import MissingToolError, NotFoundError, UsageError
from dogwatch.harness import Harness, harness
from dogwatch.spec.schema import HARNESSES
from dogwatch.values import dataclass

EXAMPLE = "dogwatch harness check claude"
NOT_HELD = 1
VERSION_S = 30.0
REPORT = "docs/harnesses.md says how to capture a screen and add its pattern"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What was found of one client. `differs` is how its version stands to the tested one: same,
    newer, older or unknown."""

    client: str
    program: str
    version: str
    tested: str
    differs: str
    checks: tuple[Check, ...]
    strange: tuple[str, ...]

    @property
    def holds(self) -> bool:
        return all(check.result == "holds" for check in self.checks)


def configure(parser: argparse.ArgumentParser) -> None:
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="check")
    check = verbs.add_parser("check", help="say what still holds of an installed client", allow_abbrev=False)
    check.add_argument("clients", nargs="*", metavar="CLIENT", help=f"of {', '.join(_clients())}")
    check.add_argument("--program", default="", metavar="PATH", help="the client's program (default: as on PATH)")
    check.add_argument("--json", action="store_true", help="print a list of {client, version, tested, checks, …}")


def execute(arguments: argparse.Namespace) -> int:
    if shutil.which("tmux") is None:
        raise MissingToolError("tmux is not installed", hint="apt-get install tmux")
    for name in arguments.clients:
        if name not in _clients():
            raise UsageError(f"there is no client {name!r}", hint=f"known are {', '.join(_clients())}")
    if arguments.program and len(arguments.clients) != 1:
        raise UsageError("--program is for one client", hint="dogwatch harness check CLIENT --program PATH")
    programs = {name: shutil.which(arguments.program or name) or "" for name in arguments.clients or _clients()}
    programs = {name: os.path.abspath(path) if path else "" for name, path in programs.items()}
    missing = [name for name, program in programs.items() if not program]
    if len(missing) == len(programs) or (arguments.clients and missing):
        names = ", ".join(missing if arguments.clients else programs)
        raise NotFoundError(f"not installed: {arguments.program or names}", hint=_install(missing[0]))
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    verdicts = [_verdict(harness(name), program) for name, program in programs.items() if program]
    if arguments.json:
        print_json([{**asdict(one), "holds": one.holds} for one in verdicts])
    else:
        print("\n\n".join("\n".join(_lines(one)) for one in verdicts))
        for name in missing:
            note(f"{name} is not installed: {_install(name)}")
    return 0 if all(one.holds for one in verdicts) else NOT_HELD


def _clients() -> list[str]:
    """Those that are programs of somebody else's, with versions of their own."""
    return [name for name in HARNESSES if harness(name).package]


def _install(name: str) -> str:
    return f"npm install -g {harness(name).package}@{harness(name).version}"


def _verdict(client: Harness, program: str) -> Verdict:
    version = _version(program)
    note(f"{client.name} {version or 'of an unknown version'} ({program}), tested with {client.version}")
    checks, strange = attempt(client, program, lambda text: note(f"  {text} …"))
    differs = compare(version, client.version)
    return Verdict(client.name, program, version, client.version, differs, tuple(checks), strange)


def _version(program: str) -> str:
    """As the program says it, with a home of its own lest it writes into the user's."""
    with tempfile.TemporaryDirectory(prefix="dogwatch-check-", ignore_cleanup_errors=True) as folder:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("XDG_")}
        code, line = answer([program, "--version"], {**kept, "HOME": folder}, VERSION_S)
    found = re.search(r"\d+(?:\.\d+)+\S*", line) if code == 0 else None
    return found[0] if found else ""


def compare(version: str, tested: str) -> str:
    """How a version differs from the tested one."""
    numbers = [[int(number) for number in re.findall(r"\d+", one)[:3]] for one in (version, tested)]
    if not all(numbers):
        return "unknown"
    return "same" if version == tested else "older" if numbers[0] < numbers[1] else "newer"


def _lines(verdict: Verdict) -> Sequence[str]:
    said = {"same": "the tested version", "unknown": "its version is not known"}
    differs = said.get(verdict.differs, f"{verdict.differs} than the tested {verdict.tested}")
    lines = [f"{verdict.client} {verdict.version} ({clean(verdict.program)}): {differs}"]
    rows = [(check.name, check.result, check.text) for check in verdict.checks]
    lines += columns(("CHECK", "RESULT", "WHAT"), rows, colour=wants_colour(sys.stdout), width=None)
    if verdict.strange and not verdict.holds:
        lines += ["", "a screen that no pattern knows:", *(f"  │ {clean(line)}" for line in verdict.strange)]
    if verdict.holds:
        return [*lines, "", "everything holds"]
    counts = Counter(check.result for check in verdict.checks)
    told = ", ".join(f"{count} {result}" for result, count in counts.items())
    return [*lines, "", f"{told}; {REPORT}"]
