"""Which functions of python give which values, run commands, send signals or change files."""

from dogwatch.guard.bash.holes import DOGWATCH, TAME, WILD, character, known
from dogwatch.guard.languages.python_texts import KEPT, RISKY, UNKNOWN, Value, as_text

RUNS: dict[str, str] = {
    # what the first arguments are: "shell": a script; "words": the words themselves; "list": a list of them;
    # "either": a list, or a script with shell=True; "file list", "file words": the program, then its words;
    # "mode …": one argument before that
    **dict.fromkeys(("os.system", "os.popen", "subprocess.getoutput", "subprocess.getstatusoutput"), "shell"),
    **dict.fromkeys(("commands.getoutput", "commands.getstatusoutput", "asyncio.create_subprocess_shell"), "shell"),
    **dict.fromkeys(("pexpect.spawn", "pexpect.run", "invoke.run", "fabric.local", "posix.system"), "shell"),
    **dict.fromkeys(("IPython.get_ipython.system", "os.popen2", "os.popen3", "os.popen4"), "shell"),
    **dict.fromkeys(
        ("subprocess.run", "subprocess.call", "subprocess.check_call", "subprocess.check_output", "subprocess.Popen"),
        "either",
    ),
    **dict.fromkeys(("psutil.Popen", "pty.spawn"), "either"),
    "asyncio.create_subprocess_exec": "words",
    **dict.fromkeys(("os.execl", "os.execle", "os.execlp", "os.execlpe"), "file words"),
    **dict.fromkeys(("os.execv", "os.execve", "os.execvp", "os.execvpe", "posix.execv", "posix.execve"), "file list"),
    **dict.fromkeys(("os.posix_spawn", "os.posix_spawnp"), "file list"),
    **dict.fromkeys(("os.spawnl", "os.spawnle", "os.spawnlp", "os.spawnlpe"), "mode file words"),
    **dict.fromkeys(("os.spawnv", "os.spawnve", "os.spawnvp", "os.spawnvpe"), "mode file list"),
}
KILLS = frozenset(("os.kill", "os.killpg", "posix.kill", "posix.killpg", "signal.pidfd_send_signal"))
CODE = frozenset("eval exec builtins.eval builtins.exec __builtins__.eval __builtins__.exec".split())
REMOVES = {
    "os.remove": False,
    "os.unlink": False,
    "os.rmdir": False,
    "shutil.rmtree": True,
    "os.removedirs": False,
    "shutil.move": True,
    "os.rename": True,
    "os.replace": True,
    "os.renames": True,
}
CHANGES = frozenset(
    "os.chmod os.chown os.truncate os.mkdir os.makedirs os.symlink os.link os.mkfifo shutil.copy shutil.copyfile"
    " shutil.copy2 shutil.copytree".split()
)
_OWN = frozenset(
    "subprocess.Popen os.fork os.forkpty pty.fork multiprocessing.Process psutil.Popen os.getpid os.getpgrp os.spawnl"
    " os.spawnlp os.spawnv os.spawnvp os.spawnve os.posix_spawn os.posix_spawnp asyncio.create_subprocess_exec"
    " asyncio.create_subprocess_shell".split()
)
_LOOKS_UP = ("pgrep", "pidof", "lsof", "fuser", "ps")
_SAME = frozenset(
    "str int list tuple bytes bytearray set sorted os.fsencode os.fsdecode os.getpgid os.path.abspath".split()
)
_PATHS = frozenset("os.path.join pathlib.Path Path pathlib.PosixPath os.path.expanduser os.path.expandvars".split())


def called(name: str, arguments: list[list[Value]]) -> Value:
    """The value of a call."""
    first = arguments[0][0] if arguments else UNKNOWN
    if (name in RUNS and _looks_up(first)) or name in ("psutil.process_iter", "psutil.pids", "psutil.net_connections"):
        return ("found", "")
    if name in _OWN:
        return ("own", "")
    if name == "psutil.Process":
        return ("own", "") if not arguments else first if first[0] in KEPT else UNKNOWN
    if name == "os.getppid":
        return ("parent", "")
    if name in ("__import__", "importlib.import_module", "importlib.__import__"):
        return ("ref", first[1]) if first[0] == "text" else ("ref", f"os.{TAME}")
    if name == "getattr" and len(arguments) > 1:
        return _attribute(first, arguments[1][0])
    if name.endswith((".__getattribute__", ".__getattr__")) and arguments:
        return _attribute(("ref", name.rpartition(".")[0]), arguments[-1][0])
    if name == "sys.modules.get" and first[0] == "text":
        return ("ref", first[1])
    if name in ("vars", "dict"):
        return ("ref", f"{first[1]}.__dict__") if first[0] == "ref" else first
    if name in ("globals", "locals"):
        return ("ref", name)
    if name in ("open", "io.open", "codecs.open"):
        return ("file", as_text(first))
    if name in ("chr", "ord"):
        return _character(name, first)
    if name in ("map", "filter") and len(arguments) > 1 and arguments[1][0][0] in KEPT:
        return arguments[1][0]
    if name == "map" and len(arguments) > 1 and first == ("ref", "chr"):
        items = arguments[1][0]
        if items[0] == "list" and isinstance(items[1], list):
            return ("list", [_character("chr", one) for one in items[1]])
        return UNKNOWN
    if name in ("os.getenv", "os.environ.get", "os.environ.pop"):
        return ("text", DOGWATCH if first[1] == "DOGWATCH_HOME" else TAME)
    if name == "shutil.which" and first[0] == "text":
        return ("text", f"/usr/bin/{first[1]}")
    if name in _SAME:
        return _from_numbers(first) if name in ("bytes", "bytearray") else first
    if name in _PATHS:
        return ("text", "/".join(as_text(one[0]).replace(WILD, TAME) for one in arguments))
    return _decoded(name, first, arguments)


def _looks_up(value: Value) -> bool:
    """Whether a command prints pids that may be anybody's."""
    first = value[1][0] if value[0] == "list" and isinstance(value[1], list) and value[1] else value
    return first[0] == "text" and str(first[1]).partition(" ")[0] in _LOOKS_UP


def _attribute(base: Value, name: Value) -> Value:
    if base[0] == "own":
        return base
    if base[0] != "ref":
        return UNKNOWN
    if name[0] == "text" and known(str(name[1])):
        return ("ref", f"{base[1]}.{name[1]}")
    # A function of a module that can do harm, and nobody knows which.
    return ("ref", f"{base[1]}.{TAME}") if str(base[1]).split(".")[0] in RISKY else UNKNOWN


def _character(name: str, value: Value) -> Value:
    if name == "chr" and isinstance(value[1], int):
        return ("text", character(value[1]))
    if name == "ord" and value[0] == "text" and len(str(value[1])) == 1:
        return ("number", ord(str(value[1])))
    return UNKNOWN


def _from_numbers(value: Value) -> Value:
    if value[0] != "list" or not isinstance(value[1], list):
        return value
    numbers = [one[1] for one in value[1] if isinstance(one[1], int)]
    return ("text", "".join(map(character, numbers))) if len(numbers) == len(value[1]) else UNKNOWN


def _decoded(name: str, first: Value, arguments: list[list[Value]]) -> Value:
    """Texts in disguise: base64, hexadecimal, rot13."""
    text = str(first[1]) if first[0] == "text" else ""
    if not text or not text.isascii():
        return ("text", TAME) if name == "shlex.quote" else UNKNOWN
    import binascii

    try:
        if name in ("base64.b64decode", "base64.standard_b64decode", "base64.decodebytes", "binascii.a2b_base64"):
            return ("text", binascii.a2b_base64(text).decode("utf-8", "replace"))
        if name in ("bytes.fromhex", "binascii.unhexlify", "bytearray.fromhex", "binascii.a2b_hex"):
            return ("text", bytes.fromhex(text).decode("utf-8", "replace"))
    except ValueError:
        return UNKNOWN
    if name == "shlex.split":
        return ("list", [("text", one.strip("'\"")) for one in text.split()])
    if name == "codecs.decode" and len(arguments) > 1 and str(arguments[1][0][1]).startswith("rot"):
        lower = "abcdefghijklmnopqrstuvwxyz"
        turned = lower[13:] + lower[:13]
        return ("text", text.translate(str.maketrans(lower + lower.upper(), turned + turned.upper())))
    return UNKNOWN
