"""Look at the ledger, check it, move it, copy it, or put its old events into the archive.

info: what the ledger is and how much is in it
check: whether it is whole, and the records agree with the events
migrate: move everything to another engine or server, and seal the old ledger
export: write everything as JSON lines
import: fill an empty ledger from such a file
compact: put old events into the ledger's own compressed archive, which `dogwatch events` still reads
adopt: take over a ledger on a server from a machine that is gone for good

Exit codes of check: 0 nothing is wrong, 1 something is.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from dogwatch.cli.checks import size
from dogwatch.cli.framework import print_json, the_home
from dogwatch.cli.ledger_moves import adopt, compact, export, import_, migrate, open_for_maintenance
from dogwatch.cli.table import columns, duration, number, wants_colour
from dogwatch.coordination.auditing import disagreements
from dogwatch.errors import LedgerCorruptError
from dogwatch.ledger.api import Reader
from dogwatch.ledger.checking import problems
from dogwatch.ledger.copying import counted
from dogwatch.ledger.facts import facts, sql
from dogwatch.ledger.migrations import VERSION

EXAMPLE = "dogwatch ledger migrate --to postgresql://dogwatch@db.example/dogwatch --dry-run"
PROBLEMS_FOUND = 1


def configure(parser: argparse.ArgumentParser) -> None:
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="info|check|migrate|export|import|compact|adopt")

    def verb(name: str, text: str) -> argparse.ArgumentParser:
        return verbs.add_parser(name, help=text, description=f"{text[0].upper()}{text[1:]}.", allow_abbrev=False)

    for found in (verb("info", "say what it is and how much is in it"), verb("check", "look for what is wrong")):
        found.add_argument("--json", action="store_true", help="print one JSON document (docs/reference/json.md)")
    move = verb("migrate", "move everything to another engine or server")
    target = move.add_mutually_exclusive_group(required=True)
    target.add_argument("--to", metavar="URL", help="postgresql://…, or sqlite:///PATH; it must be empty")
    target.add_argument("--undo", action="store_true", help="give up a move that was not finished")
    out = verb("export", "write everything as JSON lines")
    out.add_argument("file", metavar="FILE", help="a new file, compressed where it ends with .gz; - is standard output")
    into = verb("import", "fill an empty ledger from such a file")
    into.add_argument("file", metavar="FILE", help="what export wrote; - is standard input")
    small = verb("compact", "put old events into the archive")
    small.add_argument("--keep", default="30d", metavar="TIME", help="events younger than this stay (default 30d)")
    over = verb("adopt", "take over a ledger on a server from a machine that is gone")
    for parts in (move, out, into, small, over):
        parts.add_argument("--dry-run", action="store_true", help="check everything and say what would be done")


def execute(arguments: argparse.Namespace) -> int:
    verbs = {"info": info, "check": check, "migrate": migrate, "export": export, "import": import_}
    return {**verbs, "compact": compact, "adopt": adopt}[arguments.verb](arguments)


def info(arguments: argparse.Namespace) -> int:
    """What the ledger is."""
    home = the_home()
    with open_for_maintenance(home) as (name, ledger):

        def look(reader: Reader) -> dict[str, object]:
            first, last = sql(reader).rows("SELECT min(wall), max(wall) FROM events")[0]
            ((parts, archived),) = sql(reader).rows("SELECT count(*), coalesce(sum(events), 0) FROM archives")
            held = [{"name": lease.name, "holder": lease.holder, "fence": lease.fence} for lease in reader.leases("")]
            return {"facts": {"version": str(VERSION), **facts(reader)}, "counts": counted(reader), "leases": held} | {
                "events": {"oldest": first, "newest": last, "archived": int(archived), "archive_parts": parts}
            }

        found: dict[str, Any] = {"ledger": name, **ledger.measures(), **ledger.read(look)}
    if arguments.json:
        print_json(found)
        return 0
    rows = [("ledger", name), ("engine", str(found["engine"])), ("size", size(int(str(found["bytes"]))))]
    rows += [(key.replace("_", " "), str(value)) for key, value in found["facts"].items()]
    rows += [(f"{kind}s", f"{count:,}") for kind, count in found["counts"].items()]
    events = found["events"]
    if events["oldest"] is not None:
        rows.append(("oldest live event", f"{duration(time.time() - events['oldest'])} ago"))
    if events["archived"]:
        rows.append(("in the archive", f"{events['archived']:,} events in {number(events['archive_parts'], 'part')}"))
    known = ("ledger", "engine", "bytes", "facts", "counts", "events", "leases")
    others = [(key.replace("_", " "), value) for key, value in found.items() if key not in known]
    rows += [(key, f"{value:,}" if isinstance(value, int) else value) for key, value in others]
    rows += [("held", f"{lease['name']} by {lease['holder']} (fence {lease['fence']})") for lease in found["leases"]]
    width = max(len(key) for key, _ in rows)
    print("\n".join(f"{key:<{width}}  {value}" for key, value in rows))
    return 0


@contextlib.contextmanager
def _damage(found: list[tuple[str, str]]) -> Iterator[None]:
    """What is too badly damaged to be read is one finding, and not the end of the search."""
    try:
        yield
    except LedgerCorruptError as error:
        if ("engine", error.message) not in found:
            found.append(("engine", error.message))


def _collect(look: Callable[[Reader], Iterator[str]], lines: list[str], reader: Reader) -> None:
    lines.clear()
    for line in look(reader):
        lines.append(line)


def check(arguments: argparse.Namespace) -> int:
    """Whether it is whole."""
    home = the_home()
    found: list[tuple[str, str]] = []
    counts: dict[str, int] = {}
    name = home.ledger
    with _damage(found), open_for_maintenance(home) as (known, ledger):
        name = known
        with _damage(found):
            found += [("engine", line) for line in ledger.integrity()]
        for part, look in (("tables", problems), ("records", disagreements)):
            lines: list[str] = []
            with _damage(found):
                ledger.read(partial(_collect, look, lines))
            found += [(part, line) for line in lines]
        counts = ledger.read(counted)
    if arguments.json:
        listed = [{"part": part, "problem": line} for part, line in found]
        print_json({"ledger": name, "ok": not found, "counts": counts, "problems": listed})
    elif found:
        print("\n".join(columns(("part", "problem"), found, colour=wants_colour(sys.stdout), width=None)))
    else:
        words = ", ".join(f"{count:,} {kind}s" for kind, count in counts.items())
        print(f"nothing is wrong with {name}: {words}")
    return PROBLEMS_FOUND if found else 0
