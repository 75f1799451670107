"""The virtual door: calls wait in a list until the captain of their run takes them, and are answered once."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

AGAIN_S = 1.0
"""When a call is made again whose captain was busy."""


@dataclass
class Call:
    """A call at the door and what came of it."""

    body: Mapping[str, Any]
    then: Callable[[Mapping[str, Any]], None] = lambda answer: None
    answers: list[Mapping[str, Any]] = field(default_factory=list)

    def answer(self, body: Mapping[str, Any]) -> None:
        json.dumps(body)
        self.answers.append(body)
        self.then(body)


class DoorMachine(Protocol):
    """What a door needs of the machine: the calls that nobody has taken yet, of all runs."""

    calls: list[Call]


class VirtualDoor:
    """A captain's end of its run's door."""

    def __init__(self, machine: DoorMachine, run: str) -> None:
        self._machine = machine
        self._run = run
        self._taken: list[Call] = []

    def requests(self) -> list[Call]:
        waiting = self._machine.calls
        if not waiting:
            return waiting
        self._taken = [call for call in waiting if call.body["run"] == self._run]
        self._machine.calls = [call for call in waiting if call.body["run"] != self._run]
        return self._taken

    def close(self) -> None:
        """The captain is gone: whoever got no answer calls again, with the same operation id."""
        self._machine.calls += [call for call in self._taken if not call.answers]
        self._taken = []
