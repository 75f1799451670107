"""`python -m bench [NAME]`: runs all benchmarks or one. Exit code 0 when every target is met, 1 when one is not, 64 for
an unknown name, 130 when interrupted. `python -m bench --stale` lists the results whose sources have changed since they
were measured; exit code 0 when there are none, 1 when there are."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches

from bench import accuracy, cli, guard, hooks, ledger, memory, provenance, sim, sweep
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
WRONG_USAGE = 64


def main(arguments: Sequence[str]) -> int:
    """Runs what is asked for."""
    if list(arguments) == ["--stale"]:
        return 1 if provenance.show_stale() else 0
    if wrong := _wrong(arguments):
        print(f"error: {wrong[0]}\nhint: {wrong[1]}", file=sys.stderr)
        return WRONG_USAGE
    clean_up_when_interrupted()
    try:
        results = [run(name, BENCHMARKS[name]) for name in arguments or BENCHMARKS]
    except KeyboardInterrupt:
        return INTERRUPTED
    return 0 if all(results) else 1


def _wrong(arguments: Sequence[str]) -> tuple[str, str] | None:
    """What is wrong with the arguments, and what would be right."""
    hint = f"give no name for all of them, or one of: {', '.join(BENCHMARKS)}; or --stale"
    unknown = [name for name in arguments if name not in BENCHMARKS]
    if unknown:
        close = get_close_matches(unknown[0], BENCHMARKS, 1)
        return f"there is no benchmark {unknown[0]}", f"did you mean {close[0]}?" if close else hint
    if len(arguments) > 1:
        return f"one benchmark at a time, not {' '.join(arguments)}", hint
    return None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
