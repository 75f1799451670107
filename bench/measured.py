"""Pages of the docs say of their figures what they were measured on, and whether the code has changed since.

A page asks for it with two comments, and `make docs` writes what stands between them:

    <!-- measured: guard hooks -->
    <!-- /measured -->

The words are the name of a results file each, without its ending. The text changes once when the code changes and once
when the figures are measured again, not with each commit.
"""

from __future__ import annotations

import re
from pathlib import Path

from bench.provenance import RESULTS, state, words

MARKED = re.compile(r"(<!-- measured: ([a-z -]+) -->\n).*?(<!-- /measured -->)", re.DOTALL)
COMMANDS = {"evaluation-real": "make evaluation"}


class NoSuchResultsError(Exception):
    """A page names figures that no results file has."""


def pages(root: Path) -> dict[Path, str]:
    """The pages with such comments, and what they should be."""
    found = {}
    for path in [root / "README.md", *sorted((root / "docs").rglob("*.md"))]:
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        if MARKED.search(text):
            found[path] = MARKED.sub(lambda match: f"{match[1]}{lines(match[2].split(), root)}{match[3]}", text)
    return found


def lines(names: list[str], root: Path) -> str:
    """A line for each results file."""
    paths = {Path(path).stem: path for path in RESULTS}
    if unknown := [name for name in names if name not in paths]:
        raise NoSuchResultsError(f"there are no results {', '.join(unknown)}; there are: {', '.join(paths)}")
    found = ((COMMANDS.get(name, f"make bench NAME={name}"), words(state(paths[name], root))) for name in names)
    return "".join(f"> Figures of `{command}`: {said}.\n" for command, said in found)
