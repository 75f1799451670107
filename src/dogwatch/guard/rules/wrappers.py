"""Programs that run another command: the command behind their options is judged.

Most are one line in `_PREFIXES`: the options that take a value, and how many words stand before the command.
"""

from dogwatch.guard.bash.assigning import put
from dogwatch.guard.bash.call import Call
from dogwatch.guard.bash.holes import known, without_holes
from dogwatch.guard.bash.parser import Parser
from dogwatch.guard.bash.state import NOTHING, UNKNOWN, Io, Texts, merged
from dogwatch.guard.bash.tree import Simple
from dogwatch.guard.rules.builds import package_scripts
from dogwatch.guard.rules.options import Options, options
from dogwatch.guard.rules.paths import inside

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dogwatch.guard.bash.call import Rule

_PREFIXES: dict[str, tuple[str, str, int]] = {
    # name: options with a value, long options with a value, words before the command
    "nohup": ("", "", 0),
    "setsid": ("", "", 0),
    "time": ("fo", "format output", 0),
    "nice": ("n", "adjustment", 0),
    "ionice": ("cnpPu", "class classdata pid", 0),
    "chrt": ("TPDp", "", 1),
    "taskset": ("p", "", 1),
    "numactl": ("CcmNpil", "cpunodebind membind physcpubind interleave preferred", 0),
    "cpulimit": ("lPpe", "limit pid exe path", 0),
    "stdbuf": ("ioe", "input output error", 0),
    "timeout": ("ks", "kill-after signal", 1),
    "doas": ("uC", "", 0),
    "run0": ("ugD", "user group nice chdir setenv background machine property unit", 0),
    "chroot": ("", "userspec groups", 1),
    "unshare": ("SGRw", "setuid setgid root wd propagation map-user map-group map-users map-groups", 0),
    "nsenter": ("tSGW", "target setuid setgid", 0),
    "setpriv": ("", "reuid regid ruid euid rgid egid groups inh-caps bounding-set securebits pdeathsig", 0),
    "systemd-run": ("puEMHdt", "property unit description setenv working-directory uid gid nice slice on-active", 0),
    "systemd-inhibit": ("", "what who why mode", 0),
    "systemd-cat": ("tp", "identifier priority", 0),
    "ltrace": ("aAeDFlnopsuxX", "output", 0),
    "valgrind": ("", "", 0),
    "setarch": ("", "", 1),
    **dict.fromkeys(("linux32", "linux64", "i386", "x86_64"), ("", "", 0)),
    "unbuffer": ("", "", 0),
    "rlwrap": ("abcCDfghHijlmMopPqsStz", "", 0),
    **dict.fromkeys(("proxychains", "proxychains4"), ("f", "", 0)),
    **dict.fromkeys(("torsocks", "tsocks", "fakeroot", "eatmydata", "dbus-run-session", "catchsegv"), ("", "", 0)),
    **dict.fromkeys(("firejail", "ccache", "sccache", "distcc", "tini", "dumb-init", "catatonit"), ("", "", 0)),
    "xvfb-run": ("nesfp", "server-num server-args error-file auth-file", 0),
    **dict.fromkeys(("gosu", "su-exec", "setuidgid", "envdir", "chpst"), ("", "", 1)),
    "caffeinate": ("tw", "", 0),
    "noglob": ("", "", 0),
    "nocorrect": ("", "", 0),
    "npx": ("pc", "package", 0),
    "bunx": ("", "", 0),
    "pnpx": ("", "", 0),
    "uvx": ("p", "from with python", 0),
    "dotenv": ("efv", "file", 0),
    "cross-env": ("", "", 0),
    "env-cmd": ("f", "file", 0),
    "busybox": ("", "", 0),
    "toybox": ("", "", 0),
    "sem": ("j", "jobs", 0),
    "ts": ("", "", 0),
    "tsp": ("", "", 0),
    "foreground": ("", "", 0),
}

_VERBS: dict[str, dict[str, tuple[str, str, int]]] = {
    # programs whose verbs run a command
    "poetry": {"run": ("C", "directory project", 0)},
    "uv": {"run": ("p", "with python extra group env-file directory project package with-requirements", 0)},
    "pipenv": {"run": ("", "", 0)},
    "pdm": {"run": ("p", "project", 0)},
    "rye": {"run": ("", "", 0)},
    "hatch": {"run": ("", "", 0)},
    "conda": {"run": ("np", "name prefix", 0)},
    "mamba": {"run": ("np", "name prefix", 0)},
    "micromamba": {"run": ("np", "name prefix", 0)},
    "bundle": {"exec": ("", "", 0)},
    "npm": {"exec": ("c", "package", 0), "x": ("c", "package", 0)},
    "pnpm": {"exec": ("", "", 0), "dlx": ("", "package", 0)},
    "yarn": {"exec": ("", "", 0), "dlx": ("p", "package", 0)},
    "mise": {"exec": ("", "", 0), "x": ("", "", 0)},
    "asdf": {"exec": ("", "", 0)},
    "rbenv": {"exec": ("", "", 0)},
    "pyenv": {"exec": ("", "", 0)},
    "direnv": {"exec": ("", "", 1)},
    "nix": {"shell": ("", "", 0), "develop": ("", "", 0), "run": ("", "", 0)},
    "doppler": {"run": ("", "", 0)},
    "perf": {"stat": ("ero", "event output", 0), "record": ("eoFcg", "event output", 0), "trace": ("eo", "", 0)},
    "docker": {"exec": ("euw", "env user workdir env-file detach-keys", 1), "run": ("", "", 1)},
    "podman": {"exec": ("euw", "env user workdir env-file detach-keys", 1), "run": ("", "", 1)},
    "docker-compose": {"exec": ("euw", "env user workdir index", 1), "run": ("eupvw", "name entrypoint user env", 1)},
    "kubectl": {"exec": ("cnf", "container namespace context", 1)},
    "lxc": {"exec": ("", "env cwd user", 1)},
    "incus": {"exec": ("", "env cwd user", 1)},
    "machinectl": {"shell": ("", "", 1)},
    "aws-vault": {"exec": ("", "", 1)},
    "op": {"run": ("", "env-file", 0)},
    "heroku": {"run": ("a", "app", 0)},
    "vagrant": {"ssh": ("c", "command", 0)},
}
_DOCKER_RUN = (
    "aceehlmpuvw",
    "add-host cap-add cap-drop cpus device dns entrypoint env env-file expose gpus health-cmd hostname ip label link"
    " log-driver memory mount name network net pid platform publish pull restart security-opt shm-size tmpfs"
    " ulimit user volume volumes-from workdir".split(),
)


def prefix(call: Call) -> Texts:
    """`nice -n 5 COMMAND …`."""
    valued, long, skipped = _PREFIXES[call.name if call.name in _PREFIXES else call.name.rstrip("0123456789.-")]
    found = options(call.args, valued, long.split())
    return _behind(call, found, skipped)


def _behind(call: Call, found: Options, skipped: int) -> Texts:
    """Judges what stands behind the options, and scripts given with `-c`."""
    output = NOTHING
    for name in ("c", "call", "command", "run"):
        for text in found.values.get(name, []):
            if " " in text:
                output = call.code(text)
    words = found.rest
    while words and "=" in words[0].partition(" ")[0] and _is_name(words[0].partition("=")[0]):
        words = words[1:]
    words = words[skipped:]
    if words and words[0] == "--":
        words = words[1:]
    if words and words[0].endswith(".py") and call.name in _VERBS:
        words = ["python", *words]
    return call.run(words, call.shell.copy()) if words else output


def _is_name(text: str) -> bool:
    return text.isascii() and text.replace("_", "a").isalnum() and not text[0].isdigit()


def verb(call: Call) -> Texts:
    """`poetry run COMMAND …`, `docker exec BOX COMMAND …`."""
    verbs = _VERBS[call.name]
    if call.name in ("npm", "pnpm", "yarn"):
        package_scripts(call)
    for at, word in enumerate(call.args):
        if word == "compose" and call.name in ("docker", "podman"):
            return call.run(["docker-compose", *call.args[at + 1 :]])
        if word in verbs:
            valued, long_text, skipped = verbs[word]
            long = long_text.split()
            if call.name in ("docker", "podman") and word == "run":
                valued, long = _DOCKER_RUN
            found = options(call.args[at + 1 :], valued, long)
            _mounts(call, found)
            entry = found.value("entrypoint")
            if entry:
                return call.run([entry, *found.rest[1:]], call.shell.copy())
            return _behind(call, found, skipped)
        if not word.startswith("-") and call.name not in ("docker", "podman", "kubectl", "nix"):
            break
    return UNKNOWN if call.name in ("npm", "pnpm", "yarn", "docker", "podman") else call.rules.unknown_program(call)


def _mounts(call: Call, found: Options) -> None:
    """What a container may write to must not be a protected place."""
    for text in found.values.get("v", []) + found.values.get("volume", []) + found.values.get("mount", []):
        fields = dict(part.partition("=")[::2] for part in text.split(","))
        source, _, rest = fields.get("source", fields.get("src", text)).partition(":")
        if not rest.endswith("ro") and "readonly" not in fields and "ro" not in fields:
            inside(call.world, call.path(source), source)


def env(call: Call) -> Texts:
    """`env -i NAME=value COMMAND …`, and `env -S 'COMMAND …'`."""
    found = options(call.args, "uCS", ("unset", "chdir", "split-string", "block-signal", "default-signal"))
    state = call.shell.copy()
    words = found.rest
    split = found.values.get("S", []) + found.values.get("split-string", [])
    if split:
        for text in split:
            script = Parser(text).whole()
            first = script.commands[0] if script.commands else None
            if isinstance(first, Simple):
                for item in first.assignments:
                    call.walker.assign(item, state)
                for fields in call.walker.expander.arguments(first.words, state):
                    call.run([*fields, *words], state)
        return UNKNOWN
    if len(words) > 1 and not without_holes(words[0]):
        words = words[1:]  # `env $(cat .env | xargs) COMMAND`: variables that nobody knows
    while words and "=" in words[0]:
        name, _, value = words[0].partition("=")
        if known(name) and _is_name(name or "0"):
            put(call.walker, name, (value,), state)
        words = words[1:]
    if not words:
        return UNKNOWN
    # The shell's own functions are not seen by `env`; those that it is given are.
    state.aliases = {}
    state.functions = {}
    for word in call.args:
        name, _, body = word.partition("=")
        if name.startswith("BASH_FUNC_"):
            call.walker.code(name[10:].rstrip("%") + body, state)
    return call.run(words, state)


def sudo(call: Call) -> Texts:
    found = options(call.args, "ugpChrtTUDRa", ("user", "group", "prompt", "host", "role", "type", "chdir", "chroot"))
    words = found.rest
    while words and "=" in words[0] and _is_name(words[0].partition("=")[0] or "0"):
        words = words[1:]
    if found.has("e", "edit"):
        return UNKNOWN
    if not words:
        return _shell_on_stdin(call) if found.has("s", "i", "shell", "login") else UNKNOWN
    return call.run(words, call.shell.copy())


def su(call: Call) -> Texts:
    """`su USER -c 'COMMAND'`, `runuser`, `sg`."""
    found = options(call.args, "csgGwT", ("command", "session-command", "shell", "group"), permute=True)
    texts = [text for name in ("c", "command", "session-command") for text in found.values.get(name, [])]
    texts += [found.rest[at + 1] for at, word in enumerate(found.rest[:-1]) if word == "-c"]
    for text in texts:
        call.code(text)
    if call.name == "runuser" and found.has("u", "user") and found.rest:
        return call.run(found.rest[1:] or found.rest, call.shell.copy())
    if call.name == "sg" and len(found.rest) > 1 and not texts:
        return call.code(found.rest[1])
    return UNKNOWN if texts else _shell_on_stdin(call)


def _shell_on_stdin(call: Call) -> Texts:
    return merged(text for code in call.stdin() or NOTHING for text in call.code(code, None, Io()))


def flock(call: Call) -> Texts:
    found = options(call.args, "wEc", ("wait", "timeout", "conflict-exit-code"))
    for text in found.values.get("c", []):
        return call.code(text)
    words = found.rest[1:]
    if words[:1] == ["-c"] and len(words) > 1:
        return call.code(words[1])
    return call.run(words, call.shell.copy()) if words else UNKNOWN


def script(call: Call) -> Texts:
    """`script -c 'COMMAND' FILE`, and BSD's `script FILE COMMAND …`."""
    found = options(call.args, "cIOBTEtmo", ("command", "log-in", "log-out", "log-io"), permute=True)
    code = found.value("c", "command")
    if code is not None:
        return call.code(code)
    return call.run(found.rest[1:], call.shell.copy()) if len(found.rest) > 1 else _shell_on_stdin(call)


def watch(call: Call) -> Texts:
    """`watch` gives its words to a shell as one script."""
    found = options(call.args, "nqs", ("interval", "equexit"))
    return call.code(" ".join(found.rest)) if found.rest else UNKNOWN


def entr(call: Call) -> Texts:
    """`entr`, `nodemon`, `watchexec`, `hyperfine`, `concurrently`: words, or scripts in quotes."""
    if call.name == "entr":
        found = options(call.args, "")
        return call.code(" ".join(found.rest)) if found.has("s") else call.run(found.rest) if found.rest else UNKNOWN
    for word in call.args:
        text = word.partition("=")[2] if word.startswith("--") else word
        if " " in text:
            call.world.leniently(call.code, text)
    rest = [word for word in call.args if not word.startswith("-")]
    if call.name in ("watchexec", "nodemon") and rest:
        call.world.leniently(lambda: call.run(rest, call.shell.copy()))
    return UNKNOWN


_SSH_VALUES = "BbcDEeFIiJLlmOopQRSWw"


def ssh(call: Call) -> Texts:
    """Words behind the host are a script for the shell there; without them standard input is."""
    found = options(call.args, _SSH_VALUES)
    for text in found.values.get("o", []):
        name, _, value = text.partition("=" if "=" in text.partition(" ")[0] else " ")
        if name.lower() in ("proxycommand", "localcommand", "remotecommand", "knownhostscommand"):
            call.code(value)
    words = options(found.rest[1:], _SSH_VALUES).rest  # options may stand behind the host too
    if words:
        return call.code(" ".join(words), call.shell.copy(), Io(call.stdin()))
    return _shell_on_stdin(call) if found.rest and call.stdin() is not None else UNKNOWN


def anywhere(call: Call) -> Texts:
    """Programs with so many options that their command is looked for: every program that the guard knows may be it."""
    for at, word in enumerate(call.args):
        if " " in word:
            call.world.leniently(call.code, word)
        elif not word.startswith("-") and known(word) and call.rules.knows(word.rpartition("/")[2]):
            call.world.leniently(call.run, call.args[at:], call.shell.copy())
    return UNKNOWN


def terminal(call: Call) -> Texts:
    """`xterm -e COMMAND`, `gnome-terminal -- COMMAND`."""
    for mark in ("-e", "-x", "--", "start"):
        if mark in call.args:
            words = call.args[call.args.index(mark) + 1 :]
            if len(words) == 1:
                return call.code(words[0])
            return call.run(words, call.shell.copy()) if words else UNKNOWN
    return UNKNOWN


def loader(call: Call) -> Texts:
    """The dynamic linker runs the program that it is given."""
    found = options(call.args, "", ("library-path", "preload", "audit", "inhibit-rpath", "argv0"))
    return call.run(found.rest, call.shell.copy()) if found.rest else UNKNOWN


def nix_shell(call: Call) -> Texts:
    for at, word in enumerate(call.args[:-1]):
        if word in ("--run", "--command"):
            call.code(call.args[at + 1])
    return UNKNOWN


def past_functions(call: Call) -> Texts:
    """`command NAME …`, `builtin NAME …`, `exec NAME …`."""
    found = options(call.args, "a" if call.name == "exec" else "")
    if call.name == "command" and found.flags & {"v", "V"}:
        return tuple(f"/usr/bin/{word}\n" for word in found.rest[:1]) or NOTHING
    if not found.rest:
        return NOTHING
    if not known(found.rest[0]):
        return call.run(found.rest)
    return call.rules.run_program(call.with_words(found.rest))


RULES: "dict[str, Rule]" = {
    **dict.fromkeys(_PREFIXES, prefix),
    **dict.fromkeys(_VERBS, verb),
    "env": env,
    "sudo": sudo,
    **dict.fromkeys(("su", "runuser", "sg"), su),
    "flock": flock,
    "script": script,
    "watch": watch,
    **dict.fromkeys(("entr", "nodemon", "watchexec", "hyperfine", "concurrently", "reflex", "onchange"), entr),
    **dict.fromkeys(("ssh", "autossh", "mosh"), ssh),
    **dict.fromkeys(("xterm", "gnome-terminal", "alacritty", "konsole", "kitty", "urxvt", "foot", "wezterm"), terminal),
    **dict.fromkeys(("ld-linux-x86-64.so.2", "ld-linux.so.2", "ld-linux-aarch64.so.1", "ld.so"), loader),
    "nix-shell": nix_shell,
    **dict.fromkeys(("bwrap", "capsh", "proot", "runcon", "sandbox-exec", "systemd-nspawn", "trickle"), anywhere),
    **dict.fromkeys(("singularity", "apptainer", "dbus-launch", "pkexec", "faketime", "ansible"), anywhere),
    **dict.fromkeys(("pssh", "parallel-ssh", "pdsh", "clush", "salt", "salt-call", "flyctl", "fly", "dsh"), anywhere),
    **dict.fromkeys(("command", "builtin", "exec"), past_functions),
}
