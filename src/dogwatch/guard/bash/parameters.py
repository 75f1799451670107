"""Parameters: `$name` and all that `${name…}` can do, as far as it can be known."""

from dogwatch.guard.bash.arithmetic import calculate
from dogwatch.guard.bash.escapes import unescape
from dogwatch.guard.bash.holes import DOGWATCH, NUMBER, OWN, PARENT, SELF, TAME, WILD, known, without_holes
from dogwatch.guard.bash.patterns import replaced, usable, without_prefix, without_suffix
from dogwatch.guard.bash.state import UNKNOWN, Array, Shell, Texts, Value, merged, plain, text_of
from dogwatch.guard.bash.tree import Parameter, Word

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dogwatch.guard.bash.interfaces import Expander

Chunk = tuple[str, Texts]
"""How a piece of a word goes on ("quoted", "literal", "split", "list", "split list"), and its texts."""

_NUMBERS = (
    "RANDOM",
    "SRANDOM",
    "SECONDS",
    "LINENO",
    "UID",
    "EUID",
    "EPOCHSECONDS",
    "EPOCHREALTIME",
    "SHLVL",
    "COLUMNS",
)
_FIXED: dict[str, Texts] = {
    "$": (SELF,),
    "BASHPID": (SELF,),
    "!": (OWN,),
    "PPID": (PARENT,),
    "?": (NUMBER,),
    "PIPESTATUS": (NUMBER,),
    "-": (TAME,),
    "IFS": (" \t\n",),
    "BASH": ("/bin/bash",),
    "SHELL": ("/bin/bash",),
    "TMUX": ("/tmp/tmux-1000/default,1,0",),  # noqa: S108 - it stands for whatever it is
    "TMUX_TMPDIR": ("/tmp",),  # noqa: S108
    "DOGWATCH_HOME": (DOGWATCH,),
    "DOGWATCH_DOOR": (DOGWATCH,),
    "DOGWATCH_SPOOL": (DOGWATCH,),
    "BASH_EXECUTION_STRING": UNKNOWN,
    "BASH_REMATCH": UNKNOWN,
    "REPLY": UNKNOWN,
    "OPTARG": UNKNOWN,
}
_BELOW_HOME = {"DOGWATCH_HOME": "", "DOGWATCH_DOOR": "/runs/run/door", "DOGWATCH_SPOOL": "/runs/run/spool/agent"}
_PROGRAMS = {"EDITOR": "vi", "VISUAL": "vi", "PAGER": "less", "BROWSER": "xdg-open", "PY": "python3"} | {
    name: name.lower()
    for name in (
        "PYTHON PYTHON2 PYTHON3 PIP PIP3 NODE NPM NPX YARN PNPM BUN DENO CC CXX CPP AR LD MAKE CMAKE CARGO RUSTC GO "
        "JAVA JAVAC MVN GRADLE GIT DOCKER KUBECTL CURL WGET SUDO AWK SED GREP TAR RUBY PERL PHP LUA TMUX KILL PKILL "
        "KILLALL PYTEST MYPY RUFF BASH SH ZSH UV POETRY TERRAFORM HELM PSQL MYSQL SQLITE3 ADB FLUTTER DART SWIFT"
    ).split()
}
"""Variables that by convention name a program, where nothing says what they hold."""


def lookup(name: str, shell: Shell, expander: "Expander") -> Value:
    """The value of a variable; () where it is surely not set."""
    name = shell.references.get(name, name)
    if name in shell.variables:
        return shell.variables[name]
    if name.isdigit():
        at = int(name) if len(name) < 6 else 99999
        if at == 0:
            return shell.name
        return merged(fields[at - 1] for fields in shell.positional if len(fields) >= at)
    if name in ("@", "*"):
        mark = expander.separators(shell)[:1] if name == "*" else " "
        return merged(mark.join(fields) for fields in shell.positional)
    if name == "#":
        counts = {len(fields) for fields in shell.positional}
        return tuple(str(count) for count in counts)
    caller = expander.world.caller
    if name in _BELOW_HOME:
        return ((caller.home or DOGWATCH) + _BELOW_HOME[name],)
    if name in _FIXED and not (name.startswith("TMUX") and name in caller.env):
        return _FIXED[name]
    if name in _NUMBERS:
        return (NUMBER,)
    if name == "_":
        return shell.last
    if name == "PWD":
        return (shell.cwd or TAME,)
    if name == "HOME":
        return (expander.world.home,)
    if name == "FUNCNAME":
        return (expander.world.calls[-1],) if expander.world.calls else ()
    if name in caller.env:
        return (caller.env[name],)
    return (_PROGRAMS.get(name, TAME),)


def perhaps_unset(name: str, shell: Shell, expander: "Expander") -> bool:
    """Whether the variable comes from the environment, or from nowhere."""
    known_names = name in shell.variables or name in expander.world.caller.env or name in _FIXED or name in _NUMBERS
    return not known_names and (name[0].isalpha() or name[0] == "_") and name not in ("HOME", "PWD", "_", "FUNCNAME")


def parameter(expander: "Expander", part: Parameter, shell: Shell, quoted: bool) -> list[Chunk]:
    """What the parameter may become: one piece for each alternative."""
    kind = "quoted" if quoted else "split"
    if part.mark == "!" and part.op in ("@", "*"):
        return [(kind, UNKNOWN)]
    if part.mark == "#":
        return [(kind, (_length(expander, part, shell),))]
    name = part.name
    if part.mark == "!" and not _whole(expander, part, shell):
        target = plain(text_of(lookup(name, shell, expander)))
        if target is None or not target:
            return [(kind, UNKNOWN)]
        name, _, index = target.partition("[")
        if index:
            value = lookup(name, shell, expander)
            return [(kind, (text,)) for text in (value.any() if isinstance(value, Array) else UNKNOWN)]
    lists = _lists(expander, part, name, shell)
    if lists is not None:
        star = (plain(expander.text(part.index, shell)) if part.index is not None else name) == "*"
        return _many(expander, part, shell, lists, quoted, star)
    value = lookup(name, shell, expander)
    texts = _element(expander, value, part.index, shell) if part.index is not None else text_of(value)
    made = _operated(expander, part, name, texts, shell)
    return [(kind, (text,)) for text in made or ("",)]


def _whole(expander: "Expander", part: Parameter, shell: Shell) -> bool:
    return part.index is not None and plain(expander.text(part.index, shell)) in ("@", "*")


def _lists(expander: "Expander", part: Parameter, name: str, shell: Shell) -> list[Texts] | None:
    """The lists that `$@` or `${name[@]}` may be; None for a parameter that is one text."""
    if name in ("@", "*"):
        return list(shell.positional)
    if not _whole(expander, part, shell):
        return None
    value = lookup(name, shell, expander)
    if part.mark == "!":
        return [tuple(value.items) if isinstance(value, Array) and not value.more else UNKNOWN]
    if not isinstance(value, Array):
        return [(text,) for text in value] or [()]
    found: list[Texts] = [()]
    for texts in value.values():
        if len(found) * len(texts) > 16:
            texts = UNKNOWN
        found = [(*one, text) for one in found for text in texts]
    return found


def _many(
    expander: "Expander", part: Parameter, shell: Shell, lists: list[Texts], quoted: bool, star: bool
) -> list[Chunk]:
    found: list[Chunk] = []
    for items in lists:
        if part.op == ":":
            items = _slice(expander, part.words[0], items, shell)
        elif part.op in ("-", ":-", "+", ":+", "=", ":=", "?", ":?"):
            present = bool(items) and (part.op[0] != ":" or any(items))
            if present != (part.op[-1] == "+"):
                items = items if part.op[-1] != "+" else ()
            else:
                items = expander.text(part.words[0], shell)
        elif part.op:
            items = tuple(text for item in items for text in _operated(expander, part, "", (item,), shell) or ("",))
        if not quoted:
            found.append(("split list", items))
        elif star:
            found.append(("quoted", (expander.separators(shell)[:1].join(items),)))
        else:
            found.append(("list", items))
    return found


def _slice(expander: "Expander", word: Word, items: Texts, shell: Shell) -> Texts:
    """`${@:from:count}`."""
    numbers = _numbers(expander, word, shell)
    if numbers is None or numbers[0] < 0:
        return (WILD,)
    start, count = numbers[0], numbers[1]
    whole = (*shell.name, *items) if items in shell.positional else items
    return whole[start:] if count is None else whole[start : start + count] if count >= 0 else (WILD,)


def _numbers(expander: "Expander", word: Word, shell: Shell) -> tuple[int, int | None] | None:
    """The two numbers of a slice; None where one is not known."""
    text = plain(expander.text(word, shell))
    if text is None:
        return None
    first, colon, second = text.partition(":")

    def value(name: str) -> int | None:
        found = plain(text_of(lookup(name, shell, expander)))
        return int(found) if found and found.lstrip("-").isdigit() and len(found) < 16 else None

    start = calculate(first, value) if first.strip() else 0
    count = calculate(second, value) if colon else None
    if start is None or (colon and count is None):
        return None
    return start, count


def _element(expander: "Expander", value: Value, index: Word, shell: Shell) -> Texts:
    key = plain(expander.text(index, shell))
    if not isinstance(value, Array):
        return value
    if key is not None and key not in value.items and not key.isdigit():
        # Not a key of its own: an expression.
        key = expander.walker.calculated((key,), shell)
    if key is None or not known(key):
        return value.any() or UNKNOWN
    if key.startswith("-") and key[1:].isdigit():
        values = value.values()
        at = int(key)
        return values[at] if -len(values) <= at else ()
    return value.items.get(key, value.more)


def _length(expander: "Expander", part: Parameter, shell: Shell) -> str:
    value = lookup(part.name, shell, expander)
    if part.name in ("@", "*") or (part.index is not None and isinstance(value, Array)):
        return NUMBER
    text = plain(text_of(value))
    return NUMBER if text is None or part.index is not None else str(len(text))


def _operated(expander: "Expander", part: Parameter, name: str, texts: Texts, shell: Shell) -> Texts:
    op = part.op
    if not op:
        return texts
    if op in ("-", ":-", "=", ":=", "+", ":+", "?", ":?"):
        return _conditional(expander, part, name, texts, shell)
    if op[0] in "@":
        return merged(_transformed(expander, text, op, shell) for text in texts)
    if op == ":":
        numbers = _numbers(expander, part.words[0], shell)
        return merged(_part(text, numbers) for text in texts)
    if op[0] in "^,~":
        return merged(_cased(text, op, bool(part.words[0].parts)) for text in texts)
    patterns = expander.pattern(part.words[0], shell)
    replacements = expander.text(part.words[1], shell) if len(part.words) > 1 else ("",)
    return merged(
        _patterned(text, op, pattern, replacement)
        for text in texts
        for pattern in patterns
        for replacement in replacements
    )


def _conditional(expander: "Expander", part: Parameter, name: str, texts: Texts, shell: Shell) -> Texts:
    op = part.op
    other = expander.text(part.words[0], shell)
    unset = perhaps_unset(name, shell, expander) if name else False
    if op[-1] == "+":
        missing = not texts or (op == ":+" and texts == ("",))
        return ("",) if missing else merged((*other, "")) if unset or "" in texts else other
    if op[-1] == "?":
        return texts
    if unset:
        # What the environment does not name is taken as not set: the default is what the author had in mind.
        made = other
    elif not texts:
        made = other
    elif op[0] == ":" and "" in texts:
        made = merged((*(text for text in texts if text), *other))
    else:
        made = texts
    if op[-1] == "=" and name and made is not texts:
        shell.variables[name] = made
        expander.world.remember(name, made)
    return made


def _transformed(expander: "Expander", text: str, op: str, shell: Shell) -> str:
    """`${name@U}` and its like."""
    if op == "@P":
        expander.walker.hidden(text, shell)
        return WILD
    if not known(text):
        return text if op in ("@Q", "@A", "@K", "@k") else WILD
    made = {"@U": text.upper(), "@L": text.lower(), "@u": text[:1].upper() + text[1:]}
    if op == "@E":
        return unescape(text, "printf")
    return made.get(op, WILD)


def _part(text: str, numbers: tuple[int, int | None] | None) -> str:
    """`${text:start:count}`."""
    if not known(text):
        return text if text == NUMBER else WILD
    if numbers is None:
        return WILD if text else ""
    start, count = numbers
    if start < 0:
        start = len(text) + start
        if start < 0:
            return ""
    if count is None:
        return text[start:]
    return text[start : start + count] if count >= 0 else text[start : len(text) + count]


def _cased(text: str, op: str, patterned: bool) -> str:
    if not known(text):
        return text if without_holes(text) == "" else WILD
    if patterned:
        return WILD
    change = str.upper if op[0] == "^" else str.lower if op[0] == "," else str.swapcase
    return change(text) if len(op) == 2 else change(text[:1]) + text[1:]


def _patterned(text: str, op: str, pattern: str, replacement: str) -> str:
    if not usable(pattern, text):
        # A number stays one whatever is cut off; a path of the environment stays tame.
        return text if without_holes(text) == "" and WILD not in text and op[0] in "#%" else WILD
    if op[0] == "#":
        return without_prefix(text, pattern, len(op) == 2)
    if op[0] == "%":
        return without_suffix(text, pattern, len(op) == 2)
    made = replaced(text, pattern, replacement, op)
    return WILD if made is None else made
