"""The stage of a rehearsal: a copy of the project, homes without a way to a real model, and a scenario."""

from __future__ import annotations

import http.client
import json
import os
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dogwatch.actions.stage import scenario_of
from dogwatch.cli import rehearsing
from dogwatch.cli.rehearsing import scenario_for, set_stage
from dogwatch.errors import RefusedError, UsageError
from dogwatch.harness import harness
from dogwatch.harness.environment import agent_variables
from dogwatch.model.plan import ByteCheck, Checkpoint, Dispatch, Gate, Notify, Output, Phase, Plan, Role
from dogwatch.testing.model import ScriptedModel, load, parse
from dogwatch.testing.model.answer import Call, answer
from dogwatch.testing.model.conversation import Question, Said
from dogwatch.testing.model.director import Director
from dogwatch.testing.model.rehearsal import built_in, checks_of, content
from dogwatch.world.files import failed_check
from dogwatch.world.home import Home

KEY = "sk-ant-of-the-operator-0123456789"


def plan(**changes: Any) -> Plan:
    role = Role(
        name="writer", harness="claude", permissions=("Bash",), environment={"ANTHROPIC_API_KEY": KEY, "A": "b"}
    )
    draft = Dispatch(name="draft", to="writer", task="Write.", outputs=(Output(path="docs/it's.md", min_bytes=90),))
    phase = Phase(name="one", dispatches=(draft,))
    made = Plan(name="tide", roles=(role,), phases=(phase,), deliverable=ByteCheck(path="docs/it's.md"))
    return replace(made, **changes)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(str(tmp_path / "home"))


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    (folder / "src").mkdir(parents=True)
    (folder / "src/main.py").write_text("print(1)\n")
    (folder / "link").symlink_to("src/main.py")
    os.mkfifo(folder / "pipe")
    return folder


def test_the_agents_work_on_a_copy_and_nobody_is_notified(home: Home, project: Path) -> None:
    scene = set_stage(home, plan(notify=Notify(command=("false",))), str(project))
    copy = Path(scene.project)
    assert copy == Path(scene.stage.folder) / "project"
    assert Path(scene.stage.folder).parent == Path(home.rehearsals)
    assert (copy / "src/main.py").read_text() == "print(1)\n"
    assert (copy / "link").is_symlink()
    assert not (copy / "pipe").exists()
    assert scene.plan.notify.on == ()
    assert load(scenario_of(scene.stage)).rules[0].name == "draft"


def test_in_place_is_in_place(home: Home, project: Path) -> None:
    scene = set_stage(home, plan(), str(project), in_place=True)
    assert scene.project == str(project)
    assert not os.path.exists(f"{scene.stage.folder}/project")


def test_a_home_inside_the_project_is_not_copied_into_itself(project: Path) -> None:
    home = Home(str(project / ".dogwatch"))
    os.makedirs(home.path)
    Path(home.path, "ledger.db").write_text("x")
    scene = set_stage(home, plan(), str(project))
    assert sorted(os.listdir(scene.project)) == ["link", "src"]


def test_a_project_that_is_too_large_is_refused(home: Home, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rehearsing, "ENTRIES_MAX", 2)
    with pytest.raises(RefusedError, match="too large"):
        set_stage(home, plan(), str(project))
    assert not os.path.exists(home.rehearsals)


def test_a_wrong_scenario_leaves_nothing_behind(home: Home, project: Path, tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text("rulez: []\n")
    with pytest.raises(UsageError, match="rulez"):
        set_stage(home, plan(), str(project), str(wrong))
    assert os.listdir(home.rehearsals) == []


def test_the_scenario_beside_the_pipeline_file_is_taken(tmp_path: Path) -> None:
    spec = tmp_path / "night.yaml"
    assert scenario_for(str(spec), "") == ""
    (tmp_path / "night.rehearsal.yaml").write_text("")
    assert scenario_for(str(spec), "") == str(tmp_path / "night.rehearsal.yaml")
    assert scenario_for(str(spec), str(tmp_path / "other.yaml")) == str(tmp_path / "other.yaml")


def test_no_key_reaches_a_client_and_its_home_is_a_new_one(home: Home, project: Path) -> None:
    scene = set_stage(home, plan(), str(project))
    (role,) = scene.plan.roles
    operator = {
        "HOME": "/home/u",
        "PATH": "/usr/bin",
        "XDG_CONFIG_HOME": "/home/u/.config",
        "ANTHROPIC_API_KEY": KEY,
        "ANTHROPIC_AUTH_TOKEN": KEY,
        "CLAUDE_CONFIG_DIR": "/home/u/.claude",
        "CLAUDE_CODE_USE_BEDROCK": "1",
        "AWS_ACCESS_KEY_ID": "AKIAOPERATOR",
        "IS_SANDBOX": "1",
        "https_proxy": "http://proxy:3128",
        "no_proxy": "intern",
    }
    given = agent_variables(operator, harness("claude"), replace(role, inherit=("DEPLOY_*",)), rehearsal=True)
    assert KEY not in given.values()
    assert given["ANTHROPIC_BASE_URL"] == f"http://127.0.0.1:{scene.stage.port}/writer"
    assert given["HOME"] == f"{scene.stage.folder}/homes/writer"
    assert given["CLAUDE_CONFIG_DIR"].startswith(given["HOME"])
    assert (given["PATH"], given["A"], given["IS_SANDBOX"]) == ("/usr/bin", "b", "1")
    assert given["no_proxy"] == "intern,127.0.0.1,localhost"
    assert not {"XDG_CONFIG_HOME", "CLAUDE_CODE_USE_BEDROCK", "AWS_ACCESS_KEY_ID", "ANTHROPIC_AUTH_TOKEN"} & set(given)
    assert os.path.isdir(given["HOME"])


def test_commands_play_as_they_are_and_what_may_go_wrong_is_said(home: Home, project: Path) -> None:
    roles = (Role(name="tool", harness="command", command=("true",)), Role(name="writer", harness="claude"))
    check = ByteCheck(path="docs/it's.md", matches=r"^\d{9}$")
    scene = set_stage(home, plan(roles=roles, deliverable=check), str(project))
    assert scene.plan.roles[0] == roles[0]
    assert [note.split(":")[0] for note in scene.notes] == [
        "tool is a plain command",
        "writer has no permissions of its own",
        "the built-in scenario cannot write what is checked",
    ]


def test_the_built_in_scenario_writes_what_is_checked(tmp_path: Path) -> None:
    checks = (ByteCheck(path="docs/it's.md", contains=("# Tides", "it's"), min_bytes=500),)
    phase = replace(plan().phases[0], gates=(Gate(name="bytes", checks=checks),))
    made = plan(phases=(phase,))
    steps = parse(built_in(made)).rules[0].do
    command = steps[0]["command"]
    subprocess.run(["sh", "-c", command], env={**os.environ, "DOGWATCH_OUTPUT": str(tmp_path)}, check=True)
    assert [failed_check(str(tmp_path), check)[0] for check in checks_of(made)] == ["", ""]
    assert steps[1]["command"] == "dogwatch report done --task draft"


def test_a_json_output_is_json_of_the_right_size() -> None:
    text = content("a.json", 300, [ByteCheck(path="a.json", json=True, contains=("tide",))], "said")
    assert json.loads(text)["holds"] == ["tide"]
    assert len(text) >= 300


def test_all_who_are_addressed_have_a_rule_and_any_claims_first() -> None:
    role = Role(name="auditor", harness="claude", permissions=("Write",), count=2)
    each = Dispatch(name="audit", to="auditor", address="all", task="x", outputs=(Output(path="{agent}.md"),))
    one = Dispatch(name="sum", to="auditor", address="any", task="x", outputs=(Output(path="sum.md"),))
    review = Checkpoint(name="look", artifact="sum.md", author="sum", reviewers=("auditor-1",))
    made = plan(roles=(role,), phases=(Phase(name="p", dispatches=(each, one), checkpoints=(review,)),))
    rules = {rule["name"]: rule["do"] for rule in built_in(made)["rules"]}
    assert rules["audit.auditor-2"][0]["tool"]["input"]["file_path"] == "${DOGWATCH_OUTPUT}/auditor-2.md"
    assert rules["sum"][0] == {"shell": "dogwatch claim sum"}
    assert rules["checkpoint"][0] == {"shell": "dogwatch checkpoint approve ${dogwatch:subject}"}


def test_a_step_is_filled_in_with_what_is_known() -> None:
    scenario = parse(
        {
            "variables": {"DOGWATCH_OUTPUT": "/o"},
            "rules": [
                {"prompt": "mail", "do": [{"tool": {"name": "T", "input": {"a": ["${DOGWATCH_OUTPUT}/x ${OTHER}"]}}}]},
                {"role": "judge", "do": [{"shell": "ack ${dogwatch:message} ${dogwatch:subject}"}]},
            ],
        }
    )

    def asked(prompt: str, role: str = "") -> tuple[Any, ...]:
        question = Question(model="m", said=(Said("user", prompt),), tools=("Bash",), role=role)
        return answer(Director(scenario).choose(question).step, question, scenario).parts

    assert asked("[dogwatch:mab mail from-x]") == (Call("T", {"a": ["/o/x ${OTHER}"]}),)
    (call,) = asked("[dogwatch:mcd checkpoint review]", "judge")
    assert call.input["command"] == "ack mcd review"
    assert asked("[dogwatch:mcd checkpoint review]") == (scenario.answer,)


def test_a_url_says_whom_the_client_plays() -> None:
    scenario = {"rules": [{"role": "judge", "do": [{"text": "I judge."}]}]}
    body = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "?"}], "tools": [{"name": "Bash"}]}
    said = {}
    with ScriptedModel(scenario) as model:
        for role in ("judge", "writer"):
            connection = http.client.HTTPConnection("127.0.0.1", int(model.url.rpartition(":")[2]), timeout=60)
            connection.request("POST", f"/{role}/v1/messages", json.dumps(body))
            said[role] = json.load(connection.getresponse())["content"][0]["text"]
            connection.close()
        assert [request.role for request in model.requests] == ["judge", "writer"]
    assert said == {"judge": "I judge.", "writer": model.scenario.answer}
