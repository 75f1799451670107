"""The pipeline file's `notify:` section: what comes of it, and every mistake in it, without a secret in any message."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import jsonschema
import pytest

from dogwatch.model import plan
from dogwatch.model.codec import decode, encode
from dogwatch.spec import check, json_schema, load, reference, schema
from dogwatch.spec.explain import explain
from dogwatch.spec.source import read
from dogwatch.spec.targets import shown

BASE = """\
name: demo
vars: {token: t0ken}
notify: NOTIFY
roles:
  writer: {harness: command, command: [cat]}
phases:
  - name: draft
    dispatches:
      - {name: draft, to: writer, task: Write., outputs: [draft.md]}
deliverable: {path: draft.md}
"""
SECRET = "hunter2"  # noqa: S105  (it is looked for where it must not be)


def spec(folder: Path, notify: str) -> Path:
    path = folder / "pipeline.yaml"
    path.write_text(BASE.replace("notify: NOTIFY", f"notify: {notify}" if notify else ""))
    return path


def test_without_the_section_there_are_no_ways_and_every_kind_is_wanted(tmp_path: Path) -> None:
    notify = load(spec(tmp_path, "")).notify
    assert notify == plan.Notify()
    assert not notify.has_ways
    assert set(notify.on) == {"escalation", "permission", "quarantine", "ended", "held"}


def test_the_section_becomes_the_plans_with_variables_and_the_file_as_an_absolute_path(tmp_path: Path) -> None:
    (tmp_path / "targets").write_text("# mine\n\nntfy://tides\n")
    text = "{targets: ['json://h.example/${token}'], targets_file: targets, command: ['${here}/tell'], on: [ended]}"
    notify = load(spec(tmp_path, text)).notify
    assert notify == plan.Notify(
        targets=("json://h.example/t0ken",),
        targets_file=str(tmp_path / "targets"),
        command=(f"{tmp_path}/tell",),
        on=("ended",),
    )
    assert decode(plan.Notify, encode(notify)) == notify


def test_a_plan_of_an_older_version_has_no_ways(tmp_path: Path) -> None:
    old = encode(load(spec(tmp_path, "")))
    del old["notify"]
    assert decode(plan.Plan, old).notify == plan.Notify()


# fmt: off
MISTAKES = [
    ("[json://x]", "3:9", "'notify' must be a mapping of keys to values, not a list", ""),
    ("{target: [json://x]}", "3:10", "unknown key 'target'", "did you mean 'targets'?"),
    (f"{{targets: json://{SECRET}@x}}", "3:19", "'targets' must be a list, not the text '***'", "write [***]"),
    ("{targets: [7]}", "3:20", "this must be text, not the number 7", "put it in quotes"),
    ("{targets: ['']}", "3:20", "this must be more than blanks, not the text ''", ""),
    (f"{{targets: [{SECRET}]}}", "3:20", "this is no URL of a target", "a target begins with its kind, such as"),
    (f"{{targets: ['json://', 'a://{SECRET}']}}", "3:20", "this is no URL of a target", "a target begins with its"),
    (f"{{targets: ['a://{SECRET}', 'a://{SECRET}']}}", "3:35", "this target is named twice", "keep one of them"),
    ("{targets_file: nowhere}", "3:24", "there is no targets file 'nowhere'", "the path is relative to the pipeline"),
    ("{targets_file: .}", "3:24", "there is no targets file '.'", "the path is relative to the pipeline"),
    ("{targets_file: empty}", "3:24", "the targets file 'empty' names no target", "one URL a line"),
    ("{targets_file: wrong}", "3:24", "line 3 of the targets file 'wrong' is no URL of a target", "a target begins"),
    ("{targets_file: binary}", "3:24", "the targets file 'binary' cannot be read:", ""),
    ("{command: tell}", "3:19", "'command' must be a list, not the text 'tell'", "write [tell]"),
    ("{command: ['']}", "3:20", "this must be more than blanks, not the text ''", ""),
    ("{on: [endet]}", "3:15", "this must be 'escalation', 'permission', 'quarantine', 'ended' or 'held', not",
     "did you mean 'ended'?"),
    ("{on: ended}", "3:14", "'on' must be a list, not the text 'ended'", "write [ended]"),
    ("{on: [held, held]}", "3:21", "'held' is named twice", "keep one of them"),
]
# fmt: on


@pytest.mark.parametrize(("text", "position", "message", "hint"), MISTAKES, ids=[item[0] for item in MISTAKES])
def test_every_mistake_is_reported_once_with_its_place(
    text: str, position: str, message: str, hint: str, tmp_path: Path
) -> None:
    (tmp_path / "empty").write_text("# nothing\n")
    (tmp_path / "wrong").write_text(f"a://{SECRET}\n\n{SECRET}\n")
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    problems = check(spec(tmp_path, text))
    assert len(problems) == 1, problems
    assert f"{problems[0].line}:{problems[0].column}" == position
    assert problems[0].message.startswith(message)
    assert problems[0].hint.startswith(hint)
    assert bool(problems[0].hint) == bool(hint)
    assert SECRET not in problems[0].render("file")


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        (f"json://me:{SECRET}@h.example:80/{SECRET}?x={SECRET}", "json://h.example"),
        (f"mailto://me:{SECRET}@gmail.com", "mailto://gmail.com"),
        (f"https://hooks.slack.com/services/{SECRET}", "https://hooks.slack.com"),
        (f"jsons://[::1]/{SECRET}", "jsons://::1"),
        (f"JSON://localhost/{SECRET}", "json://localhost"),
        (f"json://{SECRET}", "json://***"),
        (f"tgram://123:{SECRET}.x/chat", "tgram://***"),
        (f"discord://{SECRET}.example/{SECRET}", "discord://***"),
        (f"json://[{SECRET}/", "json://***"),
        (SECRET, "a target"),
    ],
)
def test_a_target_is_shown_by_its_kind_and_only_by_a_host_that_surely_is_one(target: str, expected: str) -> None:
    assert shown(target) == expected


def test_explain_names_the_ways_without_their_secrets(tmp_path: Path) -> None:
    text = f"{{targets: ['json://me:{SECRET}@h.example/{SECRET}'], command: [tell, {SECRET}], on: [ended, held]}}"
    told = explain(load(spec(tmp_path, text)))
    assert "A person is told through json://h.example and the command tell of: ended, held." in told
    assert SECRET not in told
    assert "person" not in explain(load(spec(tmp_path, "")))


def test_the_schema_the_models_the_plan_and_the_reference_agree(tmp_path: Path) -> None:
    assert set(schema.Notify.model_fields) == {field.name for field in dataclasses.fields(plan.Notify)}
    validator = jsonschema.Draft202012Validator(json_schema())
    validator.validate(read(str(spec(tmp_path, "{targets: ['json://x'], command: [a], on: [held]}"))).data)
    assert not validator.is_valid(read(str(spec(tmp_path, "{on: [nothing]}"))).data)
    page = reference()
    assert "## `notify`" in page
    assert "| `on` | list of `escalation` or `permission`" in page
    assert "| `escalation`, `permission`, `quarantine`, `ended`, `held` |" in page


def test_the_machines_ways_count_only_where_the_file_names_none() -> None:
    machine = {"DOGWATCH_NOTIFY": "tell 'a b'", "DOGWATCH_NOTIFY_TARGETS": " json://x \n ntfy://y "}
    own = plan.Notify(command=("mine",))
    assert own.or_those_of(machine) == own
    found = plan.Notify(on=("held",)).or_those_of(machine)
    assert found == plan.Notify(command=("tell", "a b"), targets=("json://x", "ntfy://y"), on=("held",))
    assert not plan.Notify().or_those_of({}).has_ways
    assert not plan.Notify().or_those_of({"DOGWATCH_NOTIFY": " ", "DOGWATCH_NOTIFY_TARGETS": ""}).has_ways


def test_a_command_line_that_cannot_be_taken_apart_is_no_reason_to_stop() -> None:
    assert plan.Notify().or_those_of({"DOGWATCH_NOTIFY": "tell 'me"}).command == ("tell 'me",)
