"""Loading a pipeline file: the Plan that comes of it, variables, `--set`, and files that are no pipeline at all."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from dogwatch.errors import SpecError
from dogwatch.model import plan
from dogwatch.spec import Problem, check, load
from dogwatch.spec.problem import printable

SMALL = """\
name: small
vars: {topic: tides, version: 1.10}
roles:
  writer: {harness: command, command: [python3, "${here}/tool.py"]}
  auditor: {harness: command, command: [cat], count: 2}
phases:
  - name: only
    dispatches:
      - {name: draft, to: writer, task: "On ${topic} ${version}, not $${this}, {agent} of {run}", outputs: [draft.md]}
      - {name: audit, to: all auditor, task: Audit., outputs: [{path: "{role}/{agent}.md", kind: doc, min_bytes: 9}]}
      - {name: count, to: any auditor, task: Count., after: [audit, draft], risk: critical, expect_s: 5, attempts: 3}
    checkpoints:
      - {name: review, artifact: draft.md, reviewers: [auditor], question: "Good?", rounds_max: 2}
      - {name: review-audit, artifact: auditor/auditor-2.md, reviewers: [writer]}
    gates:
      - {name: bytes, checks: [{path: draft.md, contains: [a], lacks: [b], matches: c, json: true, max_bytes: 9}]}
      - {name: program, command: ["true"], timeout_s: 3}
milestones: {half: {after: [draft]}}
deliverable: {path: draft.md, min_bytes: 4}
"""


def small(tmp_path: Path, text: str = SMALL) -> Path:
    file = tmp_path / "pipeline.yaml"
    file.write_text(text)
    return file


def only(problems: list[Problem]) -> Problem:
    assert len(problems) == 1, problems
    return problems[0]


def test_a_file_becomes_the_plan_that_it_describes(tmp_path: Path) -> None:
    assert load(small(tmp_path)) == plan.Plan(
        name="small",
        roles=(
            plan.Role(name="writer", harness="command", command=("python3", f"{tmp_path}/tool.py")),
            plan.Role(name="auditor", harness="command", command=("cat",), count=2),
        ),
        phases=(
            plan.Phase(
                name="only",
                dispatches=(
                    plan.Dispatch(
                        name="draft",
                        to="writer",
                        task="On tides 1.10, not ${this}, {agent} of {run}",
                        outputs=(plan.Output(path="draft.md"),),
                    ),
                    plan.Dispatch(
                        name="audit",
                        to="auditor",
                        address="all",
                        task="Audit.",
                        outputs=(plan.Output(path="{role}/{agent}.md", kind="doc", min_bytes=9),),
                    ),
                    plan.Dispatch(
                        name="count",
                        to="auditor",
                        address="any",
                        task="Count.",
                        after=("audit", "draft"),
                        risk="critical",
                        expect_s=5.0,
                        attempts=3,
                    ),
                ),
                checkpoints=(
                    plan.Checkpoint(
                        name="review",
                        artifact="draft.md",
                        author="draft",
                        reviewers=("auditor-1", "auditor-2"),
                        question="Good?",
                        rounds_max=2,
                    ),
                    plan.Checkpoint(
                        name="review-audit", artifact="auditor/auditor-2.md", author="audit", reviewers=("writer",)
                    ),
                ),
                gates=(
                    plan.Gate(
                        name="bytes",
                        checks=(
                            plan.ByteCheck(
                                path="draft.md", contains=("a",), lacks=("b",), matches="c", json=True, max_bytes=9
                            ),
                        ),
                    ),
                    plan.Gate(name="program", command=("true",), timeout_s=3.0),
                ),
            ),
        ),
        deliverable=plan.ByteCheck(path="draft.md", min_bytes=4),
        milestones=(plan.Milestone(name="half", after=("draft",)),),
    )


def test_a_scenario_file_is_found_beside_the_pipeline_file_from_any_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "scenes").mkdir()
    (tmp_path / "scenes" / "writer.yaml").write_text("work_s: 1\n")
    scripted = "{harness: scripted, script: scenes/../scenes/writer.yaml}"
    file = small(tmp_path, SMALL.replace('{harness: command, command: [python3, "${here}/tool.py"]}', scripted))
    monkeypatch.chdir(tmp_path / "scenes")
    for name in (str(file), "../pipeline.yaml"):
        assert load(name).roles[0].script == str(tmp_path / "scenes" / "writer.yaml")


def test_the_author_is_whoever_writes_the_artifact_last_by_then(tmp_path: Path) -> None:
    text = SMALL.replace("task: Count., after: [audit, draft]", "task: Count., outputs: [draft.md], after: [draft]")
    text = text.replace("reviewers: [auditor]", "reviewers: [writer]")
    assert load(small(tmp_path, text)).phases[0].checkpoints[0].author == "count"


def test_scalars_are_those_of_yaml_1_2(tmp_path: Path) -> None:
    text = SMALL.replace("topic: tides", "topic: on").replace("Audit.,", "12:30,").replace("Count.,", "2024-01-01,")
    first, second, third = load(small(tmp_path, text)).phases[0].dispatches
    assert (first.task[:5], second.task, third.task) == ("On on", "12:30", "2024-01-01")


def test_an_alias_stands_for_its_value(tmp_path: Path) -> None:
    text = SMALL.replace("reviewers: [auditor]", "reviewers: [auditor-1]").replace("[draft.md]}", "&o [draft.md]}")
    text = text.replace("after: [audit, draft],", "after: [draft], outputs: *o,").replace("auditor-1]", "writer]")
    assert load(small(tmp_path, text)).phases[0].dispatches[2].outputs == (plan.Output(path="draft.md"),)


def test_all_problems_are_reported_in_the_order_of_the_file(tmp_path: Path) -> None:
    text = SMALL.replace("name: small", "name: Small").replace("count: 2", "cuont: 2").replace("[writer]", "[wrter]")
    text = text.replace("min_bytes: 4", 'min_bytes: "4"').replace("topic: tides, ", "")
    problems = check(small(tmp_path, text))
    assert [problem.line for problem in problems] == [1, 5, 9, 14, 14, 19]
    assert problems == sorted(problems)


def test_the_error_of_load_has_a_line_for_each_problem_and_its_hint(tmp_path: Path) -> None:
    file = small(tmp_path, SMALL.replace("name: small\n", "nmae: small\n"))
    with pytest.raises(SpecError) as caught:
        load(file)
    assert str(caught.value).splitlines() == [
        f"{file}:1:1: 'name' is missing",
        "  hint: The pipeline's name; runs are named after it.",
        f"{file}:1:1: unknown key 'nmae'",
        "  hint: did you mean 'name'?",
    ]


def test_an_error_of_many_problems_is_cut(tmp_path: Path) -> None:
    file = small(tmp_path, SMALL + "".join(f"x{number}: 1\n" for number in range(80)))
    with pytest.raises(SpecError, match=r"\.\.\. and 30 more"):
        load(file)
    assert len(check(file)) == 80


def test_set_reaches_into_the_file_by_names_and_numbers(tmp_path: Path) -> None:
    changes = {
        "limits.nudge_s": "2.5",
        "roles.auditor.count": "3",
        "roles.writer.environment.LANG": "C",
        "phases.only.dispatches.count.risk": "high",
        "phases.0.dispatches.2.expect_s": "7",
        "topic": "1.50",
    }
    made = load(small(tmp_path), changes)
    assert made.limits == plan.Limits(nudge_s=2.5)
    assert made.roles[1].agents() == ("auditor-1", "auditor-2", "auditor-3")
    assert made.roles[0].environment == {"LANG": "C"}
    assert made.phases[0].dispatches[2].risk == "high"
    assert made.phases[0].dispatches[2].expect_s == 7.0
    assert made.phases[0].dispatches[0].task.startswith("On 1.50 ")


@pytest.mark.parametrize(
    ("key", "value", "message", "hint"),
    [
        ("limits.nuge_s", "5", "unknown key 'nuge_s'", "did you mean 'nudge_s'?"),
        ("limts.nudge_s", "5", "unknown key 'limts'", "did you mean 'limits'?"),
        ("limits.nudge_s", "soon", "must be a number, not the text 'soon'", ""),
        ("roles.writr.count", "3", "there is no 'writr' in roles", "did you mean 'writer'?"),
        ("phases.onyl.name", "x", "there is no 'onyl' in phases", "did you mean 'only'?"),
        ("phases.7.name", "x", "there is no '7' in phases", "known here: only"),
        ("phases.only", "x", "must be a mapping of keys to values", ""),
        ("name.first", "x", "there is no 'first' in name, which is a plain value", ""),
        ("roles..count", "3", "there is no '' in roles", "known here"),
        ("limits.", "3", "there is no '' in limits", ""),
        ("topik", "x", "the file has no variable 'topik'", "did you mean 'topic'?"),
        ("", "x", "the file has no variable ''", ""),
        ("topic", "a\x1bb", "control character '\\x1b'", "leave it out"),
        ("roles.auditor.count", "1", "no dispatch", ""),
    ],
)
def test_what_is_wrong_with_set_is_said_of_set(tmp_path: Path, key: str, value: str, message: str, hint: str) -> None:
    problems = check(small(tmp_path), {key: value})
    found = next(problem for problem in problems if message in problem.message)
    assert hint in found.hint
    if key != "roles.auditor.count":
        assert (found.line, found.path) == (0, key)
        assert found.render("pipeline.yaml").startswith(f"--set {key}: ")


def test_set_may_give_a_variable_that_the_file_uses_and_does_not_declare(tmp_path: Path) -> None:
    file = small(tmp_path, SMALL.replace("topic: tides, ", ""))
    assert only(check(file)).message == "there is no variable 'topic'"
    assert load(file, {"topic": "moons"}).phases[0].dispatches[0].task.startswith("On moons")


def test_a_variable_is_found_by_line_and_column_within_a_long_text(tmp_path: Path) -> None:
    text = SMALL.replace("task: Audit.,", 'task: "one\n          two ${tpic} three",')
    problem = only(check(small(tmp_path, text)))
    assert (problem.line, problem.column) == (11, 15)


def test_control_characters_and_halves_of_characters_are_refused_and_shown_escaped(tmp_path: Path) -> None:
    text = SMALL.replace("task: Audit.", 'task: "a\\e[2J"').replace("topic: tides", 'topic: tides, "x\\ud800": "\\0"')
    file = small(tmp_path, text)
    problems = check(file)
    assert [problem.line for problem in problems] == [2, 2, 2, 10]
    for problem in problems:
        assert printable(problem.render("f")).replace("\\n", "\n") == problem.render("f")


BILLION_LAUGHS = b"a0: &a0 x\n" + b"".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n".encode() for n in range(1, 15)
)

# Bytes that are no pipeline, and what is said of them.
BAD_BYTES = [
    (b"", 1, 1, "the file is empty"),
    (b"# only a comment\n", 1, 1, "the file is empty"),
    (b"- a\n- b\n", 1, 1, "a pipeline is a mapping of keys to values, not a list"),
    (b"just text\n", 1, 1, "not the text 'just text'"),
    (b"name: caf\xe9\n", 1, 10, "the file is not UTF-8: byte 0xe9"),
    (b"\xff\xfen\x00", 1, 1, "the file is not UTF-8"),
    (b"name: a\nvars: {x: \x00}\n", 2, 11, "control character '\\x00'"),
    (b"name: a\r\nvars: \x1b\r\n", 2, 7, "control character '\\x1b'"),
    (b"name: 'a\n", 2, 1, "not valid YAML"),
    (b"name: a\n  b: c\n", 2, 4, "not valid YAML"),
    (b"name: *nobody\n", 1, 7, "not valid YAML: found undefined alias"),
    (b'name: "\\UFFFFFFFF"\n', 1, 10, "not valid YAML"),
    (b"name: " + b"[" * 5000, 1, 26, "nested more than 20 deep"),
    (b"a: [" + b"1," * 30_000 + b"]", 1, 39999, "more than 20000 values"),
    (BILLION_LAUGHS, 1, 5, "with its aliases"),
    (b"x: " + b"y" * (1024 * 1024), 1, 1, "more than 1048576 bytes"),
]


@pytest.mark.parametrize(("data", "line", "column", "message"), BAD_BYTES, ids=[row[3] for row in BAD_BYTES])
def test_bytes_that_are_no_pipeline_give_one_clear_problem(
    tmp_path: Path, data: bytes, line: int, column: int, message: str
) -> None:
    file = tmp_path / "pipeline.yaml"
    file.write_bytes(data)
    problem = only(check(file))
    assert message in problem.message
    assert (problem.line, problem.column) == (line, column)


def test_a_byte_order_mark_does_no_harm(tmp_path: Path) -> None:
    file = tmp_path / "pipeline.yaml"
    file.write_bytes(b"\xef\xbb\xbf" + SMALL.replace("name: small", "name: Small").encode())
    assert (only(check(file)).line, only(check(file)).column) == (1, 7)


def test_what_is_no_file_is_a_problem_and_no_traceback(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert only(check(tmp_path / "missing.yaml")).message == "there is no such file"
    assert only(check(tmp_path)).message == "this is a folder, not a file"
    assert only(check(tmp_path / "pipe")).message == "this is not a regular file"
    assert "cannot be read" in only(check(tmp_path / ("x" * 300))).message
    assert "cannot be read" in only(check("a\0b")).message
    with pytest.raises(SpecError, match=r"missing\.yaml:1:1: there is no such file"):
        load(tmp_path / "missing.yaml")


def test_variables_cannot_blow_a_file_up(tmp_path: Path) -> None:
    text = SMALL.replace("tides", "x" * 60_000).replace("task: Audit.", f'task: "{"${topic}" * 1000}"')
    assert any("more than 1048576 characters" in problem.message for problem in check(small(tmp_path, text)))


def test_too_many_agents_are_refused(tmp_path: Path) -> None:
    more = "".join(f"  r{number}: {{harness: command, command: [cat], count: 64}}\n" for number in range(4))
    problem = only(check(small(tmp_path, SMALL.replace("phases:", more + "phases:"))))
    assert (problem.line, problem.message) == (3, "the roles have 259 agents together; at most 200 are allowed")


def test_too_many_phases_are_refused(tmp_path: Path) -> None:
    more = "".join(f'  - {{name: p{number}, gates: [{{name: g, command: ["true"]}}]}}\n' for number in range(50))
    problem = only(check(small(tmp_path, SMALL.replace("milestones:", more + "milestones:"))))
    assert problem.message == "'phases' must have at most 50 entries"


def test_every_cycle_is_reported(tmp_path: Path) -> None:
    lines = [
        f"      - {{name: {name}, to: writer, task: x, after: [{after}]}}\n"
        for name, after in (("a", "b"), ("b", "a"), ("c", "d"), ("d", "e"), ("e", "c"))
    ]
    problems = check(small(tmp_path, SMALL.replace("    checkpoints:", "".join(lines) + "    checkpoints:")))
    assert len(problems) == 2
    assert {"a", "b"} <= set(problems[0].message.split())
    assert {"c", "d", "e"} <= set(problems[1].message.split())


def test_a_later_phase_may_write_a_file_again(tmp_path: Path) -> None:
    more = "  - name: again\n    dispatches: [{name: again, to: writer, task: x, outputs: [draft.md]}]\n"
    assert check(small(tmp_path, SMALL.replace("milestones:", more + "milestones:"))) == []


def test_what_only_one_of_several_may_have_written_cannot_be_the_deliverable(tmp_path: Path) -> None:
    text = SMALL.replace("task: Count.,", 'task: Count., outputs: ["{agent}.csv"],')
    text = text.replace("deliverable: {path: draft.md", "deliverable: {path: auditor-1.csv")
    assert only(check(small(tmp_path, text))).message == "no dispatch writes the deliverable 'auditor-1.csv'"


def test_placeholders_are_filled_in_and_other_braces_stay() -> None:
    text = plan.fill("{agent} as {role} in {run}: {other} {}", agent="auditor-1", role="auditor", run="r7")
    assert text == "auditor-1 as auditor in r7: {other} {}"


def test_a_key_of_any_length_is_quoted_only_in_part(tmp_path: Path) -> None:
    file = small(tmp_path, SMALL + f"? {'k' * 100_000}\n: 1\n")
    assert len(only(check(file)).render("pipeline.yaml")) < 2000


def test_a_file_full_of_mistakes_is_not_searched_for_ever(tmp_path: Path) -> None:
    file = small(
        tmp_path, SMALL.replace("after: [audit, draft]", f"after: [{', '.join(f'a{n}' for n in range(15_000))}]")
    )
    assert len(check(file)) == 1000
