"""The examples are right, their scenarios load, and they show what they are there to show."""

from __future__ import annotations

from pathlib import Path

import pytest

from dogwatch.model.codec import decode, encode
from dogwatch.model.plan import Plan
from dogwatch.spec import check, load
from dogwatch.spec.explain import explain
from dogwatch.testing import model, scenario

EXAMPLES = Path(__file__).parents[2] / "examples"
NAMES = sorted(folder.name for folder in EXAMPLES.iterdir() if folder.is_dir())


def example(name: str) -> Plan:
    return load(EXAMPLES / name / "pipeline.yaml")


def test_there_are_these_examples() -> None:
    assert NAMES == ["analytics", "mixed", "overnight", "papers"]


@pytest.mark.parametrize("name", NAMES)
def test_an_example_has_no_problem_and_is_named_after_its_folder(name: str) -> None:
    assert check(EXAMPLES / name / "pipeline.yaml") == []
    assert example(name).name == name


@pytest.mark.parametrize("name", [name for name in NAMES if name != "mixed"])
def test_each_scenario_file_loads_and_belongs_to_a_role(name: str) -> None:
    files = [file for file in (EXAMPLES / name).glob("*.yaml") if file.name != "pipeline.yaml"]
    assert {role.script for role in example(name).roles} <= {str(file) for file in files}
    assert {file.stem.partition("-")[0] for file in files} == {role.name for role in example(name).roles}
    for file in files:
        scenario.load(str(file))


def test_the_mixed_crew_has_every_client_and_a_scenario_for_its_model() -> None:
    assert [role.harness for role in example("mixed").roles] == ["claude", "codex", "opencode", "gemini"]
    assert len(model.load(str(EXAMPLES / "mixed/pipeline.rehearsal.yaml")).rules) == 7


@pytest.mark.parametrize("name", NAMES)
def test_a_plan_survives_the_ledger(name: str) -> None:
    assert decode(Plan, encode(example(name))) == example(name)


@pytest.mark.parametrize("name", NAMES)
def test_the_explanation_names_every_agent_dispatch_checkpoint_gate_and_output(name: str) -> None:
    plan = example(name)
    text = explain(plan)
    names = [*plan.agents(), *(milestone.name for milestone in plan.milestones), plan.deliverable.path]
    for phase in plan.phases:
        names += [phase.name, *(dispatch.name for dispatch in phase.dispatches)]
        names += [*(checkpoint.name for checkpoint in phase.checkpoints), *(gate.name for gate in phase.gates)]
        names += [output.path for dispatch in phase.dispatches for output in dispatch.outputs]
    assert [missing for missing in names if missing not in text] == []
    assert max(len(line) for line in text.splitlines()) <= 120


def test_overnight_has_two_faults_of_its_own_and_work_that_is_long_enough_to_be_killed() -> None:
    roles = {role.name: scenario.load(role.script) for role in example("overnight").roles}
    assert list(roles) == ["planner", "researcher", "writer", "reviewer"]
    assert [step.name for step in roles["researcher"].rules[0].do] == ["work", "silent"]
    assert [step.name for step in roles["writer"].rules[0].do] == ["lose_report"]
    assert roles["planner"].work_s >= 6


def test_what_the_writer_of_overnight_writes_passes_the_byte_checks() -> None:
    plan = example("overnight")
    text = scenario.load(plan.roles[2].script).content
    assert plan.phases[1].gates[0].checks[1].path == "draft.md"
    for check_ in (plan.deliverable, plan.phases[1].gates[0].checks[1]):
        assert len(text) >= check_.min_bytes
        assert all(part in text for part in check_.contains)
        assert not any(part in text for part in check_.lacks)


def test_analytics_addresses_one_all_any_and_a_numbered_agent() -> None:
    plan = example("analytics")
    dispatches = [dispatch for phase in plan.phases for dispatch in phase.dispatches]
    assert {dispatch.address for dispatch in dispatches} == {"one", "all", "any"}
    assert "auditor-2" in {dispatch.to for dispatch in dispatches}
    assert {output.kind for dispatch in dispatches for output in dispatch.outputs} >= {"doc", "chart", "data"}


def test_each_of_the_five_phases_of_papers_ends_in_a_gate() -> None:
    assert [len(phase.gates) for phase in example("papers").phases] == [1, 1, 1, 1, 1]


def test_an_explanation_says_who_does_what_when() -> None:
    text = explain(load(EXAMPLES / "analytics" / "pipeline.yaml", {"segment": "students"}))
    assert "Management asks why students" in text
    assert "profile: whoever of auditor-1 and auditor-2 claims it first, after extract is accepted" in text
    assert "checkpoint report-review: judge and analyst review report.md of report, at most 3 rounds" in text
    assert "makes the run PARTIAL" in text
    assert "ends within 10 minutes" in text
