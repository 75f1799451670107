"""What a results file was measured on: the commit, and a digest of the sources that its figures depend on.

`RESULTS` names these sources for each results file: what is measured and what measures it, as globs from the root of
the repository; `!` in front takes files out again. Whole folders are named, so that a file that moves within one or a
new folder is not forgotten. A glob that matches nothing is an error.

The digest depends on the files' content alone, so that it tells the same with and without git. The commit is for
people: it says where to look. `changed` compares; it needs no git either.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
KEY = "measured"
PROGRAM = "src/dogwatch/**/*.py"
NO_COMMANDS = "!src/dogwatch/cli/**/*.py"
NO_SIMULATOR = "!src/dogwatch/sim/**/*.py"
NO_INSTRUMENTS = "!src/dogwatch/testing/**/*.py"
CREW = (PROGRAM, NO_COMMANDS, NO_SIMULATOR)
"""All that takes part in a run: the crew, what it calls, and the scripted agent."""
ACCURACY = (*CREW, "bench/accuracy*.py", "bench/lateness.py", "tests/support/fleet.py")

RESULTS: Mapping[str, tuple[str, ...]] = {
    "bench/results/accuracy.json": ACCURACY,
    "bench/results/accuracy-details.json": ACCURACY,
    "bench/results/against.json": (PROGRAM, "bench/*.py"),
    "bench/results/cli.json": (PROGRAM, NO_SIMULATOR, NO_INSTRUMENTS, "bench/cli.py"),
    "bench/results/guard.json": ("src/dogwatch/guard/**/*.py", "tests/data/guard/**/*", "bench/guard.py"),
    "bench/results/hooks.json": (
        "src/dogwatch/guard/**/*.py",
        "src/dogwatch/harness/**/*.py",
        "src/dogwatch/actions/**/*.py",
        "bench/hooks.py",
        "bench/hook_with_jq.sh",
        "bench/data/*.jsonl",
    ),
    "bench/results/ledger.json": (
        "src/dogwatch/ledger/**/*.py",
        "src/dogwatch/model/**/*.py",
        "bench/ledger*.py",
        "bench/bare_postgres.py",
        "bench/rivals.py",
        "bench/servers.py",
    ),
    "bench/results/memory.json": ("src/dogwatch/world/**/*.py", "src/dogwatch/model/**/*.py", "bench/memory.py"),
    "bench/results/sim.json": (PROGRAM, NO_COMMANDS, NO_INSTRUMENTS, "bench/sim.py"),
    "bench/results/sweep.json": (*CREW, NO_INSTRUMENTS, "bench/sweep.py", "bench/deciding.py"),
    "docs/evaluation-real.json": (*CREW, "evaluation/*.py", "evaluation/real/*.py"),
}
"""By results file. What only prints and plots (`bench/harness.py`) changes no figure."""


class NoSuchSourceError(Exception):
    """A glob of `RESULTS` matches no file: something was moved, and the table must follow."""


@dataclass(frozen=True, kw_only=True)
class Provenance:
    """What was measured, and when. `files` has the start of each file's own digest."""

    commit: str
    dirty: bool
    """Whether one of the sources was not as in the commit."""
    date: str
    digest: str
    files: Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class State:
    """What is known of a results file today. Without provenance it is not known what it was measured on."""

    path: str
    provenance: Provenance | None = None
    changed: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return Path(self.path).stem

    @property
    def current(self) -> bool:
        return self.provenance is not None and not self.changed


def sources(globs: Sequence[str], root: Path = ROOT) -> dict[str, str]:
    """The files that the globs mean, in order, with their digests."""
    found: set[Path] = set()
    for glob in globs:
        matching = {path for path in root.glob(glob.removeprefix("!")) if path.is_file()}
        if not matching:
            raise NoSuchSourceError(f"{glob} matches no file below {root}")
        found = found - matching if glob.startswith("!") else found | matching
    ordered = sorted(path.relative_to(root).as_posix() for path in found)
    return {path: hashlib.sha256((root / path).read_bytes()).hexdigest() for path in ordered}


def digest(files: Mapping[str, str]) -> str:
    """One for all of them, names included."""
    lines = "".join(f"{content}  {path}\n" for path, content in sorted(files.items()))
    return hashlib.sha256(lines.encode()).hexdigest()


def take(path: str, root: Path = ROOT) -> Provenance:
    """What a results file that is measured now would be measured on."""
    files = sources(RESULTS[path], root)
    globs = [f":(exclude,glob){glob[1:]}" if glob.startswith("!") else f":(glob){glob}" for glob in RESULTS[path]]
    return Provenance(
        commit=_git(root, "rev-parse", "HEAD").strip(),
        dirty=bool(_git(root, "status", "--porcelain", "--untracked-files=all", "--", *globs)),
        date=datetime.now(UTC).date().isoformat(),
        digest=digest(files),
        files={path: content[:16] for path, content in files.items()},
    )


def measured(path: str, before: Provenance, root: Path = ROOT) -> dict[str, Any]:
    """What goes into the results file, to be put beside its figures. Where a source has changed while they were
    measured, nobody can say what they belong to."""
    if digest(sources(RESULTS[path], root)) != before.digest:
        return {KEY: None}
    return {KEY: asdict(before)}


def state(path: str, root: Path = ROOT) -> State:
    """Whether a results file still tells of the code as it is."""
    found = json.loads((root / path).read_text()).get(KEY)
    now = sources(RESULTS[path], root)
    if found is None:
        return State(path=path)
    provenance = Provenance(**found)
    if provenance.digest == digest(now):
        return State(path=path, provenance=provenance)
    then = provenance.files
    changed = [name for name in {*then, *now} if then.get(name) != now.get(name, "")[:16]]
    return State(path=path, provenance=provenance, changed=tuple(sorted(changed)))


def words(one: State) -> str:
    """The state in a sentence that stays the same from the first change on."""
    if one.provenance is None:
        return "measured before results named their sources: it is not known whether they have changed since"
    commit = f"measured at commit {one.provenance.commit[:10] or 'unknown'}"
    dirty = ", with changes that were not committed," if one.provenance.dirty else ""
    since = "the code has not changed since" if one.current else "the code has changed since"
    return f"{commit}{dirty} on {one.provenance.date}; {since}"


def show_stale(root: Path = ROOT, say: Callable[[str], None] = print) -> bool:
    """Lists the results that no longer tell of the code as it is; whether there are any."""
    states = [state(path, root) for path in RESULTS if (root / path).exists()]
    stale = [one for one in states if not one.current]
    width = max((len(one.path) for one in stale), default=0)
    for one in stale:
        files = f" ({len(one.changed)} of {len(sources(RESULTS[one.path], root))} files)" if one.changed else ""
        say(f"{one.path:{width}}  {words(one)}{files}")
    if not stale:
        say("all figures are current")
    return bool(stale)


def _git(root: Path, *words: str) -> str:
    """Nothing where there is no git or no repository: then the digest must do."""
    try:
        done = subprocess.run(["git", "-C", str(root), *words], capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return done.stdout if done.returncode == 0 else ""
