"""What the experiment shows: what is tried, the table of both starts, and the verdict."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from evaluation.real.pipelines import MB, Size

Figures = Mapping[str, Any]


def about(size: Size) -> str:
    """What is tried, in a sentence."""
    each = size.researchers + 1
    return (
        f"{size.runs} pipelines of {each} agents, up to {round(size.full_mb * 1.25)} MB each and their commands,"
        f" on a machine of {size.limit_mb} MB"
    )


def table(found: Sequence[Figures]) -> list[str]:
    """The starts beside one another."""
    rows = [("", *(str(one["name"]) for one in found))]
    rows += [(name, *(show(one) for one in found)) for name, show in _ROWS]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return [
        "  ".join(
            [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
        )
        for row in rows
    ]


def markdown(found: Sequence[Figures]) -> list[str]:
    """The same for the documentation."""
    lines = ["| | " + " | ".join(str(one["name"]) for one in found) + " |", "|---" * (len(found) + 1) + "|"]
    return lines + [f"| {name} | " + " | ".join(show(one) for one in found) + " |" for name, show in _ROWS]


def _zones(shares: Mapping[str, float] | None) -> str:
    return " / ".join(f"{share:.0%}" for share in shares.values()) if shares else "-"


_ROWS: tuple[tuple[str, Callable[[Figures], str]], ...] = (
    ("delivered", lambda one: f"{one['delivered']} of {one['of']}"),
    ("minutes", lambda one: f"{one['minutes']:.1f}"),
    ("runs at once, at most", lambda one: str(one["at_once_max"])),
    ("lowest memory left", lambda one: f"{one['lowest_left_bytes'] // MB} MB ({one['lowest_left_share']:.0%})"),
    ("GREEN / YELLOW / RED by what was left", lambda one: _zones(one["machine_zones"])),
    ("GREEN / YELLOW / RED as dogwatch saw it", lambda one: _zones(one["dogwatch_zones"])),
    ("processes killed for memory", lambda one: str(one["kills"])),
    ("agents restarted", lambda one: str(one["restarts"])),
    ("agents given up", lambda one: str(one["given_up"])),
    ("idle agents sent to rest", lambda one: str(one["reclaims"])),
    ("launches held", lambda one: ", ".join(f"{count} by {name}" for name, count in one["held"].items()) or "0"),
)


def broken(naive: Figures, admission: Figures) -> list[str]:
    """What was expected and did not come true."""
    found = []
    if naive["delivered"] >= naive["of"]:
        found.append("the naive start has lost no run")
    if not naive["kills"]:
        found.append("the naive start has not run out of memory")
    if admission["delivered"] < admission["of"]:
        found.append(f"with admission {admission['of'] - admission['delivered']} runs were lost")
    if admission["kills"] or admission["restarts"]:
        found.append("with admission agents have died")
    return found
