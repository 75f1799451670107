"""Code in files: scripts that are run, and files that somebody runs sooner or later."""

from dogwatch.guard.bash.call import Call
from dogwatch.guard.bash.files import FRAGMENT, same
from dogwatch.guard.bash.holes import DISK, known, wild, without_holes
from dogwatch.guard.bash.state import NOTHING, UNKNOWN, Io, Texts, merged

WRITE_IT = "write what is to be run into the command itself, or into a file that you then run"

_INTERPRETERS = {
    **dict.fromkeys(("sh", "bash", "zsh", "dash", "ksh", "ash"), "sh"),
    **dict.fromkeys(("python", "pypy"), "python"),
    "perl": "perl",
    "ruby": "ruby",
    **dict.fromkeys(("node", "bun", "deno", "tsx"), "javascript"),
    "php": "php",
    **dict.fromkeys(("lua", "luajit"), "lua"),
    **dict.fromkeys(("awk", "gawk", "mawk"), "awk"),
    **dict.fromkeys(("tclsh", "expect"), "tcl"),
    "compiled": "compiled",
}
_MODULES_MAX = 24
_RUN_LATER = (
    ".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".profile", ".zshrc", ".zshenv", ".zprofile", ".zlogout",
    ".envrc", ".xprofile", ".bash_aliases", "sitecustomize.py", "usercustomize.py",
)  # fmt: skip
_RUN_LATER_FOLDERS = (".git/hooks/", ".husky/", ".githooks/", "/etc/cron", "/etc/profile.d/", "/.config/autostart/")


def run_files(call: Call, contents: Texts, interpreter: str, args: list[str]) -> Texts:
    """A script with one of these contents is run."""
    outputs: list[str] = []
    for content in contents:
        if content == DISK:
            outputs += UNKNOWN
            continue
        if content.startswith(FRAGMENT):
            call.world.leniently(run_files, call, (content.removeprefix(FRAGMENT),), interpreter or "sh", args)
            continue
        outputs += call.world.within(content, _run_file, call, content, interpreter, args)
    return merged(outputs) if outputs else NOTHING


def _run_file(call: Call, content: str, interpreter: str, args: list[str]) -> Texts:
    language = _language(interpreter, content)
    if language == "sh":
        state = call.shell.copy()
        state.positional = (tuple(args),)
        state.aliases = {}
        return call.walker.code(content, state, Io(call.io.stdin, call.io.merged))
    if language == "python" and not interpreter:
        call = call.with_words(["python", call.argv[0], *args])
    if language:
        judge_program(call, language, content)
    return UNKNOWN


def edited(call: Call, word: str, put_in: str) -> None:
    """A file that was there before got these lines."""
    path = call.path(word)
    contents = call.world.files.read(path)
    call.walker.write(path, (*contents, FRAGMENT + put_in), False, call.shell)


def run_module(call: Call, language: str, places: "tuple[str, ...]") -> None:
    """Judges a module that a program loads, each once."""
    files = call.world.files
    for place in places:
        path = call.path(place)
        contents = files.read(path) if path not in files.loaded and len(files.loaded) < _MODULES_MAX else ()
        if contents:
            files.loaded.add(path)
            call.world.leniently(run_files, call, contents, language, [])


def _language(interpreter: str, content: str) -> str:
    """The language of a script; its first line decides unless an interpreter was named."""
    if interpreter:
        return interpreter
    if not content.startswith("#!"):
        return "sh"
    words = content[2:].partition("\n")[0].split()
    names = [word.rpartition("/")[2] for word in words if not word.startswith("-")]
    if names and names[0] == "env":
        names = names[1:]
    name = names[0] if names else "sh"
    return _INTERPRETERS.get(name, _INTERPRETERS.get(name.rstrip("0123456789.-"), ""))


def judge_program(call: Call, language: str, code: str) -> None:
    """Judges the text of a program in another language than the shell's."""
    if code == DISK:
        return
    call.world.spend(len(code) // 64 + 1)
    if wild(code) and (language != "python" or not without_holes(code).strip()):
        call.world.unresolved("text that cannot be known from the command is run as code", WRITE_IT)
    call.world.enter()
    if language == "python":
        from dogwatch.guard.languages.python import judge_python

        judge_python(call, code)
    elif language == "vim":
        _vim(call, code)
    elif language == "sh":
        call.code(code)
    else:
        from dogwatch.guard.languages.scripting import judge_script

        judge_script(call, language, code)
    call.world.leave()


def _vim(call: Call, code: str) -> None:
    for line in code.splitlines():
        command = line.strip().lstrip(":").lstrip("%0123456789,.$ ")
        if command.startswith(("!", "silent !", "sil !", "silent! !", "read !", "r !", "terminal ", "term ")):
            text = command.partition("!")[2].lstrip("! ") if "!" in command else command.partition(" ")[2]
            call.world.leniently(call.code, text)
        for name in ("system(", "systemlist(", "jobstart(", "os.execute(", "io.popen("):
            if name in command:
                from dogwatch.guard.languages.scripting import judge_script

                judge_script(call, "generic", command)
                break


def written(call: Call, path: str, contents: Texts) -> None:
    """A file was written: was it started before, or does somebody run it by himself later?"""
    languages = [language for ran, language in call.world.files.ran if same(ran, path)]
    name = path.rpartition("/")[2]
    if name in _RUN_LATER or any(folder in path or path.startswith(folder) for folder in _RUN_LATER_FOLDERS):
        for content in contents:
            if known(content):
                language = "python" if name.endswith(".py") else ""
                call.world.leniently(run_files, call, (content,), language, [])
    if name.endswith((".service", ".timer", ".desktop")):
        for line in "\n".join(content for content in contents if known(content)).splitlines():
            key, _, value = line.partition("=")
            if key.strip().startswith("Exec"):
                call.world.leniently(call.code, value.lstrip("-@+!:| "))
    if name == ".gitconfig" or path.endswith((".git/config", "git/config")):
        for line in "\n".join(content for content in contents if known(content)).splitlines():
            value = line.partition("=")[2].strip().strip('"')
            if value.startswith("!"):
                call.world.leniently(call.code, value[1:])
    for language in languages:
        run_files(call, contents, language, [])
