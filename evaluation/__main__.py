"""`python -m evaluation`: the experiment for real."""

from __future__ import annotations

import sys

from evaluation.real.command import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
