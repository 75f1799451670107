"""Interpreters: where the code is that each of them runs, in an option, a file or on standard input."""

from dogwatch.guard.bash.call import Call
from dogwatch.guard.bash.holes import DISK, known
from dogwatch.guard.bash.redirects import content_of
from dogwatch.guard.bash.state import NOTHING, UNKNOWN, Io, Texts, merged
from dogwatch.guard.rules.options import options
from dogwatch.guard.rules.paths import may_write, opens
from dogwatch.guard.rules.scripts import edited, judge_program, run_files, run_module
from dogwatch.guard.verdict import OWN_JOBS, deny

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dogwatch.guard.bash.call import Rule

_SHELLS = "bash sh zsh dash ksh mksh ash rbash fish csh tcsh yash osh nu xonsh elvish".split()
_SHELL_VALUED = ("-o", "-O", "+o", "+O", "--rcfile", "--init-file")

_LANGUAGES: dict[str, tuple[str, str, str, str]] = {
    # program: language, options with code, other options with a value, long options with code
    **dict.fromkeys(("perl",), ("perl", "eE", "MmIFxVD", "")),
    **dict.fromkeys(("ruby", "jruby"), ("ruby", "e", "rIFEKxTW", "")),
    **dict.fromkeys(
        ("node", "nodejs", "bun", "tsx", "ts-node", "qjs", "zx"), ("javascript", "ep", "rCI", "eval print")
    ),
    "deno": ("javascript", "", "", ""),
    "php": ("php", "rBRE", "cdgtz", "run"),
    **dict.fromkeys(("lua", "luajit"), ("lua", "e", "l", "")),
    **dict.fromkeys(("tclsh", "wish"), ("tcl", "", "", "")),
    "expect": ("tcl", "c", "fb", ""),
    "osascript": ("applescript", "e", "ls", ""),
    **dict.fromkeys(("Rscript", "rscript", "r"), ("generic", "e", "", "eval")),
    "julia": ("generic", "eE", "JpHtL", "eval print"),
    "elixir": ("generic", "e", "", "eval rpc-eval"),
    "groovy": ("generic", "e", "", ""),
    "scala": ("generic", "e", "", ""),
    "guile": ("lisp", "c", "", ""),
    "racket": ("lisp", "e", "", "eval"),
    "irb": ("ruby", "", "rI", ""),
    "raku": ("perl", "e", "IM", ""),
    **dict.fromkeys(("ocaml", "ghc", "swift", "kotlin"), ("generic", "e", "", "eval")),
    **dict.fromkeys(("clojure", "clj", "fennel", "csi", "scheme"), ("lisp", "e", "", "eval")),
    **dict.fromkeys(("jshell", "crystal", "dotnet-fsi"), ("generic", "e", "", "eval")),
    **dict.fromkeys(("octave", "gnuplot"), ("generic", "e", "", "eval")),
    **dict.fromkeys(("java", "rust-script", "zig", "nim", "dart", "dotnet"), ("compiled", "", "ILlDo", "")),
    "m4": ("m4", "", "DIU", "define"),
    "sbcl": ("lisp", "", "", "eval"),
    "erl": ("generic", "", "", "eval"),
    **dict.fromkeys(("emacs", "emacsclient"), ("lisp", "e", "", "eval execute")),
    **dict.fromkeys(("vim", "vi", "nvim", "view", "gvim"), ("vim", "c", "uUtTWw", "cmd")),
}


_RUN_FILES = ("bun", "zig", "nim", "dart", "crystal")
"""They run the file behind their verb `run`."""


def run_shell(call: Call) -> Texts:
    """`bash -c CODE`, `bash FILE`, `bash` with a script on standard input."""
    flags, rest, files = _shell_options(call.args)
    if "n" in flags and not flags & {"c", "i"}:
        return NOTHING  # it only reads
    for file in files:
        run_files(call, content_of(call.walker, file, call.shell, call.io), "sh", [])
    state = call.shell.copy()
    state.aliases = {}
    if "c" in flags:
        if not rest:
            return NOTHING
        state.name = (rest[1],) if len(rest) > 1 else ("bash",)
        state.positional = (tuple(rest[2:]),)
        return call.walker.code(rest[0], state, call.io)
    if rest and rest[0] != "-" and "s" not in flags:
        contents = content_of(call.walker, rest[0], call.shell, call.io)
        if contents == (DISK,):
            call.world.files.ran.append((call.path(rest[0]), "sh"))
        return run_files(call, contents, "sh", rest[1:])
    state.positional = (tuple(rest if "s" in flags else rest[1:]),)
    outputs = [text for code in call.stdin() or NOTHING for text in call.walker.code(code, state.copy(), Io())]
    return merged(outputs) if outputs else NOTHING


def _shell_options(args: list[str]) -> tuple[set[str], list[str], list[str]]:
    """The letters of all flags, the words behind them, and the files that are read first."""
    flags: set[str] = set()
    files: list[str] = []
    at = 0
    while at < len(args):
        word = args[at]
        if word in _SHELL_VALUED:
            if word in ("--rcfile", "--init-file") and at + 1 < len(args):
                files.append(args[at + 1])
            at += 2
        elif word == "--":
            at += 1
            break
        elif word in ("--command", "--init-command"):
            flags.add("c")
            at += 1
        elif word.startswith("--"):
            at += 1
        elif len(word) > 1 and word[0] in "-+" and known(word):
            flags.update(word[1:] if word[0] == "-" else "")
            # The value of an `o` within several letters is the next word.
            at += 2 if word[0] == "-" and word[-1] in "oO" else 1
        else:
            break
    return flags, args[at:], files


def interpret(call: Call) -> Texts:
    """Every other language: the code is found here and judged by `judge_program`."""
    name = call.name if call.name in _LANGUAGES else call.name.lower().rstrip("0123456789.-")
    language, letters, valued, long = _LANGUAGES[name]
    if name == "deno":
        return _deno(call)
    # `node -pe CODE` takes one code for both letters.
    args = ["-e" if word in ("-pe", "-ep") and language == "javascript" else word for word in call.args]
    if name == "erl":
        args = [f"-{word}" if word == "-eval" else word for word in args]
    found = options(args, letters + valued, (*long.split(), "require", "import", "loader"))
    codes = [text for letter in letters for text in found.values.get(letter, [])]
    codes += [text for option in long.split() for text in found.values.get(option, [])]
    if language == "vim":
        codes += [word[1:] for word in call.args if word.startswith("+")]
    for code in codes:
        judge_program(call, language, code)
    for module in [text for option in ("r", "require", "import") for text in found.values.get(option, [])]:
        run_module(call, language, (module, f"{module}.js", f"{module}.rb"))
    if language == "perl":
        folders = [".", *found.values.get("I", [])][:16]
        for module in (found.values.get("M", []) + found.values.get("m", []))[:16]:
            path = module.partition("=")[0].replace("::", "/")
            run_module(call, "perl", tuple(f"{folder}/{path}.pm" for folder in folders))
    if language in ("perl", "ruby") and any(word.startswith("-") and "i" in word for word in call.args):
        from dogwatch.guard.languages.sed import inserted

        for word in found.rest:
            may_write(call.world, call.path(word), word)
            edited(call, word, inserted(codes))
    if codes or found.has("version", "help", "V", "h"):
        return UNKNOWN
    if found.rest and found.rest[0] != "-":
        return _file(call, language, found.rest)
    for code in call.stdin() or ():
        judge_program(call, language, code)
    return UNKNOWN


def _file(call: Call, language: str, rest: list[str]) -> Texts:
    if call.name == "bun" and rest[0] == "x" and len(rest) > 1:
        return call.run(rest[1:])
    if call.name in _RUN_FILES and rest[0] in ("run", "r") and len(rest) > 1:
        rest = rest[1:]
    if call.name == "java":
        rest = [rest[0] if rest[0].endswith(".java") else f"{rest[0].replace('.', '/')}.java", *rest[1:]]
    if language == "vim":
        return UNKNOWN
    contents = content_of(call.walker, rest[0], call.shell, call.io)
    if contents == (DISK,) and language == "python":
        contents = call.world.files.read(call.path(f"{rest[0]}/__main__.py")) or contents
    if contents == (DISK,):
        call.world.files.ran.append((call.path(rest[0]), language))
    return run_files(call, contents, language, rest[1:])


def python(call: Call) -> Texts:
    """`-c` and `-m` end python's own options; what follows belongs to the program."""
    args = call.args
    at = 0
    while at < len(args):
        word = args[at]
        at += 1
        if word == "-" or not word.startswith("-"):
            at -= 1
            break
        for place, letter in enumerate(word[1:], 2) if not word.startswith("--") else ():
            value = word[place:]
            if letter in "cmWXQ" and not value and at < len(args):
                value = args[at]
                at += 1
            if letter == "c":
                call.args = ["-c", *args[at:]]
                judge_program(call, "python", value)
                return UNKNOWN
            if letter == "m":
                return _module(call, value, args[at:])
            if letter in "WXQ":
                break
    call.args = args[at:]  # what the program has as `sys.argv`
    if at < len(args) and args[at] != "-":
        return _file(call, "python", args[at:])
    for code in call.stdin() or ():
        judge_program(call, "python", code)
    return UNKNOWN


def _module(call: Call, module: str, words: list[str]) -> Texts:
    """`python -m MODULE …`."""
    if module.partition(".")[0] in ("dogwatch", "pytest", "unittest", "coverage", "tox", "nox", "invoke", "pip"):
        call.run([module.partition(".")[0], *words])
    path = call.path(module.replace(".", "/"))
    for contents in (call.world.files.read(f"{path}.py"), call.world.files.read(f"{path}/__main__.py")):
        run_files(call, contents, "python", words)
    if module in ("timeit", "pdb"):
        for word in words:
            call.world.leniently(judge_program, call, "python", word)
    if module in ("cProfile", "profile", "trace", "pdb", "coverage", "runpy"):
        file = next((word for word in words if word.endswith(".py")), "")
        return _file(call, "python", [file]) if file else UNKNOWN
    return UNKNOWN


def _deno(call: Call) -> Texts:
    verb = call.args[0] if call.args else ""
    if verb == "eval":
        for word in call.args[1:]:
            if not word.startswith("-"):
                judge_program(call, "javascript", word)
    elif verb == "run" and len(call.args) > 1:
        file = next((word for word in call.args[1:] if not word.startswith("-")), "")
        if file == "":
            for code in call.stdin() or ():
                judge_program(call, "javascript", code)
        else:
            return run_files(call, content_of(call.walker, file, call.shell, call.io), "javascript", [])
    return UNKNOWN


def awk(call: Call) -> Texts:
    """The program is the first word, unless `-f` names a file."""
    found = options(call.args, "vFfeEil", ("assign", "field-separator", "file", "source", "exec", "include", "load"))
    files = [text for name in ("f", "file", "E", "exec") for text in found.values.get(name, [])]
    codes = [text for name in ("e", "source") for text in found.values.get(name, [])]
    for file in files:
        codes += [text for text in content_of(call.walker, file, call.shell, call.io) if text != DISK]
    if not files and not found.has("e", "source") and found.rest:
        codes.append(found.rest[0])
    for code in codes:
        judge_program(call, "awk", code)
    if "inplace" in found.values.get("i", []) + found.values.get("include", []):
        from dogwatch.guard.languages.grammars import GRAMMARS
        from dogwatch.guard.languages.tokens import Tokens

        texts = [text for code in codes for kind, text in Tokens(code, GRAMMARS["awk"]).found if kind == "text"]
        for word in found.rest[0 if files else 1 :]:
            may_write(call.world, call.path(word), word)
            edited(call, word, "\n".join(texts))
    return UNKNOWN


def powershell(call: Call) -> Texts:
    """Its own verbs end processes too; a program in its code is run as in any other shell."""
    for text in (" ".join(call.args), *(call.stdin() or ())):
        if any(verb in text.lower() for verb in ("stop-process", "stop-service", "stop-computer", "restart-computer")):
            deny("kill.pattern", f"`{call.shown}` ends processes by name or number", OWN_JOBS)
    for text in [word for word in call.args if " " in word] + list(call.stdin() or ()):
        call.world.leniently(call.code, text)
    return UNKNOWN


def client(call: Call) -> Texts:
    """Database clients and calculators that can run shell commands: `psql -c '\\! …'`, `sqlite3 '.shell …'`."""
    texts = [word for word in call.args if not word.startswith("-")] + list(call.stdin() or ())
    for text in texts:
        for line in text.splitlines():
            line = line.strip()
            for mark in ("\\!", ".shell ", ".system ", "system ", "!"):
                if line.startswith(mark):
                    call.world.leniently(call.code, line[len(mark) :])
    if call.name in ("ed", "ex"):
        for word in call.args:
            if not word.startswith("-"):
                edited(call, word, "\n".join(call.stdin() or ()))
    return opens(call) if call.name.startswith("sqlite") else UNKNOWN


RULES: "dict[str, Rule]" = {
    **dict.fromkeys(_SHELLS, run_shell),
    **dict.fromkeys(_LANGUAGES, interpret),
    **dict.fromkeys(("python", "pypy", "ipython", "micropython"), python),
    **dict.fromkeys(("pwsh", "powershell", "powershell.exe"), powershell),
    **dict.fromkeys(("awk", "gawk", "mawk", "nawk", "original-awk"), awk),
    **dict.fromkeys(("psql", "mysql", "mariadb", "sqlite3", "sqlite", "bc", "dc", "ftp", "lftp", "ed", "ex"), client),
}
