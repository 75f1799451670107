"""`echo` and `printf`: what they print can be known, and often a shell stands behind the pipe."""

from dogwatch.guard.bash.assigning import put
from dogwatch.guard.bash.call import Call
from dogwatch.guard.bash.escapes import unescape
from dogwatch.guard.bash.holes import NUMBER, WILD, WORDS, known, wild
from dogwatch.guard.bash.state import NOTHING, Texts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dogwatch.guard.bash.call import Rule

_WIDTH_MAX = 256
_TIMES_MAX = 2000


def echo(call: Call) -> Texts:
    words = call.args
    escapes, newline = False, "\n"
    while words and len(words[0]) > 1 and words[0][0] == "-" and all(char in "neE" for char in words[0][1:]):
        newline = "" if "n" in words[0] else newline
        escapes = "e" in words[0] or (escapes and "E" not in words[0])
        words = words[1:]
    text = " ".join(words).replace(WORDS, WILD)
    return ((unescape(text, "echo") if escapes else text) + newline,)


def printf(call: Call) -> Texts:
    words = call.args
    variable = ""
    if words[:1] == ["-v"] and len(words) > 1:
        variable, words = words[1], words[2:]
    if words[:1] == ["--"]:
        words = words[1:]
    text = printed(words[0], words[1:]) if words else ""
    if not variable:
        return (text,)
    call.walker.hidden(variable, call.shell)
    put(call.walker, variable.partition("[")[0], (text,), call.shell)
    return NOTHING


def printed(form: str, words: list[str]) -> str:
    """What `printf` makes of a format and its arguments."""
    words = [word.replace(WORDS, WILD) for word in words]
    if not known(form):
        return WILD if wild(form) else form + "".join(words)
    if any(WILD in word for word in words) and len(words) > 8:
        return WILD
    made: list[str] = []
    waiting = words[::-1]
    while len(made) < _TIMES_MAX:
        before = len(waiting)
        made.append(_once(form, waiting))
        if not waiting or len(waiting) == before:
            return "".join(made)
    return WILD


def _once(form: str, waiting: list[str]) -> str:
    """One pass through the format; the words that wait are taken from the end of the list."""
    made: list[str] = []
    at = 0
    while at < len(form):
        start = form.find("%", at)
        if start < 0:
            made.append(unescape(form[at:], "printf"))
            break
        made.append(unescape(form[at:start], "printf"))
        end = start + 1
        while end < len(form) and form[end] in "-+ #0123456789.*'(":
            end += 1
        directive = form[end : end + 1]
        at = end + 1
        if directive == "(":
            return WILD
        if directive == "%":
            made.append("%")
            continue
        flags = form[start + 1 : end]
        if "*" in flags:
            return WILD
        made.append(_directive(directive, flags, waiting.pop() if waiting else ""))
    return "".join(made)


def _directive(letter: str, flags: str, word: str) -> str:
    if letter in "sbq":
        text = unescape(word, "echo") if letter == "b" else word
        left, _, precision = flags.partition(".")
        if precision and known(text):
            text = text[: int(precision)] if precision.isdigit() else text
        width = left.lstrip("-+ #0")
        if width.isdigit() and known(text):
            wanted = min(int(width), _WIDTH_MAX)
            text = text.ljust(wanted) if "-" in left else text.rjust(wanted)
        return WILD if letter == "q" and not text.replace("_", "a").isalnum() and known(text) else text
    if letter == "c":
        return word[:1]
    if letter == "":
        return "%"
    if not known(word):
        return NUMBER
    value = _numeric(word)
    if value is None or flags.strip("0123456789"):
        return NUMBER
    digits = {
        "d": str(value),
        "i": str(value),
        "u": str(value),
        "x": f"{value:x}",
        "X": f"{value:X}",
        "o": f"{value:o}",
    }
    made = digits.get(letter, NUMBER)
    width = flags.lstrip("0")
    if not width or not known(made):
        return made
    filler = "0" if flags.startswith("0") else " "
    return made.rjust(min(int(width), _WIDTH_MAX), filler)


def _numeric(word: str) -> int | None:
    """A number as printf reads it; `'A` is the code of A."""
    if word[:1] in ("'", '"'):
        return ord(word[1]) if len(word) > 1 else 0
    try:
        if word.startswith("0") and len(word) > 1 and word.isdigit():
            return int(word, 8)
        return int(word, 0) if word and len(word) < 20 else 0 if not word else None
    except ValueError:
        return None


RULES: "dict[str, Rule]" = {"echo": echo, "printf": printf}
