"""Programs that run a command for each of many items: xargs, parallel, find, fd."""

from dogwatch.guard.bash.call import Call
from dogwatch.guard.bash.holes import ANY, CLOSE, DISK, HOME, OPEN, STAR, TAME, WILD, WORDS, hole, known
from dogwatch.guard.bash.patterns import matches, usable
from dogwatch.guard.bash.redirects import content_of
from dogwatch.guard.bash.state import NOTHING, UNKNOWN, Io, Texts, merged
from dogwatch.guard.bash.words import glob
from dogwatch.guard.rules.options import Options, options
from dogwatch.guard.rules.paths import OWN_NAMES, may_remove, may_write

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dogwatch.guard.bash.call import Rule

_ITEMS_MAX = 32


def xargs(call: Call) -> Texts:
    """Runs a command with what is read from standard input behind it, or in place of `{}`."""
    found = options(call.args, "IJRLnPsaEd", ("arg-file", "delimiter", "replace", "max-args", "max-procs", "max-lines"))
    command = found.rest or ["echo"]
    marker = found.value("I", "J", "replace")
    if "replace" in found.flags or "i" in found.flags:
        attached = next((word[2:] for word in call.args if word.startswith("-i")), "")
        marker = attached or "{}"
    file = found.value("a", "arg-file")
    texts = call.stdin() or NOTHING
    if file is not None:
        texts = content_of(call.walker, file, call.shell, call.io)
    outputs: list[str] = []
    for text in texts:
        separators = "\n" if marker else None
        if found.has("0", "null"):
            text = text.replace("\0", "\n")
            separators = "\n"
        plain = known(text) or not any(hole(char) and char not in (STAR, ANY, OPEN, CLOSE, HOME) for char in text)
        items = [_unquoted(item) for item in text.split(separators) if item] if plain else [_loose(text)]
        outputs += _with_items(call, command, items[:_ITEMS_MAX], marker, len(items) > _ITEMS_MAX, found)
    return merged(outputs) if outputs else NOTHING


def _loose(text: str) -> str:
    return text.strip() if len(text.strip()) == 1 and text.strip() not in (WILD, DISK) else WORDS


def _unquoted(item: str) -> str:
    return item.replace("'", "").replace('"', "").replace("\\", "")


def _put(word: str, mark: str, item: str) -> str:
    """The word with the item at its mark. Within other text an unknown item is taken for a plain argument."""
    unknown = WILD if word == mark else TAME
    return word.replace(mark, item.replace(WORDS, unknown).replace(WILD, unknown))


def _with_items(
    call: Call, command: list[str], items: list[str], marker: str | None, more: bool, found: Options
) -> Texts:
    if more:
        items = [*items, WORDS]
    if marker:
        outputs: list[str] = []
        for item in items:
            words = [_put(word, marker, item) for word in command]
            outputs += call.run(words, call.shell.copy(), Io())
        return merged(outputs) if outputs else NOTHING
    if not items and found.has("r", "no-run-if-empty"):
        return NOTHING
    if found.has("n", "max-args", "L", "max-lines") and items:
        outputs = []
        for item in items:
            outputs += call.run([*command, item], call.shell.copy(), Io())
        call.run([*command, *items], call.shell.copy(), Io())
        return merged(outputs)
    return call.run([*command, *items], call.shell.copy(), Io())


def parallel(call: Call) -> Texts:
    """GNU parallel: a script with `{}` in it, and the arguments behind `:::`."""
    marks = (":::", ":::+", "::::", ":::::")
    words = call.args
    cut = next((at for at, word in enumerate(words) if word in marks), len(words))
    found = options(
        words[:cut], "jIaSNnLdCEP", ("jobs", "max-args", "delay", "timeout", "sshlogin", "colsep", "arg-file")
    )
    arguments = [word for word in words[cut:] if word not in marks]
    if cut == len(words):
        texts = call.stdin() or NOTHING
        arguments = [line for text in texts for line in text.splitlines()] if all(map(known, texts)) else [WILD]
    code = " ".join(found.rest)
    if found.has("pipe", "spreadstdin"):
        return call.code(code, None, Io(call.stdin()))
    for item in arguments[:_ITEMS_MAX] or [""]:
        if not code:
            call.code(item)
        else:
            call.code(_filled(code if "{" in code else f"{code} {{}}", item))
    return UNKNOWN


def _filled(code: str, item: str) -> str:
    item = item if code in ("{}", "{1}") else item.replace(WILD, TAME)
    for mark in ("{}", "{.}", "{/}", "{//}", "{1}", "{#}", "{%}", "{2}"):
        code = code.replace(mark, item)
    return code


def find(call: Call) -> Texts:
    """`find … -exec COMMAND \\;`, `-delete`."""
    args = call.args
    starts = []
    for word in args:
        if word.startswith(("-", "(", "!")) and word not in ("-H", "-L", "-P"):
            break
        if not word.startswith("-"):
            starts.append(word)
    names = [args[at + 1] for at, word in enumerate(args[:-1]) if word in ("-name", "-iname", "-path", "-wholename")]
    at = 0
    while at < len(args):
        word = args[at]
        at += 1
        if word in ("-exec", "-execdir", "-ok", "-okdir"):
            end = next((i for i in range(at, len(args)) if args[i] in (";", "+")), len(args))
            _executed(call, args[at:end], starts, names)
            at = end + 1
        elif word == "-delete":
            _removed(call, starts, names)
        elif word in ("-fprint", "-fprintf", "-fls") and at < len(args):
            may_write(call.world, call.path(args[at]), args[at])
    patterns = [glob(name.rpartition("/")[2]) for name in names] or [STAR]
    return ("".join(f"{start}/{pattern}\n" for start in starts for pattern in patterns) or WILD,)


def _executed(call: Call, words: list[str], starts: list[str], names: list[str]) -> None:
    if not words:
        return
    if words[0].rpartition("/")[2] in ("rm", "unlink", "shred", "mv") and any("{}" in word for word in words):
        _removed(call, starts, names)
    call.run([_put(word, "{}", WILD) for word in words], call.shell.copy(), Io())


def _removed(call: Call, starts: list[str], names: list[str]) -> None:
    """Everything below `starts` goes that has one of the names."""
    patterns = [glob(name.rpartition("/")[2]) for name in names]
    ours = any(not usable(one, name) or matches(one, name) for one in patterns for name in OWN_NAMES)
    for start in starts or ["."]:
        may_remove(call.world, call.path(start), start, ours or not patterns)


def fd(call: Call) -> Texts:
    """`fd PATTERN -x COMMAND …`."""
    for at, word in enumerate(call.args):
        if word in ("-x", "--exec", "-X", "--exec-batch"):
            words = [_put(one, "{}", WILD) for one in call.args[at + 1 :] if one != ";"]
            return call.run([*words, WILD], call.shell.copy(), Io()) if words else UNKNOWN
    return UNKNOWN


RULES: "dict[str, Rule]" = {
    **dict.fromkeys(("xargs", "gxargs"), xargs),
    "parallel": parallel,
    **dict.fromkeys(("find", "gfind"), find),
    **dict.fromkeys(("fd", "fdfind"), fd),
}
