"""Programs whose output can be known: what they print may be run by a shell behind the pipe."""

from dogwatch.guard.bash.call import Call
from dogwatch.guard.bash.escapes import unescape
from dogwatch.guard.bash.holes import DOGWATCH, GENERATED, HOME, NUMBER, TAME, WILD, hole, known
from dogwatch.guard.bash.parameters import lookup
from dogwatch.guard.bash.redirects import as_data, content_of
from dogwatch.guard.bash.state import NOTHING, UNKNOWN, Texts, followed, merged, text_of
from dogwatch.guard.rules.options import options
from dogwatch.guard.rules.paths import may_write
from dogwatch.guard.rules.scripts import edited as put_in

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from dogwatch.guard.bash.call import Rule

_GENERATORS = {
    **dict.fromkeys(("pyenv", "rbenv", "nodenv", "goenv", "jenv"), ("init", "virtualenv-init")),
    **dict.fromkeys(("starship", "zoxide", "atuin", "thefuck", "mcfly"), ("init",)),
    **dict.fromkeys(("kubectl", "helm", "gh", "npm", "docker", "pip", "deno", "glab"), ("completion",)),
    **dict.fromkeys(("rustup", "poetry", "bun"), ("completions",)),
    "direnv": ("hook", "export"),
    "brew": ("shellenv",),
    "minikube": ("docker-env", "podman-env", "completion"),
    "conda": ("shell.bash", "shell.zsh", "shell.posix"),
    "fnm": ("env",),
    "mise": ("activate", "env", "hook-env"),
    "opam": ("env",),
    "docker-machine": ("env",),
    "luarocks": ("path",),
    "uv": ("generate-shell-completion",),
    "dogwatch": ("completions",),
}
_ALWAYS_GENERATE = ("ssh-agent", "keychain", "dircolors", "lesspipe", "register-python-argcomplete", "gpg-agent")
GENERATED_CODE: Texts = (GENERATED,)
_LINES_MAX = 200


def nothing(call: Call) -> Texts:
    return NOTHING


def tame(call: Call) -> Texts:
    """Prints plain facts: a path, a date, a name."""
    return (TAME,)


def number(call: Call) -> Texts:
    return (NUMBER,)


def generates(call: Call) -> bool:
    """Whether the command prints code for the shell that starts it, and is known for it."""
    verb = next((word for word in call.args if not word.startswith("-")), "")
    return verb in _GENERATORS.get(call.name, ()) or call.name in _ALWAYS_GENERATE


def cat(call: Call) -> Texts:
    found = options(call.args, "", permute=True)
    paths = found.rest or ["-"]
    output: Texts = NOTHING
    for path in paths[:32]:
        output = followed(output, as_data(content_of(call.walker, path, call.shell, call.io)))
    return UNKNOWN if len(paths) > 32 else output


def printenv(call: Call) -> Texts:
    """`printenv NAME` prints what `$NAME` is."""
    names = [word for word in call.args if not word.startswith("-")]
    values = text_of(lookup(names[0], call.shell, call.walker.expander)) if len(names) == 1 and known(names[0]) else ()
    return tuple(f"{value}\n" for value in values) or (UNKNOWN if not names else NOTHING)


def _mapped(call: Call, change: "Callable[[str], str | None]", paths: list[str] | None = None) -> Texts:
    """Standard input, or the files, changed; unknown where that is not known or the change cannot say."""
    texts: Texts = call.stdin() or NOTHING
    if paths and paths != ["-"]:
        texts = merged(text for path in paths for text in content_of(call.walker, path, call.shell, call.io))
    made = []
    for text in as_data(texts):
        changed = change(text) if known(text) else None
        made.append(WILD if changed is None else changed)
    return merged(made) if made else NOTHING


def base64(call: Call) -> Texts:
    found = options(call.args, "wiob", ("wrap", "input", "output", "break"), permute=True)
    return _mapped(call, decode_base64 if found.has("d", "D", "decode") else encode_base64, found.rest)


def openssl(call: Call) -> Texts:
    if not call.args or call.args[0] not in ("base64", "enc") or "-d" not in call.args:
        return UNKNOWN
    return _mapped(call, decode_base64) if "base64" in " ".join(call.args) or "-a" in call.args else UNKNOWN


def decode_base64(text: str) -> str | None:
    import binascii

    try:
        return binascii.a2b_base64(text).decode("utf-8", "replace")
    except ValueError:
        return None


def encode_base64(text: str) -> str:
    import binascii

    return binascii.b2a_base64(text.encode("utf-8", "surrogateescape")).decode("ascii")


def xxd(call: Call) -> Texts:
    flags = "".join(word[1:] for word in call.args if word.startswith("-"))
    if "p" not in flags:
        return UNKNOWN

    def change(text: str) -> str | None:
        if "r" not in flags:
            return text.encode("utf-8", "surrogateescape").hex()
        try:
            return bytes.fromhex("".join(text.split())).decode("utf-8", "replace")
        except ValueError:
            return None

    return _mapped(call, change)


def rev(call: Call) -> Texts:
    return _mapped(call, lambda text: "\n".join(line[::-1] for line in text.split("\n")), call.args)


def tac(call: Call) -> Texts:
    return _mapped(call, lambda text: "".join(reversed(text.splitlines(keepends=True))), call.args)


def tr(call: Call) -> Texts:
    found = options(call.args, "")
    if found.flags - {"d"} or not found.rest or not all(map(known, found.rest)):
        return UNKNOWN
    source = _set(found.rest[0])
    if found.has("d"):
        return _mapped(call, lambda text: text.translate(dict.fromkeys(map(ord, source))))
    target = _set(found.rest[1]) if len(found.rest) > 1 else ""
    if not target:
        return UNKNOWN
    target += target[-1] * (len(source) - len(target))
    table = {ord(one): other for one, other in reversed(list(zip(source, target, strict=False)))}
    return _mapped(call, lambda text: text.translate(table))


def _set(text: str) -> str:
    """The characters that a set of `tr` names."""
    lower = "abcdefghijklmnopqrstuvwxyz"
    names = {"[:lower:]": lower, "[:upper:]": lower.upper(), "[:digit:]": "0123456789", "[:space:]": " \t\n\r\f\v"}
    for name, chars in names.items():
        text = text.replace(name, chars)
    text = unescape(text, "printf")
    made: list[str] = []
    at = 0
    while at < len(text):
        if text[at + 1 : at + 2] == "-" and at + 2 < len(text) and text[at] <= text[at + 2]:
            made += map(chr, range(ord(text[at]), min(ord(text[at + 2]), ord(text[at]) + 512) + 1))
            at += 3
        else:
            made.append(text[at])
            at += 1
    return "".join(made)


def head(call: Call) -> Texts:
    """`head` and `tail`: the first or last lines."""
    words = [f"-n{word[1:]}" if word[1:].isdigit() and word[0] == "-" else word for word in call.args]
    found = options(words, "nc", ("lines", "bytes"), permute=True)
    count = found.value("n", "lines") or "10"
    if found.has("c", "bytes", "f", "F") or not count.lstrip("+").isdigit():
        return UNKNOWN
    wanted = int(count.lstrip("+")[:9])

    def change(text: str) -> str:
        lines = text.splitlines(keepends=True)
        if call.name == "head":
            return "".join(lines[:wanted])
        return "".join(lines[wanted - 1 :] if count[0] == "+" else lines[-wanted:] if wanted else [])

    texts = call.stdin() or NOTHING
    return texts if not found.rest and _one_hole(texts) else _mapped(call, change, found.rest)


def passes(call: Call) -> Texts:
    """`sort`, `uniq`, `grep`: some of what they read; all of it at most. Some of their options write or run."""
    for at, word in enumerate(call.args):
        option, equals, value = word.partition("=")
        following = value if equals else call.args[at + 1] if at + 1 < len(call.args) else ""
        if call.name == "sort" and (option in ("-o", "--output") or (word.startswith("-o") and len(word) > 2)):
            path = following if option in ("-o", "--output") else word[2:]
            may_write(call.world, call.path(path), path)
        elif option in ("--pre", "--compress-program", "--hostname-bin") and following:
            call.code(following)
    texts = as_data(call.stdin() or NOTHING)
    if _one_hole(texts):
        return texts
    files = [word for word in call.args if not word.startswith("-")]
    if call.stdin() is None or (files and call.name in ("sort", "uniq")):
        return UNKNOWN
    return merged((*texts, WILD))


def _one_hole(texts: Texts) -> bool:
    return all(len(text.strip()) == 1 and not known(text) for text in texts)


def cut(call: Call) -> Texts:
    found = options(call.args, "cfdb", ("characters", "fields", "delimiter", "bytes"), permute=True)
    fields = found.value("f", "fields")
    chars = found.value("c", "characters", "b", "bytes")
    mark = found.value("d", "delimiter") or "\t"
    wanted = _range(fields or chars or "")
    if wanted is None:
        return UNKNOWN

    def change(text: str) -> str:
        lines = []
        for line in text.splitlines():
            parts = line.split(mark) if fields else list(line)
            chosen = parts[wanted[0] - 1 : wanted[1]]
            lines.append((mark if fields else "").join(chosen) if len(parts) > 1 or not fields else line)
        return "\n".join(lines) + "\n"

    return _mapped(call, change, found.rest)


def _range(text: str) -> tuple[int, int] | None:
    first, dash, last = text.partition("-")
    if not all(part.isdigit() or not part for part in (first, last)) or not text or len(text) > 12:
        return None
    start = int(first or 1)
    return start, int(last) if last else 10**6 if dash else start


def seq(call: Call) -> Texts:
    found = [word for word in call.args if not word.startswith("-") or word[1:].isdigit()]
    numbers = [int(word) for word in found if word.lstrip("-").isdigit() and len(word) < 10]
    if len(numbers) != len(call.args) or not 1 <= len(numbers) <= 3:
        return (NUMBER,)
    first = numbers[0] if len(numbers) > 1 else 1
    step = numbers[1] if len(numbers) == 3 else 1
    last = numbers[-1]
    values = range(first, last + (1 if step > 0 else -1), step) if step else range(0)
    return ("".join(f"{value}\n" for value in values),) if len(values) <= _LINES_MAX else (NUMBER,)


def basename(call: Call) -> Texts:
    plain = all(not hole(char) or char in (HOME, DOGWATCH) for word in call.args for char in word)
    if not call.args or not plain or call.args[0].startswith("-"):
        return (TAME,)
    path = call.args[0].rstrip("/")
    if call.name == "dirname":
        folder, slash, _ = path.rpartition("/")
        return ((folder or ("/" if slash else ".")) + "\n",)
    name = path.rpartition("/")[2]
    suffix = call.args[1] if len(call.args) > 1 else ""
    return ((name.removesuffix(suffix) if suffix != name else name) + "\n",)


def listed(call: Call) -> Texts:
    """`ls -d PATTERN` prints what it was given."""
    words = [word for word in call.args if not word.startswith("-")]
    only_names = any(word.startswith("-") and "d" in word for word in call.args)
    return ("".join(f"{word}\n" for word in words),) if words and only_names else UNKNOWN


def which(call: Call) -> Texts:
    names = [word for word in call.args if not word.startswith("-")]
    return ("".join(f"/usr/bin/{name}\n" for name in names),) if all(map(known, names)) else (TAME,)


def sed(call: Call) -> Texts:
    """Most of sed only edits; its `e` runs commands and its `w` writes files."""
    from dogwatch.guard.languages.sed import edited, inserted, judge_sed

    found = options(call.args, "efl", ("expression", "file", "line-length"), permute=True)
    scripts = found.values.get("e", []) + found.values.get("expression", [])
    files = found.values.get("f", []) + found.values.get("file", [])
    rest = found.rest
    if not scripts and not files and rest:
        scripts, rest = [rest[0]], rest[1:]
    for file in files:
        scripts += [text for text in content_of(call.walker, file, call.shell, call.io) if known(text)]
    for script in scripts:
        judge_sed(call, script)
    in_place = found.has("i", "in-place")

    def change(text: str) -> str | None:
        return edited(scripts, text) if not found.has("n") else None

    if in_place:
        for path in rest:
            may_write(call.world, call.path(path), path)
            place = call.path(path)
            contents = call.world.files.read(place)
            made = [change(one) if known(one) else None for one in contents]
            if made and None not in made:
                call.walker.write(place, merged(one or "" for one in made), False, call.shell)
            elif place in call.world.files.written:
                call.walker.write(place, UNKNOWN, False, call.shell)
            else:
                put_in(call, path, inserted(scripts))
        return NOTHING
    return _mapped(call, change, rest)


RULES: "dict[str, Rule]" = {
    **dict.fromkeys((":", "true", "false", "sleep", "usleep"), nothing),
    **dict.fromkeys(("date", "hostname", "whoami", "id", "uname", "arch", "mktemp", "realpath", "readlink"), tame),
    **dict.fromkeys(
        ("getconf", "tty", "logname", "groups", "lsb_release", "tput", "uuidgen", "md5sum", "sha256sum"), tame
    ),
    **dict.fromkeys(("wc", "nproc"), number),
    **dict.fromkeys(("cat", "bat"), cat),
    "printenv": printenv,
    "base64": base64,
    "gbase64": base64,
    "openssl": openssl,
    "xxd": xxd,
    "rev": rev,
    "tac": tac,
    "tr": tr,
    "head": head,
    "tail": head,
    **dict.fromkeys(("sort", "uniq", "grep", "egrep", "fgrep", "rg", "shuf"), passes),
    "cut": cut,
    "seq": seq,
    "basename": basename,
    "dirname": basename,
    "ls": listed,
    "which": which,
    **dict.fromkeys(("sed", "gsed"), sed),
}
