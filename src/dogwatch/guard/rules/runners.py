"""Runners of tests and tasks: they run files that they find by themselves. Those that were changed are judged.

What such a file does not tell is its own business; it is denied only for what is surely denied.
"""

from dogwatch.guard.bash.call import Call
from dogwatch.guard.bash.patterns import matches
from dogwatch.guard.bash.state import Texts
from dogwatch.guard.bash.words import glob
from dogwatch.guard.rules.scripts import run_files

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dogwatch.guard.bash.call import Rule

_PYTEST = ("python", "conftest.py test_*.py *_test.py setup.py")
_JEST = ("javascript", "*.test.* *.spec.* *.config.js *.config.ts *.config.mjs *.config.cjs .eslintrc.js")
_RUNNERS: dict[str, tuple[str, str]] = {
    # program: the language of its files, and how they are called
    **dict.fromkeys(("pytest", "py.test", "unittest", "nose2", "coverage", "tox"), _PYTEST),
    **dict.fromkeys(("jest", "vitest", "mocha", "ava", "playwright", "cypress", "vite", "webpack", "rollup"), _JEST),
    **dict.fromkeys(("eslint", "next", "prettier", "tailwindcss"), _JEST),
    **dict.fromkeys(("gulp", "grunt"), ("javascript", "gulpfile.js Gruntfile.js")),
    "nox": ("python", "noxfile.py"),
    **dict.fromkeys(("invoke", "inv"), ("python", "tasks.py")),
    "fab": ("python", "fabfile.py"),
    "scons": ("python", "SConstruct SConscript"),
    "rake": ("ruby", "Rakefile rakefile"),
    "rspec": ("ruby", "*_spec.rb spec_helper.rb"),
    "phpunit": ("php", "*Test.php"),
    "bats": ("sh", "*.bats"),
    "cargo": ("compiled", "*.rs"),
    "go": ("compiled", "*.go"),
    "just": ("lines", "justfile Justfile .justfile"),
    "task": ("lines", "Taskfile.yml Taskfile.yaml"),
    "ninja": ("lines", "build.ninja"),
    "cmake": ("lines", "CMakeLists.txt *.cmake"),
    "meson": ("compiled", "meson.build"),
    "ansible-playbook": ("lines", "*.yml *.yaml"),
    **dict.fromkeys(("foreman", "honcho", "overmind", "hivemind"), ("lines", "Procfile")),
    "pre-commit": ("lines", ".pre-commit-config.yaml"),
    **dict.fromkeys(("gradle", "gradlew"), ("compiled", "build.gradle build.gradle.kts")),
    "ant": ("lines", "build.xml"),
    "composer": ("lines", "composer.json"),
}
_LINES_MAX = 400
_TITLES = ("desc", "description", "summary", "name", "title", "id", "msg", "message", "help", "comment")
_BEFORE_CODE = ("COMMAND ", ": ", "= ", "- ", "\t", "executable=", "shell=")
"""What may stand before a command in a line of a recipe."""


def runner(call: Call) -> Texts:
    language, patterns = _RUNNERS[call.name]
    files = call.world.files
    paths = {path: texts for path, texts in files.written.items() if _named(path, patterns)}
    words = [word.partition("::")[0].rpartition("=")[2] for word in call.args if not word.startswith("--log")]
    folders = {"", *(word.rpartition("/")[0] for word in words if "/" in word)}
    folders.update(word.rstrip("/") for word in words if "." not in word)
    names = [name for name in patterns.split() if "*" not in name]
    tried = [*words, *(f"{word.replace('.', '/')}.py" for word in words if language == "python" and "/" not in word)]
    tried += [f"{folder or '.'}/{name}" for folder in folders for name in names]
    for word in tried[:64]:
        path = call.path(word)
        if word and not word.startswith("-") and path not in paths:
            paths[path] = list(files.read(path))
    for path, contents in paths.items():
        if path not in files.loaded:
            files.loaded.add(path)
            judge_recipe(call, language, contents)
    return call.rules.unknown_program(call)


def _named(path: str, patterns: str) -> bool:
    name = path.rpartition("/")[2]
    return any(matches(glob(pattern), name) for pattern in patterns.split())


def judge_recipe(call: Call, language: str, contents: "list[str]") -> None:
    """Judges a file that a program runs by itself."""
    for content in contents:
        if language == "lines":
            for line in content.splitlines()[:_LINES_MAX]:
                _line(call, line)
        else:
            call.world.leniently(run_files, call, (content,), language, [])


def _line(call: Call, line: str) -> None:
    """A line of a recipe: what stands behind its marks may be a command."""
    if line[:1] == " ":
        call.world.leniently(call.code, line.strip().lstrip("@-"))
    for mark in _BEFORE_CODE:
        before, found, code = line.partition(mark)
        code = code.strip().strip("\"',[]").removesuffix(")")
        key = before.strip(' -"')
        if found and code and key not in _TITLES and not key.startswith(("#", "//")):
            call.world.leniently(call.code, code)


RULES: "dict[str, Rule]" = dict.fromkeys(_RUNNERS, runner)
