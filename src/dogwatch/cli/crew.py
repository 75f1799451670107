"""Serve as a crew member. Dogwatch starts these processes itself."""

from __future__ import annotations

import argparse

from dogwatch.cli.framework import the_home

EXAMPLE = "dogwatch crew captain overnight-1"


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("member", help="dispatcher, captain or watchdog")
    parser.add_argument("run", nargs="?", default="", help="the run, for captain and watchdog")


def execute(arguments: argparse.Namespace) -> int:
    from dogwatch.crew.main import main

    return main(the_home(), arguments.member, arguments.run)
