"""Which step answers a request: the rules in order, over the whole turn, whatever the client repeats."""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import dataclass

from dogwatch.testing.model.conversation import Question
from dogwatch.testing.model.scenario import Rule, Scenario, Step, directives

DIRECTIVE = "directive"
DEFAULT = "default"


@dataclass(frozen=True, slots=True)
class Choice:
    """The step that answers, and where it stands: the rule's name, and the step's place in its list."""

    rule: str
    number: int
    step: Step


@dataclass(frozen=True, slots=True)
class _Running:
    """A rule that has taken over a turn, and the round in which it did."""

    name: str
    rule: Rule
    since: int

    def step(self, at: int, failures: int) -> int | None:
        """The place of the step for the round, after so many failures in it; None when the rule has no more."""
        answers = at - self.since
        for number, step in enumerate(self.rule.do):
            if not step.fails:
                if answers == 0:
                    return number
                answers -= 1
            elif answers == 0:
                if step["times"] is None or failures < step["times"]:
                    return number
                failures -= step["times"]
        return None

    def answers(self, at: int) -> bool:
        """Whether a step of the rule has given the whole answer of the round."""
        return sum(not step.fails for step in self.rule.do) > at - self.since


class Director:
    """Follows a scenario for any number of conversations at once.

    The conversation itself says how far its turn has come, so a request that is sent again is answered with the same
    step. What it does not show is kept here: how often each rule has begun, and how often a round has failed.
    """

    def __init__(self, scenario: Scenario) -> None:
        self._scenario = scenario
        self._rules = [(rule.name or f"rules[{number}]", rule) for number, rule in enumerate(scenario.rules)]
        self._begun: dict[int, set[tuple[str, int]]] = {number: set() for number in range(len(self._rules))}
        self._failures: Counter[tuple[str, int]] = Counter()
        self._lock = threading.Lock()

    def choose(self, question: Question) -> Choice:
        """The step for this request."""
        turn = question.turn
        asked_for = () if question.side else directives(turn.prompt)
        with self._lock:
            now = len(turn.rounds) - 1
            failures = self._failures[turn.key, now]
            running = _Running(DIRECTIVE, Rule(asked_for, DIRECTIVE), 0) if asked_for else None
            for at in range(now + 1):
                running = self._next(question, running, at, failures if at == now else None)
            number = running.step(now, failures) if running else None
            if running is None or number is None:
                text = self._scenario.after_tool if turn.rounds[now] else self._scenario.answer
                return Choice(DEFAULT, 0, Step("text", {"text": text}))
            step = running.rule.do[number]
            if step.fails:
                self._failures[turn.key, now] += 1
            return Choice(running.name, number, step)

    def _next(self, question: Question, running: _Running | None, at: int, failures: int | None) -> _Running | None:
        """The rule that has the round: the first that goes on or begins in it. `failures` is None in earlier rounds."""
        goes_on = running is not None and (
            running.answers(at) if failures is None else running.step(at, failures) is not None
        )
        if running is not None and goes_on and running.name == DIRECTIVE:
            return running
        for number, (name, rule) in enumerate(self._rules):
            if goes_on and running is not None and running.rule is rule:
                return running
            if self._begins(number, rule, question, at):
                return _Running(name, rule, at)
        return None

    def _begins(self, number: int, rule: Rule, question: Question, at: int) -> bool:
        turn = question.turn
        if rule.side != "any" and rule.side != question.side:
            return False
        if rule.tool_result is None and at > 0:
            return False  # it was for the prompt; taken again after its own tool call, it would never end
        for wanted, text in (
            (rule.prompt, turn.prompt),
            (rule.tool_result, turn.rounds[at]),
            (rule.system, question.system),
            (rule.model, question.model),
        ):
            if wanted is not None and not wanted.search(text):
                return False
        if rule.tool_result is not None and not turn.rounds[at]:
            return False
        if rule.times is None:
            return True
        begun = self._begun[number]
        if (turn.key, at) not in begun and len(begun) >= rule.times:
            return False
        begun.add((turn.key, at))
        return True
