"""Builds: makefiles, scripts of packages and compilers. What was written just now is judged by what it says."""

from dogwatch.guard.bash.call import Call
from dogwatch.guard.bash.files import FRAGMENT
from dogwatch.guard.bash.holes import DISK, known, shown
from dogwatch.guard.bash.redirects import content_of
from dogwatch.guard.bash.state import UNKNOWN, Texts
from dogwatch.guard.rules.options import options
from dogwatch.guard.rules.runners import judge_recipe, runner
from dogwatch.guard.rules.scripts import run_files

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dogwatch.guard.bash.call import Rule

_SOURCES = (".c", ".cc", ".cpp", ".cxx", ".rs", ".go")


def make(call: Call) -> Texts:
    """A makefile that was written just now is judged by its recipes."""
    found = options(call.args, "fCIjloW", ("file", "makefile", "directory", "jobs", "eval"), permute=True)
    files = [text for name in ("f", "file", "makefile") for text in found.values.get(name, [])]
    for word in call.args:
        call.world.leniently(call.code, _shell_function(word))
    for word in found.rest:
        name, equals, value = word.partition("=")
        if equals and name in ("SHELL", ".SHELLFLAGS", "MAKE", "CC", "CXX", "RM"):
            call.code(value)
    for text in found.values.get("eval", []):
        call.world.leniently(_recipes, call, text)
    folder = found.value("C", "directory")
    for file in files or ["Makefile", "makefile", "GNUmakefile"]:
        path = f"{folder}/{file}" if folder and file != "-" else file
        for text in content_of(call.walker, path, call.shell, call.io):
            if known(text):
                call.world.within(text, _recipes, call, text)
            elif text != DISK:
                call.world.unresolved(f"the makefile {shown(file)} cannot be known", "write it out and run it")
    return UNKNOWN


def _recipes(call: Call, text: str) -> Texts:
    """The recipes and `$(shell …)` of a makefile, with its own variables filled in where they are plain."""
    values: dict[str, str] = {}
    joined = text.replace("\\\n", " ")
    for line in joined.splitlines():
        name, equals, value = line.partition("=")
        if equals and not line.startswith("\t") and name.rstrip(" :?+!").replace("_", "").isalnum():
            values[name.rstrip(" :?+!")] = value.strip()
    for line in joined.splitlines():
        recipe = line[1:] if line.startswith("\t") else line.partition(";")[2] if ":" in line.partition(";")[0] else ""
        for source in (recipe.lstrip(" \t@-+"), _shell_function(line)):
            if source.strip():
                _recipe(call, _filled(source, values))
    return UNKNOWN


def _recipe(call: Call, code: str) -> None:
    call.world.leniently(lambda: call.code(code.replace("$$", "$")))


def _shell_function(line: str) -> str:
    start = line.find("$(shell ")
    end = line.rfind(")")
    return line[start + 8 : end] if 0 <= start < end else ""


def _filled(source: str, values: dict[str, str]) -> str:
    for _ in range(4):
        before = source
        for name, value in values.items():
            source = source.replace(f"$({name})", value).replace(f"${{{name}}}", value)
        if source == before or len(source) > 10_000:
            break
    return source


def package_scripts(call: Call) -> None:
    """`npm run NAME`, `yarn NAME`: the scripts of a package.json that was written just now."""
    found = options(call.args, "C", ("prefix", "cwd", "dir", "filter", "workspace"), permute=True)
    folder = found.value("C", "prefix", "cwd", "dir") or "."
    words = found.rest
    if words[:2] == ["pkg", "set"]:
        for word in words[2:]:
            name, _, value = word.partition("=")
            if name.startswith("scripts."):
                call.world.leniently(call.code, value)
        return
    name = words[1] if words[:1] in (["run"], ["run-script"]) and len(words) > 1 else words[0] if words else "install"
    names = [name, f"pre{name}", f"post{name}"]
    if name in ("install", "ci", "i", "add"):
        names = ["preinstall", "install", "postinstall", "prepare"]
    for content in call.world.files.read(call.path(f"{folder}/package.json")):
        if content.startswith(FRAGMENT):
            judge_recipe(call, "lines", [f" {line}" for line in content.splitlines()[1:]])
        for code in _scripts(content, names):
            call.world.within(code, call.code, code)


def _scripts(content: str, names: list[str]) -> list[str]:
    import json

    try:
        scripts = json.loads(content)["scripts"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return []
    return [scripts[name] for name in names if isinstance(scripts, dict) and isinstance(scripts.get(name), str)]


def compiler(call: Call) -> Texts:
    """What is compiled from a source that was written just now is that source when it is run."""
    found = options(call.args, "oILlDxWfmO", ("output", "crate-name", "crate-type", "edition"), permute=True)
    sources = [word for word in found.rest if word.endswith(_SOURCES)]
    if "-run" in call.args:  # tcc
        files = [word for word in call.args if word == "-" or word.endswith(_SOURCES)]
        texts = [text for word in files for text in content_of(call.walker, word, call.shell, call.io)]
        return run_files(call, tuple(texts), "compiled", [])
    contents = [text for word in sources for text in call.world.files.read(call.path(word)) if known(text)]
    name = sources[0].rpartition("/")[2].rpartition(".")[0] if sources and call.name == "rustc" else "a.out"
    output = found.value("o", "output") or name
    for content in contents:
        call.walker.write(call.path(output), (f"#!compiled\n{content}",), False, call.shell)
    return UNKNOWN


def go(call: Call) -> Texts:
    """`go run FILE`, `go run FOLDER`."""
    if call.args[:1] == ["run"]:
        for word in call.args[1:]:
            if word.endswith(".go"):
                return run_files(call, content_of(call.walker, word, call.shell, call.io), "compiled", [])
            for path, texts in list(call.world.files.written.items()):
                if path.endswith(".go") and (path.rpartition("/")[0] or ".") == call.path(word):
                    run_files(call, tuple(texts), "compiled", [])
    elif call.args[:1] == ["build"]:
        return compiler(call)
    return runner(call)


RULES: "dict[str, Rule]" = {
    **dict.fromkeys(("make", "gmake"), make),
    **dict.fromkeys(("cc", "gcc", "g++", "c++", "clang", "clang++", "tcc", "rustc"), compiler),
    "go": go,
}
