"""What stands on an agent's PATH before `tmux`, `kill`, `pkill` and `killall`: it judges the call, then becomes it.

It catches what a script or a program starts without the guard having read it. It is run as
`python -I -S wrapper.py FOLDER NAME [argument …]`, where FOLDER is its own place on the PATH.
"""

import os
import sys

NAMES = ("tmux", "kill", "pkill", "killall")


def main(arguments: list[str]) -> int:
    """The exit code of a call that is refused; another does not return."""
    own, *words = arguments
    name = words[0]
    program = next((path for folder in _behind(own) if os.access(path := f"{folder}/{name}", os.X_OK)), "")
    if not program:
        os.write(2, f"{name}: command not found\n".encode())
        return 127
    try:
        from dogwatch.guard.full import judge_words

        verdict = judge_words(words)
    except Exception as error:
        os.write(2, f"dogwatch: the guard has failed: {type(error).__name__}: {error}\n".encode("utf-8", "replace"))
        os.write(2, b"hint: ask the operator to run `dogwatch doctor`\n")
        return 2
    if verdict.allowed:
        os.execv(program, words)  # noqa: S606 - no shell is wanted
    os.write(2, verdict.said().encode("utf-8", "replace"))
    return 2


def _behind(own: str) -> list[str]:
    """The folders of the PATH behind this one: before it there may be another such folder, which looks here next."""
    folders = [folder for folder in os.environ.get("PATH", os.defpath).split(":") if folder]
    here = os.path.realpath(own)
    mine = [at for at, folder in enumerate(folders) if os.path.realpath(folder) == here]
    return folders[mine[-1] + 1 :] if mine else folders


if __name__ == "__main__":
    sys.path.insert(0, __file__.rpartition("/dogwatch/")[0])
    sys.exit(main(sys.argv[1:]))
