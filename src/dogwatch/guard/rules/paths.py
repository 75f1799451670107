"""Files that must stay: dogwatch's own, the sockets of tmux, and those of the kernel that act when written."""

from dogwatch.guard.bash.call import Call
from dogwatch.guard.bash.files import normal
from dogwatch.guard.bash.holes import (
    ANY,
    CLOSE,
    DISK,
    DOGWATCH,
    HOME,
    OPEN,
    OWN,
    SELF,
    STAR,
    WILD,
    WORDS,
    hole,
    known,
    shown,
)
from dogwatch.guard.bash.patterns import matches
from dogwatch.guard.bash.redirects import as_data, content_of
from dogwatch.guard.bash.state import NOTHING, UNKNOWN, Io, Texts, World
from dogwatch.guard.rules.options import options
from dogwatch.guard.verdict import deny

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from dogwatch.guard.bash.call import Rule

YOUR_FILES = "write below your project or your output folder; dogwatch's own files are read-only for you"
OWN_NAMES = ("ledger.db", "runs", "tmux", "door", "spool", "bin", "settings.json", "tmux-1000", "default")
"""How files and folders in the protected places are called."""
SETTINGS = {
    ".claude": ("settings.json", "settings.local.json"),
    ".codex": ("config.toml", "hooks.json", ".env", "agents", "rules"),
    ".gemini": ("settings.json", "trustedFolders.json", ".env", "extensions", "policies"),
    ".opencode": ("config.json", "tui.json", "tui.jsonc", "plugin", "plugins", "tool", "tools"),
}
"""The folders of clients, with the files in which hooks are set up and the folders of what a client loads as code or as
rules of its own when it starts next."""
CONFIGS = (".claude.json", "opencode.json", "opencode.jsonc")
"""Such files that may lie in any folder."""
_GLOBS = (STAR, ANY, OPEN, CLOSE)
_TMUX_EXAMPLES = ("tmux-1000", "tmux-0", "tmux-501")


def roots(world: World) -> "Iterator[tuple[str, str]]":
    """The protected places: the rule that protects each, and its path."""
    caller = world.caller
    yield "path.dogwatch", DOGWATCH
    if caller.home:
        yield "path.dogwatch", normal(caller.home)
    else:
        yield "path.dogwatch", f"{HOME}/.local/state/dogwatch"
        if world.home != HOME:
            yield "path.dogwatch", f"{world.home}/.local/state/dogwatch"
    for path in caller.protected:
        yield "path.settings", normal(path)
    for folder in ("/tmp", "/private/tmp", "/var/tmp", "/run/tmux"):  # noqa: S108 - these are looked for, not used
        yield "path.socket", f"{folder}/tmux-"


def may_write(world: World, path: str, given: str) -> None:
    """Denies a write to a path that must stay as it is."""
    _kernel(path, given)
    inside(world, path, given)


def inside(world: World, path: str, given: str) -> None:
    """Denies a change of something within a protected place."""
    rule = _protecting(world, path, whole=False)
    if rule:
        deny(rule, f"{shown(given)} belongs to dogwatch or to a tmux server", YOUR_FILES)


def may_remove(world: World, path: str, given: str, recursive: bool) -> None:
    """Denies the removal of a protected place, of what is in it, and of what it is in."""
    rule = _protecting(world, path, whole=recursive)
    if rule:
        deny(rule, f"{shown(given)} is, holds or belongs to what dogwatch or a tmux server needs", YOUR_FILES)


def _kernel(path: str, given: str) -> None:
    name = path.rpartition("/")[2]
    hint = "this ends or changes processes past all rules; use `kill` on your own"
    if path.startswith("/proc/") or name == "sysrq-trigger":
        owner = path.split("/")[2] if path.count("/") > 1 else ""
        if name != "sysrq-trigger" and (owner == "self" or (owner and all(char in (OWN, SELF) for char in owner))):
            return
        deny("process.proc", f"a write to {shown(given)} acts on processes or on the whole machine", hint)
    if path.startswith("/sys/fs/cgroup") or name.startswith("cgroup."):
        deny("process.cgroup", f"a write to {shown(given)} acts on all processes of a group", hint)
    if path.startswith(("/sys/power", "/sys/kernel", "/dev/initctl", "/run/initctl")):
        deny("machine.power", f"a write to {shown(given)} acts on the whole machine", hint)


def _protecting(world: World, path: str, whole: bool) -> str:
    """The rule that protects the path, "" where none does. `whole`: folders go with all that is in them."""
    cwd = world.caller.cwd
    for rule, root in roots(world):
        if cwd and _within(cwd, root) and _within(path, cwd):
            continue  # the agent's own working folder may lie in there
        if _overlaps(path, root, whole):
            return rule
    return "path.settings" if _holds_hooks(path, whole) else ""


def _holds_hooks(path: str, whole: bool) -> bool:
    """Whether a client's own settings are meant, in which hooks are set up and can be turned off, or what it loads."""
    names = _names(path.replace("/.config/opencode", "/.opencode")) or [""]
    if names[-1] in CONFIGS or (whole and names[-1] in SETTINGS):
        return True
    loaded = ((name, one) for at, name in enumerate(names[1:]) for one in SETTINGS.get(names[at], ()))
    return any(_same_name(name, one) for name, one in loaded)


def _within(path: str, root: str) -> bool:
    return path == root or path.startswith(root.rstrip("/") + "/")


def _overlaps(path: str, root: str, whole: bool) -> bool:
    """Whether the path is the root or in it; with `whole` also whether the root is in the path."""
    ours, theirs = _names(path), _names(root)
    if len(ours) < len(theirs) and not whole:
        return False
    if not path.startswith(("/", HOME, DOGWATCH)):
        return False
    return all(_same_name(one, other) for one, other in zip(ours, theirs, strict=False))


def _names(path: str) -> list[str]:
    return [name for name in path.split("/") if name]


def _same_name(name: str, protected: str) -> bool:
    if protected == "tmux-":
        return name.startswith("tmux-") or (not known(name) and any(_globbed(name, one) for one in _TMUX_EXAMPLES))
    return name == protected or (not known(name) and name not in (HOME, DOGWATCH) and _globbed(name, protected))


def _globbed(name: str, protected: str) -> bool:
    usable = known(protected) and not any(hole(char) and char not in _GLOBS for char in name)
    # A `*` does not mean hidden files.
    return usable and not (protected.startswith(".") and name[:1] in _GLOBS) and matches(name, protected)


# The programs


def removes(call: Call) -> Texts:
    """`rm` and its kin."""
    found = options(call.args, "", ("interactive",), permute=True)
    recursive = found.has("r", "R", "recursive") or call.name in ("trash", "trash-put", "rmtrash")
    for word in found.rest:
        anything = word in (WORDS, WILD)
        may_remove(call.world, call.path(STAR if anything else word), word, recursive)
        call.world.files.written.pop(call.path(word), None)
    return NOTHING


def moves(call: Call) -> Texts:
    """`mv`: what is moved is gone from where it was."""
    found = options(call.args, "tS", ("target-directory", "suffix"), permute=True)
    target, sources = _target(found.value("t", "target-directory"), found.rest)
    for word in sources:
        may_remove(call.world, call.path(word), word, True)
    for word in found.rest:
        inside(call.world, call.path(word), word)
    _copied(call, sources, target, found.value("t", "target-directory") is not None)
    return NOTHING


def copies(call: Call) -> Texts:
    """`cp`, `ln`, `install`: what is written goes on to be known."""
    found = options(call.args, "tSgmo", ("target-directory", "suffix", "mode", "owner", "group"), permute=True)
    target, sources = _target(found.value("t", "target-directory"), found.rest)
    if target:
        may_write(call.world, call.path(target), target)
        if call.name == "rsync" and any(word.startswith("--del") for word in call.args):
            may_remove(call.world, call.path(target), target, True)
    if call.name == "ln" and len(found.rest) == 1:
        target, sources = found.rest[0].rpartition("/")[2], found.rest
    _copied(call, sources, target, found.value("t", "target-directory") is not None)
    return NOTHING


def _target(given: str | None, rest: list[str]) -> tuple[str, list[str]]:
    if given is not None:
        return given, rest
    return (rest[-1], rest[:-1]) if len(rest) > 1 else ("", rest)


def _copied(call: Call, sources: list[str], target: str, is_folder: bool) -> None:
    files = call.world.files
    for source in sources if target else ():
        name = source.rpartition("/")[2]
        folder = is_folder or target.endswith("/") or len(sources) > 1 or target in (".", "..")
        places = [f"{target}/{name}"] if folder else [target, f"{target}/{name}"]
        if folder or target.rpartition("/")[2] in SETTINGS:
            inside(call.world, call.path(places[-1]), places[-1])
        contents = content_of(call.walker, source, call.shell, call.io)
        program = files.program(call.path(source)) or (name if known(name) and call.rules.knows(name) else "")
        for place in places:
            if contents != (DISK,):
                call.walker.write(call.path(place), contents, False, call.shell)
            elif program:
                files.programs[call.path(place)] = program


def changes(call: Call) -> Texts:
    """`chmod`, `chown`, `truncate`, `touch`, `mkdir` and others that change what their arguments name."""
    found = options(call.args, "srogmt", ("size", "reference", "mode", "date", "from"), permute=True)
    recursive = found.has("R", "recursive")
    for word in found.rest:
        if call.name in ("chmod", "chown", "chgrp", "chattr", "setfacl") and recursive:
            may_remove(call.world, call.path(word), word, True)
        else:
            may_write(call.world, call.path(word), word)
    return NOTHING


def tee(call: Call) -> Texts:
    found = options(call.args, "", permute=True)
    contents = as_data(call.stdin() or NOTHING)
    for word in found.rest:
        may_write(call.world, call.path(word), word)
        call.walker.write(call.path(word), contents, found.has("a", "append"), call.shell)
    return contents


def dd(call: Call) -> Texts:
    source = next((word[3:] for word in call.args if word.startswith("if=")), "")
    target = next((word[3:] for word in call.args if word.startswith("of=")), "")
    contents = content_of(call.walker, source, call.shell, call.io) if source else call.stdin() or NOTHING
    if not target:
        return as_data(contents)
    may_write(call.world, call.path(target), target)
    call.walker.write(call.path(target), contents, False, call.shell)
    return NOTHING


def downloads(call: Call) -> Texts:
    """`curl -o file`, `wget -O file`: what stands in the file then, nobody knows."""
    letter = "o" if call.name == "curl" else "O"
    long = ("output", "output-document")
    found = options(call.args, f"{letter}HdXuAeTFbc" if call.name == "curl" else "OoPaiU", long, permute=True)
    names = found.values.get(letter, []) + [text for name in long for text in found.values.get(name, [])]
    for name in names:
        if name != "-":
            may_write(call.world, call.path(name), name)
            call.walker.write(call.path(name), UNKNOWN, False, call.shell)
    return UNKNOWN


def opens(call: Call) -> Texts:
    """Programs that change the file they are given: editors, databases."""
    for word in call.args:
        if not word.startswith("-"):
            inside(call.world, call.path(word), word)
    return UNKNOWN


def pipes(call: Call) -> Texts:
    """`mkfifo`: what will come out of it, nobody knows."""
    for word in call.args:
        may_write(call.world, call.path(word), word)
        call.walker.write(call.path(word), UNKNOWN, False, call.shell)
    return NOTHING


def connects(call: Call) -> Texts:
    """`socat`, `nc -U`: commands for a tmux server may go through its socket; socat also runs commands."""
    for word in call.args:
        for part in word.split(","):
            kind, _, rest = part.partition(":")
            if kind.upper() in ("EXEC", "SYSTEM", "SHELL"):
                call.code(rest, None, Io(UNKNOWN))
            path = rest if kind.upper().startswith(("UNIX", "GOPEN", "ABSTRACT")) else part
            inside(call.world, call.path(path), path)
    found = options(call.args, "ecswpxXqI", ("exec", "sh-exec"), permute=True)
    for text in [text for name in ("e", "exec", "sh-exec") for text in found.values.get(name, [])]:
        call.code(text, None, Io(UNKNOWN))  # it reads what comes in
    for text in found.values.get("c", []):
        call.world.leniently(call.code, text)
    return UNKNOWN


def mounts(call: Call) -> Texts:
    for word in call.args:
        if not word.startswith("-"):
            _kernel(call.path(word), word)
            may_remove(call.world, call.path(word), word, word != "/")
    return UNKNOWN


RULES: "dict[str, Rule]" = {
    **dict.fromkeys(("rm", "unlink", "rmdir", "shred", "srm", "trash", "trash-put", "rmtrash"), removes),
    "mv": moves,
    "rename": moves,
    **dict.fromkeys(("cp", "ln", "install", "scp"), copies),
    **dict.fromkeys(
        ("chmod", "chown", "chgrp", "chattr", "setfacl", "truncate", "touch", "mkdir", "fallocate"), changes
    ),
    "tee": tee,
    "sponge": tee,
    "dd": dd,
    "curl": downloads,
    "wget": downloads,
    "nano": opens,
    "mkfifo": pipes,
    "mknod": pipes,
    **dict.fromkeys(("socat", "nc", "ncat", "netcat"), connects),
    "mount": mounts,
    "umount": mounts,
}
