"""F53: an empty name or a prefix never ends anything; only an exact name does."""

from __future__ import annotations

import pytest

from dogwatch.actions.kill import end_session, exact
from dogwatch.errors import RefusedError
from dogwatch.world import tmux
from faults.pipelines import PLAIN, one_task
from support.fleet import Fleet
from support.helpers import wait_for


@pytest.mark.parametrize("name", ["", " ", "=", ":", "a.b", "a:b", "$1", "%0", "@1", "run*", "-t", "A", "a b"])
def test_f53_a_name_that_tmux_could_read_as_something_else_is_refused(name: str) -> None:
    with pytest.raises(RefusedError):
        exact(name)


def test_f53_ending_one_session_leaves_those_whose_names_begin_alike(fleet: Fleet) -> None:
    spec = one_task()
    spec["roles"]["writer-two"] = {}
    never = {"work_s": 0.3, "rules": [{"on": "dispatch", "do": [{"work": 600}]}]}
    run = fleet.launch(fleet.spec(spec, {"writer": never, "writer-two": PLAIN}))
    wait_for(lambda: fleet.deeds("writer", "turn_start") and fleet.deeds("writer-two", "ready"), 60, fleet.tail)
    socket = fleet.home.tmux(run)
    for prefix in (run, f"{run}-", f"{run}-writer-t"):
        end_session(socket, prefix)
    sessions = {pane.session for pane in tmux.panes(socket)}
    assert sessions == {f"{run}-writer", f"{run}-writer-two"}
    for words in (["kill", ""], ["kill", "/"], ["kill", f"{run}/"], ["kill", "/writer"]):
        assert fleet.cli(*words, check=False).returncode == 64, words
    for words in (["kill", run[:-1]], ["kill", f"{run}/writ"], ["kill", "t"]):
        assert fleet.cli(*words, check=False).returncode == 66, words
    assert not fleet.events("order_given")
    fleet.cli("kill", f"{run}/writer")
    wait_for(lambda: len(fleet.deeds("writer", "started")) == 2, 60, fleet.tail)
    assert [deed["incarnation"] for deed in fleet.deeds("writer-two", "started")] == [1]
    assert fleet.view(run).agents["writer-two"].incarnation == 1
