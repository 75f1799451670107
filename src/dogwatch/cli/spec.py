"""Check, explain or describe a pipeline file.

Exit codes of check: 0 all files can be used, 65 at least one has problems.
"""

from __future__ import annotations

import argparse
import dataclasses
from typing import Any

from dogwatch.cli.framework import print_json
from dogwatch.cli.run import overrides
from dogwatch.cli.table import number
from dogwatch.errors import SpecError

EXAMPLE = "dogwatch spec check pipelines/*.yaml"


def configure(parser: argparse.ArgumentParser) -> None:
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="check|explain|schema")
    check = verbs.add_parser("check", help="say everything that is wrong with pipeline files", allow_abbrev=False)
    check.add_argument("files", nargs="+", metavar="FILE")
    check.add_argument("--json", action="store_true", help="a list of {file, ok, agents, phases, problems}")
    explain = verbs.add_parser("explain", help="say in plain words what a run of it does", allow_abbrev=False)
    explain.add_argument("file", metavar="FILE")
    for verb in (check, explain):
        verb.add_argument("--set", action="append", default=[], metavar="K=V", help="as in dogwatch run")
    verbs.add_parser("schema", help="print the JSON Schema of pipeline files, for editors", allow_abbrev=False)


def execute(arguments: argparse.Namespace) -> int:
    if arguments.verb == "schema":
        from dogwatch.spec import json_schema

        print_json(json_schema())
        return 0
    if arguments.verb == "explain":
        from dogwatch.spec import load
        from dogwatch.spec.explain import explain

        print(explain(load(arguments.file, overrides(arguments.set))), end="")
        return 0
    settings = overrides(arguments.set)
    results = [_checked(file, settings) for file in arguments.files]
    if arguments.json:
        print_json(results)
    else:
        for result in results:
            _print(result)
    return 0 if all(result["ok"] for result in results) else SpecError.exit_code


def _checked(file: str, settings: dict[str, str]) -> dict[str, Any]:
    from dogwatch.spec import check, load

    problems = check(file, settings)
    plan = load(file, settings) if not problems else None
    return {
        "file": file,
        "ok": plan is not None,
        "agents": len(plan.agents()) if plan else None,
        "phases": len(plan.phases) if plan else None,
        "problems": [dataclasses.asdict(problem) for problem in problems],
    }


def _print(result: dict[str, Any]) -> None:
    from dogwatch.spec import Problem

    if result["ok"]:
        facts = f"{number(result['agents'], 'agent')}, {number(result['phases'], 'phase')}"
        print(f"{result['file']}: ok ({facts})")
    for problem in result["problems"]:
        print(Problem(**problem).render(result["file"]))
