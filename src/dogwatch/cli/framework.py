"""What every command shares: its parser, its errors, its exit codes and its home."""

from __future__ import annotations

import argparse
import importlib
import io
import json
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from dogwatch.cli.commands import COMMANDS, all_commands, verbs_of
from dogwatch.errors import DogwatchError, NotFoundError, UsageError

if TYPE_CHECKING:
    from dogwatch.ledger.api import Store
    from dogwatch.world.home import Home

INTERRUPTED = 130


class Parser(argparse.ArgumentParser):
    """An argument parser whose complaints are dogwatch's own errors, with exit code 64."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(message, hint=f"{self.prog} --help shows what it takes")


def new_parser(**options: Any) -> Parser:
    """A parser that keeps the layout of its examples and takes no abbreviated flags."""
    return Parser(allow_abbrev=False, formatter_class=argparse.RawDescriptionHelpFormatter, **options)


def epilog(example: str) -> str:
    """The end of a help text."""
    return f"example:\n  {example}"


def command_module(name: str) -> Any:
    """The file of one command. All that are made from verbs share one."""
    file = name.replace("-", "_") if name in COMMANDS else "agent"
    return importlib.import_module(f"dogwatch.cli.{file}")


def command_parser(name: str, words: Sequence[str] = ()) -> Parser:
    """The parser of one command; for these words only, where they are given: of a command that is made from verbs, no
    more is loaded than they need."""
    module = command_module(name)
    if name not in COMMANDS:
        made: Parser = module.verb_parser(name, words)
        return made
    parser = new_parser(prog=f"dogwatch {name}", description=module.__doc__, epilog=epilog(module.EXAMPLE))
    module.configure(parser)
    return parser


def run_command(words: list[str]) -> int:
    """Runs the command that the words name; never a traceback for what a user can do wrong."""
    for stream in (sys.stdout, sys.stderr):
        # What agents write may hold characters that the terminal's encoding has not.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        if not words or words[0] in ("-h", "--help", "help"):
            print(overview())
            return 0 if words else UsageError.exit_code
        name = words[0]
        if name not in COMMANDS and not verbs_of(name):
            raise UsageError(f"there is no command {name!r}", hint=_nearest(name))
        arguments = command_parser(name, words[1:]).parse_args(words[1:])
        code: int = command_module(name).execute(arguments)
        sys.stdout.flush()
        return code
    except DogwatchError as error:
        return show_error(error)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # The reader of our output has left; what we would still print goes nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def show_error(error: DogwatchError) -> int:
    """The error in two lines on standard error; its exit code."""
    print(f"error: {error.message}", file=sys.stderr)
    if error.hint:
        print(f"hint: {error.hint}", file=sys.stderr)
    return error.exit_code


def overview() -> str:
    """All commands, one line each."""
    lines = ["dogwatch keeps fleets of coding agents alive.", "", "usage: dogwatch COMMAND [options]"]
    commands = all_commands()
    for heading in ("For operators", "For agents"):
        lines += ["", f"{heading}:"]
        lines += [f"  {name:<12} {text}" for name, (group, text) in commands.items() if group == heading]
    lines += ["", "dogwatch COMMAND --help shows a command's options and an example."]
    return "\n".join(lines)


def _nearest(name: str) -> str:
    import difflib

    close = difflib.get_close_matches(name, all_commands(), 1)
    return f"did you mean {close[0]}?" if close else "dogwatch --help lists all commands"


def the_home() -> Home:
    """The home that the environment names."""
    from dogwatch.world.home import find_home

    return find_home(os.environ)


def open_ledger(home: Home, *, must_exist: bool = True, reading: bool = True) -> Store:
    """The ledger of the home. Reading commands make none where there is none; those that start work take it over; all
    others are refused where it is another home's."""
    from dogwatch.coordination.ledgers import bind, open_home_ledger, refuse_other_home
    from dogwatch.world.clock import SystemClock

    if must_exist and not home.has_ledger:
        message = f"there is no ledger in {home.path}"
        raise NotFoundError(message, hint="dogwatch run SPEC starts one; or set DOGWATCH_HOME")
    ledger = open_home_ledger(home, SystemClock())
    if not must_exist:
        bind(home, ledger)
    elif not reading:
        refuse_other_home(home, ledger)
    return ledger


def print_json(value: Any) -> None:
    """One JSON document on standard output."""
    print(json.dumps(value, ensure_ascii=False, indent=2))
