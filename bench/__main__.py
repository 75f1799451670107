"""`python -m bench [NAME]`: runs all benchmarks or one; exit code 0 when every target is met, 1 when one is not."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence

from bench import accuracy, cli, guard, hooks, ledger, memory, sim, sweep
from bench.harness import Figure, report

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


def main(arguments: Sequence[str]) -> int:
    """Runs what is asked for."""
    unknown = [name for name in arguments if name not in BENCHMARKS]
    if unknown or len(arguments) > 1:
        print(f"error: there is no benchmark {' '.join(unknown or arguments)}", file=sys.stderr)
        print(f"hint: give no name for all of them, or one of: {', '.join(BENCHMARKS)}", file=sys.stderr)
        return 64
    results = [report(name, BENCHMARKS[name]()) for name in arguments or BENCHMARKS]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
