"""Check this machine, with a fix for each finding. It changes nothing.

Exit code 0 without any problem (warnings are none), 1 otherwise.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import sys

from dogwatch.cli.framework import print_json
from dogwatch.cli.table import COLOURS, clean, number, paint, wants_colour

EXAMPLE = "dogwatch doctor"


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print {ok, findings: [{subject, level, text, fix}]}")


def execute(arguments: argparse.Namespace) -> int:
    from dogwatch.cli.checks import Finding
    from dogwatch.cli.checks_home import home_findings
    from dogwatch.cli.checks_machine import machine_findings

    findings: list[Finding] = [*machine_findings(), *home_findings(os.environ)]
    problems = sum(finding.level == "problem" for finding in findings)
    if arguments.json:
        print_json({"ok": not problems, "findings": [dataclasses.asdict(finding) for finding in findings]})
        return 1 if problems else 0
    colour = wants_colour(sys.stdout)
    for finding in findings:
        level = paint(f"{finding.level:<7}", COLOURS.get(finding.level, ""), colour=colour)
        print(f"{level}  {finding.subject:<16} {clean(finding.text)}")
        if finding.fix:
            print(f"{'':7}  {'':16} fix: {clean(finding.fix)}")
    warnings = sum(finding.level == "warning" for finding in findings)
    print(f"\n{number(problems, 'problem')}, {number(warnings, 'warning')}")
    return 1 if problems else 0
