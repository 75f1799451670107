"""Print the version."""

from __future__ import annotations

import argparse
import platform

from dogwatch import __version__
from dogwatch.cli.framework import print_json

EXAMPLE = "dogwatch version --json"


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print {version, python, platform}")


def execute(arguments: argparse.Namespace) -> int:
    if arguments.json:
        print_json({"version": __version__, "python": platform.python_version(), "platform": platform.platform()})
    else:
        print(f"dogwatch {__version__}")
    return 0
