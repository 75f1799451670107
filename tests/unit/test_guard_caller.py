"""What the guard knows of the caller decides: its own processes, its own sessions, what it has written, where it is."""

from __future__ import annotations

import pytest

from dogwatch.guard.judge import Caller, judge


def allowed(command: str, caller: Caller) -> bool:
    return judge(command, caller).allowed


def test_own_pids_may_be_killed_by_number() -> None:
    caller = Caller(own_pids={4321, 4322})
    assert allowed("kill 4321", caller)
    assert allowed("kill -9 4321 4322", caller)
    assert allowed("kill -TERM -- -4321", caller)
    assert allowed("pkill -P 4321", caller)
    assert allowed("python3 -c 'import os; os.kill(4321, 9)'", caller)
    assert allowed("perl -e 'kill 9, 4321'", caller)
    assert not allowed("kill 4321 4323", caller)
    assert not allowed("pkill -P 4323", caller)


def test_own_pids_are_asked_for_only_when_a_number_is_to_be_killed() -> None:
    asked = []

    def own() -> set[int]:
        asked.append(1)
        return {4321}

    caller = Caller(own_pids=own)
    assert allowed("ls; kill -0 4321; kill %1; grep kill f", caller)
    assert asked == []
    assert allowed("kill 4321", caller)
    assert asked == [1]


def test_a_spawned_session_is_ended_by_its_exact_name_only() -> None:
    caller = Caller(spawned={"mine"})
    assert allowed("tmux kill-session -t =mine", caller)
    assert allowed("tmux kill-session -t '=mine:'", caller)
    assert allowed("tmux kill-pane -t =mine:0.1", caller)
    assert allowed("tmux send-keys -t =mine: ls Enter", caller)
    assert not allowed("tmux kill-session -t mine", caller)
    assert not allowed("tmux kill-session -t =min", caller)
    assert not allowed("tmux kill-session -t '='", caller)
    assert not allowed("tmux kill-session -a -t =mine", caller)
    assert not allowed("tmux kill-session", caller)
    assert not allowed("tmux kill-server", caller)


def test_what_is_typed_into_an_own_session_is_judged_too() -> None:
    caller = Caller(spawned={"mine"})
    assert not allowed("tmux send-keys -t =mine: 'kill 4321' Enter", caller)
    assert not allowed("tmux send-keys -t =mine: 'tmux kill' -server Enter", caller)
    assert not allowed("tmux send-keys -H -t =mine: 6b 69 6c 6c 20 31 0d", caller)
    assert allowed("tmux send-keys -t =mine: 'npm test' Enter C-c", caller)


def test_a_session_that_the_same_chain_has_made_is_its_own() -> None:
    caller = Caller()
    assert allowed("tmux new -d -s t \\; set -t t status off \\; kill-session -t t", caller)
    assert not allowed("tmux new -d -s t; tmux kill-session -t t", caller)
    assert not allowed("tmux new -A -d -s t \\; kill-session -t t", caller)
    assert not allowed("tmux new -d -s t \\; kill-session -t other", caller)


@pytest.mark.parametrize(
    "command",
    ["bash x.sh", "./x.sh", "sh < x.sh", ". ./x.sh", "cat x.sh | sh", "cd sub/.. && bash ./x.sh", "cp x.sh y; sh y"],
)
def test_files_written_earlier_in_the_turn_are_judged_by_their_content(command: str) -> None:
    bad = Caller(files={"/project/x.sh": "#!/bin/bash\ntmux kill-server\n"}, cwd="/project")
    good = Caller(files={"/project/x.sh": "#!/bin/bash\nnpm test\n"}, cwd="/project")
    assert not allowed(command, bad)
    assert allowed(command, good)


def test_the_first_line_of_a_file_says_its_language() -> None:
    python = "#!/usr/bin/env python3\nimport os\nos.kill(4321, 9)\n"
    assert not allowed("./k", Caller(files={"k": python}))
    assert not allowed("python3 k", Caller(files={"k": python}))
    assert allowed("./k", Caller(files={"k": python.replace("os.kill(4321, 9)", "print(1)")}))
    assert not allowed("node k.js", Caller(files={"k.js": "process.kill(4321)"}))
    assert not allowed("make", Caller(files={"Makefile": "all:\n\ttmux kill-server\n"}))
    assert not allowed("npm test", Caller(files={"package.json": '{"scripts": {"test": "tmux kill-server"}}'}))
    assert allowed("npm run build", Caller(files={"package.json": '{"scripts": {"test": "tmux kill-server"}}'}))


def test_a_file_with_harm_in_it_may_be_read_and_moved() -> None:
    caller = Caller(files={"x.sh": "tmux kill-server\n"})
    assert allowed("cat x.sh; grep kill x.sh; git add x.sh; bash -n x.sh; mv x.sh docs/", caller)


def test_what_a_command_leaves_in_files_is_told() -> None:
    verdict = judge("echo 'ls -la' > a.sh; cat > /tmp/b <<'E'\npwd\nE\ncurl x > c", Caller(cwd="/project"))
    assert verdict.allowed
    assert verdict.wrote == {"/project/a.sh": "ls -la\n", "/tmp/b": "pwd\n"}


def test_the_home_is_protected_by_its_path_too() -> None:
    caller = Caller(home="/srv/watch", protected=["/etc/agent/settings.json"])
    assert not allowed("rm -rf /srv/watch/runs", caller)
    assert not allowed("rm -rf /srv", caller)
    assert not allowed("cd /srv && rm -rf watch", caller)
    assert not allowed("cd /srv/watch && > ledger.db", caller)
    assert not allowed("mv /srv/wat* /tmp/", caller)
    assert judge("echo {} > /etc/agent/settings.json", caller).rule == "path.settings"
    assert allowed("cat /srv/watch/x /etc/agent/settings.json", caller)
    assert allowed("rm -rf /srv/watchers /srv/other", caller)


def test_a_working_folder_within_the_home_is_the_agents_own() -> None:
    caller = Caller(home="/srv/watch", cwd="/srv/watch/trees/writer")
    assert allowed("rm -rf build && echo x > notes.md && touch /srv/watch/trees/writer/y", caller)
    assert not allowed("rm -rf ../editor", caller)
    assert not allowed("rm -rf ..", caller)


def test_variables_of_the_environment_are_known_where_they_are_given() -> None:
    assert not allowed("$K 4321", Caller())
    assert not allowed("$K 4321", Caller(env={"K": "kill"}))
    assert allowed("$K -la", Caller(env={"K": "ls"}))
    assert not allowed("rm -rf $HOME", Caller(env={"HOME": "/home/me"}))
    assert not allowed("rm -rf /home/me/.local/state/dogwatch", Caller(env={"HOME": "/home/me"}))


def test_characters_that_the_engine_uses_itself_mean_nothing_from_outside() -> None:
    own_job = "\ud804"
    assert not allowed(f"kill {own_job}", Caller())
    assert not allowed("kill $'\\ud804'", Caller())
    assert not allowed("kill $(printf '\\ud804')", Caller())
    assert not allowed("python3 -c 'import os; os.kill(chr(0xd804), 9)'", Caller())


class Disk:
    """What was changed, asked as the hook is asked: by path, with `get` only."""

    def __init__(self, files: dict[str, str]) -> None:
        self.files = files
        self.asked: list[str] = []

    def get(self, path: str) -> str | None:
        self.asked.append(path)
        return self.files.get(path)


SHELL = "tmux kill-server\n"
PYTHON = "import os\nos.system('pkill node')\n"
SCRIPT = "require('child_process').execSync('pkill node')\n"
PACKAGE = '{"scripts": {"stop": "pkill node"}}'


@pytest.mark.parametrize(
    ("path", "content", "command"),
    [
        ("/p/s/x.sh", SHELL, "cd s && sh x.sh"),
        ("/p/s/x.sh", SHELL, "(cd s; ./x.sh)"),
        ("/p/s/x.sh", SHELL, "pushd s && nohup ./x.sh &"),
        ("/p/s/x.sh", SHELL, "source s/../s/x.sh"),
        ("/p/s/x.sh", SHELL, "bash < s/x.sh"),
        ("/p/s/x.sh", SHELL, "cat s/x.sh | sh"),
        ("/p/s/x.sh", SHELL, 'cd "$(git rev-parse --show-toplevel)" && timeout 9 ./s/x.sh'),
        ("/p/s/x.sh", SHELL, "PATH=$PWD/s:$PATH x.sh"),
        ("/home/me/x.sh", SHELL, "~/x.sh"),
        ("/home/me/x.sh", SHELL, 'sh "$HOME/x.sh"'),
        ("/p/a.py", PYTHON, "python3 -u a.py"),
        ("/p/a.py", PYTHON, "python3 -m a"),
        ("/p/a.py", PYTHON, "python3 -c 'import a'"),
        ("/p/a.py", PYTHON, "uv run a.py"),
        ("/p/a/__main__.py", PYTHON, "python3 a"),
        ("/p/a/__init__.py", PYTHON, "python3 -c 'from a import b'"),
        ("/p/conftest.py", PYTHON, "python -m pytest -q"),
        ("/p/tests/conftest.py", PYTHON, "pytest tests/test_a.py"),
        ("/p/tests/test_a.py", PYTHON, "cd tests && pytest test_a.py::test_b"),
        ("/p/x.js", SCRIPT, "node x.js"),
        ("/p/x.js", SCRIPT, "node -e \"require('./x')\""),
        ("/p/x.test.js", SCRIPT, "npx jest x.test.js"),
        ("/p/x.pl", "kill 9, 4321;", "perl x.pl"),
        ("/p/x.rb", "Process.kill(9, 4321)", "ruby x.rb"),
        ("/p/x.awk", 'BEGIN { system("pkill x") }', "awk -f x.awk f"),
        ("/p/Makefile", "stop:\n\tpkill node\n", "make stop"),
        ("/p/Makefile", "stop:\n\tpkill node\n", "cd s && make -C .. stop"),
        ("/p/build.mk", "stop:\n\tpkill node\n", "make -f build.mk"),
        ("/p/package.json", PACKAGE, "npm run stop"),
        ("/p/package.json", PACKAGE, "pnpm stop"),
        ("/p/web/package.json", PACKAGE, "yarn --cwd web stop"),
        ("/p/.git/hooks/pre-commit", SHELL, "git commit -m x"),
        ("/p/h/pre-push", SHELL, "git -c core.hooksPath=h push"),
        ("/p/justfile", "stop:\n  pkill node\n", "just stop"),
        ("/p/CMakeLists.txt", "execute_process(COMMAND pkill node)\n", "cmake -B build"),
        ("/p/x.conf", "kill-server\n", "tmux source-file x.conf"),
    ],
)
def test_whatever_runs_a_changed_file_asks_for_it_by_its_absolute_path(path: str, content: str, command: str) -> None:
    disk = Disk({path: content})
    env = {"HOME": "/home/me"}
    verdict = judge(command, Caller(files=disk, cwd="/p", env=env))
    assert not verdict.allowed
    assert verdict.rule not in ("unresolved", "parse", "guard.error")
    assert path in disk.asked
    assert [one for one in disk.asked if not one.startswith("/") or "/../" in one or "/./" in one] == []
    assert allowed(command, Caller(files=Disk({path: "\n"}), cwd="/p", env=env))


def test_a_program_in_a_file_may_run_what_its_text_does_not_tell() -> None:
    files = {
        "/p/x.sh": 'set -e\ncmd=$(pick)\n"$cmd" "$@"\neval "$HOOK"\n',
        "/p/x.py": "import subprocess, sys\nsubprocess.run(sys.argv[1:])\nexec(input())\n",
        "/p/x.js": "require('child_process').execSync(process.argv[2])",
        "/p/x.fish": "set x (ls)\nif test $x\n  echo hi\nend\n",
    }
    caller = Caller(files=files, cwd="/p")
    assert allowed("sh x.sh; python x.py ls; node x.js ls; fish x.fish", caller)
    assert not allowed('cmd=$(pick); "$cmd"', caller)
    assert not allowed("sh x.sh", Caller(files={"/p/x.sh": "kill $(cat pid)\n"}, cwd="/p"))
    assert not allowed("fish x.fish", Caller(files={"/p/x.fish": "set x (ls)\ntmux kill-server\nend\n"}, cwd="/p"))


def test_a_program_that_was_built_is_run_like_any_other_and_a_script_too_long_to_be_read_is_not_known() -> None:
    files = {"/p/a.out": "\x7fELF\0\0tmux kill-server\n", "/p/long": "#" * 200_000 + "\ntmux kill-server\n"}
    assert allowed("./a.out", Caller(files=files, cwd="/p"))
    assert allowed("wc -l long; head -3 long | grep x", Caller(files=files, cwd="/p"))
    assert judge("sh long", Caller(files=files, cwd="/p")).rule == "unresolved"
    assert allowed("sh long", Caller(files=files, cwd="/p", namespace=True))


def test_a_file_that_runs_itself_is_followed_to_an_end() -> None:
    files = {"/p/Makefile": "all:\n\t$(MAKE) test\ntest:\n\tmake all\n", "/p/x.sh": "sh x.sh child\n"}
    assert allowed("make; sh x.sh", Caller(files=files, cwd="/p"))
    assert judge("sh y.sh", Caller(files={"/p/y.sh": "sh y.sh & sh y.sh &\n"}, cwd="/p")).rule == "fork-bomb"


def test_an_edit_of_a_file_is_judged_when_it_is_run() -> None:
    caller = Caller(files={"/p/x.sh": "echo hi\n"}, cwd="/p")
    assert not allowed("sed -i '1i tmux kill-server' x.sh && ./x.sh", caller)
    assert not allowed("sed -i 's/echo.*/pkill node/' x.sh; sh x.sh", caller)
    assert allowed("sed -i '1i tmux kill-server' x.sh && git add x.sh", caller)
    assert allowed("sed -i 's/h[i]/(ho/' x.sh; sh x.sh", caller)


def test_the_client_is_not_ended_in_a_namespace_either() -> None:
    caller = Caller(namespace=True, ancestors={2, 7})
    assert judge("kill -9 2", caller).rule == "kill.parent"
    assert judge("bash -c 'kill 7'", caller).rule == "kill.parent"
    assert allowed("kill 8", caller)
