"""The command line of both experiments: `python -m evaluation [real|overnight] [options]`.

Without a name it is the real one.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

from dogwatch.cli.framework import INTERRUPTED, show_error
from dogwatch.errors import DogwatchError, UsageError
from evaluation.overnight import command as overnight
from evaluation.real import command as real

EXPERIMENTS: dict[str, tuple[Callable[[Sequence[str]], int], str]] = {
    "real": (
        real.main,
        "real processes: more pipelines than the machine holds, naively and with admission (10 min)",
    ),
    "overnight": (overnight.main, "simulated: 12 pipelines in one night under three policies (20 s a seed)"),
}
DEFAULT = "real"


def main(words: Sequence[str]) -> int:
    """Runs the experiment that the words name; never a traceback for what a user can do wrong."""
    try:
        if words and words[0] in ("-h", "--help", "help"):
            print(overview())
            return 0
        name, options = (words[0], words[1:]) if words and not words[0].startswith("-") else (DEFAULT, words)
        if name not in EXPERIMENTS:
            raise UsageError(f"there is no experiment {name!r}", hint=f"{' or '.join(EXPERIMENTS)}")
        return EXPERIMENTS[name][0](options)
    except DogwatchError as error:
        return show_error(error)
    except KeyboardInterrupt:
        return INTERRUPTED


def overview() -> str:
    """Both experiments, one line each."""
    lines = ["Measures what admission is worth.", "", "usage: python -m evaluation [EXPERIMENT] [options]", ""]
    lines += [f"  {name:<10} {text}" for name, (_, text) in EXPERIMENTS.items()]
    lines += ["", f"Without a name it is {DEFAULT}. python -m evaluation EXPERIMENT --help shows its options."]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
