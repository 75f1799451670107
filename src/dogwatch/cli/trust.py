"""Give Claude Code the trust of a folder, once, so that agents do not stop at its trust dialog.

It is the same answer that the dialog asks for, written into the client's own file. The change is shown first, a copy of
the file is kept beside it, nothing else in it is touched, and --undo takes back exactly what was given. Trust a folder
only if you would start everything in it yourself: its settings may run commands.
"""

from __future__ import annotations

import argparse
import json
import os
import sys

from dogwatch.cli.framework import print_json, the_home
from dogwatch.errors import RefusedError, UsageError
from dogwatch.harness.claude_files import backup_of, change, config_file, read
from dogwatch.harness.claude_gifts import Gift, drop, gift, gifts, keep, only_if_given
from dogwatch.harness.claude_trust import KEY, KIND, PROJECTS, given, real, taken_back, trustable, value_of
from dogwatch.world.home import Home

EXAMPLE = "dogwatch trust ~/work/app"
DECLINED = 1


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", nargs="?", metavar="DIR", help="the project's folder")
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--undo", action="store_true", help="take back what dogwatch gave, and nothing else")
    how.add_argument("--list", action="store_true", help="show the folders that dogwatch has given trust to")
    parser.add_argument("--yes", action="store_true", help="do not ask; needed where there is no terminal")
    parser.add_argument("--dry-run", action="store_true", help="show the change and make none")
    parser.add_argument("--json", action="store_true", help="print {file, folder, key, before, after, changed, backup}")


def execute(arguments: argparse.Namespace) -> int:
    home = the_home()
    if arguments.list == bool(arguments.folder):
        raise UsageError("give a DIR, or --list", hint="dogwatch trust --help shows what it takes")
    if arguments.list:
        return _list(home, arguments.json)
    if arguments.undo:
        return _undo(home, arguments)
    return _give(home, arguments)


def _give(home: Home, arguments: argparse.Namespace) -> int:
    file = config_file(os.environ)
    folder = trustable(arguments.folder, os.path.expanduser("~"))
    before = value_of(file, read(file), folder)
    given(file, read(file), folder)
    if before is True:
        return _tell(arguments, file, folder, before, True, "already trusted")
    if arguments.dry_run:
        return _tell(arguments, file, folder, before, True, "nothing was changed: --dry-run")
    if not arguments.yes and not _agreed(file, folder, before):
        return DECLINED

    def edit(text: str | None) -> str | None:
        if value_of(file, text, folder) is True:
            return text
        new, to_remember = given(file, text, folder)
        keep(home, to_remember)  # before the change: what was given can always be taken back
        return new

    with only_if_given(home, KIND, file, folder):
        changed = change(file, edit, locked=True)
    return _tell(arguments, file, folder, before, True, "trusted" if changed else "already trusted", changed)


def _agreed(file: str, folder: str, before: object) -> bool:
    """Asks on the terminal; whatever a program is to read stays apart."""
    if not sys.stdin.isatty():
        raise RefusedError(
            f"{folder} was not trusted: there is no terminal to ask on",
            hint="--yes says that you agree; --dry-run shows what would be changed",
        )
    print(_change(file, folder, before, True), file=sys.stderr)
    print(
        f"Settings below {folder} may then run commands as you. Trust it? [y/N] ", end="", file=sys.stderr, flush=True
    )
    if sys.stdin.readline().strip().lower() in ("y", "yes"):
        return True
    print("nothing was changed", file=sys.stderr)
    return False


def _undo(home: Home, arguments: argparse.Namespace) -> int:
    file = config_file(os.environ)
    folder = real(arguments.folder)
    found = gift(home, KIND, file, folder)
    if found is None:
        elsewhere = next((one.file for one in gifts(home) if one.kind == KIND and one.folder == folder), "")
        hint = (
            f"it did so in {elsewhere}: set CLAUDE_CONFIG_DIR as it was then"
            if elsewhere
            else "see dogwatch trust --list"
        )
        raise RefusedError(f"dogwatch has given no trust to {folder} in {file}", hint=hint)
    before = value_of(file, read(file), folder)
    after = value_of(file, taken_back(file, read(file), found), folder)
    if arguments.dry_run:
        return _tell(arguments, file, folder, before, after, "nothing was changed: --dry-run")
    changed = change(file, lambda text: taken_back(file, text, found), locked=True)
    drop(home, found)
    words = "taken back" if changed else "it was not trusted any more"
    return _tell(arguments, file, folder, before, after, words, changed)


def _list(home: Home, as_json: bool) -> int:
    found = [one for one in gifts(home) if one.kind == KIND]
    rows = [{"folder": one.folder, "file": one.file, "trusted": _is_trusted(one)} for one in found]
    if as_json:
        print_json(rows)
        return 0
    for row in rows:
        print(f"{row['folder']}  {'trusted' if row['trusted'] else 'no longer trusted'} in {row['file']}")
    if not rows:
        print("dogwatch has given no trust")
    return 0


def _is_trusted(one: Gift) -> bool:
    try:
        return value_of(one.file, read(one.file), one.folder) is True
    except RefusedError:
        return False


def _tell(
    arguments: argparse.Namespace,
    file: str,
    folder: str,
    before: object,
    after: object,
    words: str,
    changed: bool = False,
) -> int:
    backup = backup_of(file) if changed and os.path.exists(backup_of(file)) else ""
    if arguments.json:
        told = {"file": file, "folder": folder, "key": f"{PROJECTS}[{json.dumps(folder, ensure_ascii=False)}].{KEY}"}
        print_json({**told, "before": before, "after": after, "changed": changed, "backup": backup})
        return 0
    asked = not (arguments.undo or arguments.yes or arguments.dry_run)
    if before != after and not asked:
        print(_change(file, folder, before, after))
    print(f"{words}: {folder}" if not words.endswith("--dry-run") else words)
    if backup:
        print(f"as it was before: {backup}")
    return 0


def _change(file: str, folder: str, before: object, after: object) -> str:
    """What is changed, in three lines."""
    then, now = ("(not set)" if value is None else json.dumps(value) for value in (before, after))
    return f"{file}\n  {PROJECTS} > {folder}\n    {KEY}: {then} -> {now}"
