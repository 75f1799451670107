"""Print completions for bash, zsh or fish.

bash: source <(dogwatch completions bash), for good in ~/.bashrc.
zsh:  dogwatch completions zsh > a folder of $fpath, as _dogwatch.
fish: dogwatch completions fish > ~/.config/fish/completions/dogwatch.fish
"""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Iterator
from dataclasses import field

from dogwatch.cli.commands import all_commands
from dogwatch.cli.framework import command_parser
from dogwatch.values import dataclass

EXAMPLE = "source <(dogwatch completions bash)"


@dataclass(frozen=True, slots=True)
class Flag:
    """An option: its names, what it is for, whether a value follows, and which values there are."""

    names: tuple[str, ...]
    help: str
    takes_value: bool
    choices: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Node:
    """A command or a verb of one: what may follow it."""

    path: tuple[str, ...]
    help: str
    flags: tuple[Flag, ...] = ()
    words: tuple[str, ...] = ()
    verbs: tuple[Node, ...] = field(default=())


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", choices=["bash", "zsh", "fish"])


def execute(arguments: argparse.Namespace) -> int:
    commands = [_node((name,), text, command_parser(name)) for name, (group, text) in all_commands().items() if group]
    print("\n".join({"bash": bash, "zsh": zsh, "fish": fish}[arguments.shell](commands)))
    return 0


def _node(path: tuple[str, ...], text: str, parser: argparse.ArgumentParser) -> Node:
    """What argparse knows of a command. It keeps its actions private, and offers no other way to them."""
    flags: list[Flag] = []
    words: list[str] = []
    verbs: list[Node] = []
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            helps = {choice.dest: choice.help or "" for choice in action._choices_actions}
            verbs += [_node((*path, name), helps.get(name, ""), verb) for name, verb in action.choices.items()]
            continue
        choices = tuple(str(choice) for choice in action.choices or ())
        if action.option_strings:
            takes_value = action.nargs != 0
            flags.append(Flag(tuple(action.option_strings), action.help or "", takes_value, choices))
        else:
            words += choices
    return Node(path, text, tuple(flags), tuple(words), tuple(verbs))


def _all(commands: list[Node]) -> Iterator[Node]:
    for command in commands:
        yield command
        yield from command.verbs


def _follows(node: Node) -> str:
    """All words that may stand behind the node, for a shell's word list."""
    flags = [name for flag in node.flags for name in flag.names]
    return " ".join([*(verb.path[-1] for verb in node.verbs), *node.words, *flags])


def _valued(node: Node, *, listed: bool) -> list[Flag]:
    return [flag for flag in node.flags if flag.takes_value and bool(flag.choices) == listed]


def bash(commands: list[Node]) -> list[str]:
    """A function for `complete -F`. Where it has no answer, and for values, bash completes file names."""
    lines = [
        "_dogwatch() {",
        '    local current="${COMP_WORDS[COMP_CWORD]}" previous="${COMP_WORDS[COMP_CWORD-1]}" verb="" follows=""',
        "    COMPREPLY=()",
        '    [ "$COMP_CWORD" -gt 2 ] && verb="${COMP_WORDS[2]}"',
        '    case "${COMP_WORDS[1]} $verb" in',
    ]
    for node in sorted(_all(commands), key=lambda node: -len(node.path)):
        pattern = f'"{" ".join(node.path)}"' if len(node.path) > 1 else f'"{node.path[0]} "*'
        lines.append(f"        {pattern})")
        free = [name for flag in _valued(node, listed=False) for name in flag.names]
        if free:
            lines.append(f'            case "$previous" in {"|".join(free)}) return ;; esac')
        lines += [
            f'            case "$previous" in {"|".join(flag.names)}) '
            f'COMPREPLY=($(compgen -W "{" ".join(flag.choices)}" -- "$current")); return ;; esac'
            for flag in _valued(node, listed=True)
        ]
        lines.append(f'            follows="{_follows(node)}" ;;')
    return [
        *lines,
        "    esac",
        f'    [ "$COMP_CWORD" -eq 1 ] && follows="{" ".join(node.path[0] for node in commands)}"',
        '    COMPREPLY=($(compgen -W "$follows" -- "$current"))',
        "}",
        "complete -o default -F _dogwatch dogwatch",
    ]


def zsh(commands: list[Node]) -> list[str]:
    """A function for compinit, with descriptions; for values and other words, file names."""
    lines = [
        "#compdef dogwatch",
        "_dogwatch() {",
        '    local -a follows; local verb=""',
        '    (( CURRENT > 3 )) && verb="${words[3]}"',
        '    case "${words[2]} $verb" in',
    ]
    for node in sorted(_all(commands), key=lambda node: -len(node.path)):
        pattern = f'"{" ".join(node.path)}"' if len(node.path) > 1 else f'"{node.path[0]} "*'
        lines += [f"        {pattern})", f"            follows=({_described(node)}) ;;"]
    names = " ".join(_zsh_word(node.path[0], node.help) for node in commands)
    return [
        *lines,
        "    esac",
        f"    (( CURRENT == 2 )) && follows=({names})",
        "    _describe 'dogwatch' follows || _files",
        "}",
        'if [ "$funcstack[1]" = "_dogwatch" ]; then _dogwatch "$@"; else compdef _dogwatch dogwatch; fi',
    ]


def _described(node: Node) -> str:
    parts = [_zsh_word(verb.path[-1], verb.help) for verb in node.verbs]
    parts += [shlex.quote(word) for word in node.words]
    parts += [_zsh_word(name, flag.help) for flag in node.flags for name in flag.names]
    return " ".join(parts)


def _zsh_word(word: str, text: str) -> str:
    return shlex.quote(f"{word}:{_plain(text)}") if text else shlex.quote(word)


def fish(commands: list[Node]) -> list[str]:
    """One line for each thing that can be completed."""
    lines = []
    for command in commands:
        text = shlex.quote(_plain(command.help))
        lines.append(f"complete -c dogwatch -f -n __fish_use_subcommand -a {command.path[0]} -d {text}")
        inside = f"__fish_seen_subcommand_from {command.path[0]}"
        for verb in command.verbs:
            about = shlex.quote(_plain(verb.help))
            lines.append(f"complete -c dogwatch -f -n {shlex.quote(inside)} -a {verb.path[-1]} -d {about}")
            lines += _fish_flags(verb, f"{inside}; and __fish_seen_subcommand_from {verb.path[-1]}")
        if command.words:
            words = shlex.quote(" ".join(command.words))
            lines.append(f"complete -c dogwatch -f -n {shlex.quote(inside)} -a {words}")
        lines += _fish_flags(command, inside)
    return lines


def _fish_flags(node: Node, condition: str) -> list[str]:
    lines = []
    for flag in node.flags:
        names = " ".join(f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in flag.names)
        value = f" -x -a {shlex.quote(' '.join(flag.choices))}" if flag.choices else " -r" if flag.takes_value else ""
        about = shlex.quote(_plain(flag.help))
        lines.append(f"complete -c dogwatch -n {shlex.quote(condition)} {names}{value} -d {about}")
    return lines


def _plain(text: str) -> str:
    """A help text without what argparse or a shell's description would take for markup."""
    return text.replace("%%", "%").replace(":", ",").replace("'", "").replace("`", "")
