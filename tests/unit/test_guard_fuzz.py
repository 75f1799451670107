"""However a forbidden command is wrapped, it stays denied; however its text is carried as data, that stays allowed.

The wrappings are composed at random. Nothing here is ever run.
"""

from __future__ import annotations

import base64
import time
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dogwatch.guard.judge import Caller, judge
from dogwatch.guard.plain import plainly_harmless

FORBIDDEN = [
    ["tmux", "kill-server"],
    ["tmux", "-L", "x", "kill-session", "-t", "writer"],
    ["kill", "-9", "4321"],
    ["pkill", "-f", "server"],
    ["killall", "node"],
    ["fuser", "-k", "80/tcp"],
    ["systemctl", "stop", "app"],
    ["rm", "-rf", "/tmp/tmux-1000"],
    ["dogwatch", "down"],
]
CPU_SECONDS_MAX = 20.0

Wrapping = Callable[[str], str]


def quote(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def spelled(name: str, how: int) -> str:
    """One word in another spelling that means the same to bash."""
    middle = max(1, len(name) // 2)
    first, rest = name[:middle], name[middle:]
    letter = f"\\x{ord(name[0]):02x}"
    ways = [
        name,
        quote(name),
        f'"{name}"',
        f"{first}''{rest}",
        f'{first}""{rest}',
        f"'{first}'{rest}",
        f'{first}"{rest}"',
        f"$'{letter}{name[1:]}'",
        f"$'{letter}'{name[1:]}",
        f"{first}$(){rest}",
        f"{first}${{nothing}}{rest}",
        f"$(echo {name})",
        f"`echo {name}`",
        f"{first}${{9}}{rest}",
        f"{first}\\\n{rest}",
        f"${{nothing:-{name}}}",
        "".join(f"\\{char}" if char.isalpha() else char for char in name),
    ]
    return ways[how % len(ways)]


spelling = st.lists(st.integers(0, 40), min_size=5, max_size=5)
forbidden = st.builds(
    lambda words, how: " ".join(spelled(word, how[at % 5]) for at, word in enumerate(words)),
    st.sampled_from(FORBIDDEN),
    spelling,
)

RUNS: list[Wrapping] = [
    lambda c: f"bash -c {quote(c)}",
    lambda c: f"sh -ec {quote(c)}",
    lambda c: f"eval {quote(c)}",
    lambda c: f"echo {quote(c)} | sh",
    lambda c: f"printf '%s\\n' {quote(c)} | bash -s",
    lambda c: f"bash <<< {quote(c)}",
    lambda c: f"bash <<'EndOfIt{len(c)}'\n{c}\nEndOfIt{len(c)}\n",
    lambda c: f"bash <(echo {quote(c)})",
    lambda c: f". <(echo {quote(c)})",
    lambda c: f"( {c}\n)",
    lambda c: f"{{ {c}\n}}",
    lambda c: f"if true; then {c}\nfi",
    lambda c: f"if false; then :; else {c}\nfi",
    lambda c: f"for i in 1 2; do {c}\ndone",
    lambda c: f"while true; do {c}\nbreak; done",
    lambda c: f"until false; do {c}\ndone",
    lambda c: f"case x in *) {c}\n;; esac",
    lambda c: f"f{len(c)}() {{ {c}\n}}; f{len(c)}",
    lambda c: f"true && {{ {c}\n}}",
    lambda c: f"false || {{ {c}\n}}",
    lambda c: f"{{ {c}\n}} | cat",
    lambda c: f"ls | {{ {c}\n}}",
    lambda c: f"{{ {c}\n}} &",
    lambda c: f"! {{ {c}\n}}",
    lambda c: f"time {{ {c}\n}}",
    lambda c: f'v{len(c)}={quote(c)}; eval "$v{len(c)}"',
    lambda c: f'v{len(c)}={quote(c)}; bash -c "$v{len(c)}"',
    lambda c: f'set -- {quote(c)}; eval "$1"',
    lambda c: f'a{len(c)}=(ls {quote(c)}); eval "${{a{len(c)}[1]}}"',
    lambda c: f"trap {quote(c)} EXIT",
    lambda c: f"alias k{len(c)}={quote(c)}\nk{len(c)}",
    lambda c: f"timeout 5 bash -c {quote(c)}",
    lambda c: f"nohup env A=1 sh -c {quote(c)} >/dev/null 2>&1 &",
    lambda c: f"sudo -n bash -c {quote(c)}",
    lambda c: f"echo {base64.b64encode(c.encode()).decode()} | base64 -d | sh",
    lambda c: f"echo {c.encode().hex()} | xxd -r -p | sh",
    lambda c: f"echo {quote(c)} > s{len(c)}.sh; sh s{len(c)}.sh",
    lambda c: f"cat > t{len(c)} <<'Text{len(c)}'\n{c}\nText{len(c)}\nchmod +x t{len(c)}; ./t{len(c)}",
    lambda c: f"python3 -c {quote('import os; os.system(' + repr(c) + ')')}",
    lambda c: f"python3 -c {quote('import subprocess as s; s.run(' + repr(c) + ', shell=True)')}",
    lambda c: f"tmux new-session -d {quote(c)}",
    lambda c: f"ssh host {quote(c)}",
    lambda c: f"git -c alias.x={quote('!' + c)} x",
    lambda c: f"find . -maxdepth 0 -exec sh -c {quote(c)} \\;",
    lambda c: f"xargs -n1 sh -c {quote(c)} <<< x",
    lambda c: f"ls; cd /tmp; {c}\nls",
    lambda c: f": a comment # with ' in it\n{c}",
    lambda c: f'echo "$({c}\n)"',
    lambda c: f"x=$({c}\n)",
    lambda c: f"cat <<EndOfText{len(c)}\n$({c}\n)\nEndOfText{len(c)}\n",
    lambda c: f"[[ -n $({c}\n) ]]",
    lambda c: f"flock /tmp/l sh -c {quote(c)}",
    lambda c: f"script -qc {quote(c)} /dev/null",
]

CARRIES: list[Wrapping] = [
    lambda c: f"echo {quote(c)}",
    lambda c: f"git commit -m {quote(c)}",
    lambda c: f"grep -rn {quote(c)} .",
    lambda c: f"rg -F {quote(c)} src | head",
    lambda c: f"cat > notes.md <<'Notes{len(c)}'\n{c}\nNotes{len(c)}\n",
    lambda c: f'x={quote(c)}; echo "$x"',
    lambda c: f"ls # {c.splitlines()[0]}",
    lambda c: f"printf '%s\\n' {quote(c)} | wc -c",
    lambda c: f"python3 -c {quote('print(' + repr(c) + ')')}",
    lambda c: f"[[ $x == {quote(c)} ]] && echo same",
    lambda c: f"case {quote(c)} in x) ls;; esac",
    lambda c: f"declare m={quote(c)}; echo ${{#m}}",
    lambda c: f"arr=({quote(c)}); echo ${{#arr[@]}}",
    lambda c: f"jq -n --arg c {quote(c)} '$c'",
    lambda c: f"tee f.txt <<< {quote(c)}",
    lambda c: f"awk -v x={quote(c)} 'BEGIN {{ print 1 }}'",
    lambda c: f"gh issue create --title x --body {quote(c)}",
    lambda c: f"curl -d {quote(c)} localhost:3000",
    lambda c: f"f() {{ {c}\n}}; declare -f f > /dev/null",
]


def composed(command: str, wrappings: list[Wrapping]) -> str:
    for wrapping in wrappings:
        command = wrapping(command)
    return command


@settings(max_examples=400, deadline=None, derandomize=True)
@given(command=forbidden, wrappings=st.lists(st.sampled_from(RUNS), max_size=3))
def test_a_forbidden_command_stays_denied_in_every_wrapping(command: str, wrappings: list[Wrapping]) -> None:
    text = composed(command, wrappings)
    verdict = judge(text, Caller())
    assert not verdict.allowed, text
    assert verdict.rule not in ("parse", "guard.error"), (text, verdict)
    assert not plainly_harmless(text.encode()), text


@settings(max_examples=300, deadline=None, derandomize=True)
@given(
    words=st.sampled_from(FORBIDDEN),
    carries=st.sampled_from(CARRIES),
    wrappings=st.lists(st.sampled_from(RUNS), max_size=3),
)
def test_the_text_of_a_forbidden_command_is_harmless_as_data(
    words: list[str], carries: Wrapping, wrappings: list[Wrapping]
) -> None:
    text = composed(carries(" ".join(words)), wrappings)
    verdict = judge(text, Caller())
    assert verdict.allowed, (text, verdict)


@pytest.mark.parametrize("number", range(len(RUNS)))
def test_each_wrapping_by_itself_keeps_the_difference(number: int) -> None:
    assert not judge(RUNS[number]("tmux kill-server"), Caller()).allowed, RUNS[number]("tmux kill-server")
    assert judge(RUNS[number]("tmux list-sessions"), Caller()).allowed, RUNS[number]("tmux list-sessions")


TOKENS = st.sampled_from(
    "kill tmux $( ) ` ' \" \\ ( ) (( )) { } [[ ]] [ ] ; ;; & && | || < > << <<- <<< <( >( $ ${ $(( ! # ~ * ? = += \n \t"
    " if then elif else fi for in do done while until case esac select function time coproc x=1 $x ${x}"
    " ${x:- ${#x} ${!x} eval bash -c sh 1 a b.c EOF <<EOF \x00 é 😀 \ud804 \x7f".split(" ")
)
soup = st.lists(st.one_of(TOKENS, st.text(max_size=3)), max_size=40)


@settings(max_examples=500, deadline=None, derandomize=True)
@given(parts=soup, glue=st.sampled_from(["", " "]))
def test_no_text_makes_the_guard_fail(parts: list[str], glue: str) -> None:
    text = glue.join(parts)
    verdict = judge(text, Caller())
    assert verdict.rule != "guard.error", text
    if plainly_harmless(text.encode("utf-8", "surrogatepass")):
        assert verdict.allowed, text


@settings(max_examples=300, deadline=None, derandomize=True)
@given(data=st.binary(max_size=200))
def test_no_bytes_make_the_guard_fail(data: bytes) -> None:
    verdict = judge(data.decode("utf-8", "surrogateescape"), Caller())
    assert verdict.rule != "guard.error"
    if plainly_harmless(data):
        assert verdict.allowed


def _nested(times: int) -> str:
    code = "ls"
    for _ in range(times):
        code = f"bash -c {quote(code)}"
    return code


N = 30_000
HOSTILE = {
    "ten megabytes": "a" * 10_000_000,
    "ten megabytes of brackets": "(" * 10_000_000,
    "brackets": "(" * 4 * N,
    "double brackets": "((" * 2 * N,
    "substitutions": "$(" * 2 * N,
    "parameters": "${" * 2 * N,
    "open braces": "echo " + "{a," * N,
    "nested braces": "echo " + "{" * N + "a,b" + "}" * N,
    "many braces": "echo " + "{a,b}" * 200,
    "a long sequence": "echo {1..999999999}",
    "backquotes": "`" * (4 * N + 1),
    "escaped backquotes": "`echo " + "\\`echo " * (N // 2),
    "quotes": '"' * (4 * N + 1),
    "commands": "echo a;" * (N // 2),
    "a long pipe": "a|" * N + "a",
    "jobs": "a&" * 2 * N,
    "growing variables": "x=aaaaaaaa;" + "x=$x$x;" * 300 + "$x",
    "here-documents": "cat " + "<<A " * 3000 + "\n" + "A\n" * 3000,
    "nested here-documents": "cat <<A\n" + "$(cat <<A\n" * 8000,
    "nested ifs": "if a; then " * 5000,
    "nested for loops": "for i in 1 2 3; do " * 30 + "echo $i;" + "done;" * 30,
    "nested while loops": "while :; do " * 30 + "x=$x$y; y=$x;" + "done;" * 30,
    "a function that calls itself": "f() { f; f; }; f",
    "functions that call each other": "f() { g $1a; g; }; g() { f b$1; f; }; f x",
    "branches": "".join(f"if a; then x{i}=1; else x{i}=2; fi;" for i in range(60))
    + "echo "
    + "".join(f"$x{i}" for i in range(60)),
    "subscripts": "a[" * N,
    "subscripts with commands": "a[$(" * N,
    "a long sum": "echo $((" + "1+" * N + "1))",
    "a deep sum": "echo $((" + "(" * N + "1" + ")" * N + "))",
    "eval of eval": "eval " * (N // 2) + "ls",
    "sudo of sudo": "sudo " * (N // 2) + "ls",
    "shells in shells": _nested(12),
    "patterns": "x=" + "a" * 500 + "; echo ${x//*a*a*a*a*b/} ${x##*a*a*a*a*b}",
    "a program of stars": "/" + "*" * 5000 + "k*l 1",
    "an array": "a=(" + "x " * N + "); echo ${a[@]}",
    "arguments from a pipe": "echo " + "1 " * N + "| xargs kill",
    "files": "".join(f"echo a > f{i}; bash f{i};" for i in range(2000)),
    "a file that runs itself": "echo 'bash f' > f; bash f",
    "files that run each other": "".join(f"echo 'bash f{i + 1}' > f{i};" for i in range(80)) + "bash f0",
    "aliases of each other": "alias a=b; alias b=a; a",
    "tmux commands": "tmux " + "ls \\; " * (N // 3) + "ls",
    "nested python": "python3 -c '" + "(" * N + "'",
    "a long python sum": "python3 -c 'x=" + "1+" * N + "1'",
    "growing python": "python3 -c '" + "\n".join(f"x{i}=x{i - 1}+x{i - 1}" for i in range(1, 2000)) + "'",
    "nested javascript": "node -e '`" + "${`" * (N // 2) + "'",
    "nested perl": "perl -e '" + "s{" * N + "'",
    "a wide printf": "printf '%999999999s' x | sh",
    "a long printf": "printf '%s' " + "a " * N + "| sh",
    "line ends": "\n" * 4 * N,
    "continued lines": "\\\n" * 2 * N,
    "a comment": "#" + "x" * 4 * N,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_texts_end_soon(name: str) -> None:
    before = time.process_time()
    verdict = judge(HOSTILE[name], Caller())
    assert verdict.rule != "guard.error"
    assert time.process_time() - before < CPU_SECONDS_MAX
    assert not plainly_harmless(HOSTILE[name].encode()[:100_000])
