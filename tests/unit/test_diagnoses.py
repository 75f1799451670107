"""The table of diagnoses: every kind has its row, and what others ask about a diagnosis, they ask the table."""

from __future__ import annotations

import ast
import importlib.util
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, cast, get_args

import pytest

from dogwatch.cli.explain import _sentences, _story
from dogwatch.ledger.api import Store
from dogwatch.model.plan import Limits, Notify, Phase
from dogwatch.policy import judge
from dogwatch.policy.diagnose import diagnose
from dogwatch.policy.diagnoses import DIAGNOSES, UNLISTED, Kind, Traits, traits_of
from dogwatch.policy.diagnosis import Diagnosis
from dogwatch.policy.verify import alternatives
from dogwatch.testing.clock import ManualClock
from support.fleet import ROOT
from support.virtual import Machine
from unit.test_virtual_world import DRAFT, begin, by_incarnation, plan

DAYDREAMING = cast("Kind", "daydreaming")
LIMITS = Limits(nudge_s=10.0, peek_s=10.0, tier1_s=30.0, tier2_s=60.0, tier3_s=90.0, deadline_s=900.0)
FOUND_IN = ("diagnose.py", "diagnosis.py", "idle_prompt.py", "open_turn.py", "subagents.py")
"""The files of `policy/` with the functions that find diagnoses."""
PLAIN_WORDS = frozenset({"working", "idle", "unknown", "starting", "waiting", "stalled", "exited"})
"""Diagnoses whose names are words for other things as well: states of a screen, a turn, a process."""
BY_NAME = {
    "policy/judge.py": {"long_tool"},
    "sim/refold.py": {"subagent_overdue"},
    "sim/replay.py": {"session_dead", "done_unreported", "wrong_path"},
    "cli/mishaps.py": {"silent_turn", "done_unreported"},
}
"""Who else knows a diagnosis by its name: only in long tools are files waited for; the backtest rebuilds from alerts
and events what they were raised for; the demo looks for its own mishaps."""
HOMONYMS = {
    "model/events/__init__.py": {"subagent_overdue"},
    "cli/sentences.py": {"subagent_overdue"},
    "model/tally.py": {"context_exhausted"},
    "world/spool.py": {"context_exhausted"},
    "crew/shared/eyes.py": {"context_exhausted"},
    "sim/recording.py": {"context_exhausted"},
    "sim/faults.py": {"silent_turn"},
}
"""Events, errors of a client and faults of the simulator with the name of a diagnosis."""
ELSEWHERE = ("testing/", "harness/")
"""Steps of scripted agents, and errors of clients: the same words again."""


@pytest.fixture
def daydreaming(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Traits]:
    """Adds a diagnosis: a row, and a function that finds it where otherwise a turn would be silent."""

    def find(*facts: Any) -> Diagnosis:
        found = diagnose(*facts)
        if found.kind != "silent_turn":
            return found
        evidence = (*found.evidence, "screen: clouds")
        action = DIAGNOSES[DAYDREAMING].actions[0]
        return replace(found, kind=DAYDREAMING, evidence=evidence, action=action, advice="wake it up")

    def add(**changes: Any) -> Traits:
        row = {"meaning": "it looks out of the `window`", "actions": ("ESCALATE",), "follows": "somebody whistles"}
        traits = Traits(**{**row, **changes})
        monkeypatch.setitem(DIAGNOSES, DAYDREAMING, traits)
        monkeypatch.setattr(judge, "diagnose", find)
        return traits

    return add


def test_every_kind_has_a_row_and_every_row_a_kind() -> None:
    assert tuple(DIAGNOSES) == get_args(Kind)


def test_every_row_can_be_shown_in_a_table_and_in_a_sentence() -> None:
    for kind, traits in DIAGNOSES.items():
        for text in (traits.meaning, traits.follows):
            assert text, kind
            assert not text.endswith("."), kind
            assert "\n" not in text, kind


def test_a_new_diagnosis_is_in_the_docs_in_the_alerts_and_explained(
    daydreaming: Callable[..., Traits], ledger: Store, clock: ManualClock
) -> None:
    daydreaming(silence_counts=True, notice="permission", why_not={"NUDGE": "it would not listen"})
    assert "| `daydreaming` | it looks out of the `window` | yes | ESCALATE | somebody whistles |" in docs_table()

    machine = dream(ledger, clock)
    assert told(machine) == [("ESCALATE", 0), ("ESCALATE", 1), ("ESCALATE", 2), ("ESCALATE", 3)]
    (called,) = machine.events("person_called", "writer")
    assert (called.body["diagnosis"], called.body["advice"]) == ("daydreaming", "wake it up")
    assert machine.notices[0]["kind"] == "permission"

    said = explained(machine)
    assert "it has been daydreaming (confidence 0.95), because:" in said
    assert "daydreaming means: it looks out of the window." in said
    assert "ESCALATE for incarnation 1, because it was daydreaming:" in said
    assert "NUDGE: it would not listen" in said


def test_the_row_decides_whether_silence_counts_and_how_a_person_is_called(
    daydreaming: Callable[..., Traits], ledger: Store, clock: ManualClock
) -> None:
    daydreaming()
    assert "| `daydreaming` | it looks out of the `window` |  | ESCALATE | somebody whistles |" in docs_table()
    machine = dream(ledger, clock)
    assert told(machine) == [("ESCALATE", 0)]
    assert [notice["kind"] for notice in machine.notices] == ["escalation"]


@pytest.mark.parametrize("tells", [True, False])
def test_the_row_decides_whether_a_nudge_quotes_the_evidence(
    daydreaming: Callable[..., Traits], ledger: Store, clock: ManualClock, tells: bool
) -> None:
    daydreaming(actions=("NUDGE",), nudge_tells_why=tells)
    machine = dream(ledger, clock, "agent_nudged")
    nudges = [message for message in machine.view("v-1").messages.values() if message.kind == "nudge"]
    assert ["screen: clouds" in message.body for message in nudges[:1]] == [tells]


def test_a_name_that_another_version_has_written_has_no_traits() -> None:
    assert traits_of("daydreaming") is UNLISTED
    assert traits_of("") is UNLISTED
    usual = alternatives("RESTART", "startup_stall")
    assert alternatives("RESTART", "daydreaming") == tuple(
        line.replace("startup_stall", "daydreaming") for line in usual
    )


def test_nobody_but_the_table_and_the_functions_that_find_it_knows_a_diagnosis_by_name() -> None:
    """Who asks for a property of a diagnosis asks for a trait: otherwise a new diagnosis is more than three files."""
    source = ROOT / "src" / "dogwatch"
    mine = {"policy/diagnoses.py", *(f"policy/{name}" for name in FOUND_IN)}
    names = set(get_args(Kind)) - PLAIN_WORDS
    for path in sorted(source.rglob("*.py")):
        name = str(path.relative_to(source))
        if name not in mine and not name.startswith(ELSEWHERE):
            named = names & set(names_in(ast.parse(path.read_text())))
            unexpected = named - BY_NAME.get(name, set()) - HOMONYMS.get(name, set())
            assert not unexpected, f"{name} names {', '.join(unexpected)}: let it read a trait of policy/diagnoses.py"


def names_in(tree: ast.Module) -> Iterator[str]:
    return (node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str))


def docs_table() -> str:
    """What `make docs` writes."""
    spec = importlib.util.spec_from_file_location("docs_script", ROOT / "scripts" / "docs.py")
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    return cast("str", script.diagnoses())


def dream(ledger: Store, clock: ManualClock, until: str = "") -> Machine:
    """A run whose writer stops over its task: until that event, or long enough for every tier."""
    what = replace(plan(Phase(name="draft", dispatches=(DRAFT,))), limits=LIMITS, notify=Notify(command=("true",)))
    machine = begin(ledger, clock, what, by_incarnation("writer", "silent"))
    machine.run_until(lambda: bool(machine.events(until or "person_called")))
    end = machine.now.mono + 2 * LIMITS.tier3_s
    machine.run_until(lambda: bool(until) or machine.now.mono >= end, 3 * LIMITS.tier3_s)
    assert machine.failures == []
    return machine


def told(machine: Machine) -> list[tuple[str, int]]:
    """The action and the tier of each alert of the new diagnosis."""
    alerts = [event.body for event in machine.events("alert_raised") if event.body["diagnosis"] == "daydreaming"]
    return [(alert["action"], alert["tier"]) for alert in alerts]


def explained(machine: Machine) -> str:
    """What `dogwatch explain` prints of the writer."""
    agent = machine.view("v-1").agents["writer"]
    story = machine.ledger.read(lambda reader: _story(reader, agent, 5))
    return "\n".join(_sentences(*story, machine.now))
