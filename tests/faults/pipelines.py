"""Small pipelines for fault tests."""

from __future__ import annotations

from typing import Any

PLAIN: dict[str, Any] = {"work_s": 0.5}


def one_task(**changes: Any) -> dict[str, Any]:
    """One writer, one task, one deliverable."""
    return {
        "roles": {"writer": {}},
        "phases": [
            {
                "name": "draft",
                "dispatches": [{"name": "draft", "to": "writer", "task": "Write the draft.", "outputs": ["draft.md"]}],
            }
        ],
        "deliverable": {"path": "draft.md"},
        **changes,
    }


def three_phases() -> dict[str, Any]:
    """A planner, a writer and a judge: two dispatches, a review, a command gate and a byte gate."""
    return {
        "roles": {"planner": {}, "writer": {}, "judge": {}},
        "phases": [
            {
                "name": "plan",
                "dispatches": [{"name": "plan", "to": "planner", "task": "Plan it.", "outputs": ["plan.md"]}],
                "gates": [{"name": "plan-is-there", "checks": [{"path": "plan.md"}]}],
            },
            {
                "name": "draft",
                "dispatches": [{"name": "draft", "to": "writer", "task": "Write it.", "outputs": ["draft.md"]}],
                "checkpoints": [{"name": "review", "artifact": "draft.md", "reviewers": ["judge"]}],
                "gates": [{"name": "counted", "command": ["sh", "-c", "wc -l draft.md && echo ran >>../counted.log"]}],
            },
            {
                "name": "final",
                "dispatches": [{"name": "final", "to": "writer", "task": "Finish it.", "outputs": ["final.md"]}],
            },
        ],
        "deliverable": {"path": "final.md"},
    }
