"""Checkpoints: reviewers asked, their answers, and what came of the round."""

from __future__ import annotations

from typing import Literal

from dogwatch.model.events.base import Event


class CheckpointAsked(Event):
    """The reviewers were asked."""

    checkpoint: str
    round: int
    artifact: str
    reviewers: tuple[str, ...]


class CheckpointAnswered(Event):
    """A reviewer approved or asked for a revision, or somebody else disagreed: `by` names them."""

    checkpoint: str
    verdict: Literal["approve", "revise", "disagree"]
    round: int
    by: str = ""
    note: str


class CheckpointClosed(Event):
    """The round is over: approved, revised, failed or skipped."""

    checkpoint: str
    round: int
    state: str
    notes: str


class CheckpointReopened(Event):
    """`by` disagreed after the approval: the step is open again for its author."""

    checkpoint: str
    by: str
    round: int
    note: str
