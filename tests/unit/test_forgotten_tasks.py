"""An agent whose context was made shorter since it was sent its task is told all of it again, however late the captain
has noted that it has it."""

from __future__ import annotations

import pytest

from dogwatch.model.moment import Moment
from dogwatch.model.plan import Limits
from dogwatch.model.sight import Sight, Turn
from dogwatch.model.view import Duty
from dogwatch.policy.diagnose import diagnose
from support.records import living_agent

NOW = Moment("boot", 10_000.0, 50_000.0)
SENT, HEARD = NOW.plus(-200), NOW.plus(-190)
WRITER = living_agent(since=NOW.plus(-900))


@pytest.mark.parametrize(
    ("compacted", "retell"),
    [(NOW.plus(-180), True), (NOW.plus(-195), True), (NOW.plus(-300), False), (None, False)],
    ids=["at its work", "before the captain has noted it", "before it was sent", "never"],
)
def test_what_it_has_forgotten_since_it_was_sent_is_told_again(compacted: Moment | None, retell: bool) -> None:
    stopped = NOW.mono - 170
    turn = Turn("idle", stopped, stopped, 42, compacted=compacted.mono if compacted else 0.0)
    sight = Sight(
        process="alive", session="alive", turn=turn, screen="idle", screen_since=stopped, watched_since=1.0, composer=""
    )
    found = diagnose(WRITER, Duty("task", "draft", HEARD, asked=SENT), sight, Limits(), NOW)
    assert (found.kind, found.action, found.retell) == ("silent_turn", "NUDGE", retell)
