"""Put the guard into your own Claude Code settings, for clients that dogwatch has not started.

One hook before each tool that runs or writes something. It is put beside the hooks that are there, and taken out
without a trace. `status` also fires it, as the client would: `tmux kill-server` must be denied and `ls` must pass. Exit
codes of status: 0 the guard holds in at least one place, 1 it does not.
"""

from __future__ import annotations

import argparse
import contextlib
import difflib
import os
import sys
from dataclasses import asdict

from dogwatch.actions.spawn import HOOK
from dogwatch.cli.framework import print_json, the_home
from dogwatch.errors import DogwatchError, NotFoundError, RefusedError
from dogwatch.harness.claude_files import backup_of, change, content, project_settings, read, user_settings
from dogwatch.harness.claude_gifts import drop, gift, keep, only_if_given
from dogwatch.harness.claude_hooks import (
    CANARY,
    DENIED,
    HARMLESS,
    KIND,
    State,
    command_line,
    fire,
    installed,
    state_of,
    uninstalled,
)
from dogwatch.values import dataclass
from dogwatch.world.home import Home

EXAMPLE = "dogwatch hooks install --project ~/work/app && dogwatch hooks status --project ~/work/app"
NOT_HELD = 1
SETTINGS_MODE = 0o600


@dataclass(frozen=True, slots=True)
class Place:
    """How the guard stands in one file of settings; None where it was not fired."""

    place: str
    file: str
    state: State
    detail: str
    canary_denied: bool | None = None
    harmless_passed: bool | None = None

    @property
    def holds(self) -> bool:
        return self.state == "installed" and self.canary_denied is True and self.harmless_passed is True


def configure(parser: argparse.ArgumentParser) -> None:
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="install|status|uninstall")
    changing = "print {file, changed, command, diff, backup}"
    for name, text, answer in (
        ("install", "put the guard in, or bring it up to date", changing),
        ("status", "say where it is, and fire it for a proof", "print {holds, places}"),
        ("uninstall", "take it out again, and nothing else", changing),
    ):
        verb = verbs.add_parser(name, help=text, allow_abbrev=False)
        where = verb.add_mutually_exclusive_group()
        where.add_argument(
            "--project", metavar="DIR", help="DIR/.claude/settings.local.json (default: the current folder)"
        )
        where.add_argument("--user", action="store_true", help="your settings for all projects")
        if name != "status":
            verb.add_argument("--dry-run", action="store_true", help="show the change and make none")
        verb.add_argument("--json", action="store_true", help=answer)


def execute(arguments: argparse.Namespace) -> int:
    folder = os.path.abspath(arguments.project or os.curdir)
    if not os.path.isdir(folder):
        raise NotFoundError(f"{folder} is no folder that is there", hint="--project DIR is the project's folder")
    if arguments.verb == "status":
        return _status(arguments, folder)
    file = user_settings(os.environ) if arguments.user else project_settings(folder)
    if arguments.verb == "install":
        return _install(the_home(), arguments, file, folder)
    return _uninstall(the_home(), arguments, file)


def _command() -> str:
    return command_line(sys.executable, HOOK)


def _install(home: Home, arguments: argparse.Namespace, file: str, folder: str) -> int:
    text = read(file)
    after, _ = installed(file, text, _command())
    if arguments.dry_run:
        return _tell(arguments, file, text, after, "nothing was changed: --dry-run")
    _prove(folder)

    def edit(text: str | None) -> str:
        new, to_remember = installed(file, text, _command())
        if to_remember is not None:
            keep(home, to_remember)  # before the change: what was put in can always be taken out
        return new

    with only_if_given(home, KIND, file):
        changed = change(file, edit, mode=SETTINGS_MODE)
    words = "the guard is installed: clients that start from now on are guarded" if changed else "already installed"
    return _tell(arguments, file, text, after, words, changed)


def _prove(folder: str) -> None:
    """A guard that denies everything would stop every tool of the client, and one that denies nothing is none."""
    denied, passed = fire(_command(), folder, CANARY), fire(_command(), folder, HARMLESS)
    if (denied, passed) != (DENIED, 0):
        raise DogwatchError(
            f"the guard does not work here: `{CANARY}` gives {denied} instead of {DENIED}, `{HARMLESS}` {passed} of 0",
            hint=f"nothing was changed; try it by hand: echo '{{}}' | {_command()}",
        )


def _uninstall(home: Home, arguments: argparse.Namespace, file: str) -> int:
    text = read(file)
    found = gift(home, KIND, file)
    after = uninstalled(file, text, found)
    if arguments.dry_run:
        return _tell(arguments, file, text, after, "nothing was changed: --dry-run")
    changed = change(file, lambda text: uninstalled(file, text, found))
    if found is not None:
        if "folder" in found.made and after is None:
            with contextlib.suppress(OSError):
                os.rmdir(os.path.dirname(file))  # unless there is something else in it by now
        drop(home, found)
    return _tell(arguments, file, text, after, "the guard is taken out" if changed else "it was not installed", changed)


def _status(arguments: argparse.Namespace, folder: str) -> int:
    files = {"project": project_settings(folder), "user": user_settings(os.environ)}
    if arguments.user:
        del files["project"]
    off = _switched_off(folder)
    places = [_place(name, file, folder, off) for name, file in files.items()]
    holds = any(place.holds for place in places)
    if arguments.json:
        print_json({"holds": holds, "places": [asdict(place) for place in places]})
    else:
        for place in places:
            _show(place)
    return 0 if holds else NOT_HELD


def _place(name: str, file: str, folder: str, off: str) -> Place:
    try:
        state, detail = state_of(file, read(file), _command())
    except RefusedError as error:
        return Place(name, file, "unreadable", error.message)
    if state != "installed":
        return Place(name, file, state, detail)
    if off:
        return Place(name, file, "disabled", f"disableAllHooks is set in {off}")
    # Only dogwatch's own line is ever run, never what a file of somebody else's names.
    denied, passed = fire(_command(), folder, CANARY) == DENIED, fire(_command(), folder, HARMLESS) == 0
    return Place(name, file, state, detail, denied, passed)


def _switched_off(folder: str) -> str:
    """The file of settings that switches all hooks off; the first that says anything decides."""
    shared = os.path.join(folder, ".claude", "settings.json")
    for file in (project_settings(folder), shared, user_settings(os.environ)):
        with contextlib.suppress(RefusedError):
            said = content(file, read(file)).get("disableAllHooks")
            if said is not None:
                return file if said else ""
    return ""


def _show(place: Place) -> None:
    print(f"{place.place}: {place.state}{f', {place.detail}' if place.detail else ''} ({place.file})")
    if place.canary_denied is not None:
        print(f"  {'ok' if place.canary_denied else 'FAILED'}: `{CANARY}` is {_is(place.canary_denied)}denied")
    if place.harmless_passed is not None:
        print(f"  {'ok' if place.harmless_passed else 'FAILED'}: `{HARMLESS}` {_passes(place.harmless_passed)}")
    if place.state in ("outdated", "broken"):
        print(f"  hint: dogwatch hooks install{' --user' if place.place == 'user' else ''}")


def _is(so: bool) -> str:
    return "" if so else "not "


def _passes(so: bool) -> str:
    return "passes" if so else "does not pass"


def _tell(
    arguments: argparse.Namespace, file: str, before: str | None, after: str | None, words: str, changed: bool = False
) -> int:
    old, new = ((text or "").splitlines() for text in (before, after))
    name_then, name_now = (os.devnull if text is None else file for text in (before, after))
    diff = list(difflib.unified_diff(old, new, name_then, name_now, n=1, lineterm=""))
    backup = backup_of(file) if changed and os.path.exists(backup_of(file)) else ""
    if arguments.json:
        print_json({"file": file, "changed": changed, "command": _command(), "diff": diff, "backup": backup})
        return 0
    for line in diff:
        print(line)
    print(words)
    if backup:
        print(f"as it was before: {backup}")
    return 0
