"""Agents and messages as a version-2 crew wrote them, in every shape that 200 simulated nights have produced: what can
be told of them is the same before and after the upgrade."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dogwatch.ledger.upgrades import upgrade_to_3
from dogwatch.model.codec import decode
from dogwatch.model.life import Resting
from dogwatch.model.records import AgentRecord, MessageRecord

Body = dict[str, Any]
RECORDS = [json.loads(line) for line in (Path(__file__).parent / "records-v2.jsonl").read_text().splitlines()]
ENDS = ("ERROR", "SUCCEEDED", "HANDED_OFF")


@pytest.mark.parametrize("number", range(len(RECORDS)))
def test_what_can_be_told_of_an_old_record_stays_the_same(number: int) -> None:
    key, body = RECORDS[number]
    found = upgrade_to_3(key, body, "host")
    assert found is not None
    assert found[0] == key
    (_agent if key.startswith("agent/") else _message)(body, found[1])


def _agent(old: Body, new: Body) -> None:
    agent, is_over = decode(AgentRecord, new), old["state"] in ENDS
    has_process = old["process"] is not None
    is_waiting = not is_over and not has_process
    assert agent.state == old["state"]
    assert bool(agent.running) == (has_process and not is_over)
    assert (agent.process is not None) == has_process
    assert agent.is_given_up == (old["state"] == "ERROR")
    assert (agent.life.kind == "starting") == (is_waiting and old["intended"] is not None)
    assert isinstance(agent.life, Resting) == (is_waiting and old["intended"] is None and bool(old["resting"]))
    assert agent.gate_reason == (old["held"] if is_waiting else "")
    assert (agent.cause, agent.successor) == (old["cause"], old["successor"])
    assert (agent.probed is not None) == (old["probed"] is not None and bool(agent.running))
    assert bool(agent.interrupt) == (bool(old["interrupts"]) and bool(agent.running))
    if agent.last is not None:
        assert (agent.last.nudges, agent.last.pane) == (old["nudges"], old["pane"])
    for name in ("incarnation", "name", "alerts", "health", "stall_count", "conversation", "replaces"):
        assert getattr(agent, name) == old[name]


def _message(old: Body, new: Body) -> None:
    message = decode(MessageRecord, new)
    assert (message.state, message.step or "", message.tries) == (old["state"], old["step"], old["tries"])
    was_told = old["state"] in ("delivered", "read") and bool(old["delivered"] or old["read"])
    assert (message.told is not None) == was_told
