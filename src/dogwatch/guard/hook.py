"""The script that a client runs for each hook event: `python -I -S hook.py EVENT [alone]`, the payload on stdin.

A script is compiled anew each time it is run and a module is not: all it does is to find `fast`.
"""

import sys

if __name__ == "__main__":
    sys.path.insert(0, __file__.rpartition("/dogwatch/")[0])
    from dogwatch.guard.fast import main

    sys.exit(main(sys.argv[1:]))
