"""Who may be killed: `kill`, `pkill`, `killall` and their kin, and the programs that find pids."""

from dogwatch.guard.bash.call import Call
from dogwatch.guard.bash.holes import DISK, FOUND, OWN, PARENT, SELF, WILD, known
from dogwatch.guard.bash.redirects import content_of
from dogwatch.guard.bash.state import NOTHING, UNKNOWN, Texts
from dogwatch.guard.rules.options import Options, options
from dogwatch.guard.verdict import OWN_JOBS, deny

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dogwatch.guard.bash.call import Rule

_INFORMS = ("-l", "-L", "--list", "--table", "-h", "--help", "-V", "--version", "-?")
_CLIENTS = ("claude", "codex", "gemini", "opencode", "node", "dogwatch", "tmux")
_FAMILIES = ("P", "parent", "g", "pgroup", "s", "session")
_PKILL_VALUES = "dgGPstuUFrOq"
_PKILL_LONG = (
    "signal delimiter pgroup group parent session terminal euid uid pidfile runstates older queue ns nslist cgroup env"
).split()


def kill(call: Call) -> Texts:
    """`kill`: only jobs of this command, and pids that the registry says are the agent's own."""
    signal, targets = _kill_words(call.args)
    if signal is None or _is_zero(signal):
        return NOTHING
    for target in targets:
        judge_target(call, target)
    return NOTHING


def _kill_words(args: list[str]) -> tuple[str | None, list[str]]:
    """The signal (None: it only lists signals) and the targets."""
    signal = "TERM"
    at = 0
    while at < len(args):
        word = args[at]
        if word in _INFORMS or word.startswith(("-l", "--list=")):
            return None, []
        if word == "--":
            at += 1
            break
        if word in ("-s", "-n", "--signal", "-q", "--queue", "--timeout"):
            if word in ("-s", "-n", "--signal") and at + 1 < len(args):
                signal = args[at + 1]
            at += 2 if word != "--timeout" else 3
        elif word.startswith("--signal="):
            signal = word.partition("=")[2]
            at += 1
        elif word in ("-p", "-a", "--pid", "--all", "--verbose"):
            at += 1
        elif word.startswith("-") and len(word) > 1 and at == 0:
            signal = word[1:].removeprefix("s").removeprefix("n") if word[1:2] in "sn" else word[1:]
            at += 1
        else:
            break
    return signal, args[at:]


def _is_zero(signal: str) -> bool:
    return signal in ("0", "EXIT", "SIGEXIT")


def judge_target(call: Call, target: str) -> None:
    """Denies unless the target of a signal is surely the agent's own."""
    world = call.world
    text = target.strip()
    group = text.startswith("-")
    bare = text[1:] if group else text
    if not bare or text.startswith("%") or all(char in (OWN, SELF) or char.isspace() for char in bare):
        return
    if PARENT in bare:
        deny("kill.parent", "`$PPID` is the client that you run in: ending it ends yourself", OWN_JOBS)
    if known(bare):
        _known_target(call, text, bare, group)
    elif FOUND in bare:
        world.unresolved(
            f"`{call.shown}` ends processes that were looked up by name or port, which may be anybody's",
            OWN_JOBS,
            "kill.foreign",
        )
    else:
        world.unresolved(f"whom `{call.shown}` ends cannot be known from the command", OWN_JOBS, ends=True)


def _known_target(call: Call, text: str, bare: str, group: bool) -> None:
    if not bare.isdigit() or len(bare) > 10:
        judge_name(call, bare)
        return
    pid = int(bare)
    if group and pid == 1:
        deny("kill.everything", "`kill -1` ends every process of the user", OWN_JOBS)
    if pid == 0:
        deny("kill.group", "`kill 0` ends the whole process group, which may hold your client", OWN_JOBS)
    if pid == 1:
        deny("kill.foreign", "process 1 is nobody's own", OWN_JOBS)
    if pid in call.world.caller.ancestors:
        deny("kill.parent", f"process {text} is the client that you run in", OWN_JOBS)
    if not call.world.caller.namespace and not call.world.caller.owns(pid):
        deny("kill.foreign", f"process {text} is not one that you have started", OWN_JOBS)


def judge_name(call: Call, name: str) -> None:
    """Denies to end processes by name: others have processes of that name too."""
    if not name.strip(".*^$ "):
        deny("kill.everything", f"`{call.shown}` ends every process", OWN_JOBS)
    if call.world.caller.namespace:
        if name.strip("^$").lower() in _CLIENTS:
            deny("kill.self", f"`{call.shown}` may end the client that you run in", OWN_JOBS)
        return
    deny("kill.pattern", f"`{call.shown}` ends processes by name, and others' may have that name too", OWN_JOBS)


def pkill(call: Call) -> Texts:
    words = _without_signal(call.args)
    if words is None:
        return NOTHING
    found = options(words, _PKILL_VALUES, _PKILL_LONG, permute=True)
    if found.has("help", "version", "V", "l", "list") or _is_zero(found.value("signal") or ""):
        return NOTHING
    if _own_family(call, found):
        return NOTHING
    for value in [text for name in _FAMILIES for text in found.values.get(name, [])]:
        if PARENT in value:
            deny("kill.parent", f"`{call.shown}` ends what your client has started, and its session", OWN_JOBS)
        call.world.unresolved(
            f"`{call.shown}` ends a family of processes that may be others'", OWN_JOBS, "kill.foreign"
        )
    pidfile = found.value("F", "pidfile")
    if pidfile is not None:
        for text in content_of(call.walker, pidfile, call.shell, call.io):
            judge_target(call, text.replace(DISK, WILD))
        return NOTHING
    by_user = found.has("u", "U", "euid", "uid", "t", "terminal", "G", "group")
    if by_user and not found.rest:
        deny("kill.everything", f"`{call.shown}` ends every process of a user, a group or a terminal", OWN_JOBS)
    for name in found.rest:
        _judge_pattern(call, name)
    return NOTHING


def _judge_pattern(call: Call, name: str) -> None:
    if known(name):
        judge_name(call, name)
    else:
        call.world.unresolved(f"whom `{call.shown}` ends cannot be known from the command", OWN_JOBS, "kill.pattern")


def _without_signal(args: list[str]) -> list[str] | None:
    """The words without `-9`, `-TERM` and the like; None where the signal is 0."""
    for at, word in enumerate(args):
        name = word[1:].removeprefix("SIG")
        if word.startswith("-") and (name.isdigit() or (name.isupper() and len(name) > 1)):
            return None if _is_zero(name) else args[:at] + args[at + 1 :]
    return args


def _own_family(call: Call, found: Options) -> bool:
    """Whether only children of the agent's own processes are meant."""
    values = found.values.get("P", []) + found.values.get("parent", [])
    if not values:
        values = found.values.get("g", []) + found.values.get("pgroup", [])
    pids = [pid for value in values for pid in value.split(",")]
    return bool(pids) and all(
        (pid and all(char in (OWN, SELF) for char in pid)) or (pid.isdigit() and call.world.caller.owns(int(pid)))
        for pid in pids
    )


def killall(call: Call) -> Texts:
    words = _without_signal(call.args)
    if words is None:
        return NOTHING
    found = options(words, "suZonyc", ("signal", "user", "context", "older-than", "younger-than", "ns"), permute=True)
    if found.has("l", "list", "V", "version", "h", "help") or _is_zero(found.value("s", "signal") or ""):
        return NOTHING
    if found.has("u", "user") and not found.rest:
        deny("kill.everything", f"`{call.shown}` ends every process of a user", OWN_JOBS)
    for name in found.rest:
        _judge_pattern(call, name)
    return NOTHING


def by_name(call: Call) -> Texts:
    """`skill`, `slay`, `killall5` and the like."""
    if any(word in _INFORMS for word in call.args):
        return NOTHING
    return deny("kill.pattern", f"`{call.shown}` ends processes by name, user or terminal", OWN_JOBS)


def fuser(call: Call) -> Texts:
    found = options([word for word in call.args if word not in ("-",)], "nN", ("namespace",), permute=True)
    if found.has("k", "kill") and "0" not in found.flags:
        call.world.unresolved(
            f"`{call.shown}` ends whoever uses that file or port, which may be anybody", OWN_JOBS, "kill.port"
        )
    return (FOUND,)


def by_port(call: Call) -> Texts:
    """`kill-port`, `fkill` and the like, which come with npm."""
    if call.args and not any(word in ("--help", "--version") for word in call.args):
        call.world.unresolved(f"`{call.shown}` ends whoever uses that port or has that name", OWN_JOBS, "kill.port")
    return UNKNOWN


def start_stop_daemon(call: Call) -> Texts:
    found = options(call.args, "xpnugcrkdNISm", ("exec", "pidfile", "name", "user", "signal", "startas", "chdir"))
    if found.has("K", "stop") and not found.has("t", "test"):
        call.world.unresolved(f"`{call.shown}` ends a daemon that may be anybody's", OWN_JOBS, "kill.pattern")
    started = found.value("x", "exec", "a", "startas")
    return call.run([started, *found.rest]) if started else NOTHING


_ATTACHES = ("-p", "--pid", "-pid", "-n", "--attach-name", "--attach-pid", "-w", "--waitfor")


def gdb(call: Call) -> Texts:
    """A debugger ends what it is attached to, and runs shell commands."""
    attached = [word for word in call.args if word.partition("=")[0] in _ATTACHES]
    for at, word in enumerate(call.args):
        text = call.args[at + 1] if at + 1 < len(call.args) else ""
        if word.lstrip("-") in ("ex", "eval-command", "iex", "o", "batch-commands"):
            _debugger_command(call, text.strip(), bool(attached))
        elif word in ("--args", "-args"):
            return call.run(call.args[at + 1 :]) if text else NOTHING
    return UNKNOWN


def _debugger_command(call: Call, text: str, attached: bool) -> None:
    verb, _, rest = text.partition(" ")
    if verb in ("shell", "!") or text.startswith("!"):
        call.code(rest if verb in ("shell", "!") else text[1:])
    elif verb in ("kill", "signal", "attach") or (
        attached and any(word in text.lower() for word in ("kill", "exit", "raise", "process signal"))
    ):
        call.world.unresolved(f"`{call.shown}` ends the process that it is attached to", OWN_JOBS, "kill.foreign")


def looks_up(call: Call) -> Texts:
    """`pgrep`, `pidof`, `lsof -t`: pids that may be anybody's, unless they are children of the agent's own."""
    if call.name == "lsof" and not any(word.startswith("-") and "t" in word for word in call.args):
        return UNKNOWN
    if call.name == "pgrep":
        found = options(call.args, _PKILL_VALUES, _PKILL_LONG, permute=True)
        if _own_family(call, found):
            return (OWN,)
    return (FOUND,)


def jobs(call: Call) -> Texts:
    """`jobs -p` are the agent's own; `jobs -x` runs a command."""
    found = options(call.args, "")
    if "x" in found.flags and found.rest:
        return call.run(found.rest)
    return (OWN,) if "p" in found.flags else UNKNOWN


def prlimit(call: Call) -> Texts:
    """A limit on another's time ends it too."""
    found = options(call.args, "po", ("pid", "output"))
    pid = found.value("p", "pid")
    if pid is not None:
        if any(word.startswith("--") and "=" in word and not word.startswith("--pid") for word in call.args):
            judge_target(call, pid)
        return UNKNOWN
    return call.run(found.rest, call.shell.copy()) if found.rest else UNKNOWN


def choom(call: Call) -> Texts:
    """Whom the kernel ends when memory runs out."""
    found = options(call.args, "np", ("adjust", "pid"))
    pid, wish = found.value("p", "pid"), found.value("n", "adjust")
    if pid is not None and wish is not None:
        judge_target(call, pid)
    return call.run(found.rest, call.shell.copy()) if found.rest else UNKNOWN


def strace(call: Call) -> Texts:
    """It can put signals into what it looks at."""
    found = options(call.args, "aeEIobOpPsSuUX", ("output", "trace", "attach", "user", "env", "inject"))
    injects = any("signal=" in text for texts in found.values.values() for text in texts)
    for pid in found.values.get("p", []) + found.values.get("attach", []):
        if injects:
            judge_target(call, pid)
    return call.run(found.rest, call.shell.copy()) if found.rest else UNKNOWN


RULES: "dict[str, Rule]" = {
    "kill": kill,
    "pkill": pkill,
    "killall": killall,
    "skill": by_name,
    "slay": by_name,
    "killall5": by_name,
    "xkill": by_name,
    "taskkill": by_name,
    "taskkill.exe": by_name,
    "prlimit": prlimit,
    "choom": choom,
    "strace": strace,
    "fuser": fuser,
    "kill-port": by_port,
    "killport": by_port,
    "fkill": by_port,
    "fkill-cli": by_port,
    "tree-kill": by_port,
    "start-stop-daemon": start_stop_daemon,
    "gdb": gdb,
    "lldb": gdb,
    "pgrep": looks_up,
    "pidof": looks_up,
    "lsof": looks_up,
    "jobs": jobs,
}
