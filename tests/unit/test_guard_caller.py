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
