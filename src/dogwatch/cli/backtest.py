"""Replay recorded runs with other thresholds, and say what would have come earlier, later, wrongly or not at all.

The policies that ran then run again on the recorded events and spools, once with the recorded limits and once with
those of --set. Nothing is written. Without --set it says only how well the record can be replayed (docs/backtest.md).
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dogwatch.cli.framework import open_ledger, print_json, the_home
from dogwatch.cli.table import clean, columns, number, paint, wants_colour, width_of
from dogwatch.errors import UsageError

if TYPE_CHECKING:
    from dogwatch.sim.hindsight import Backtest, Difference

EXAMPLE = "dogwatch backtest overnight-1 overnight-2 --set stall.tier2_s=300 --set nudge_s=20"
PREFIXES = ("stall", "limits")
UNKNOWABLE = "what a changed threshold would have led to after its first effect on a stall cannot be known"


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", nargs="+", metavar="RUN", help="exact names of runs that are over")
    parser.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help="another limit; stall.NAME and limits.NAME too"
    )
    parser.add_argument("--json", action="store_true", help="print a list with one object for each run")


def execute(arguments: argparse.Namespace) -> int:
    from dogwatch.sim.hindsight import backtest
    from dogwatch.sim.recording import read_recording

    changes = settings(arguments.set)
    home = the_home()
    ledger = open_ledger(home)
    # All of them first: a slip in the last name should not come after minutes of replaying.
    recordings = [read_recording(ledger, home, run) for run in dict.fromkeys(arguments.run)]
    found = [backtest(recording, changes) for recording in recordings]
    if arguments.json:
        print_json([plain(one) for one in found])
        return 0
    for one in found:
        print("\n".join(_shown(one)))
    print("\n".join(_limits_of_it(found)))
    return 0


def settings(words: Sequence[str]) -> dict[str, float]:
    """The limits that --set names, checked like those of a pipeline file."""
    from dogwatch.cli.run import overrides
    from dogwatch.sim.hindsight import NOT_REPLAYED
    from dogwatch.spec.problem import did_you_mean

    known = _limits()
    found = {}
    for key, text in overrides(list(words)).items():
        prefix, dot, name = key.rpartition(".")
        if prefix == "memory":
            raise UsageError(
                f"--set {key}: memory zones cannot be replayed",
                hint="readings are recorded only when the zone changes, not between",
            )
        if name not in known or (dot and prefix not in PREFIXES):
            word = name if prefix in ("", *PREFIXES) else key
            raise UsageError(f"--set {key}: there is no such limit", hint=did_you_mean(word, known))
        if name in NOT_REPLAYED:
            raise UsageError(f"--set {key}: it cannot be replayed: {NOT_REPLAYED[name]}", hint=_replayable(known))
        found[name] = _value(key, name, text)
    return found


def _limits() -> list[str]:
    from dogwatch.model.plan import Limits

    return [field.name for field in dataclasses.fields(Limits)]


def _replayable(known: Sequence[str]) -> str:
    from dogwatch.sim.hindsight import NOT_REPLAYED

    return f"these can: {', '.join(name for name in known if name not in NOT_REPLAYED)}"


def _value(key: str, name: str, text: str) -> float:
    from pydantic import ValidationError

    from dogwatch.spec.schema import Limits
    from dogwatch.spec.source import scalar

    try:
        value: float = getattr(Limits.model_validate({name: scalar(text)}), name)
    except ValidationError as error:
        problem = error.errors()[0]["msg"]
        raise UsageError(f"--set {key}={text}: {problem}", hint="docs/reference/spec.md explains each limit") from None
    except ValueError as error:
        raise UsageError(f"--set {key}={text}: {error}", hint="a number") from None
    return value


def plain(found: Backtest) -> Mapping[str, Any]:
    """The result for programs."""
    from dogwatch.sim.hindsight import UNREPLAYED

    rounded = [_plain_difference(one) for one in found.differences]
    return {
        "run": found.run,
        "set": {name: {"recorded": old, "changed": new} for name, (old, new) in found.changes.items()},
        "fidelity": dataclasses.asdict(found.fidelity),
        "not_recorded": UNREPLAYED,
        "differences": rounded,
        "summary": _counts(found),
        "notes": [*found.notes, UNKNOWABLE],
    }


def _plain_difference(one: Difference) -> Mapping[str, Any]:
    told = dataclasses.asdict(one) | {"difference_s": one.difference_s}
    return {name: round(value, 3) if isinstance(value, float) else value for name, value in told.items()}


def _counts(found: Backtest) -> dict[str, int]:
    names = ("earlier", "later", "never", "new", "graver", "milder")
    counts = {name: sum(one.change == name for one in found.differences) for name in names}
    counts |= {name: sum(one.verdict == name for one in found.differences) for name in ("right", "wrong", "late")}
    counts["unknown"] = sum(one.verdict == "unknown" for one in found.differences)
    return counts | {"following": found.following}


def _shown(found: Backtest) -> Iterator[str]:
    colour = wants_colour(sys.stdout)
    changes = ", ".join(f"{name} {old:g} → {new:g}" for name, (old, new) in found.changes.items())
    yield paint(found.run, "bold", colour=colour) + f": {changes or 'no limit is changed'}"
    if found.differences:
        rows = [_row(one) for one in found.differences]
        heading = ("AT", "AGENT", "WHAT", "RECORDED", "CHANGED", "DIFFERENCE", "JUDGED")
        yield from (f"  {line}" for line in columns(heading, rows, colour=colour, width=_width()))
    yield f"  {summary(found)}"
    fidelity = found.fidelity
    share = f"{fidelity.reproduced} of {number(fidelity.recorded, 'recorded alert')}"
    alone = f", {fidelity.unaided} by events and spools alone" if fidelity.recorded else ""
    yield f"  fidelity: the replay finds {share} again within {fidelity.within_s:g} s{alone}"
    yield from (clean(f"    not: {line}") for line in fidelity.missing)
    yield from (clean(f"    more: {line}") for line in fidelity.extra)
    yield from (clean(f"  note: {line}") for line in found.notes)


def _limits_of_it(found: Sequence[Backtest]) -> Iterator[str]:
    """What no replay can know."""
    from dogwatch.sim.hindsight import UNREPLAYED

    yield from (f"not recorded: {what}: {instead}" for what, instead in UNREPLAYED.items())
    if any(one.differences for one in found):
        yield f"note: {UNKNOWABLE}"


def _width() -> int | None:
    width = width_of(sys.stdout)
    return width - 2 if width is not None else None


def summary(found: Backtest) -> str:
    """What it comes to, in one line."""
    if not found.differences:
        return "nothing would have been different"
    counts = _counts(found)
    words = {"earlier": "earlier", "later": "later", "never": "not at all", "new": "new"}
    words |= {"graver": "as a graver alert", "milder": "as a milder alert"}
    came = ", ".join(f"{counts[name]} {word}" for name, word in words.items() if counts[name])
    judged = ", ".join(f"{counts[name]} {name}" for name in ("right", "wrong", "late", "unknown") if counts[name])
    follow = "follows" if found.following == 1 else "follow"
    more = f"; {found.following} more {follow} from these and cannot be known" if found.following else ""
    return f"{number(len(found.differences), 'difference')}: {came}; judged: {judged}{more}"


def _row(one: Difference) -> tuple[str, ...]:
    what = f"{one.what} ({one.diagnosis})" if one.diagnosis else one.what
    recorded = one.recorded_s if one.recorded_s is not None else one.baseline_s
    if_ = ", if nothing but hooks showed life" if one.assumed else ""
    judged = f"{one.verdict}: {one.why}{if_}"
    return (_at(one.at_s), one.agent or "-", what, _at(recorded), _at(one.changed_s), difference(one), judged)


def difference(one: Difference) -> str:
    """What is different, as people say it."""
    from dogwatch.sim.aftermath import span

    if one.change == "new":
        return "new"
    if one.change == "never":
        return "would not have come"
    if one.change in ("graver", "milder"):
        return f"as a {one.change} alert"
    words = f"{span(abs(one.difference_s or 0.0))} {one.change}"
    return f"{words}, had it lasted" if one.lasting else words


def _at(seconds: float | None) -> str:
    """A time in the run."""
    if seconds is None:
        return "-"
    whole = int(seconds)
    return f"{whole // 3600}:{whole % 3600 // 60:02d}:{whole % 60:02d}"
