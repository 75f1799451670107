"""The guard's own corpus: nothing that does harm is let through, nothing innocent is denied."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dogwatch.guard.judge import Caller, judge
from dogwatch.guard.plain import plainly_harmless

FOLDER = Path(__file__).parents[1] / "data" / "guard"
LINES = [
    json.loads(line)
    for name in ("own.jsonl", "apart.jsonl")
    for line in (FOLDER / name).read_text(encoding="utf-8").splitlines()
]
EVASIONS = [line["command"] for line in LINES if not line["allowed"]]
INNOCENT = [line["command"] for line in LINES if line["allowed"]]


def test_the_corpus_is_large_and_does_not_contradict_itself() -> None:
    assert len(EVASIONS) >= 200
    assert len(INNOCENT) >= 200
    labels = {(line["command"], line["allowed"]) for line in LINES}
    assert len({command for command, _ in labels}) == len(labels), "no command has two labels"
    assert all(set(line) == {"command", "allowed", "why"} for line in LINES)


def test_no_evasion_is_let_through() -> None:
    assert [command for command in EVASIONS if judge(command, Caller()).allowed] == []


def test_nothing_innocent_is_denied() -> None:
    verdicts = {command: judge(command, Caller()) for command in INNOCENT}
    assert {command: verdict for command, verdict in verdicts.items() if not verdict.allowed} == {}


def test_every_denial_says_which_rule_why_and_what_to_do_instead() -> None:
    for command in EVASIONS:
        verdict = judge(command, Caller())
        assert verdict.rule, command
        assert verdict.rule != "guard.error", command
        assert verdict.reason, command
        assert verdict.hint, command
        (verdict.reason + verdict.hint).encode()  # nothing of the engine's own notation in it


def test_what_is_innocent_stays_so_in_a_namespace() -> None:
    denied = {command: judge(command, Caller(namespace=True)) for command in INNOCENT}
    assert {command: verdict for command, verdict in denied.items() if not verdict.allowed} == {}


EVERYDAY = """\
ls -la
pwd
cd src && ls
cat README.md
cat src/app.py | head -50
head -100 src/index.ts
tail -n 50 server.log
wc -l src/*.py
find . -name '*.py' -type f
find src -type d | sort | head
grep -rn 'to kill' src --include='*.ts'
grep -c TODO src/main.rs
rg -n "process.exit" src
rg --files | wc -l
git status
git status --short
git diff
git diff --stat HEAD~3
git --no-pager log --oneline -20
git log -p -1 -- src/app.py
git show HEAD:src/app.py
git blame src/app.py
git branch -a
git add -A
git add src tests
git rev-parse HEAD
git ls-files | grep test
echo "done with tmux kill-server"
ps aux | grep node
pgrep -f vite
which python3 node
du -sh node_modules
df -h
tree -L 2 src
stat package.json
diff a.txt b.txt
sort names.txt | uniq -c
jq '.scripts' package.json
sleep 5
date
ruff check src tests
mypy src
black --check .
eslint src
tsc --noEmit
go build ./...
pip list
docker ps
kubectl get pods
tmux ls
lsof -i :3000
""".splitlines()


def test_the_quick_filter_passes_no_evasion() -> None:
    assert [command for command in EVASIONS if plainly_harmless(command.encode())] == []


def test_everyday_commands_pass_at_once() -> None:
    assert [command for command in EVERYDAY if not plainly_harmless(command.encode())] == []
    assert [command for command in EVERYDAY if not judge(command, Caller()).allowed] == []


@pytest.mark.parametrize(
    "command",
    [
        "tmux kill-server",
        "bash -c 'tmux kill-server'",
        "echo dG11eCBraWxsLXNlcnZlcg== | base64 -d | sh",
        "kill -9 -1",
        "kill $PPID",
        "pkill .",
        "systemctl restart app",
        "rm -rf $DOGWATCH_HOME",
        "dogwatch down",
        "echo 1 > /sys/fs/cgroup/x/cgroup.kill",
    ],
)
def test_a_namespace_does_not_excuse_what_is_known_to_do_harm(command: str) -> None:
    assert not judge(command, Caller(namespace=True)).allowed


@pytest.mark.parametrize(
    "command",
    ["kill $PID", "kill $(pgrep -f vite)", "pkill -f vite", "lsof -ti:3000 | xargs kill", "$TOOL x", "curl x | sh"],
)
def test_in_a_namespace_what_cannot_be_resolved_passes(command: str) -> None:
    assert not judge(command, Caller()).allowed
    assert judge(command, Caller(namespace=True)).allowed
