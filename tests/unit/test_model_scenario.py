"""The scripted model without a server: its scenario, its directives, and which step answers which request."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dogwatch.errors import UsageError
from dogwatch.testing.model import Scenario, load, parse
from dogwatch.testing.model.answer import Call, answer
from dogwatch.testing.model.anthropic import Anthropic
from dogwatch.testing.model.conversation import Question, Said, Speaker
from dogwatch.testing.model.director import Choice, Director
from dogwatch.testing.model.scenario import MARK, Usage, directives
from dogwatch.testing.model.schema import fitting

TOOLS = ("Agent", "Bash")


def question(*said: tuple[Speaker, str], **more: Any) -> Question:
    return Question(**{"model": "opus", "tools": TOOLS, "said": tuple(Said(by, text) for by, text in said), **more})


def director(*rules: dict[str, Any]) -> Director:
    return Director(parse({"rules": list(rules)}))


def told(choice: Choice) -> str:
    """What a step says, in one word for tests."""
    return str(choice.step.arguments.get("text") or choice.step.arguments.get("name") or choice.step.name)


def test_an_empty_scenario_answers_prompts_and_results_with_a_text() -> None:
    plain = Director(parse({}))
    assert parse({}) == Scenario()
    assert told(plain.choose(question(("user", "hello")))) == Scenario().answer
    after = question(("user", "hello"), ("model", ""), ("tool", "result"))
    assert plain.choose(after) == Choice("default", 0, plain.choose(after).step)
    assert told(plain.choose(after)) == Scenario().after_tool
    assert told(plain.choose(question())) == Scenario().answer


def test_yaml_and_json_give_the_same_scenario(tmp_path: Path) -> None:
    data = {"answer": "no", "rules": [{"prompt": "^go", "times": 2, "do": [{"status": 529}, {"text": "gone"}, "hang"]}]}
    (tmp_path / "s.json").write_text(json.dumps(data))
    (tmp_path / "s.yaml").write_text(
        "answer: 'no'\nrules:\n- prompt: ^go\n  times: 2\n  do:\n  - status: 529\n  - text: gone\n  - hang\n"
    )
    scenario = load(str(tmp_path / "s.yaml"))
    assert scenario == load(str(tmp_path / "s.json"))
    assert [(step.name, step.fails) for step in scenario.rules[0].do] == [
        ("status", True),
        ("text", False),
        ("hang", True),
    ]
    (tmp_path / "empty.yaml").write_text("")
    assert load(str(tmp_path / "empty.yaml")) == Scenario()


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ([], "the scenario: must be a mapping"),
        ({"anwser": "x"}, "anwser: unknown key"),
        ({"answer": 1}, "answer: must be a text"),
        ({"token_s": -1}, "token_s: must be a number of seconds"),
        ({"token_s": True}, "token_s: must be a number of seconds"),
        ({"usage": {"tokens": 1}}, "usage.tokens: unknown key"),
        ({"usage": {"input_tokens": -1}}, "usage.input_tokens: must be a whole number"),
        ({"rules": {}}, "rules: must be a list"),
        ({"rules": ["x"]}, r"rules\[0\]: must be a mapping"),
        ({"rules": [{}]}, r"rules\[0\].do: is missing"),
        ({"rules": [{"do": []}]}, r"rules\[0\].do: must be a list of steps"),
        ({"rules": [{"do": [{}]}]}, r"rules\[0\].do\[0\]: must be a step"),
        ({"rules": [{"do": ["dance"]}]}, r"rules\[0\].do\[0\]: there is no step 'dance'"),
        ({"rules": [{"do": ["hang"], "promt": "x"}]}, r"rules\[0\].promt: unknown key"),
        ({"rules": [{"do": ["hang"], "prompt": "("}]}, r"rules\[0\].prompt: '\(' is no regular expression"),
        ({"rules": [{"do": ["hang"], "side": 1}]}, r"rules\[0\].side: must be true or false or any"),
        ({"rules": [{"do": ["hang"], "times": 0}]}, r"rules\[0\].times: must be a whole number, 1 or more, or always"),
        ({"rules": [{"do": ["text"]}]}, r"do\[0\].text.text: is missing"),
        ({"rules": [{"do": [{"text": {"text": "x", "slow": 1}}]}]}, r"do\[0\].text.slow: unknown key"),
        ({"rules": [{"do": [{"tool": {"name": "Bash", "input": "ls"}}]}]}, r"tool.input: must be a mapping"),
        ({"rules": [{"do": [{"tools": []}]}]}, r"tools.calls: must be a list of calls"),
        ({"rules": [{"do": [{"tools": [{"input": {}}]}]}]}, r"tools.calls\[0\].name: is missing"),
        ({"rules": [{"do": [{"status": 200}]}]}, r"status.code: must be a status from 400 to 599"),
        ({"rules": [{"do": [{"endless": "words"}]}]}, r"endless.send: must be tokens or pings"),
    ],
)
def test_a_wrong_scenario_is_refused_with_its_place_and_a_hint(data: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        parse(data)
    assert caught.value.hint


@pytest.mark.parametrize("content", ["{", "\x00", "a: [1", "- *x"])
def test_a_file_that_is_no_scenario_is_explained(tmp_path: Path, content: str) -> None:
    (tmp_path / "s.yaml").write_text(content)
    with pytest.raises(UsageError):
        load(str(tmp_path / "s.yaml"))
    with pytest.raises(UsageError, match="cannot be read"):
        load(str(tmp_path / "missing.yaml"))


def test_the_first_rule_that_matches_wins() -> None:
    rules = (
        {"prompt": "deploy", "model": "haiku", "do": [{"text": "small"}]},
        {"prompt": "deploy", "system": "folder /a", "do": [{"text": "a"}]},
        {"prompt": "deploy", "name": "named", "do": [{"text": "any"}]},
        {"prompt": "deploy", "do": [{"text": "never"}]},
    )
    model = director(*rules)
    assert told(model.choose(question(("user", "please deploy"), model="claude-haiku-5"))) == "small"
    assert told(model.choose(question(("user", "please deploy"), system="in folder /a"))) == "a"
    named = model.choose(question(("user", "please deploy")))
    assert (named.rule, told(named)) == ("named", "any")
    assert model.choose(question(("user", "please stop"))).rule == "default"


@pytest.mark.parametrize(("side", "with_tools", "without"), [(False, "x", ""), (True, "", "x"), ("any", "x", "x")])
def test_requests_without_tools_are_for_rules_that_say_so(side: Any, with_tools: str, without: str) -> None:
    model = Director(parse({"answer": "", "rules": [{"side": side, "do": [{"text": "x"}]}]}))
    assert model.choose(question(("user", "hi"))).step["text"] == with_tools
    assert model.choose(question(("user", "hi"), tools=())).step["text"] == without


def test_a_sequence_goes_on_with_each_result_and_then_ends_the_turn() -> None:
    model = director({"prompt": "go", "do": [{"tool": "one"}, {"tool": "two"}, {"text": "three"}]})
    said: list[tuple[Speaker, str]] = [("user", "go")]
    seen = []
    for _ in range(4):
        seen.append(told(model.choose(question(*said))))
        said += [("model", ""), ("tool", "")]
    assert seen == ["one", "two", "three", Scenario().after_tool]
    said += [("model", "done"), ("user", "go")]
    assert told(model.choose(question(*said))) == "one"


def test_a_rule_is_not_taken_again_after_its_own_tool_call() -> None:
    model = director({"do": [{"tool": "one"}]})
    assert told(model.choose(question(("user", "go"), ("model", ""), ("tool", "x")))) == Scenario().after_tool


def test_a_rule_for_results_comes_before_a_later_sequence_and_may_never_end() -> None:
    model = director(
        {"tool_result": "denied", "do": [{"text": "I was denied"}]},
        {"prompt": "loop", "tool_result": "", "do": [{"tool": "again"}]},
        {"prompt": "go|loop", "do": [{"tool": "one"}, {"tool": "two"}]},
    )
    begun: tuple[tuple[Speaker, str], ...] = (("user", "go"), ("model", ""))
    assert told(model.choose(question(*begun, ("tool", "fine")))) == "two"
    assert told(model.choose(question(*begun, ("tool", "denied by a hook")))) == "I was denied"
    assert told(model.choose(question(*begun, ("tool", "fine"), ("tool", "denied")))) == "I was denied"
    said: list[tuple[Speaker, str]] = [("user", "loop")]
    assert told(model.choose(question(*said))) == "one"
    for _ in range(3):
        said += [("model", ""), ("tool", "")]
        assert told(model.choose(question(*said))) == "again"


def test_times_counts_turns_and_not_requests() -> None:
    model = director({"prompt": "go", "times": 1, "do": [{"tool": "one"}, {"text": "two"}]})
    first = question(("user", "go"))
    assert [told(model.choose(first)) for _ in range(3)] == ["one"] * 3
    further = question(("user", "go"), ("model", ""), ("tool", "a long result"))
    assert told(model.choose(further)) == "two"
    shortened = question(("user", "go"), ("model", ""), ("tool", "[cleared]"))
    assert told(model.choose(shortened)) == "two"
    assert model.choose(replace(first, conversation="another")).rule == "default"
    again = question(("user", "go"), ("model", "two"), ("user", "go"))
    assert model.choose(again).rule == "default"


def test_a_failure_is_over_after_its_times_and_the_same_request_goes_on() -> None:
    model = director({"prompt": "go", "do": [{"status": {"code": 529, "times": 2}}, "drop", {"text": "back"}]})
    asked = question(("user", "go"))
    assert [told(model.choose(asked)) for _ in range(5)][3:] == ["back", "back"]
    assert [model.choose(replace(asked, conversation="other")).step.name for _ in range(4)] == [
        "status",
        "status",
        "drop",
        "text",
    ]
    for_ever = director({"do": [{"status": {"code": 500, "times": "always"}}]})
    assert {for_ever.choose(asked).step.name for _ in range(20)} == {"status"}


def test_merged_prompts_are_answered_by_the_last_one() -> None:
    model = director({"prompt": "first", "do": ["hang"]}, {"prompt": "second", "do": [{"text": "to the second"}]})
    assert model.choose(question(("user", "first"))).step.name == "hang"
    assert told(model.choose(question(("user", "first"), ("user", "second")))) == "to the second"
    interrupted: list[tuple[Speaker, str]] = [("user", "first"), ("model", "and"), ("tool", "rejected")]
    assert told(model.choose(question(*interrupted, ("user", "[interrupted]"), ("user", "second")))) == "to the second"
    assert told(model.choose(question(*interrupted, ("user", "third")))) == Scenario().answer


def test_what_is_typed_in_the_middle_of_a_turn_does_not_end_its_sequence() -> None:
    sequence = {"prompt": "go", "do": [{"tool": "one"}, {"text": "two"}]}
    said: tuple[tuple[Speaker, str], ...] = (("user", "go"), ("model", ""), ("tool", "x"))
    assert told(director(sequence).choose(question(*said, ("aside", "hurry")))) == "two"
    hurry = {"prompt": "hurry", "do": [{"text": "I do"}]}
    assert told(director(hurry, sequence).choose(question(*said, ("aside", "hurry")))) == "I do"
    assert told(director(sequence).choose(question(*said, ("aside", f'{MARK} {{"text": "asked"}}')))) == "asked"


def test_a_note_of_the_client_is_a_prompt_only_where_it_stands_alone() -> None:
    model = director({"prompt": "sub-agent", "do": [{"text": "seen"}]}, {"prompt": "go", "do": [{"text": "gone"}]})
    assert told(model.choose(question(("client", "a sub-agent"), ("user", "go")))) == "gone"
    ended = question(("user", "go"), ("model", "gone"), ("client", "a sub-agent has ended"))
    assert told(model.choose(ended)) == "seen"


STEP = st.one_of(
    st.sampled_from(["one", "two", "three"]).map(lambda name: {"tool": name}),
    st.integers(1, 3).map(lambda times: {"status": {"code": 529, "times": times}}),
    st.integers(1, 2).map(lambda times: {"drop": {"times": times}}),
)


@given(do=st.lists(STEP, min_size=1, max_size=6), lost=st.lists(st.booleans(), max_size=30))
def test_every_step_comes_in_its_order_however_often_the_client_asks_again(
    do: list[dict[str, Any]], lost: list[bool]
) -> None:
    """A client that asks again after each failure, and now and then after an answer that it has lost."""
    model = director({"prompt": "go", "do": do})
    said: list[tuple[Speaker, str]] = [("user", "go")]
    seen: list[int] = []
    losses = iter(lost)
    for _ in range(100):
        choice = model.choose(question(*said))
        if choice.rule == "default":
            break
        if not choice.step.fails and next(losses, False):
            continue
        seen.append(choice.number)
        if not choice.step.fails:
            said += [("model", ""), ("tool", "result")]
    times = [step[name]["times"] if (name := next(iter(step))) in ("status", "drop") else 1 for step in do]
    assert seen == [number for number, often in enumerate(times) for _ in range(often)]


# Directives


def test_a_prompt_may_say_itself_what_is_answered() -> None:
    prompt = f"""Please do this. {MARK} {{"tool": {{"name": "Bash", "input": {{"command": "ls"}}}}}} and then
    {MARK} [{{"status": 529}}, "drop"]
    {MARK} {{"text": "{MARK} is no directive within one"}}
    {MARK} hang, please"""
    assert [step.name for step in directives(prompt)] == ["tool", "status", "drop", "text", "hang"]
    assert directives("a scripted model: that is not one") == ()


@pytest.mark.parametrize("name", ["drop", "hang", "endless"])
def test_a_directive_may_be_a_bare_name(name: str) -> None:
    assert [step.name for step in directives(f"{MARK}{name}")] == [name]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"text": oops}', "directive 1: is no JSON"),
        ("", "directive 1: is no JSON"),
        ("dance", "directive 1: there is no step 'dance'"),
        ('[{"text": "x"}, {"text": 3}]', r"directive 1\[1\].text.text: must be a text"),
        ("[]", "directive 1: must be a list of steps"),
    ],
)
def test_a_wrong_directive_is_explained(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        directives(f"{MARK} {text}")
    assert caught.value.hint


def test_directives_come_before_all_rules_but_not_in_side_requests() -> None:
    model = director({"tool_result": "", "do": [{"text": "rule"}]}, {"side": "any", "do": [{"text": "rule"}]})
    prompt = f'{MARK} [{{"tool": "one"}}, {{"tool": "two"}}]'
    assert told(model.choose(question(("user", prompt)))) == "one"
    further: list[tuple[Speaker, str]] = [("user", prompt), ("model", ""), ("tool", "x")]
    assert told(model.choose(question(*further))) == "two"
    assert told(model.choose(question(*further, ("model", ""), ("tool", "x")))) == "rule"
    assert told(model.choose(question(("user", f"Write a title for: {prompt}"), tools=()))) == "rule"


# What a step comes to


def test_steps_for_every_client_take_the_tool_that_it_offers() -> None:
    scenario = parse({"usage": {"input_tokens": 7}})
    (shell,) = directives(f'{MARK} {{"shell": {{"command": "ls", "text": "Look:", "input": {{"timeout": 5}}}}}}')
    given = answer(shell, question(), scenario)
    assert given.parts == ("Look:", Call("Bash", {"command": "ls", "description": "Scripted command", "timeout": 5}))
    assert given.usage == Usage(input_tokens=7)
    (agent,) = directives(f'{MARK} {{"agent": {{"prompt": "look", "type": "Explore"}}}}')
    for offered in ("Agent", "Task"):
        (call,) = answer(agent, question(tools=(offered,)), scenario).parts
        assert isinstance(call, Call)
        assert (call.name, call.input["prompt"], call.input["subagent_type"]) == (offered, "look", "Explore")
    with pytest.raises(UsageError, match="the client offers no tool for the step agent"):
        answer(agent, question(tools=("Read",)), scenario)


def test_a_schema_is_kept_to_where_no_rule_says_otherwise() -> None:
    schema = {
        "type": "object",
        "properties": {
            "title": {"type": "string"},
            "kind": {"type": "string", "enum": ["a", "b"]},
            "parts": {"type": "array", "items": {"type": "string"}},
            "size": {"type": "integer"},
            "sure": {"type": "boolean"},
            "more": {"type": "string"},
        },
        "required": ["title", "kind", "parts", "size", "sure"],
    }
    choice = Director(parse({"answer": "A title"})).choose(question(("user", "title?"), tools=(), schema=schema))
    value = json.loads(choice.step["text"])
    assert value == {"title": "A title", "kind": "a", "parts": [], "size": 0, "sure": False}
    assert json.loads(fitting({"type": "object", "required": ["x"]}, "y")) == {"x": "y"}


# What Anthropic's protocol makes of a request


def read(messages: list[dict[str, Any]], **more: Any) -> Question:
    body = json.dumps({"model": "opus", "max_tokens": 1, "messages": messages, **more}).encode()
    return Anthropic().question("POST", "/v1/messages", {}, body)


def test_the_users_words_are_told_from_the_clients() -> None:
    reminder = {"type": "text", "text": "<system-reminder>\ncommit like this\n</system-reminder>\n"}
    both = {"type": "text", "text": f"<system-reminder>x</system-reminder>\nhello {MARK} hang"}
    aside = {"type": "text", "text": "The user sent a new message while you were working:\nhurry\n\nThis is how …"}
    result = {"type": "tool_result", "tool_use_id": "t", "content": [{"type": "text", "text": "out"}]}
    asked = read(
        [
            {"role": "user", "content": [reminder, {"type": "text", "text": "go"}, {"type": "image", "source": {}}]},
            {"role": "system", "content": "in the folder /a"},
            {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "Bash", "input": {}}]},
            {"role": "user", "content": [result, reminder, aside]},
            {"role": "assistant", "content": "fine"},
            {"role": "user", "content": [both]},
            {"role": "user", "content": "again"},
        ],
        system=[{"type": "text", "text": "You are"}, {"type": "text", "text": "a model."}],
    )
    assert [said.by for said in asked.said] == ["client", "user", "model", "tool", "client", "aside", "model"] + [
        "user"
    ] * 2
    assert asked.said[-2] == Said("user", f"hello {MARK} hang")
    assert asked.turn.prompt == "again"
    assert asked.system == "You are\na model.\nin the folder /a"


def test_the_conversation_is_the_clients_session() -> None:
    messages = [{"role": "user", "content": "go"}]
    assert read(messages, metadata={"user_id": "u1"}).conversation == "u1"
    body = json.dumps({"model": "opus", "max_tokens": 1, "messages": messages}).encode()
    named = Anthropic().question("POST", "/v1/messages", {"x-claude-code-session-id": "s1"}, body)
    assert named.conversation == "s1"
    assert named.turn.key != read(messages).turn.key
    assert read(messages).turn.key == read(messages, stream=True).turn.key


def test_broken_characters_are_taken() -> None:
    body = b'{"model": "opus", "max_tokens": 1, "messages": [{"role": "user", "content": "a\\ud800b"}]}'
    asked = Anthropic().question("POST", "/v1/messages", {}, body)
    assert Director(parse({})).choose(asked).rule == "default"
