"""Scripts of sed: which of their commands run something or write somewhere, and what a plain substitution makes."""

from dogwatch.guard.bash.call import Call
from dogwatch.guard.bash.holes import known

_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 _-:;,'\"@%#=<>~!")


def judge_sed(call: Call, script: str) -> None:
    """Denies commands within the script that are denied by themselves."""
    for letter, text in _commands(script):
        if letter == "e":
            if text.strip():
                call.code(text)
            else:
                _runs_data(call)
        elif letter == "s" and "e" in text.partition("w")[0]:
            _runs_data(call)
        if letter in "wW" or (letter == "s" and "w" in text):
            path = text.strip() if letter != "s" else text.partition("w")[2].strip()
            call.rules.may_write(call.world, call.path(path), path)


def _runs_data(call: Call) -> None:
    call.world.unresolved("sed runs what it reads as commands", "let sed only edit, and run commands with the shell")


def _commands(script: str) -> list[tuple[str, str]]:
    """Each command: its letter, and its argument (of `s` its flags)."""
    found: list[tuple[str, str]] = []
    at = 0
    while at < len(script):
        at = _address_end(script, at)
        letter = script[at : at + 1]
        at += 1
        if letter in ("s", "y"):
            delimiter = script[at : at + 1]
            at = _delimited_end(script, _delimited_end(script, at + 1, delimiter), delimiter)
            end = _end_of(script, at, "\n" if "w" in script[at : at + 6].partition(";")[0] else ";}\n")
            found.append((letter, script[at:end]))
            at = end
        elif letter and letter in "aicrRwWe:btT":
            end = _end_of(script, at, "\n" if letter in "aicrRwWe" else ";}\n")
            found.append((letter, script[at:end]))
            at = end
        elif letter:
            found.append((letter, ""))
    return found


def inserted(scripts: list[str]) -> str:
    """The lines that the scripts put into a text: those of `a`, `i` and `c`, and what `s` puts in."""
    found: list[str] = []
    for script in scripts:
        for letter, text in _commands(script):
            if letter and letter in "aic":
                found.append(text.lstrip("\\ \t\n"))
        at = _address_end(script, 0)
        if script[at : at + 1] == "s":
            found += script[at + 2 :].split(script[at + 1 : at + 2] or "/")[1:2]
    return "\n".join(found)


def _address_end(script: str, at: int) -> int:
    """Past blanks, separators and addresses."""
    while at < len(script):
        char = script[at]
        if char.isspace() or char in ";{},!+~$" or char.isdigit():
            at += 1
        elif char == "/":
            at = _delimited_end(script, at + 1, "/")
            while script[at : at + 1] in ("I", "M"):
                at += 1
        elif char == "\\":
            at = _delimited_end(script, at + 2, script[at + 1 : at + 2])
        elif char == "#":
            at = _end_of(script, at, "\n")
        else:
            break
    return at


def _delimited_end(script: str, at: int, delimiter: str) -> int:
    """The place behind the next delimiter that is not escaped or in brackets."""
    while at < len(script) and script[at] != delimiter:
        at += 2 if script[at] == "\\" else 1
    return at + 1


def _end_of(script: str, at: int, ends: str) -> int:
    while at < len(script) and script[at] not in ends:
        at += 1
    return at


def edited(scripts: list[str], text: str) -> str | None:
    """The text after plain substitutions; None where a script does more than that."""
    for script in scripts:
        delimiter = script[1:2]
        parts = script[2:].split(delimiter) if delimiter else []
        if not known(script) or script[:1] != "s" or len(parts) != 3 or parts[2] not in ("", "g"):
            return None
        pattern, replacement, flags = parts
        if not pattern or not set(pattern + replacement) <= _PLAIN or "&" in replacement:
            return None
        count = -1 if flags else 1
        text = "".join(line.replace(pattern, replacement, count) for line in text.splitlines(keepends=True))
    return text
