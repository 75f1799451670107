"""The quick filter says yes only where the full guard says yes."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dogwatch.guard import plain
from dogwatch.guard.judge import Caller, judge
from dogwatch.guard.plain import plainly_harmless
from dogwatch.guard.rules import programs
from dogwatch.guard.rules.table import RULES

PROGRAMS = sorted(plain._READERS | plain._TOOLS | set(plain._VERBS))
VERBS = sorted({verb for verbs in plain._VERBS.values() for verb in verbs})
CALLERS = [
    Caller(),
    Caller(namespace=True),
    Caller(home="/srv/watch", cwd="/srv/watch", protected=["/etc/x"], files={"run": "tmux kill-server", "x": "kill 1"}),
]

program = st.sampled_from([name.decode() for name in PROGRAMS])
argument = st.one_of(
    st.sampled_from([verb.decode() for verb in VERBS]),
    st.sampled_from("-o -e -c -x -C -k -l -n 5 -rn --exec --output=x --pre --upload-pack=x -exec -delete".split()),
    st.sampled_from("kill tmux pkill kill-server 1234 . .. / ~ /tmp/tmux-1000 src/x.py *.txt ? a=b run ./run".split()),
    st.sampled_from("--no-pager @x +x %1".split()),
    st.sampled_from(["';'", "'#(kill 1)'", "'kill-server'", "'; kill 1'", "';kill'", "'ext::kill 1'", "'+x'"]),
    st.sampled_from(
        ['"kill 1234"', "'tmux kill-server'", '"-exec"', "'tmux'", '"a b"', '--x="y z"', "''", '"$x"', "2>&1"]
    ),
    st.sampled_from(
        [">/dev/null", "2>/dev/null", "> x", "< x", "&", "&>/dev/null", ">", "<<", "$(ls)", "{a,b}", "\\a", "#"]
    ),
    st.text(alphabet="abk./-=~*", min_size=1, max_size=5),
)
simple = st.builds(lambda name, rest: " ".join([name, *rest]), program, st.lists(argument, max_size=4))
glue = st.sampled_from([" | ", " && ", " || ", "; ", "\n", "|", "&&", ";", " & ", "|&", " ;; ", "\n\n"])
command = st.builds(
    lambda first, rest: first + "".join(join + one for join, one in rest),
    simple,
    st.lists(st.tuples(glue, simple), max_size=3),
)


@settings(max_examples=3000, deadline=None, derandomize=True)
@given(text=command)
def test_whatever_it_passes_the_full_guard_passes_too(text: str) -> None:
    if plainly_harmless(text.encode()):
        for caller in CALLERS:
            verdict = judge(text, caller)
            assert verdict.allowed, (text, verdict)


def test_the_full_guard_knows_every_program_that_only_reads() -> None:
    assert {name.decode() for name in plain._READERS} <= {*RULES, *programs._DATA}


@pytest.mark.parametrize(
    "text",
    [
        "ls",
        "ls -la src tests",
        "cd src && ls -la | head -20",
        "git status",
        "git --no-pager log --oneline -5",
        "grep -rn 'tmux kill-server' src | wc -l",
        'rg "os.kill" tests --glob "*.py"',
        "find . -name '*.py' -type f",
        "cat README.md\nls docs",
        "ps aux | grep node",
        "echo done",
    ],
)
def test_everyday_commands_pass_at_once(text: str) -> None:
    assert plainly_harmless(text.encode())


@pytest.mark.parametrize(
    "text",
    [
        "",
        " \n ",
        "kill 1",
        "ki''ll 1",
        "$'\\x6bill' 1",
        "/bin/k?ll 1",
        "echo a | base64 -d | sh",
        "ls; kill 1",
        "ls\nkill 1",
        "ls $(kill 1)",
        "ls `kill 1`",
        "ls > file",
        "ls >> file",
        "cat < file",
        "ls &",
        "ls & kill 1",
        "ls |& sh",
        "ls &&",
        "ls ;; ls",
        "ls ||| ls",
        "x=1 ls",
        "find . -exec kill 1 +",
        "find . '-exec' kill 1 +",
        "find . -delete",
        "sort -o x y",
        "rg --pre kill x",
        "git -c alias.x=!kill x",
        "git x",
        "git fetch --upload-pack=kill",
        "tmux kill-server",
        "tmux ls ; tmux kill-server",
        "pytest -q tests/unit 2>&1 | tail -20",
        "cargo build --release 2>&1 | tail -5",
        "go test ./...",
        "pytest -c 'kill 1'",
        "pytest tmux kill-server",
        "pytest 'tmux' 'kill-server'",
        'echo "$(kill 1)"',
        'echo "`kill 1`"',
        "'ls'",
        "l's'",
        'ls "a"b',
        "(ls)",
        "{ ls; }",
        "! ls",
        "bash x",
        "python3 x",
        "./ls",
        "/bin/ls",
        "env ls",
        "if ls; then ls; fi",
        "ls \x00",
        "ls \x01",
        "ls é",
        "ls\r\nls",
        "a" * 3000,
        # These run scripts and hooks of the project, which the agent may just have changed.
        'git commit -m "fix kill-session handling"',
        "git push",
        "git checkout -b work",
        "git merge main",
        "git rebase main",
        "git pull",
        "git switch main",
        "npm test",
        "npm run build",
        "npm install",
        "pnpm test",
        "yarn",
        "make",
    ],
)
def test_all_else_is_left_to_the_full_guard(text: str) -> None:
    assert not plainly_harmless(text.encode())
