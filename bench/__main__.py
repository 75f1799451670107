"""`python -m bench [NAME]`: runs all benchmarks or one. Exit code 0 when every target is met, 1 when one is not, 64 for
an unknown name, 130 when interrupted. `python -m bench --stale` lists the results whose sources have changed since they
were measured; exit code 0 when there are none, 1 when there are.

`python -m bench --against REVISION [NAME] [--rounds N]` compares with an older revision, in turns: all benchmarks but
accuracy, or the named one. Exit code 0 when no figure is more than a tenth worse, 1 when one is."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches

from bench import accuracy, against, cli, guard, hooks, ledger, memory, provenance, sim, sweep
from bench.harness import INTERRUPTED, Figure, clean_up_when_interrupted, run

BENCHMARKS: Mapping[str, Callable[[], Sequence[Figure]]] = {
    "accuracy": accuracy.measure,
    "cli": cli.measure,
    "guard": guard.measure,
    "hooks": hooks.measure,
    "ledger": ledger.measure,
    "memory": memory.measure,
    "sim": sim.measure,
    "sweep": sweep.measure,
}
LONG = ("accuracy",)
"""So long that they are compared only where they are named."""
WRONG_USAGE = 64


def main(arguments: Sequence[str]) -> int:
    """Runs what is asked for."""
    if list(arguments) == ["--stale"]:
        return 1 if provenance.show_stale() else 0
    if "--against" in arguments:
        return _against(arguments)
    if wrong := _wrong(arguments):
        print(f"error: {wrong[0]}\nhint: {wrong[1]}", file=sys.stderr)
        return WRONG_USAGE
    clean_up_when_interrupted()
    try:
        results = [run(name, BENCHMARKS[name]) for name in arguments or BENCHMARKS]
    except KeyboardInterrupt:
        return INTERRUPTED
    return 0 if all(results) else 1


def _against(arguments: Sequence[str]) -> int:
    """Compares with an older revision."""
    try:
        revision, names, rounds = _comparing(arguments)
        clean_up_when_interrupted()
        return 0 if against.run(revision, names, rounds) else 1
    except against.AgainstError as error:
        print(f"error: {error}\nhint: {error.hint}", file=sys.stderr)
        return WRONG_USAGE
    except KeyboardInterrupt:
        return INTERRUPTED


def _comparing(arguments: Sequence[str]) -> tuple[str, Sequence[str], int]:
    """The revision, the benchmarks and the number of rounds that the arguments ask for."""
    names, options = list(arguments), {"--rounds": str(against.ROUNDS)}
    for option in ("--against", "--rounds"):
        if option not in names:
            continue
        place = names.index(option)
        if place + 1 == len(names) or names[place + 1].startswith("-"):
            raise against.AgainstError(f"{option} needs a value", "for example: --against HEAD~1 cli --rounds 5")
        options[option] = names[place + 1]
        del names[place : place + 2]
    if wrong := _wrong(names):
        raise against.AgainstError(*wrong)
    rounds = options["--rounds"]
    if not rounds.isascii() or not rounds.isdecimal() or not 1 <= int(rounds) <= against.ROUNDS_MAX:
        hint = f"give a number from 1 to {against.ROUNDS_MAX}; {against.ROUNDS} is the default"
        raise against.AgainstError(f"{rounds} is no number of rounds", hint)
    return options["--against"], names or [name for name in BENCHMARKS if name not in LONG], int(rounds)


def _wrong(arguments: Sequence[str]) -> tuple[str, str] | None:
    """What is wrong with the arguments, and what would be right."""
    hint = f"give no name for all of them, or one of: {', '.join(BENCHMARKS)}; or --stale, --against"
    unknown = [name for name in arguments if name not in BENCHMARKS]
    if unknown:
        close = get_close_matches(unknown[0], BENCHMARKS, 1)
        return f"there is no benchmark {unknown[0]}", f"did you mean {close[0]}?" if close else hint
    if len(arguments) > 1:
        return f"one benchmark at a time, not {' '.join(arguments)}", hint
    return None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
