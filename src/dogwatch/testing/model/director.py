"""Which step answers a request: the rules in order, over the whole turn, whatever the client repeats."""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import dataclass

from dogwatch.testing.model.conversation import Question
from dogwatch.testing.model.scenario import Rule, Scenario, Step, directives, saying
from dogwatch.testing.model.schema import fitting

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
    is_directive: bool = False

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

    def has_answered(self, at: int) -> bool:
        """Whether it was a step of the rule that gave the round its whole answer."""
        return sum(not step.fails for step in self.rule.do) > at - self.since


class Director:
    """Follows a scenario for any number of conversations at once.

    The conversation itself says how far its turn has come, so a request that is sent again is answered with the same
    step. What it does not show is kept here: how often each rule has begun, and how often a round has failed.
    """

    def __init__(self, scenario: Scenario) -> None:
        self._scenario = scenario
        self._rules = [(rule.name or f"rules[{number}]", rule) for number, rule in enumerate(scenario.rules)]
        self._begun: list[set[tuple[str, int]]] = [set() for _ in self._rules]
        self._failures: Counter[tuple[str, int]] = Counter()
        self._lock = threading.Lock()

    def choose(self, question: Question) -> Choice:
        """The step for this request; UsageError where a directive in its turn is wrong."""
        rounds = question.turn.rounds
        now = len(rounds) - 1
        place = (question.turn.key, now)
        with self._lock:
            failures = self._failures[place]
            running: _Running | None = None
            for at in range(now):
                running = self._next(question, at, running, running is not None and running.has_answered(at))
            goes_on = running is not None and running.step(now, failures) is not None
            running = self._next(question, now, running, goes_on)
            number = running.step(now, failures) if running else None
            if running is None or number is None:
                return Choice(DEFAULT, 0, self._default(question))
            step = running.rule.do[number]
            if step.fails:
                self._failures[place] += 1
            return Choice(running.name, number, step)

    def _default(self, question: Question) -> Step:
        """Without a rule a prompt is answered with a text, and so are results, which ends the turn."""
        rounds = question.turn.rounds
        only_results = rounds[-1].results is not None and not (len(rounds) == 1 and rounds[0].text)
        text = self._scenario.after_tool if only_results else self._scenario.answer
        return saying(text if question.schema is None else fitting(question.schema, text))

    def _next(self, question: Question, at: int, running: _Running | None, goes_on: bool) -> _Running | None:
        """Who has the round: a directive in it, else the one before, else the first rule that goes on or begins."""
        asked_for = () if question.side else directives(question.turn.rounds[at].text)
        if asked_for:
            return _Running(DIRECTIVE, Rule(asked_for), at, is_directive=True)
        if running is not None and goes_on and running.is_directive:
            return running
        for number, (name, rule) in enumerate(self._rules):
            if running is not None and goes_on and running.rule is rule:
                return running
            if self._begins(number, rule, question, at):
                return _Running(name, rule, at)
        return None

    def _begins(self, number: int, rule: Rule, question: Question, at: int) -> bool:
        turn = question.turn
        text, results = turn.rounds[at].text, turn.rounds[at].results
        if rule.side not in ("any", question.side) or rule.role not in ("", question.role):
            return False
        if at > 0 and rule.tool_result is None and not (text and rule.prompt):
            return False  # it was for the prompt; taken again after its own tool call, it would never end
        for wanted, found in (
            (rule.prompt, text or turn.rounds[0].text),
            (rule.tool_result, results),
            (rule.system, question.system),
            (rule.model, question.model),
        ):
            if wanted is not None and (found is None or not wanted.search(found)):
                return False
        begun = self._begun[number]
        if rule.times is not None and (turn.key, at) not in begun:
            if len(begun) >= rule.times:
                return False
            begun.add((turn.key, at))
        return True
