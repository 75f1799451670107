"""What an agent gets of the operator's environment, and how it gets it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from dogwatch.harness import harness
from dogwatch.harness.environment import TERMINAL, agent_variables, differing, starting
from dogwatch.model.codec import decode, encode
from dogwatch.model.plan import Role
from dogwatch.spec import load

OPERATOR = {
    "HOME": "/home/u",
    "PATH": "/usr/bin",
    "LC_ALL": "C.UTF-8",
    "TERM": "xterm-kitty",
    "XDG_CONFIG_HOME": "/home/u/.config",
    "https_proxy": "http://proxy:3128",
    "CARGO_HOME": "/home/u/.cargo",
    "ANTHROPIC_API_KEY": "sk-ant-of-the-operator",
    "CLAUDE_CODE_MAX_OUTPUT_TOKENS": "32000",
    "OPENAI_API_KEY": "sk-of-the-operator",
    "AWS_ACCESS_KEY_ID": "AKIAOPERATOR",
    "AWS_REGION": "eu-central-1",
    "GOOGLE_APPLICATION_CREDENTIALS": "/home/u/key.json",
    "CLOUD_ML_REGION": "europe-west1",
    "DATABASE_URL": "postgresql://u:p@db/x",
    "SSH_AUTH_SOCK": "/run/agent",
    "DEPLOY_TOKEN": "deploy-it-7",
    "DEPLOY_HOST": "prod",
    "DOGWATCH_LEDGER": "postgresql://u:p@db/ledger",
    "TMUX": "/tmp/tmux-0/default,1,1",
}
HARMLESS = {"HOME", "PATH", "LC_ALL", "XDG_CONFIG_HOME", "https_proxy", "CARGO_HOME", *TERMINAL}


def names(role: Role, **more: str) -> set[str]:
    return set(agent_variables({**OPERATOR, **more}, harness(role.harness), role))


@pytest.mark.parametrize("kind", ["command", "scripted"])
def test_a_plain_agent_gets_what_is_harmless_and_nothing_else(kind: str) -> None:
    assert names(Role(name="r", harness=kind)) == HARMLESS


def test_a_client_gets_its_own_variables_and_no_other_client_s() -> None:
    assert names(Role(name="r", harness="claude")) == HARMLESS | {"ANTHROPIC_API_KEY", "CLAUDE_CODE_MAX_OUTPUT_TOKENS"}


@pytest.mark.parametrize("way", ["operator", "role"])
def test_the_keys_of_a_cloud_come_only_where_the_client_uses_that_cloud(way: str) -> None:
    switch = {"CLAUDE_CODE_USE_BEDROCK": "1"}
    role = Role(name="r", harness="claude", environment=switch if way == "role" else {})
    got = names(role, **(switch if way == "operator" else {}))
    assert {"AWS_ACCESS_KEY_ID", "AWS_REGION"} <= got
    assert "CLOUD_ML_REGION" not in got
    assert "AWS_REGION" not in names(Role(name="r", harness="claude"), CLAUDE_CODE_USE_BEDROCK="0")
    vertex = names(Role(name="r", harness="claude"), CLAUDE_CODE_USE_VERTEX="1")
    assert {"GOOGLE_APPLICATION_CREDENTIALS", "CLOUD_ML_REGION"} <= vertex
    assert "AWS_REGION" not in vertex


def test_a_role_asks_for_more_by_name_or_by_prefix() -> None:
    assert names(Role(name="r", inherit=("DEPLOY_TOKEN",))) == HARMLESS | {"DEPLOY_TOKEN"}
    assert names(Role(name="r", inherit=("DEPLOY_*",))) == HARMLESS | {"DEPLOY_TOKEN", "DEPLOY_HOST"}
    everything = names(Role(name="r", inherit=("*",)))
    assert set(OPERATOR) - everything == {"DOGWATCH_LEDGER"}, "what is dogwatch's own stays with dogwatch"


def test_the_role_s_own_environment_comes_before_the_operator_s() -> None:
    role = Role(name="r", inherit=("DEPLOY_HOST",), environment={"DEPLOY_HOST": "test", "HOME": "/elsewhere"})
    got = agent_variables(OPERATOR, harness("command"), role)
    assert got["DEPLOY_HOST"] == "test"
    assert got["HOME"] == "/elsewhere"
    assert got["TERM"] == TERMINAL["TERM"], "its terminal is not the operator's"


def test_a_role_of_an_old_ledger_inherits_nothing() -> None:
    old = encode(Role(name="r"))
    del old["inherit"]
    assert decode(Role, old).inherit == ()


def test_a_pipeline_file_says_what_its_roles_inherit(tmp_path: Path) -> None:
    file = tmp_path / "p.yaml"
    text = {
        "name": "p",
        "roles": {"r": {"harness": "command", "command": ["true"], "inherit": ["DEPLOY_TOKEN", "PG*", "*"]}},
        "phases": [{"name": "a", "dispatches": [{"name": "d", "to": "r", "task": "x", "outputs": ["x.md"]}]}],
        "deliverable": {"path": "x.md"},
    }
    file.write_text(json.dumps(text))
    assert load(file).roles[0].inherit == ("DEPLOY_TOKEN", "PG*", "*")


def test_secret_values_stand_in_no_list_of_processes(tmp_path: Path) -> None:
    file = tmp_path / "secrets"
    variables = {
        "PATH": os.environ["PATH"],
        "API_TOKEN": 'it\'s "secret" $HOME `x`\nand goes on \\',
        "HTTPS_PROXY": "http://u:pass@proxy:1",
        "LANG": "C.UTF-8",
    }
    words, text = starting(variables, str(file))
    assert not [word for word in words if 'secret" $HOME' in word or "pass@" in word]
    file.write_text(text)
    show = "import json, os; print(json.dumps(dict(os.environ)))"
    argv = [*words, sys.executable, "-c", show, "an argument"]
    got = json.loads(subprocess.run(argv, env={"LEFT": "over"}, capture_output=True, check=True).stdout)
    assert {name: got.get(name) for name in variables} == variables
    assert "LEFT" not in got
    assert not file.exists()


def test_without_secrets_no_file_and_no_shell_is_needed() -> None:
    assert starting({"LANG": "C.UTF-8"}, "/nowhere") == (["env", "-i", "LANG=C.UTF-8"], "")


def test_what_an_agent_needs_of_another_environment_than_the_crew_s_is_named() -> None:
    role = Role(name="writer", harness="claude", environment={"ANTHROPIC_MODEL": "x"}, inherit=("DEPLOY_*",))
    crew = {"PATH": "/bin", "ANTHROPIC_API_KEY": "old", "EDITOR": "vi", "OPENAI_API_KEY": "1", "DOGWATCH_HOME": "/h"}
    mine = {"PATH": "/bin:/opt", "ANTHROPIC_BASE_URL": "u", "EDITOR": "ed", "ANTHROPIC_MODEL": "y", "DEPLOY_TO": "a"}
    named = differing(mine, crew, harness("claude"), role)
    assert named == ["ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", "DEPLOY_TO", "PATH"]
    assert differing(crew, dict(crew), harness("claude"), role) == []
