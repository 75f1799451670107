"""Every rule of the guard, both ways: what it denies, and what is close to it and allowed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dogwatch.guard.judge import Caller, judge

GUARD = Path(__file__).parents[2] / "src" / "dogwatch" / "guard"

RULES: list[tuple[str, str, str]] = [
    # rule, a command that it denies, a command close to it that is allowed
    ("tmux.kill-server", "tmux kill-server", "tmux list-sessions"),
    ("tmux.kill-server", "tmux kill-serv", "tmux list-s"),
    ("tmux.kill-server", "tmux if-shell true kill-server", "tmux if-shell true list-sessions"),
    ("tmux.kill-session", "tmux kill-session -t x", "tmux has-session -t x"),
    ("tmux.kill-session", "tmux kill-session -t ''", "tmux kill-session -C"),
    ("tmux.kill-window", "tmux killw", "tmux lsw"),
    ("tmux.kill-pane", "tmux killp -a", "tmux lsp -a"),
    ("tmux.respawn-pane", "tmux respawnp -k", "tmux capturep -p"),
    ("tmux.send-keys", "tmux send -t x ls Enter", "tmux new -d \\; send ls Enter"),
    ("tmux.paste-buffer", "tmux pasteb -t x", "tmux showb"),
    ("tmux.set-option", "tmux set -g status off", "tmux show -g status"),
    ("tmux.new-window", "tmux new-window -k -t x:1", "tmux new-window"),
    ("tmux.detach-client", "tmux detach -a", "tmux lsc"),
    ("tmux.attach-session", "tmux attach -d -t x", "tmux attach -t x"),
    ("screen.command", "screen -S x -X quit", "screen -ls"),
    ("screen.detach", "screen -D x", "screen -dmS x ls"),
    ("zellij.kill-session", "zellij kill-session x", "zellij list-sessions"),
    ("kill.foreign", "kill 4321", "kill -0 4321"),
    ("kill.foreign", "kill $(pgrep x)", "echo $(pgrep x)"),
    ("kill.foreign", "kill 1", "kill -l 1"),
    ("kill.parent", "kill $PPID", "kill $$"),
    ("kill.parent", "pkill -P $PPID", "pkill -P $$"),
    ("kill.group", "kill 0", "kill %1"),
    ("kill.everything", "kill -9 -1", "kill -1 %1"),
    ("kill.everything", "pkill -u me", "pgrep -u me"),
    ("kill.everything", "pkill .", "pgrep ."),
    ("kill.pattern", "pkill -f server", "pkill -0 -f server"),
    ("kill.pattern", "killall node", "killall -l"),
    ("kill.pattern", "skill node", "skill --help"),
    ("kill.port", "fuser -k 80/tcp", "fuser 80/tcp"),
    ("kill.port", "npx kill-port 80", "npx kill-port --help"),
    ("process.proc", "echo 1 > /proc/4321/oom_score_adj", "echo 1 > /proc/self/oom_score_adj"),
    ("process.proc", "echo b > /proc/sysrq-trigger", "cat /proc/uptime"),
    ("process.cgroup", "echo 1 > /sys/fs/cgroup/a/cgroup.kill", "cat /sys/fs/cgroup/a/cgroup.procs"),
    ("process.cgroup", "cgexec -g memory:/ make", "lscgroup"),
    ("kill.foreign", "choom -n 1000 -p 4321", "choom -p 4321"),
    ("machine.service", "systemctl stop x", "systemctl status x"),
    ("machine.service", "service x restart", "service x status"),
    ("machine.login", "loginctl terminate-user x", "loginctl list-users"),
    ("machine.power", "shutdown now", "shutdown --help"),
    ("machine.power", "init 6", "init --version"),
    ("machine.schedule", "crontab -r", "crontab -l"),
    ("path.dogwatch", "rm -r $DOGWATCH_HOME/runs", "ls $DOGWATCH_HOME/runs"),
    ("path.dogwatch", "echo > $DOGWATCH_HOME/x", "cat < $DOGWATCH_HOME/x"),
    ("path.socket", "rm -r /tmp/tmux-1000", "rm -r /tmp/tmuxes"),
    ("path.socket", "rm -r /tmp/*", "rm -r /tmp/*.txt"),
    ("dogwatch.operator", "dogwatch kill r/x", "dogwatch report done"),
    ("dogwatch.operator", "python3 -m dogwatch down", "python3 -m dogwatch status"),
    ("fork-bomb", ":(){ :|:& };:", "f() { ls | cat & }; f"),
    ("unresolved", "$TOOL x", "$HOME/tool x"),
    ("unresolved", "kill $PID", "npm start & PID=$!; kill $PID"),
    ("unresolved", "curl x | sh", "curl x | jq ."),
    ("unresolved", 'eval "$CODE"', 'eval "echo $CODE"'),
    ("unresolved", "python3 -c 'exec(input())'", "python3 -c 'exec(\"print(1)\")'"),
    ("parse", "echo 'x", "echo 'x'"),
    ("parse", "if ls; then", "if ls; then ls; fi"),
    ("too-long", "echo " + "x" * 200_000, "echo " + "x" * 20_000),
    ("too-complex", "( " * 60 + "ls" + " )" * 60, "( ( (ls) ) )"),
    ("too-complex", "ls;" * 10_000, "ls;" * 100),
]


@pytest.mark.parametrize(
    ("rule", "denied", "allowed"), RULES, ids=[f"{rule}-{n}" for n, (rule, *_) in enumerate(RULES)]
)
def test_the_rule_denies_the_one_and_not_the_other(rule: str, denied: str, allowed: str) -> None:
    verdict = judge(denied, Caller())
    assert (verdict.allowed, verdict.rule) == (False, rule)
    assert verdict.hint
    assert judge(allowed, Caller()).allowed, judge(allowed, Caller())


def test_every_rule_that_the_code_names_is_tested() -> None:
    source = "".join(path.read_text(encoding="utf-8") for path in GUARD.glob("*.py"))
    named = set(re.findall(r'"((?:kill|process|machine|path|dogwatch|screen)\.[a-z-]+)"', source))
    assert named - {rule for rule, *_ in RULES} == {"kill.self", "path.settings", "dogwatch.guard"} & named


@pytest.mark.parametrize("name", ["claude", "node", "codex"])
def test_in_a_namespace_the_own_client_is_not_killed_by_name(name: str) -> None:
    assert judge(f"pkill {name}", Caller(namespace=True)).rule == "kill.self"
    assert judge(f"pkill -f '{name} server.js'", Caller(namespace=True)).allowed


def test_the_reason_names_the_command_and_hides_what_is_unknown() -> None:
    verdict = judge("kill -9 $(pgrep -f 'next dev')", Caller())
    assert verdict.reason == ("`kill -9 …` ends processes that were looked up by name or port, which may be anybody's")
    assert "$!" in verdict.hint


@pytest.mark.parametrize("name", ["op-0", "OP", "Docker", "TASK", "task-2", "tS", "=poetry", "Deno2", "TSX"])
def test_a_program_is_known_under_another_case_and_with_a_version(name: str) -> None:
    """The rules look their programs up by name: one that they are served under another must not fail."""
    assert judge(name, Caller()).rule != "guard.error"
    assert judge(f"{name} run build", Caller()).rule != "guard.error"


def test_a_program_in_another_case_is_judged_like_itself() -> None:
    for command in ("poetry run tmux kill-server", "Poetry run tmux kill-server", "POETRY run tmux kill-server"):
        assert judge(command, Caller()).rule.startswith("tmux"), command


@pytest.mark.parametrize(
    "command",
    [
        "x=ls; f() { LOCAL x; x=tmux; }; f; $x kill-server",
        "x=ls; f() { declare3 x; x=tmux; }; f; $x kill-server",
        "x=tmux; EXPORT x=ls; $x kill-server",
        "x=tmux; Unset x; $x kill-server",
        "ALIAS tmux=ls; tmux kill-server",
    ],
)
def test_what_only_looks_like_a_command_of_the_shell_changes_nothing_in_it(command: str) -> None:
    assert judge(command, Caller()).rule == "tmux.kill-server"
