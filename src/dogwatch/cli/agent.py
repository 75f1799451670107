"""The commands for agents, made from the verbs of the door: each asks the captain of the agent's own run."""

from __future__ import annotations

import argparse
import dataclasses
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Literal, get_args, get_origin, get_type_hints

from dogwatch.cli.commands import verbs_of, words_of
from dogwatch.cli.framework import Parser, epilog, new_parser, print_json
from dogwatch.door.registry import VERBS, place
from dogwatch.door.verb import Argument, Verb, wire_name
from dogwatch.errors import UsageError

WAIT_S = 60.0
AnyVerb = Verb[Any, Any, Any]


def verb_parser(command: str, words: Sequence[str]) -> Parser:
    """The parser of a command that is made from verbs. Where the words name one of them, only that one is loaded."""
    places = {place(name): name for name in verbs_of(command)}
    chosen = {where: name for where, name in places.items() if words and where[1:] == (words[0],)}
    if chosen:
        parser = new_parser(prog=f"dogwatch {command}")
    else:
        _, text, example = words_of(command)
        parser = new_parser(prog=f"dogwatch {command}", description=text, epilog=epilog(example))
    if (command,) in places:
        _configure(parser, command)
        return parser
    children = parser.add_subparsers(dest="verb", required=True)
    for where, name in (chosen or places).items():
        verb = VERBS.load(name)
        child = children.add_parser(
            where[1],
            help=verb.line,
            description=verb.words,
            epilog=epilog(verb.example),
            allow_abbrev=False,
            formatter_class=parser.formatter_class,
        )
        _configure(child, name)
    return parser


def execute(arguments: argparse.Namespace) -> int:
    """Asks at the door and shows the answer, as JSON or in words."""
    verb = VERBS.load(arguments.operation)
    values = {name: _value(argument, getattr(arguments, name)) for name, _, argument in _spoken(verb)}
    answer = ask_door(arguments.operation, values)
    if arguments.json:
        print_json(answer[verb.printed] if verb.printed else answer)
        return 0
    from dogwatch.door.client import read_answer

    if text := verb.tell(verb.request(**values), read_answer(verb.answer, answer)):
        print(text)
    return 0


def ask_door(op: str, body: Mapping[str, Any]) -> dict[str, Any]:
    """The captain's answer. While the captain is away, the call waits and tries again."""
    from dogwatch.door.client import ask, who_am_i

    answer = ask(who_am_i(os.environ), op, body, _patience())
    return {name: value for name, value in answer.items() if name != "ok"}


def _configure(parser: argparse.ArgumentParser, name: str) -> None:
    """The arguments of the verb, from the fields of its request."""
    verb = VERBS.load(name)
    parser.set_defaults(operation=name)
    for field, kind, argument in _spoken(verb):
        options: dict[str, Any] = {"help": argument.help}
        if argument.metavar:
            options["metavar"] = argument.metavar
        if get_origin(kind) is Literal:
            options["choices"] = list(get_args(kind))
        if get_origin(kind) is tuple:
            options |= {"action": "append", "default": []}
        elif argument.convert or kind in (float, float | None):
            options["type"] = argument.convert or float
        if argument.flag:
            options = {"default": _default(verb, field), **options}
            parser.add_argument(argument.flag, dest=field, required=argument.required, **options)
            continue
        if argument.from_stdin:
            options |= {"nargs": "?", "default": "-"}
        parser.add_argument(field, **options)
    parser.add_argument("--json", action="store_true", help=f"print {_shape(verb)}")


def _spoken(verb: AnyVerb) -> list[tuple[str, Any, Argument]]:
    """The fields of the request that a caller gives, each with its type and what is said of it."""
    hints = get_type_hints(verb.request, include_extras=True)
    parts = [(field.name, get_args(hints[field.name])) for field in dataclasses.fields(verb.request)]
    return [(name, part[0], part[1]) for name, part in parts if isinstance(part[1], Argument)]


def _default(verb: AnyVerb, name: str) -> Any:
    return next(field.default for field in dataclasses.fields(verb.request) if field.name == name)


def _value(argument: Argument, given: Any) -> Any:
    return sys.stdin.read() if argument.from_stdin and given == "-" else given


def _shape(verb: AnyVerb) -> str:
    names = ", ".join(wire_name(field.name) for field in dataclasses.fields(verb.answer))
    return verb.printed_help or f"{{{names}}}"


def _patience() -> float:
    text = os.environ.get("DOGWATCH_DOOR_WAIT_S", "")
    try:
        seconds = float(text) if text else WAIT_S
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= 86400:
        raise UsageError(f"DOGWATCH_DOOR_WAIT_S is {text!r}", hint="a number of seconds from 0 to 86400")
    return seconds
