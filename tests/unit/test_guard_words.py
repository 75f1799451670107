"""Where the guard says that a word has a known value, real bash agrees.

The words are harmless, and bash has only its builtins: an empty folder, no PATH, a function that prints its arguments.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dogwatch.guard.bash.holes import known
from dogwatch.guard.bash.parser import Parser
from dogwatch.guard.bash.state import Io, Shell, World
from dogwatch.guard.bash.tree import Simple
from dogwatch.guard.bash.walk import Walker
from dogwatch.guard.rules.programs import Rulebook
from dogwatch.guard.verdict import Caller, ParseError

PRELUDE = (
    "x=ab y='c  d' z= n=3 s=abcabc p=/usr/lib/lib.tar.gz w='  lead trail  ' a=(one 'two  2' three);"
    " declare -A m=([k]=v [l]='v w'); set -- p1 'p 2'"
)
SHOW = "show() { printf '%s\\0' \"$@\"; printf '\\1\\0'; }"

plain = st.text(alphabet="abD1-_./=+,:%@é", min_size=1, max_size=4)
variable = st.sampled_from(["x", "y", "z", "n", "s", "p", "w", "unset_variable"])
pattern = st.sampled_from(
    ["a", "b*", "*b", "?", "[ab]", "*", "a*c", "*.", "/*", "*/", "bc", "[!a]", "[a-b]*", "[[:alpha:]]"]
)
operation = st.one_of(
    st.just(""),
    st.builds("{}{}".format, st.sampled_from([":-", "-", ":+", "+"]), plain),
    st.builds("{}{}".format, st.sampled_from(["#", "##", "%", "%%"]), pattern),
    st.builds("{}{}/X".format, st.sampled_from(["/", "//", "/#", "/%"]), pattern),
    st.sampled_from([":1", ":0:2", ": -2", ":1:-1", ":n-2", "^^", ",,", "^", ",", "@U", "@L"]),
)
parameter = st.one_of(
    st.builds("${}".format, variable),
    st.builds("${{{}{}}}".format, variable, operation),
    st.builds("${{#{}}}".format, variable),
    st.sampled_from(
        ["$1", "$2", "$3", "$#", "$*", "$@", "${@:2}", "${*:1:1}", "${!n}", "${a[0]}", "${a[1]}", "${a[n-2]}"]
    ),
    st.sampled_from(["${a[@]}", "${a[*]}", "${a[-1]}", "${#a[@]}", "${a[@]:1}", "${a[@]#t}", "${m[k]}", "${m[l]}"]),
)
substitution = st.one_of(
    st.builds("$(echo {})".format, plain),
    st.builds("`echo {}`".format, plain),
    st.builds("$(printf %s {})".format, plain),
    st.builds("$(printf '%s-%s|' {} {})".format, plain, plain),
    st.sampled_from(
        [
            "$(echo a; echo b)",
            "$(printf 'a\\nb\\n\\n')",
            "$(x=in; echo $x)",
            "$(read v <<< 'h  s'; echo \"$v\")",
            "$(< /dev/null)",
        ]
    ),
    st.sampled_from(["$(for i in 1 2; do echo $i; done)", "$(echo -e '\\x41\\tb')", "$(f() { echo $1; }; f q)"]),
    st.sampled_from(["$((1+2*3))", "$((n*n-1))", "$(( (n+1) % 2 ))", "$[n+1]", "$((16#ff))", "$((n>2&&n<5))"]),
)
quoted = st.one_of(
    st.builds("'{}'".format, st.text(alphabet='ab $"\\\n*{}`é', max_size=4)),
    st.builds('"{}"'.format, st.text(alphabet="ab '*{}é", max_size=4)),
    st.builds('"{}{} {}"'.format, plain, parameter, parameter),
    st.builds('"{}"'.format, parameter),
    st.builds('"{}"'.format, substitution),
    st.sampled_from(
        ['"\\"\\$x\\\\"', '"\\n"', '""', "''", '"x${a[@]}y"', '"${a[*]}"', '"$@"', '"$*"', '"${x:-"q r"}"']
    ),
    st.builds(
        "$'{}'".format, st.sampled_from(["\\x41", "\\101", "\\n", "\\t", "\\u00e9", "\\'", "\\\\", "\\q", "\\0b"])
    ),
    st.builds('$"{}"'.format, plain),
    st.builds("\\{}".format, st.sampled_from(list("a $'\"\\*{}"))),
)
braces = st.one_of(
    st.builds("{{{},{}}}".format, plain, plain),
    st.sampled_from(
        ["{1..3}", "{c..a}", "{01..03}", "{a,b{c,d}}", "{1..5..2}", "{,x}", "{a}", "{a,", "}", "{}", "{3..1}"]
    ),
)
word = st.lists(st.one_of(plain, quoted, parameter, substitution, braces), min_size=1, max_size=4).map("".join)
line = st.lists(word, min_size=1, max_size=3).map(" ".join)


def of_bash(lines: list[str], folder: Path) -> list[list[str] | None]:
    """What bash makes of each line's words; None where it refuses the line."""
    script = [PRELUDE, SHOW]
    script += [f"( eval {_quote('show ' + text)} ) 2>/dev/null || printf 'refused\\0\\2\\0\\1\\0'" for text in lines]
    argv = ["/bin/bash", "--norc", "--noprofile", "-c", "\n".join(script)]
    environment = {"PATH": "/nonexistent", "LC_ALL": "C.UTF-8"}
    done = subprocess.run(argv, capture_output=True, env=environment, cwd=folder, check=False, timeout=120)
    answers = done.stdout.decode("utf-8", "replace").split("\1\0")[:-1]
    assert len(answers) == len(lines), done.stderr
    return [None if "\2" in answer else answer.split("\0")[:-1] for answer in answers]


def of_guard(text: str) -> list[str] | None:
    """What the guard makes of the words; None where it does not claim to know."""
    walker = Walker(World(Caller()), Rulebook())
    shell = Shell("")
    walker.script(Parser(PRELUDE).whole(), shell, Io())
    command = Parser("show " + text).whole().commands[0]
    assert isinstance(command, Simple)
    alternatives = walker.expander.arguments(command.words, shell)
    return alternatives[0][1:] if len(alternatives) == 1 and all(map(known, alternatives[0])) else None


def _quote(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


@settings(max_examples=60, deadline=None, derandomize=True)
@given(lines=st.lists(line, min_size=20, max_size=20))
def test_bash_agrees_on_every_word_that_is_known(lines: list[str], tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.getbasetemp()
    for text, real in zip(lines, of_bash(lines, folder / "nothing-here"), strict=True):
        if real is None:
            continue
        try:
            ours = of_guard(text)
        except ParseError as error:
            raise AssertionError(f"bash reads {text!r}, the guard does not: {error}") from None
        if ours is not None:
            assert (ours or [""]) == (real or [""]), text


@pytest.fixture(autouse=True, scope="module")
def empty_folder(tmp_path_factory: pytest.TempPathFactory) -> None:
    (tmp_path_factory.getbasetemp() / "nothing-here").mkdir(exist_ok=True)


def test_most_words_are_known() -> None:
    examples = ["$x$y", "{a,b}$x", '"${a[@]}"', "$(echo hi)", "${p##*/}", "$((n+1))", "$'\\x41'", "${s//b/X}", "~+x"]
    assert [text for text in examples if of_guard(text) is None] == []


@pytest.mark.parametrize(
    "text", ["$HOME", "$RANDOM", "$(date)", "*.txt", "~/x", "$!", "$$", "$(cat file)", "${a[$RANDOM]}"]
)
def test_what_depends_on_the_machine_is_not_known(text: str) -> None:
    assert of_guard(text) is None
