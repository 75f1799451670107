"""The parser reads what bash reads, and says so where it does not."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from dogwatch.guard.bash.parser import Parser
from dogwatch.guard.judge import Caller, judge
from dogwatch.guard.verdict import Denied, ParseError

CORPUS = Path(__file__).parents[1] / "data" / "guard" / "own.jsonl"


def bash_reads(text: str, *options: str) -> bool:
    """Whether bash itself accepts the syntax; `-n` runs nothing."""
    argv = ["bash", "--norc", *options, "-n"]
    done = subprocess.run(argv, input=text.encode(), capture_output=True, check=False, timeout=60)
    return done.returncode == 0


def guard_reads(text: str) -> bool:
    try:
        Parser(text).whole()
    except ParseError:
        return False
    return True


SYNTAX = [
    "a; b & c && d || e | f |& g",
    "! a; ! ! a; time a; time -p a | b; time",
    "(a; b) > x 2>&1 < y >> z &> w",
    "{ a; b; } 3<&0 {fd}> x",
    "if a; then b; elif c; then d; else e; fi > x",
    "if a\nthen\n\nb\nfi",
    "while a; do b; done < x; until a; do b; done",
    "for x in a b c; do d; done; for x; do d; done; for x in; do d; done",
    "for x in a b\ndo c\ndone",
    "for ((i = 0; i < 3; i++)); do a; done; for ((;;)) { a; }",
    "select x in a b; do c; done",
    "case x in a | b) c ;; (d) e ;& f) g ;;& *) esac",
    "case $x in\n  a)\n    b\n    ;;\nesac",
    "f() { a; }; function g { a; }; function h() (a); i () if a; then b; fi",
    "coproc a; coproc N { a; }",
    "[[ a == b && ( -f c || ! -d d ) ]]; [[ a =~ ^(b|c)+$ ]]; [[ a < b ]]; [[ $x == *(a|b) ]]",
    "((a = 1 + 2)); (( a && b )) || c; ((a)); ( (a) )",
    "a=1 b=2 c; d=(1 2 [5]=3); e[1]=2; f+=x; g+=(y); declare -A h=([a]=b)",
    "echo $a ${b} ${c:-d} ${#e} ${!f} ${g[@]} ${h[1]} ${i#*/} ${j//x/y} ${k:1:2} ${l^^} ${m@Q} ${!n*} ${o[$p]}",
    'echo ${a:-"b c"} ${a:-\'b c\'} ${a:-$(b)} ${a:-${b:-c}} "${a:-\'b\'}" "${a#"b"}"',
    "echo $(a) `b` $((1 + 2)) $[1 + 2] $( (a) ) $((1)) $(a $(b $(c)))",
    'echo `a \\`b\\`` "`a`" "$(a "b")"',
    "echo 'a' \"b\" $'c\\n' $\"d\" \\e \"f'g\" 'h\"i'",
    "a <(b) >(c) | d > >(e) < <(f)",
    "cat <<A\nb\nA\n",
    "cat <<'A' <<\"B\" <<-C\na\nA\nb\nB\n\tc\n\tC\n",
    "cat <<A | b\n$(c <<D\ne\nD\n)\nA\n",
    "a <<A && b\nc\nA\nd",
    "cat <<A\nno end",
    "cat <<< a <<< 'b c'",
    "a # comment ' \"\nb#c",
    "a \\\n b \\\n\nc",
    "echo {a,b} {1..3} a{b,c}d {} { }",
    "echo a=b c[1]=d ~ ~/x ~user *.txt [a-z]? $ \\$",
    '$(a) b; ${a} b; "$a" b; `a` b',
    "a;\n\n\nb\n",
    "",
    "# only a comment",
    "\n\n",
    "if :; then :; fi; { :; }; (:)",
    "echo if then else fi for do done { } ! [[ ]]",
    "x=; y= z",
    "a 2>&1 >&2 1>&- <&- 2>/dev/null",
    "a() { b() { c; }; b; }; a",
    'echo "$(cat <<\'A\'\n"quoted" $x ) \'\nA\n)"',
    'echo "${a["b"]}" ${a["c d"]}',
    "a && # comment\n b |\n c",
]
BROKEN = [
    "'", '"', "`", "$(", "${", "$((1", "(", "((1)", "{ a", "a )", "}", "a ;; b", "| a", "a |", "a &&", "&& a", "; a",
    "a & ; b", "if", "if a; then", "if a; fi", "then", "fi", "for", "for x in a; b; done", "for x in a; do done",
    "while a; done", "do a; done", "case", "case x in a", "case x", "esac", "f() a", "f( a )", "function", "[[ a",
    "a > ", "a < ;", "<<", "x=(a", "()", "a ()", "{ }", "( )", "if ; then a; fi", "while do a; done", "! | a",
    "a | | b", "a || || b", "a & & b", "echo ${a", "echo $(a",
]  # fmt: skip


@pytest.mark.parametrize("text", SYNTAX)
def test_what_bash_reads_the_guard_reads(text: str) -> None:
    assert bash_reads(text)
    assert guard_reads(text)


@pytest.mark.parametrize("text", BROKEN)
def test_what_bash_does_not_read_the_guard_refuses(text: str) -> None:
    assert not bash_reads(text)
    assert not guard_reads(text)
    assert judge(text, Caller()).rule == "parse"


def test_bash_reads_everything_innocent_in_the_corpus() -> None:
    lines = [json.loads(line) for line in CORPUS.read_text(encoding="utf-8").splitlines()]
    innocent = [line["command"] for line in lines if line["allowed"]]
    functions = "\n".join(f"f{number}() {{\n{command}\n}}" for number, command in enumerate(innocent))
    assert bash_reads(functions, "-O", "extglob")


@pytest.mark.parametrize(
    "text",
    [
        "$\\\n(kill 4321)",
        'echo "$\\\n(kill 4321)"',
        "k=ls; kk=kill; $k\\\nk 4321",
        "k\\\n=kill; $k 4321",
        "${ kill 4321; }",
    ],
)
def test_what_only_some_versions_read_so_is_refused(text: str) -> None:
    assert not judge(text, Caller()).allowed


def test_a_word_may_go_on_in_the_next_line() -> None:
    assert judge("ls\\\n  -la; echo a\\\nb", Caller()).allowed
    assert judge("ki\\\nll 4321", Caller()).rule == "kill.foreign"
    assert judge("tmux \\\n kill-\\\nserver", Caller()).rule == "tmux.kill-server"


def test_brackets_that_only_look_like_a_calculation_are_commands() -> None:
    assert judge("((echo a); (kill 4321))", Caller()).rule == "kill.foreign"
    assert judge("((echo a) ; kill 4321)", Caller()).rule == "kill.foreign"
    assert judge("echo $((echo a); kill 4321)", Caller()).rule == "kill.foreign"
    assert judge('((echo ")" ; kill 4321) )', Caller()).rule == "kill.foreign"
    assert judge("((kill 4321))", Caller()).allowed  # a syntax error for bash too: nothing runs


def test_text_behind_a_here_document_is_read() -> None:
    for tail in ("kill 4321", "A\nkill 4321", "  A\nA\nkill 4321"):
        assert not judge(f"cat <<A\n{tail}\nA\nkill 4321", Caller()).allowed
    assert judge("cat <<A\nkill 4321\nA", Caller()).allowed
    assert judge("cat <<A; ls\nkill 4321\n A\nA\nls", Caller()).allowed
    assert judge("cat <<'A'\n$(kill 4321)\nA", Caller()).allowed
    assert not judge("cat <<A\n$(kill 4321)\nA", Caller()).allowed
    assert judge("cat <<A\n\\$(kill 4321)\nA", Caller()).allowed


def test_nesting_is_limited_and_refused_by_name() -> None:
    with pytest.raises(Denied) as denied:
        Parser("$(" * 200 + "ls" + ")" * 200).whole()
    assert denied.value.rule == "too-complex"
    assert guard_reads("$(" * 10 + "ls" + ")" * 10)
