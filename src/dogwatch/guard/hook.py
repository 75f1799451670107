"""The script that a client runs for each hook event: `python -I -S hook.py EVENT [alone]`, the payload on stdin.

A script is compiled anew each time it is run and a module is not: all it does is to find `fast`.
"""

import sys

if __name__ == "__main__":
    sys.path.insert(0, __file__.rpartition("/dogwatch/")[0])
    try:
        from dogwatch.guard.fast import main

        code = main(sys.argv[1:])
    except Exception as error:
        sys.stderr.write(f"dogwatch: the hook has failed: {type(error).__name__}: {error}\n")
        sys.stderr.write("hint: ask the operator to run `dogwatch doctor`\n")
        code = 2 if sys.argv[1:2] == ["PreToolUse"] else 0
    sys.exit(code)
