"""F56: when memory runs out, the kernel takes an agent, and neither the tmux server nor the crew."""

from __future__ import annotations

from pathlib import Path

from faults.pipelines import one_task
from faults.watching import on_dispatch
from support.fleet import Fleet
from support.helpers import wait_for


def badness(pid: int) -> int:
    """The kernel's own figure, by which it chooses whom to end."""
    return int(Path(f"/proc/{pid}/oom_score").read_text())


def test_f56_agents_and_what_they_start_are_taken_before_the_server_and_the_crew(fleet: Fleet) -> None:
    script = {"tool": {"command": ["sh", "-c", "echo $$ >$DOGWATCH_OUTPUT/tool; until [ -e go ]; do sleep 0.1; done"]}}
    run = fleet.launch(fleet.spec(one_task(), {"writer": on_dispatch(script, "continue")}))
    tool = fleet.project / "out" / run / "tool"
    wait_for(lambda: tool.exists() and tool.read_text().strip(), what="the tool at work")
    view = fleet.view(run)
    agent = view.agents["writer"]
    assert agent.process is not None
    assert agent.server is not None
    taken = [agent.process.pid, int(tool.read_text())]
    spared = [agent.server.pid, *(record.process.pid for record in view.crew.values())]
    assert len(spared) == 3
    assert min(map(badness, taken)) > max(map(badness, spared))
    (fleet.project / "go").touch()
    assert fleet.wait_over(run, 120).run.state == "COMPLETED"
