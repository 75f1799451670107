"""Builtins of the shell that change its state: variables, functions, aliases, parameters, traps."""

from dogwatch.guard.bash.assigning import put
from dogwatch.guard.bash.call import Call
from dogwatch.guard.bash.files import normal
from dogwatch.guard.bash.holes import DISK, TAME, WILD, WORDS, known
from dogwatch.guard.bash.redirects import as_data, content_of
from dogwatch.guard.bash.state import NOTHING, UNKNOWN, Array, Texts, merged
from dogwatch.guard.rules.options import options

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dogwatch.guard.bash.call import Rule

_LINES_MAX = 32
_NUMERIC_TESTS = ("-v", "-eq", "-ne", "-lt", "-le", "-gt", "-ge")
PLAIN = "write what is to be run into the command itself"


def change_folder(call: Call) -> Texts:
    words = [word for word in call.args if word not in ("-L", "-P", "-e", "--")]
    target = words[0] if words else call.world.home
    if call.name == "popd" or target == "-" or (call.name == "pushd" and target[:1] in "+-"):
        call.shell.cwd = TAME
    else:
        text = target.replace(WILD, TAME).replace(WORDS, TAME)
        call.shell.cwd = normal(text, call.shell.cwd)
    call.shell.variables["OLDPWD"] = (TAME,)
    return NOTHING


def print_folder(call: Call) -> Texts:
    return (call.shell.cwd or TAME,)


def declare(call: Call) -> Texts:
    """`export`, `declare`, `local`, `readonly`, `typeset`."""
    shell = call.shell
    flags = ""
    for word in call.args:
        if word[:1] in ("-", "+") and known(word):
            flags += word[1:]
            continue
        name, equals, value = word.partition("=")
        if "[" in name:
            call.walker.hidden(name, shell)
        appends = name.endswith("+")
        name = name.removesuffix("+")
        if not known(name) or not name:
            continue
        name = name.partition("[")[0]
        if call.name in ("local", "declare", "typeset") and shell.locals is not None and "g" not in flags:
            shell.locals.setdefault(name, shell.variables.get(name))
        if "n" in flags and equals:
            shell.references[name] = value.partition("[")[0]
            continue
        for letter in "ul":
            if letter in flags:
                shell.cases[name] = letter
        if equals:
            texts: Texts = (value,)
            if "i" in flags:
                texts = (call.walker.calculated(texts, shell),)
            put(call.walker, name, texts, shell, appends)
        elif call.name != "export" and call.name != "readonly" and name not in shell.variables:
            shell.variables[name] = Array({}) if "a" in flags or "A" in flags else ()
    return UNKNOWN if "p" in flags or "f" in flags else NOTHING


def unset(call: Call) -> Texts:
    for word in call.args:
        name = word.partition("[")[0]
        call.walker.hidden(word, call.shell)
        if "-f" in call.args:
            call.shell.functions.pop(word, None)
        elif not word.startswith("-") and name == word:
            call.shell.variables[name] = ()
            call.shell.references.pop(name, None)
    return NOTHING


def set_options(call: Call) -> Texts:
    """`set -- words` sets the positional parameters."""
    words = call.args
    while words:
        word = words[0]
        if word == "--":
            call.shell.positional = (tuple(words[1:]),)
            return NOTHING
        if word[:1] not in ("-", "+") or word in ("-", "+"):
            call.shell.positional = (tuple(words),)
            return NOTHING
        words = words[2:] if word.endswith("o") and len(words) > 1 else words[1:]
    return NOTHING if call.args else UNKNOWN


def shift(call: Call) -> Texts:
    text = call.args[0] if call.args else "1"
    if text.isdigit():
        call.shell.positional = tuple(dict.fromkeys(fields[int(text[:6]) :] for fields in call.shell.positional))
    else:
        call.shell.positional = ((WILD,) * 9,)
    return NOTHING


def evaluate(call: Call) -> Texts:
    words = call.args[1:] if call.args[:1] == ["--"] else call.args
    return call.walker.code(" ".join(words).replace(WORDS, WILD), call.shell, call.io) if words else NOTHING


def source(call: Call) -> Texts:
    """`source FILE`: run in this very shell."""
    words = call.args[1:] if call.args[:1] == ["--"] else call.args
    if not words:
        return NOTHING
    contents = content_of(call.walker, words[0], call.shell, call.io)
    outputs: list[str] = []
    for content in contents:
        if content == DISK:
            call.world.files.ran.append((call.path(words[0]), "sh"))
            outputs += UNKNOWN
            continue
        before = call.shell.positional
        if len(words) > 1:
            call.shell.positional = (tuple(words[1:]),)
        outputs += call.world.within(content, call.walker.code, content, call.shell, call.io)
        call.shell.positional = before
    return merged(outputs) if outputs else NOTHING


def alias(call: Call) -> Texts:
    for word in call.args:
        name, equals, value = word.partition("=")
        if equals and known(name):
            call.shell.aliases[name] = (value,)
    return UNKNOWN


def unalias(call: Call) -> Texts:
    for word in call.args:
        call.shell.aliases.pop(word, None)
    return NOTHING


def trap(call: Call) -> Texts:
    """What a trap runs is judged at the end: by then the variables in it may be anything they ever were."""
    words = call.args[1:] if call.args[:1] == ["--"] else call.args
    if len(words) > 1 and words[0] not in ("-", "", "-p", "-l"):
        call.world.traps.append(words[0])
    return NOTHING


def read(call: Call) -> Texts:
    """`read`: every line that is waiting may be the one that is read."""
    found = options(call.args, "adinNptu")
    number = found.value("u")
    texts = call.shell.fds.get(int(number), UNKNOWN) if number and number.isdigit() else call.stdin()
    array = found.value("a")
    names = [name for name in found.rest if known(name)] or ["REPLY"]
    lines: list[str] | None = []
    for text in as_data(texts if texts is not None else UNKNOWN):
        if known(text) or len(text.strip()) == 1:
            lines = lines + text.splitlines() if lines is not None else None
        else:
            lines = None
    separators = call.walker.expander.separators(call.shell)
    if lines is not None and (len(lines) > _LINES_MAX or separators == WILD):
        lines = None
    for name in names:
        call.walker.hidden(name, call.shell)
    if array is not None:
        fields = [line.split(None) if separators == " \t\n" else _split(line, separators) for line in lines or []]
        known_fields = lines is not None and len(fields) == 1
        items: dict[str, Texts] = {str(at): (field,) for at, field in enumerate(fields[0])} if known_fields else {}
        call.shell.variables[array] = Array(items, () if known_fields else UNKNOWN)
        return NOTHING
    for at, name in enumerate(names):
        values = _column(lines, at, at == len(names) - 1, separators) if lines is not None else UNKNOWN
        put(call.walker, name.partition("[")[0], values or ("",), call.shell)
    return NOTHING


def _split(line: str, separators: str) -> list[str]:
    for char in separators[1:]:
        line = line.replace(char, separators[0])
    return line.split(separators[0]) if separators else [line]


def _column(lines: list[str], at: int, last: bool, separators: str) -> Texts:
    """What a variable of `read` gets of each line: one field, the last variable all that is left."""
    found: list[str] = []
    for line in lines:
        if separators == " \t\n":
            fields = line.split(None, at) if last else line.split()
        else:
            parts = _split(line, separators)
            fields = [*parts[:at], (separators[:1] or " ").join(parts[at:])] if last else parts
        found.append(fields[at].strip() if at < len(fields) else "")
    return merged(found)


def read_array(call: Call) -> Texts:
    """`mapfile`: the lines that are waiting, as an array; `-C` runs code for them."""
    found = options(call.args, "nOsuCcd")
    code = found.value("C")
    if code is not None:
        call.code(code)
    texts = as_data(call.stdin() or UNKNOWN)
    name = found.rest[0] if found.rest else "MAPFILE"
    text = texts[0] if len(texts) == 1 else WILD
    if known(text) or len(text.strip()) == 1:
        lines = text.splitlines()[:200]
        call.shell.variables[name] = Array({str(at): (line,) for at, line in enumerate(lines)})
    else:
        call.shell.variables[name] = Array({}, UNKNOWN)
    call.world.remember(name, call.shell.variables[name])
    return NOTHING


def let(call: Call) -> Texts:
    for word in call.args:
        call.walker.calculated((word,), call.shell)
    return NOTHING


def test(call: Call) -> Texts:
    if any(word in _NUMERIC_TESTS for word in call.args):
        for word in call.args:
            call.walker.hidden(word, call.shell)
    return NOTHING


def leave(call: Call) -> Texts:
    """`return`, `break`, `continue`: what comes behind may not be reached."""
    if call.name == "return" and call.world.exits:
        call.world.exits[-1].append(call.shell.copy())
    elif call.name in ("break", "continue"):
        for states in call.world.loops[-1:]:
            states.append(call.shell.copy())
    return NOTHING


def hash_program(call: Call) -> Texts:
    """`hash -p PATH NAME` makes a name mean another program."""
    found = options(call.args, "p")
    path = found.value("p")
    if path is not None:
        for name in found.rest:
            call.shell.programs[name] = path
    return NOTHING


def enable(call: Call) -> Texts:
    found = options(call.args, "f")
    if found.has("f"):
        call.world.unresolved(f"`{call.shown}` loads code into the shell that cannot be read", PLAIN)
    return NOTHING


def get_options(call: Call) -> Texts:
    if len(call.args) > 1 and known(call.args[1]):
        put(call.walker, call.args[1], (TAME,), call.shell)
    return NOTHING


def completion(call: Call) -> Texts:
    """`complete`, `compgen`, `bind`: some options are code."""
    found = options(call.args, "ACFGPSWXox")
    for text in [*found.values.get("C", []), *found.values.get("x", [])]:
        code = text.partition(":")[2].strip("\"' ") if call.name == "bind" else text
        call.world.leniently(call.code, code)
    for text in found.values.get("W", []):
        call.walker.hidden(text, call.shell)
    return UNKNOWN


def history(call: Call) -> Texts:
    """`fc` runs earlier commands again."""
    if call.name == "fc" and not any(word.startswith("-") and "l" in word for word in call.args):
        call.world.unresolved(f"`{call.shown}` runs earlier commands again, which cannot be known", PLAIN)
    return UNKNOWN


def kind_of(call: Call) -> Texts:
    found = options(call.args, "")
    if found.flags & {"p", "P"} and all(map(known, found.rest)):
        return ("".join(f"/usr/bin/{name}\n" for name in found.rest),)
    return UNKNOWN


def nothing(call: Call) -> Texts:
    return NOTHING


RULES: "dict[str, Rule]" = {
    **dict.fromkeys(("cd", "pushd", "popd", "chdir"), change_folder),
    "pwd": print_folder,
    **dict.fromkeys(("export", "declare", "local", "readonly", "typeset"), declare),
    "unset": unset,
    "set": set_options,
    "shift": shift,
    "eval": evaluate,
    **dict.fromkeys(("source", "."), source),
    "alias": alias,
    "unalias": unalias,
    "trap": trap,
    "read": read,
    **dict.fromkeys(("mapfile", "readarray"), read_array),
    "let": let,
    **dict.fromkeys(("test", "["), test),
    **dict.fromkeys(("return", "break", "continue"), leave),
    "hash": hash_program,
    "enable": enable,
    "getopts": get_options,
    **dict.fromkeys(("complete", "compgen", "bind", "compopt"), completion),
    **dict.fromkeys(("fc", "history"), history),
    "type": kind_of,
    **dict.fromkeys(("exit", "wait", "bg", "fg", "disown", "shopt", "ulimit", "umask", "times", "logout"), nothing),
}
